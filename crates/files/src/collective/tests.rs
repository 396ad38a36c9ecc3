//! Tests several processes, whose messages are lists of bytes and which are advanced in random
//! order, against a model.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use engine::RequestId;
use memory::Buffer;
use mpi::MemberMessages;
use proptest::prelude::*;

use super::domains::{AccessExtent, DomainSituation};
use super::{MemberBytes, TransferContext, TransferExchange};
use crate::pool::SystemCaller;
use crate::preferences::Choice;
use crate::storage::{Direction, Storage};
use crate::tests::{content, lent, offsets, view_of};
use crate::transfer::{FileAccess, SieveSettings, WriteGuard};
use crate::view::View;
use crate::world::MemoryFile;

/// The messages of all processes.
#[derive(Default)]
struct Post {
    state: RefCell<PostState>,
}

#[derive(Default)]
struct PostState {
    /// Messages sent and not received, by sender, receiver and tag.
    sent: HashMap<(u32, u32, i32), VecDeque<(usize, Buffer)>>,
    wanted: HashMap<(u32, u32, i32), VecDeque<(usize, Buffer)>>,
    over: Vec<bool>,
    kept: Vec<Buffer>,
}

struct PostLink<'a> {
    post: &'a Post,
    rank: u32,
}

impl PostState {
    fn begin(&mut self) -> usize {
        self.over.push(false);
        self.over.len() - 1
    }

    fn deliver(&mut self, key: (u32, u32, i32)) {
        let (sent, wanted) =
            (self.sent.entry(key).or_default(), self.wanted.entry(key).or_default());
        while let (Some(_), Some(_)) = (sent.front(), wanted.front()) {
            let ((from_id, from), (into_id, into)) =
                (sent.pop_front().unwrap(), wanted.pop_front().unwrap());
            assert!(from.len() <= into.len(), "a message is longer than its buffer");
            from.copy_to(&into);
            // Completed messages may keep their memory for ever.
            if from_id % 3 == 0 {
                self.kept.extend([from, into]);
            }
            self.over[from_id] = true;
            self.over[into_id] = true;
        }
    }
}

impl MemberMessages for PostLink<'_> {
    fn send(&self, peer: u32, tag: i32, buffer: Buffer) -> Option<RequestId> {
        assert_ne!(peer, self.rank, "a message to the sender itself is copied");
        let mut state = self.post.state.borrow_mut();
        let (id, key) = (state.begin(), (self.rank, peer, tag));
        state.sent.entry(key).or_default().push_back((id, buffer));
        state.deliver(key);
        Some(RequestId::from_u64(id as u64))
    }

    fn receive(&self, peer: u32, tag: i32, buffer: Buffer) -> RequestId {
        let mut state = self.post.state.borrow_mut();
        let (id, key) = (state.begin(), (peer, self.rank, tag));
        state.wanted.entry(key).or_default().push_back((id, buffer));
        state.deliver(key);
        RequestId::from_u64(id as u64)
    }

    fn take(&self, id: RequestId) -> Option<base::Result<()>> {
        self.post.state.borrow().over[id.to_u64() as usize].then_some(Ok(()))
    }
}

/// The request of one process.
#[derive(Clone, Debug)]
struct Part {
    runs: Vec<(u8, u8)>,
    tail: i8,
    position: u64,
    length: usize,
}

fn part() -> impl Strategy<Value = Part> {
    let runs = prop::collection::vec((0_u8..20, 1_u8..9), 1..4);
    (runs, -60_i8..8, 0_u64..30, 0_usize..80).prop_map(|(runs, tail, position, length)| {
        // Where tiles overlap, offsets grow only inside one tile.
        let tile: u64 = runs.iter().map(|(_, length)| u64::from(*length)).sum();
        let (position, length) = match tail {
            ..0 => (position % tile, length.min((tile - position % tile) as usize)),
            _ => (position, length),
        };
        Part { runs, tail, position, length }
    })
}

/// Runs the parts of all processes; returns for each one the bytes of memory, how many were
/// transferred, and whether it failed.
fn run(
    file: &Arc<MemoryFile>,
    direction: Direction,
    members: Vec<(View, u64, Vec<u8>)>,
    (aggregators, window_bytes, alignment): (Vec<u32>, u64, u64),
    order: u64,
) -> Option<Vec<(Vec<u8>, u64, bool)>> {
    let size = file.bytes().len() as u64;
    let extent = |(view, position, data): &(View, u64, Vec<u8>)| {
        let bytes = data.len() as u64;
        let range = view.range(*position, bytes);
        let extent = AccessExtent { start: range.start, end: range.end, run_bytes: 1, bytes };
        if direction == Direction::Read { extent.before(size) } else { extent }
    };
    let extents: Vec<_> = members.iter().map(extent).collect();
    let situation = DomainSituation {
        direction,
        near: true,
        call_bytes: 3,
        sent_bytes: 3,
        choice: Choice::Always,
        aggregators,
        window_bytes,
        alignment,
    };
    let domains = situation.share(&extents)?;
    let exchange = |(rank, (view, position, data)): (usize, (View, u64, Vec<u8>))| {
        let end = position + data.len() as u64;
        let read_end = |end| view.position_within(size, position..end);
        let length = if direction == Direction::Read { read_end(end) } else { end } - position;
        let guard = [WriteGuard::None, WriteGuard::Threads, WriteGuard::Locks][rank % 3];
        let sieve_settings = SieveSettings { guard, ..SieveSettings::default() };
        let storage = Arc::clone(file) as Arc<dyn Storage>;
        let context = TransferContext {
            direction,
            rank: rank as u32,
            number: 7,
            access: FileAccess { storage, sieve_settings, exclusion: Arc::default() },
            caller: SystemCaller::Here,
        };
        let bytes = MemberBytes { view: Arc::new(view), position, length, memory: lent(&data) };
        TransferExchange::new(&Rc::new(context), &domains, &extents, bytes)
    };
    let mut exchanges: Vec<_> = members.into_iter().enumerate().map(exchange).collect();
    let post = Post::default();
    let mut over = vec![false; exchanges.len()];
    for step in 0.. {
        if over.iter().all(|over| *over) {
            break;
        }
        assert!(step < 100_000, "the processes wait for each other");
        let rank =
            (order.wrapping_mul(step + 1).wrapping_add(step >> 2) >> 7) as usize % over.len();
        let rank = if step % 3 == 0 { (step / 3) as usize % over.len() } else { rank };
        if !over[rank] {
            let link = PostLink { post: &post, rank: rank as u32 };
            over[rank] = exchanges[rank].advance(&link);
            // A process that could continue without a message would sleep until the next one.
            if !over[rank] {
                let begun = post.state.borrow().over.len();
                assert!(!exchanges[rank].advance(&link), "it was over already");
                assert_eq!(post.state.borrow().over.len(), begun, "it could have gone on");
            }
        }
    }
    Some(exchanges.into_iter().map(outcome).collect())
}

