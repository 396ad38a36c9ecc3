//! Tests of messages in cells.

use std::collections::VecDeque;
use std::time::Duration;

use driver::{GivenCopying, MiddleWay, SharedBytes};
use memory::transfer::{Label, PartPlace};

use super::*;
use crate::sizes::FRAGMENTATION;

/// A generator of numbers, all of which follow from the seed (Vigna, xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }
}

/// One of two processes.
struct Side {
    shm: Shm,
    peer: GateId,
    /// The packets that were pushed to it and have not arrived, by length and first byte.
    awaited: VecDeque<(usize, u8)>,
    in_cells: usize,
}

impl Side {
    fn poll(&mut self) {
        let mut sink = RecordingSink::default();
        self.shm.poll(&mut sink);
        assert!(sink.lost.is_empty(), "{:?}", sink.lost);
        for (_, packet) in sink.packets {
            let (length, byte) = self.awaited.pop_front().expect("it was sent");
            assert_eq!(packet.len(), length);
            assert!(packet.iter().all(|one| *one == byte), "{length} bytes of {byte}");
        }
    }
}

/// Sends a message in fragments, if that is possible now. The receiver polls in between.
fn send_in_fragments(from: &mut Side, to: &mut Side, numbers: &mut Numbers, byte: u8) {
    let length = FRAGMENTATION.whole_bytes_max + 1 + numbers.below(500_000);
    let when = if numbers.below(4) == 0 { When::Later } else { When::Now };
    let usual = FRAGMENTATION.lengths;
    let data = Buffer::zeroed(length);
    let Some(lengths) = from.shm.begin_fragments(from.peer, &data, when, usual) else { return };
    from.in_cells += usize::from(lengths != usual);
    let packets = lengths.packets(length);
    for number in 0..packets {
        let packet = match number {
            0 => lengths.first_packet_bytes,
            _ if number < packets - 1 => lengths.packet_bytes,
            _ => 1 + numbers.below(lengths.packet_bytes),
        };
        to.awaited.push_back((packet, byte));
        assert!(from.shm.push_long(from.peer, packet, |out, _| out.fill(byte)));
        (0..numbers.below(3)).for_each(|_| to.poll());
    }
    from.shm.end_fragments(from.peer, when);
}

/// Two processes send each other packets and messages in a random order, and poll now and then.
/// Returns how many messages of several packets went in cells.
fn exchange(seed: u64, given: Option<MiddleWay>) -> usize {
    let mut numbers = Numbers(seed);
    let (mut one, mut two) = pair(true);
    for shm in [&mut one, &mut two] {
        let copying = GivenCopying { middle: given, long: None };
        shm.middle = MiddleChoice::new(&Settings { copying, ..Settings::default() });
    }
    one.connect(GateId(1)).unwrap();
    two.connect(GateId(0)).unwrap();
    let side = |shm, peer| Side { shm, peer, awaited: VecDeque::new(), in_cells: 0 };
    let mut sides = [side(one, GateId(1)), side(two, GateId(0))];
    for turn in 0..400 {
        // Mostly each answers the other.
        let sender = if numbers.below(4) == 0 { numbers.below(2) } else { turn % 2 };
        let [one, two] = &mut sides;
        let (from, to) = if sender == 0 { (one, two) } else { (two, one) };
        let byte = turn as u8;
        if numbers.below(3) == 0 {
            send_in_fragments(from, to, &mut numbers, byte);
        } else {
            let length = [1, 100, 3000, 12_000][numbers.below(4)] + numbers.below(300);
            if from.shm.push(from.peer, length, |out| out.fill(byte)) {
                to.awaited.push_back((length, byte));
            }
        }
        (0..numbers.below(4)).for_each(|_| to.poll());
    }
    for _ in 0..1000 {
        sides.iter_mut().for_each(Side::poll);
    }
    assert!(sides.iter().all(|side| side.awaited.is_empty()), "not all arrived, seed {seed}");
    sides.iter().map(|side| side.in_cells).sum()
}

