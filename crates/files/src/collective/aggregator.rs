//! The aggregator: a process that reads and writes a domain for all processes. It receives the list
//! of each process's runs, then transfers window after window, two at a time: while one is read or
//! written, bytes of the next one are sent.

use std::collections::VecDeque;
use std::mem;
use std::ops::Range;
use std::rc::Rc;

use memory::{Buffer, LentBuffer};
use wire::Codec;

use super::TransferContext;
use super::domains::{AccessExtent, FileDomain};
use super::messages::{ExchangeMessages, HEAD_BYTES, PostedMessage, TransferMessage};
use super::pieces::{RunReader, WindowPieces, united};
use crate::fault::Fault;
use crate::pool::PoolTask;
use crate::storage::{Direction, Storage};
use crate::transfer::move_run;

/// The number of windows underway at the same time.
const WINDOWS_UNDERWAY_MAX: usize = 2;

/// The largest length of a process's list of runs; a longer one is malformed.
const LIST_BYTES_MAX: usize = 1 << 40;

/// The domain of this process, and its clients.
pub(crate) struct Aggregator {
    context: Rc<TransferContext>,
    domain: FileDomain,
    clients: Vec<DomainClient>,
    next_window: u64,
    windows: VecDeque<FileWindow>,
    /// Memory of completed windows, for reuse.
    spare: Vec<Buffer>,
    fault: Option<Fault>,
    stage: AggregatorStage,
}

enum AggregatorStage {
    /// The lists of runs arrive.
    Lists,
    Moving,
    /// The messages with the outcome are underway.
    Closing(Vec<PostedMessage>),
    Over,
}

/// A process with runs in the domain.
struct DomainClient {
    rank: u32,
    list: ListProgress,
}

/// How much of the list of a process's runs has arrived.
enum ListProgress {
    /// The receive is not posted yet.
    Nothing,
    Head(PostedMessage, Buffer),
    Rest(PostedMessage, Buffer, Vec<u8>),
    All(RunReader),
}

/// A window that is underway.
struct FileWindow {
    range: Range<u64>,
    pieces: Vec<WindowPieces>,
    /// The runs to read or write.
    runs: Vec<(u64, u64)>,
    state: WindowState,
}

enum WindowState {
    /// Messages are underway, before writing or after reading.
    Messages(Buffer, Vec<PostedMessage>),
    /// A system call is underway.
    Calling(PoolTask<(LentBuffer, Option<Fault>)>),
    Called(Buffer),
    Over,
}

impl Aggregator {
    pub fn new(context: Rc<TransferContext>, domain: FileDomain, extents: &[AccessExtent]) -> Self {
        let extents = (0..).zip(extents).filter(|(_, extent)| domain.involves(extent));
        let clients = extents.map(|(rank, _)| DomainClient { rank, list: ListProgress::Nothing });
        Self {
            clients: clients.collect(),
            context,
            domain,
            next_window: 0,
            windows: VecDeque::new(),
            spare: Vec::new(),
            fault: None,
            stage: AggregatorStage::Lists,
        }
    }

    pub fn is_over(&self) -> bool {
        matches!(self.stage, AggregatorStage::Over)
    }

    /// Makes progress as far as possible in one round; returns whether any was possible.
    pub fn advance(&mut self, messages: &mut ExchangeMessages<'_>) -> bool {
        match &mut self.stage {
            AggregatorStage::Lists => {
                let are_complete = self.receive_lists(messages);
                if are_complete {
                    self.stage = AggregatorStage::Moving;
                }
                are_complete
            }
            AggregatorStage::Moving => {
                let has_moved = self.move_windows(messages);
                let is_last = self.next_window == self.domain.window_count();
                if !is_last || !self.windows.is_empty() {
                    return has_moved;
                }
                let fault_report = self.fault.as_ref();
                let send = |client: &DomainClient| {
                    let message = Fault::message(fault_report);
                    messages.send(client.rank, TransferMessage::FaultReport, message)
                };
                self.stage = AggregatorStage::Closing(self.clients.iter().map(send).collect());
                true
            }
            AggregatorStage::Closing(fault_reports) => {
                // A send that fails has a failed receiver.
                fault_reports.retain(|id| messages.take(*id).is_none());
                let is_over = fault_reports.is_empty();
                if is_over {
                    self.stage = AggregatorStage::Over;
                }
                is_over
            }
            AggregatorStage::Over => false,
        }
    }

