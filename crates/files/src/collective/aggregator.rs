//! The aggregator: a process that reads and writes a domain for all processes. It receives the list
//! of each process's runs, then transfers window after window, two at a time: while one is read or
//! written, bytes of the next one are sent.

use std::collections::VecDeque;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use memory::{Buffer, LentBuffer};
use sys::files::RangeLock;

use super::member::{HEAD_BYTES, MemberPart, of_message};
use super::pieces::{RunReader, WindowPieces, united};
use super::{DomainFault, MemberLink, SystemCaller, TransferContext, TransferMessage};
use crate::fault::Fault;
use crate::pool::PoolTask;
use crate::storage::{Storage, in_full};
use crate::transfer::{Direction, while_locked};

/// The number of windows underway at the same time.
const WINDOWS_UNDERWAY_MAX: usize = 2;

/// The largest length of a process's list of runs; a longer one is malformed.
const TOLD_BYTES_MAX: u64 = 1 << 40;

/// The domain of this process, and its clients.
pub(crate) struct Aggregator<P> {
    index: usize,
    clients: Vec<DomainClient<P>>,
    next_window: u64,
    windows: VecDeque<FileWindow<P>>,
    /// Memory of completed windows, for reuse.
    spare: Vec<Buffer>,
    fault: Option<DomainFault>,
    verdicts: Vec<Option<P>>,
    stage: AggregatorStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AggregatorStage {
    Hearing,
    Moving,
    Closing,
    Over,
}

/// A process with runs in the domain.
struct DomainClient<P> {
    rank: u32,
    hearing: Hearing<P>,
}

enum Hearing<P> {
    /// The receive is not posted yet.
    Nothing,
    Head(P, Buffer),
    Rest(P, Buffer, Vec<u8>),
    All(RunReader),
}

/// A window that is underway.
struct FileWindow<P> {
    range: Range<u64>,
    pieces: Vec<WindowPieces>,
    /// The runs to read or write.
    runs: Vec<(u64, u64)>,
    state: WindowState<P>,
}

enum WindowState<P> {
    /// Messages are underway, before writing or after reading.
    Messages(Buffer, Vec<Option<P>>),
    /// A system call is underway.
    Calling(PoolTask<(LentBuffer, Option<Fault>)>),
    Called(Buffer),
    Over,
}

impl<P: Copy> Aggregator<P> {
    pub fn new(shared: &TransferContext, index: usize) -> Self {
        let wants =
            |(_, wish): &(usize, &super::domains::Wish)| shared.domains.involves(index, wish);
        let client = |(rank, _)| DomainClient { rank: rank as u32, hearing: Hearing::Nothing };
        Self {
            index,
            clients: shared.wishes.iter().enumerate().filter(wants).map(client).collect(),
            next_window: 0,
            windows: VecDeque::new(),
            spare: Vec::new(),
            fault: None,
            verdicts: Vec::new(),
            stage: AggregatorStage::Hearing,
        }
    }

    pub fn is_over(&self) -> bool {
        self.stage == AggregatorStage::Over
    }

    pub fn fault(&self) -> Option<&DomainFault> {
        self.fault.as_ref()
    }

    /// Accepts the list of this process's own runs.
    pub fn hear(&mut self, rank: u32, told: Vec<u8>) {
        for client in self.clients.iter_mut().filter(|client| client.rank == rank) {
            client.hearing = Hearing::All(RunReader::new(told.clone()));
        }
    }