#[test]
fn whatever_goes_in_cells_or_beside_them_arrives_whole_and_in_order() {
    for seed in 1..40 {
        assert!(exchange(seed, Some(MiddleWay::InCell)) > 10, "seed {seed}");
        exchange(seed, None);
        assert_eq!(exchange(seed, Some(MiddleWay::InFragments)), 0);
    }
}

#[test]
fn messages_in_one_direction_leave_the_cells_with_their_receiver() {
    let (mut one, mut two) = pair(true);
    let mut sink = RecordingSink::default();
    for number in 0..100 {
        assert!(one.push(GateId(1), 2000, |out| out.fill(number)));
        two.poll(&mut sink);
    }
    let bytes: Vec<u8> = sink.packets.iter().map(|(_, packet)| packet[1999]).collect();
    assert_eq!(bytes, (0..100).collect::<Vec<u8>>());
    let data = Buffer::zeroed(300_000);
    let begun = one.begin_fragments(GateId(1), &data, When::Now, FRAGMENTATION.lengths);
    assert_eq!(begun, None, "it holds no cell, and no lane has room for the message");
}

#[test]
fn one_of_two_processes_chooses_cells_for_both() {
    let (mut one, mut two) = pair(true);
    let leads = |shm: &Shm, peer: u32| shm.peers[peer].as_deref().unwrap().leads();
    assert_ne!(leads(&one, 1), leads(&two, 0));
    let [mut leader, mut follower] = match leads(&one, 1) {
        true => [(&mut one, GateId(1)), (&mut two, GateId(0))],
        false => [(&mut two, GateId(0)), (&mut one, GateId(1))],
    };
    let mut sink = RecordingSink::default();
    let data = Buffer::zeroed(300_000);
    // Both get lanes.
    for _ in 0..20 {
        for (from, to) in [(0, 1), (1, 0)] {
            let ends = [&mut leader, &mut follower];
            assert!(ends[from].0.push(ends[from].1, 8, |out| out.fill(1)));
            ends[to].0.poll(&mut sink);
        }
    }
    let send = |(shm, peer): &mut (&mut Shm, GateId)| {
        let begun = shm.begin_fragments(*peer, &data, When::Now, FRAGMENTATION.lengths);
        let lengths = begun?;
        for _ in 0..lengths.packets(data.len()) {
            assert!(shm.push_long(*peer, lengths.packet_bytes, |out, _| out.fill(2)));
        }
        shm.end_fragments(*peer, When::Later);
        Some(lengths)
    };
    let copying = GivenCopying { middle: Some(MiddleWay::InCell), long: None };
    let given = MiddleChoice::new(&Settings { copying, ..Settings::default() });
    let statistics = MiddleStatistics::new(given, Duration::ZERO);
    leader.0.peers[leader.1.0].as_mut().unwrap().middle = statistics;
    // By itself, the follower would try all ways in turn.
    for _ in 0..200 {
        assert!(send(&mut leader).is_some());
        (0..20).for_each(|_| _ = follower.0.poll(&mut sink));
        assert!(send(&mut follower).is_some());
        (0..20).for_each(|_| _ = leader.0.poll(&mut sink));
    }
}

/// Ignores what arrives.
struct Ignoring;