    /// Receives the lists of runs; returns whether all have arrived.
    fn receive_lists(&mut self, messages: &mut ExchangeMessages<'_>) -> bool {
        let mut all = true;
        for DomainClient { rank, list } in &mut self.clients {
            if matches!(list, ListProgress::Nothing) {
                let room = Buffer::zeroed(HEAD_BYTES);
                let id = messages.receive(*rank, TransferMessage::Head, room.clone());
                *list = ListProgress::Head(id, room);
            }
            if let ListProgress::Head(id, room) = list
                && let Some(outcome) = messages.take(*id)
            {
                *list = match outcome {
                    Ok(()) => after_head(room, |length| {
                        let room = Buffer::zeroed(length);
                        (messages.receive(*rank, TransferMessage::Rest, room.clone()), room)
                    }),
                    Err(error) => {
                        Fault::note(&mut self.fault, Fault::of_message(&error));
                        ListProgress::All(RunReader::default())
                    }
                };
            }
            if let ListProgress::Rest(id, room, bytes) = list
                && let Some(outcome) = messages.take(*id)
            {
                let mut bytes = mem::take(bytes);
                let begun = bytes.len();
                bytes.resize(begun + room.len(), 0);
                room.read(0, &mut bytes[begun..]);
                if let Err(error) = outcome {
                    Fault::note(&mut self.fault, Fault::of_message(&error));
                }
                *list = ListProgress::All(RunReader::new(bytes));
            }
            all &= matches!(list, ListProgress::All(_));
        }
        all
    }