    /// Makes progress as far as possible in one round; returns whether it reached another stage.
    pub fn advance(
        &mut self,
        shared: &TransferContext,
        link: &impl MemberLink<Pending = P>,
        member: &MemberPart<P>,
    ) -> bool {
        let before = self.stage;
        if self.stage == AggregatorStage::Hearing && self.listen(shared, link) {
            self.stage = AggregatorStage::Moving;
        }
        if self.stage == AggregatorStage::Moving && self.move_windows(shared, link, member) {
            let verdict = self.fault.as_ref();
            let others = self.clients.iter().filter(|client| client.rank != shared.rank);
            let tag = shared.tag(TransferMessage::Verdict);
            self.verdicts =
                others.map(|one| link.send(one.rank, tag, DomainFault::message(verdict))).collect();
            self.stage = AggregatorStage::Closing;
        }
        if self.stage == AggregatorStage::Closing {
            // A send that fails has a failed receiver.
            self.verdicts.retain(|id| id.is_some_and(|id| link.take(id).is_none()));
            if self.verdicts.is_empty() {
                self.stage = AggregatorStage::Over;
            }
        }
        self.stage != before
    }

    /// Receives the lists of runs; returns whether all have arrived.
    fn listen(&mut self, shared: &TransferContext, link: &impl MemberLink<Pending = P>) -> bool {
        let (head_tag, rest_tag) =
            (shared.tag(TransferMessage::Head), shared.tag(TransferMessage::Rest));
        let mut all = true;
        for client in &mut self.clients {
            let rank = client.rank;
            if matches!(client.hearing, Hearing::Nothing) && rank != shared.rank {
                let room = Buffer::zeroed(HEAD_BYTES);
                let id = link.receive(rank, head_tag, room.clone());
                client.hearing = Hearing::Head(id, room);
            }
            if let Hearing::Head(id, room) = &client.hearing
                && let Some(outcome) = link.take(*id)
            {
                client.hearing = match outcome {
                    Ok(()) => heard(room, |length| {
                        let room = Buffer::zeroed(length);
                        (link.receive(rank, rest_tag, room.clone()), room)
                    }),
                    Err(error) => {
                        note(&mut self.fault, of_message(&error));
                        Hearing::All(RunReader::default())
                    }
                };
            }
            if let Hearing::Rest(id, room, told) = &mut client.hearing
                && let Some(outcome) = link.take(*id)
            {
                let mut told = mem::take(told);
                let begun = told.len();
                told.resize(begun + room.len(), 0);
                room.read(0, &mut told[begun..]);
                if let Err(error) = outcome {
                    note(&mut self.fault, of_message(&error));
                }
                client.hearing = Hearing::All(RunReader::new(told));
            }
            all &= matches!(client.hearing, Hearing::All(_));
        }
        all
    }

    /// Begins and ends windows; returns whether all are complete.
    fn move_windows(
        &mut self,
        shared: &TransferContext,
        link: &impl MemberLink<Pending = P>,
        member: &MemberPart<P>,
    ) -> bool {
        loop {
            let mut has_moved = false;
            while self.windows.len() < WINDOWS_UNDERWAY_MAX
                && self.next_window < shared.domains.window_count(self.index)
            {
                self.begin_window(shared, link, member);
                has_moved = true;
            }
            for window in &mut self.windows {
                has_moved |= window.advance(shared, link, member, &self.clients, &mut self.fault);
                // Messages have one tag, so those of this window must be sent before those of later
                // windows.
                if matches!(
                    (shared.direction, &window.state),
                    (Direction::Read, WindowState::Calling(_))
                ) {
                    break;
                }
            }
            while let Some(window) = self.windows.front_mut() {
                let Some(memory) = window.take_memory() else { break };
                // Memory that is still referenced is not reused.
                if memory.is_sole_owner() {
                    self.spare.push(memory);
                }
                self.windows.pop_front();
                has_moved = true;
            }
            if !has_moved {
                let last = shared.domains.window_count(self.index);
                return self.windows.is_empty() && self.next_window == last;
            }
        }
    }