fn outcome(exchange: TransferExchange) -> (Vec<u8>, u64, bool) {
    let (memory, progress) = exchange.into_outcome();
    (content(&memory), progress.bytes, progress.fault.is_some())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn what_all_read_is_in_the_file(
        (seed, order) in any::<(u64, u64)>(),
        parts in prop::collection::vec(part(), 2..6),
        size in 0_usize..400,
        window in 1_u64..90,
        aggregators in 1_u32..4,
    ) {
        let bytes: Vec<u8> = (0..size).map(|at| (at % 250 + 1) as u8).collect();
        let file = Arc::new(MemoryFile::new(seed, bytes.clone()));
        let views: Vec<_> =
            parts.iter().map(|part| view_of(part.position % 5, &part.runs, part.tail)).collect();
        let members = views.iter().zip(&parts)
            .map(|(view, part)| (view.clone(), part.position, vec![0; part.length])).collect();
        let aggregators = (0..aggregators.min(parts.len() as u32)).collect();
        let outcome = run(&file, Direction::Read, members, (aggregators, window, 8), order);
        for (rank, (seen, moved, failed)) in outcome.into_iter().flatten().enumerate() {
            let (view, part) = (&views[rank], &parts[rank]);
            let wanted = offsets(view, part.position, part.length as u64);
            let there = wanted.iter().take_while(|offset| **offset < size as u64).count();
            prop_assert!(!failed);
            prop_assert_eq!(moved as usize, there);
            for (at, offset) in wanted.iter().enumerate() {
                let expected = if at < there { bytes[*offset as usize] } else { 0 };
                prop_assert_eq!(seen[at], expected, "rank {} byte {}", rank, at);
            }
        }
    }

    #[test]
    fn what_all_write_gets_into_the_file(
        (seed, order) in any::<(u64, u64)>(),
        run_bytes in 1_u8..9,
        hole in 0_u8..3,
        counts in prop::collection::vec(0_usize..60, 2..6),
        window in 1_u64..90,
        aggregators in 1_u32..4,
        broken in prop::option::of(0_u64..300),
    ) {
        // Each process has every n-th run, and some have fewer than others.
        let size = counts.len() as u8;
        let before: Vec<u8> = vec![7; 100];
        let file = Arc::new(MemoryFile::new(seed, before.clone()).limited(u64::MAX, broken));
        let tile = run_bytes + hole;
        let view = |rank: u8| {
            view_of(
                u64::from(rank) * u64::from(tile),
                &[(0, run_bytes)],
                (tile * size - run_bytes) as i8,
            )
        };
        let views: Vec<_> = (0..size).map(view).collect();
        let data = |rank: usize, count: usize| -> Vec<u8> {
            (0..count).map(|at| (rank * 60 + at % 60 + 10) as u8).collect()
        };
        let members: Vec<_> = views.iter().zip(&counts).enumerate()
            .map(|(rank, (view, count))| (view.clone(), 0, data(rank, *count))).collect();
        let mut expected = before;
        for (view, _, data) in &members {
            for (offset, byte) in offsets(view, 0, data.len() as u64).into_iter().zip(data) {
                let end = (offset as usize + 1).max(expected.len());
                expected.resize(end, 0);
                expected[offset as usize] = *byte;
            }
        }
        let all = members.clone();
        let aggregators = (0..aggregators.min(u32::from(size))).collect();
        let outcome = run(&file, Direction::Write, members, (aggregators, window, 8), order);
        let after = file.bytes();
        let Some(outcome) = outcome else { return Ok(()) };
        let has_failed = outcome.iter().any(|(_, _, failed)| *failed);
        if !has_failed {
            prop_assert_eq!(&after, &expected);
        }
        for ((_, moved, failed), (view, _, data)) in outcome.into_iter().zip(all) {
            prop_assert!(failed || moved as usize == data.len());
            for (offset, byte) in offsets(&view, 0, moved).into_iter().zip(&data) {
                prop_assert_eq!(after[offset as usize], *byte);
            }
        }
    }
}