    /// Begins and ends windows; returns whether any progress was possible.
    fn move_windows(&mut self, messages: &mut ExchangeMessages<'_>) -> bool {
        let mut has_moved = false;
        while self.windows.len() < WINDOWS_UNDERWAY_MAX
            && self.next_window < self.domain.window_count()
        {
            self.begin_window(messages);
            has_moved = true;
        }
        let Self { context, clients, fault, .. } = self;
        for window in &mut self.windows {
            has_moved |= window.advance(context, messages, clients, fault);
            // Messages have one tag, so those of this window must be sent before those of later
            // windows.
            let is_read = matches!(window.state, WindowState::Calling(_));
            if context.direction == Direction::Read && is_read {
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
        has_moved
    }

    fn begin_window(&mut self, messages: &mut ExchangeMessages<'_>) {
        let range = self.domain.window(self.next_window);
        self.next_window += 1;
        let pieces = self.clients.iter_mut().map(|client| match &mut client.list {
            ListProgress::All(reader) => reader.take_before(range.start, range.end),
            _ => WindowPieces::default(),
        });
        let pieces: Vec<_> = pieces.collect();
        let runs = united(pieces.iter().map(WindowPieces::runs));
        if runs.is_empty() {
            return;
        }
        let memory = self.spare.pop().unwrap_or_else(|| Buffer::zeroed(self.domain.room()));
        let mut window = FileWindow { range, pieces, runs, state: WindowState::Over };
        window.state = match self.context.direction {
            Direction::Write => {
                let direction = Direction::Write;
                let (clients, fault) = (&self.clients, &mut self.fault);
                let posted = window.post_messages(messages, clients, &memory, direction, fault);
                WindowState::Messages(memory, posted)
            }
            Direction::Read => window.call(&self.context, memory),
        };
        self.windows.push_back(window);
    }
}

/// Returns the state of a client's list after its first message.
fn after_head(
    head: &Buffer,
    receive: impl FnOnce(usize) -> (PostedMessage, Buffer),
) -> ListProgress {
    let mut bytes = [0; HEAD_BYTES];
    head.read(0, &mut bytes);
    let mut list = bytes.as_slice();
    let length = usize::read(&mut list).unwrap_or(0).min(LIST_BYTES_MAX);
    let first = length.min(list.len());
    let list = list[..first].to_vec();
    if length == first {
        return ListProgress::All(RunReader::new(list));
    }
    let (id, room) = receive(length - first);
    ListProgress::Rest(id, room, list)
}

impl FileWindow {
    /// Begins the messages of the window: from clients to its memory, or from its memory to
    /// clients.
    fn post_messages(
        &self,
        messages: &mut ExchangeMessages<'_>,
        clients: &[DomainClient],
        memory: &Buffer,
        direction: Direction,
        fault: &mut Option<Fault>,
    ) -> Vec<PostedMessage> {
        let mut posted = Vec::new();
        for (client, pieces) in clients.iter().zip(&self.pieces) {
            if pieces.bytes == 0 {
                continue;
            }
            let place = match pieces.layout(self.range.start) {
                Ok(Some(layout)) => memory.laid_out_part(0, layout, 1),
                Ok(None) => memory.contiguous_part(0, pieces.bytes),
                Err(error) => {
                    Fault::note(fault, Fault::of_message(&error));
                    continue;
                }
            };
            posted.push(match direction {
                Direction::Write => messages.receive(client.rank, TransferMessage::Data, place),
                Direction::Read => messages.send(client.rank, TransferMessage::Data, place),
            });
        }
        posted
    }

    /// Starts to read or write the window.
    fn call(&mut self, context: &TransferContext, memory: Buffer) -> WindowState {
        let memory = lent(memory);
        let (direction, access) = (context.direction, context.access.clone());
        let (runs, base) = (mem::take(&mut self.runs), self.range.start);
        let work = move || {
            let storage = &*access.storage;
            let moved = || move_window(storage, &memory, base, &runs, direction);
            let fault = match (runs.first(), runs.last()) {
                (Some(&(start, _)), Some(&(last, length))) if direction == Direction::Write => {
                    access
                        .while_guarded(start..last + length, moved)
                        .unwrap_or_else(|error| Some(Fault::of(start, &error)))
                }
                _ => moved(),
            };
            (memory, fault)
        };
        WindowState::Calling(context.caller.begin(work))
    }

    /// Makes progress; returns whether any was possible.
    fn advance(
        &mut self,
        context: &TransferContext,
        messages: &mut ExchangeMessages<'_>,
        clients: &[DomainClient],
        fault: &mut Option<Fault>,
    ) -> bool {
        match mem::replace(&mut self.state, WindowState::Over) {
            WindowState::Messages(memory, mut underway) => {
                underway.retain(|id| {
                    let outcome = messages.take(*id);
                    if let Some(Err(error)) = &outcome {
                        Fault::note(fault, Fault::of_message(error));
                    }
                    outcome.is_none()
                });
                let is_over = underway.is_empty();
                // Bytes before a fault count as written, so windows before it must be written.
                let is_sound = fault.as_ref().is_none_or(|one| self.range.start <= one.offset);
                self.state = match context.direction {
                    Direction::Write if is_over && is_sound => self.call(context, memory),
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
                    Fault::note(fault, found);
                }
                let memory = memory.into_buffer();
                self.state = match context.direction {
                    Direction::Write => WindowState::Called(memory),
                    Direction::Read => {
                        let direction = Direction::Read;
                        let posted =
                            self.post_messages(messages, clients, &memory, direction, fault);
                        WindowState::Messages(memory, posted)
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
fn move_window(
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
    joined
        .into_iter()
        .find_map(|run| move_run(storage, memory, (run.0 - base) as usize, run, direction).1)
}