    fn begin_window(
        &mut self,
        shared: &TransferContext,
        link: &impl MemberLink<Pending = P>,
        member: &MemberPart<P>,
    ) {
        let range = shared.domains.window(self.index, self.next_window);
        self.next_window += 1;
        let pieces = self.clients.iter_mut().map(|client| match &mut client.hearing {
            Hearing::All(reader) => reader.take_before(range.start, range.end),
            _ => WindowPieces::default(),
        });
        let pieces: Vec<_> = pieces.collect();
        let runs = united(pieces.iter().map(WindowPieces::runs));
        if runs.is_empty() {
            return;
        }
        let memory = self.spare.pop();
        let memory = memory.unwrap_or_else(|| Buffer::zeroed(shared.domains.room(self.index)));
        let mut window = FileWindow { range, pieces, runs, state: WindowState::Over };
        window.state = match shared.direction {
            Direction::Write => {
                let messages =
                    window.messages(shared, link, member, &self.clients, &memory, &mut self.fault);
                WindowState::Messages(memory, messages)
            }
            Direction::Read => window.call(shared, memory),
        };
        self.windows.push_back(window);
    }
}

/// Returns the state of a client after its first message.
fn heard<P>(head: &Buffer, receive: impl FnOnce(usize) -> (P, Buffer)) -> Hearing<P> {
    let mut bytes = [0; HEAD_BYTES];
    head.read(0, &mut bytes);
    let (length, told) = bytes.split_at(8);
    let length = u64::from_le_bytes(length.try_into().expect("eight bytes were cut out"));
    let first = (length as usize).min(told.len());
    let rest = length.min(TOLD_BYTES_MAX) as usize - first;
    let told = told[..first].to_vec();
    if rest == 0 {
        return Hearing::All(RunReader::new(told));
    }
    let (id, room) = receive(rest);
    Hearing::Rest(id, room, told)
}

/// Keeps the fault with the lowest offset in the file.
fn note(known: &mut Option<DomainFault>, fault: DomainFault) {
    if known.as_ref().is_none_or(|known| fault.offset < known.offset) {
        *known = Some(fault);
    }
}

impl<P: Copy> FileWindow<P> {
    /// Begins the messages of the window: from clients to its memory, or from its memory to
    /// clients. The aggregator's own bytes are copied.
    fn messages(
        &self,
        shared: &TransferContext,
        link: &impl MemberLink<Pending = P>,
        member: &MemberPart<P>,
        clients: &[DomainClient<P>],
        memory: &Buffer,
        fault: &mut Option<DomainFault>,
    ) -> Vec<Option<P>> {
        let tag = shared.tag(TransferMessage::Data);
        let mut messages = Vec::new();
        for (client, pieces) in clients.iter().zip(&self.pieces) {
            if pieces.bytes == 0 {
                continue;
            }
            let place = match pieces.layout(self.range.start) {
                Ok(Some(layout)) => memory.laid_out_part(0, layout, 1),
                Ok(None) => memory.contiguous_part(0, pieces.bytes),
                Err(error) => {
                    note(fault, of_message(&error));
                    continue;
                }
            };
            if client.rank == shared.rank {
                member.copy_own(&self.range, &place, shared.direction);
                continue;
            }
            messages.push(match shared.direction {
                Direction::Write => Some(link.receive(client.rank, tag, place)),
                Direction::Read => link.send(client.rank, tag, place),
            });
        }
        messages
    }

    /// Starts to read or write the window.
    fn call(&mut self, shared: &TransferContext, memory: Buffer) -> WindowState<P> {
        let memory = lent(memory);
        let (storage, direction) = (Arc::clone(&shared.storage), shared.direction);
        let (runs, base) = (mem::take(&mut self.runs), self.range.start);
        let locks = shared.locks_writes && direction == Direction::Write;
        let work = move || {
            let moved = || move_runs(&*storage, &memory, base, &runs, direction);
            let fault = match (runs.first(), runs.last()) {
                (Some(&(start, _)), Some(&(last, length))) if locks => {
                    let range = start..last + length;
                    while_locked(&*storage, range, RangeLock::Exclusive, moved)
                        .unwrap_or_else(|error| Some(Fault { offset: start, error }))
                }
                _ => moved(),
            };
            (memory, fault)
        };
        match &shared.caller {
            SystemCaller::Here => {
                let (memory, fault) = work();
                WindowState::Calling(PoolTask::over((memory, fault)))
            }
            SystemCaller::Threads(pool, ring) => {
                let ring = Arc::clone(ring);
                WindowState::Calling(pool.begin(work, move || ring()))
            }
        }
    }