impl Sink for Ignoring {
    fn packet(&mut self, _: GateId, _: usize, _: SharedBytes<'_>) {}
    fn part(&mut self, _: GateId, _: usize, _: &Label, _: usize) -> PartPlace {
        unreachable!("packets are sent")
    }
    fn part_arrived(&mut self, _: GateId, _: usize, _: &Label, _: usize) {}
    fn sent(&mut self, _: GateId, _: usize, _: u64) {}
    fn carried(&mut self, _: usize, _: u64, _: u64) {}
    fn written(&mut self, _: u64) {}
    fn fetched(&mut self, _: u64, _: FetchEnd) {}
    fn lost(&mut self, _: GateId, _: usize, why: DriverError) {
        panic!("{why:?}");
    }
}

/// Two processes that send each other messages at once, and then wait for both.
struct Exchanging {
    ends: [(Shm, GateId); 2],
    data: Buffer,
    /// Whether the last message of each was in a cell.
    in_cells: [bool; 2],
}

impl Exchanging {
    fn new() -> Self {
        let (one, two) = pair(true);
        let mut ends = [(one, GateId(1)), (two, GateId(0))];
        // Both get lanes.
        for turn in 0..40 {
            let (shm, peer) = &mut ends[turn % 2];
            assert!(shm.push(*peer, 8, |out| out.fill(1)));
            ends[1 - turn % 2].0.poll(&mut Ignoring);
        }
        Self { ends, data: Buffer::zeroed(100 << 10), in_cells: [false; 2] }
    }

    /// Sends a message of one process. It takes 20 µs if the receiver copies it, and 16 in a cell
    /// if both processes use cells; 30 if the other one does not.
    fn send(&mut self, number: usize) -> u64 {
        let (shm, peer) = &mut self.ends[number];
        let now = Instant::now();
        for _ in 0..4 {
            shm.habit.note_posted(now);
            shm.habit.note_poll(now, false);
        }
        let begun = shm.begin_fragments(*peer, &self.data, When::Later, FRAGMENTATION.lengths);
        if let Some(lengths) = begun {
            for _ in 0..lengths.packets(self.data.len()) {
                assert!(shm.push_long(*peer, lengths.packet_bytes, |_, _| ()));
            }
            shm.end_fragments(*peer, When::Later);
        }
        let others_in_cell = std::mem::replace(&mut self.in_cells[number], begun.is_some());
        let time = match (begun, self.in_cells[1 - number] || others_in_cell) {
            (None, _) => 20,
            (Some(_), true) => 16,
            (Some(_), false) => 30,
        };
        let statistics = &mut shm.peers[peer.0].as_mut().unwrap().middle;
        statistics.end_after(Duration::from_micros(time));
        time
    }

    /// Returns the sum of the times of both processes for so many messages of each, in µs.
    fn run(&mut self, messages: usize) -> u64 {
        let exchange = |_| {
            let time = self.send(0) + self.send(1);
            for _ in 0..20 {
                self.ends.iter_mut().for_each(|(shm, _)| _ = shm.poll(&mut Ignoring));
            }
            time
        };
        (0..messages).map(exchange).sum()
    }
}

#[test]
fn two_processes_that_send_at_once_find_the_cells_that_pay_while_both_use_them() {
    let mut both = Exchanging::new();
    both.run(2000);
    let time = both.run(2000);
    assert!(time < 2000 * 33, "{} µs per exchange", time as f64 / 2000.0);
}

#[test]
fn the_sender_of_a_message_in_a_cell_learns_when_it_was_read() {
    apart(
        |mut one| {
            let mut sink = RecordingSink::default();
            for _ in 0..400 {
                let before = sink.packets.len();
                assert!(one.push(GateId(1), 1200, |out| out.fill(1)));
                while sink.packets.len() == before {
                    one.poll(&mut sink);
                }
            }
        },
        |mut two| {
            let (mut sink, mut in_cells) = (RecordingSink::default(), 0);
            let data = Buffer::zeroed(200_000);
            for answered in 1..=400 {
                while sink.packets.len() < answered {
                    two.poll(&mut sink);
                }
                let usual = FRAGMENTATION.lengths;
                match two.begin_fragments(GateId(0), &data, When::Now, usual) {
                    Some(lengths) => {
                        for _ in 0..lengths.packets(data.len()) {
                            assert!(two.push_long(GateId(0), 4000, |out, _| out.fill(2)));
                        }
                        two.end_fragments(GateId(0), When::Now);
                        in_cells += 1;
                    }
                    None => assert!(two.push(GateId(0), 8, |out| out.fill(2))),
                }
            }
            assert!(in_cells > 100, "{in_cells} messages in cells");
        },
    );
}