    /// Makes progress; returns whether any was possible.
    fn advance(
        &mut self,
        shared: &TransferContext,
        link: &impl MemberLink<Pending = P>,
        member: &MemberPart<P>,
        clients: &[DomainClient<P>],
        fault: &mut Option<DomainFault>,
    ) -> bool {
        match mem::replace(&mut self.state, WindowState::Over) {
            WindowState::Messages(memory, mut underway) => {
                underway.retain(|id| {
                    let Some(outcome) = id.map_or(Some(Ok(())), |id| link.take(id)) else {
                        return true;
                    };
                    if let Err(error) = outcome {
                        note(fault, of_message(&error));
                    }
                    false
                });
                let is_over = underway.is_empty();
                // Bytes before a fault count as written, so windows before it must be written.
                let is_sound = fault.as_ref().is_none_or(|one| self.range.start <= one.offset);
                self.state = match shared.direction {
                    Direction::Write if is_over && is_sound => self.call(shared, memory),
                    _ if is_over => WindowState::Called(memory),
                    _ => WindowState::Messages(memory, underway),
                };
                !matches!(self.state, WindowState::Messages(..))
            }
            WindowState::Calling(task) => {
                let Some((memory, found)) = task.take() else {
                    self.state = WindowState::Calling(task);
                    return false;
                };
                if let Some(found) = found {
                    note(fault, DomainFault::of(&found));
                }
                let memory = memory.into_buffer();
                self.state = match shared.direction {
                    Direction::Write => WindowState::Called(memory),
                    Direction::Read => {
                        let messages = self.messages(shared, link, member, clients, &memory, fault);
                        WindowState::Messages(memory, messages)
                    }
                };
                true
            }
            state => {
                self.state = state;
                false
            }
        }
    }

    /// Returns its memory if the window is complete.
    fn take_memory(&mut self) -> Option<Buffer> {
        match mem::replace(&mut self.state, WindowState::Over) {
            WindowState::Called(memory) => Some(memory),
            state => {
                self.state = state;
                None
            }
        }
    }
}

/// Returns the memory for use by another thread. If it is still referenced though its messages are
/// complete (a sender may keep it), the result is a copy: nothing reports the end of that
/// reference, so it cannot be awaited.
fn lent(memory: Buffer) -> LentBuffer {
    LentBuffer::alone(memory).unwrap_or_else(|kept| {
        let copy = Buffer::zeroed(kept.len());
        kept.copy_to(&copy);
        LentBuffer::alone(copy).expect("it was just made")
    })
}

/// Reads runs together with small holes between them, or writes the runs, between the file and
/// memory that holds the file from `base` on.
fn move_runs(
    storage: &dyn Storage,
    memory: &LentBuffer,
    base: u64,
    runs: &[(u64, u64)],
    direction: Direction,
) -> Option<Fault> {
    let hole_max = storage.call_bytes(direction, base);
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for &(offset, length) in runs {
        match joined.last_mut() {
            Some((start, before))
                if direction == Direction::Read && offset - (*start + *before) <= hole_max =>
            {
                *before = offset + length - *start;
            }
            _ => joined.push((offset, length)),
        }
    }
    for (offset, length) in joined {
        let at = (offset - base) as usize;
        let (done, error) = in_full(length as usize, |done| {
            let (at, left, offset) = (at + done, length as usize - done, offset + done as u64);
            match direction {
                Direction::Read => storage.read_memory(memory, at, left, offset),
                Direction::Write => storage.write_memory(memory, at, left, offset),
            }
        });
        if let Some(error) = error {
            return Some(Fault { offset: offset + done as u64, error });
        }
    }
    None
}
