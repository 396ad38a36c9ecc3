//! Operations that take their turn on a stream of a graphics processor.
//!
//! The call of the program only queues a turn on the stream. When the stream has come to it, a
//! round of progress begins the operation, and lets the stream continue when the operation is
//! complete. No thread waits meanwhile.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;
use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use base::{Error, ErrorClass};
use devices::ProgramStream;
use mpi::{ActiveOperation, MessageStatus, Process, Request, Step};

use crate::arguments::OutStatus;
use crate::c::Comm;
use crate::calls::statuses::to_c;

/// `MPIX_STREAM_NULL`. The handles of streams follow.
pub const STREAM_NULL: c_int = 0x3c00_0000;

/// The maximum number of operations of a stream in the driver's queue. If that queue were full,
/// `cuLaunchHostFunc` would block with the library's lock held, and no thread could make progress.
const ENQUEUED_MAX: usize = 256;

/// How often a stream that has not come to a turn is checked for errors.
const STREAM_CHECK_PERIOD: Duration = Duration::from_millis(100);

/// The streams of the program, and its communicators that have one.
#[derive(Debug, Default)]
pub struct StreamTable {
    streams: RefCell<HashMap<c_int, FoundStream>>,
    made: Cell<c_int>,
    of_communicators: RefCell<HashMap<Comm, (c_int, FoundStream)>>,
}

/// A stream of the program; none if it is no stream of a device.
pub type FoundStream = Option<Rc<Stream>>;

/// A stream of a device.
#[derive(Debug)]
pub struct Stream {
    queue: ProgramStream,
    /// Operations whose turn has not come, in their order.
    turns: RefCell<VecDeque<Rc<Enqueued>>>,
    /// Operations that were begun and are not complete.
    begun: RefCell<Vec<Rc<Enqueued>>>,
    /// What the stream waits for, in its order.
    waits: RefCell<VecDeque<StreamWait>>,
    is_advanced: Cell<bool>,
    /// When the stream was last checked for errors.
    checked: Cell<Instant>,
}

/// A wait of a stream for operations, and the memory for their statuses.
#[derive(Debug)]
struct StreamWait {
    number: u32,
    operations: Vec<AwaitedOperation>,
}

/// An operation and the memory for its status.
pub type AwaitedOperation = (Rc<Enqueued>, OutStatus<'static>);

/// Begins an operation when its turn has come.
pub type Begin = Box<dyn FnOnce(&Process) -> base::Result<Request>>;

/// An operation that takes its turn on a stream.
pub struct Enqueued {
    noun: &'static str,
    stream: Rc<Stream>,
    turn: Cell<u32>,
    state: RefCell<EnqueuedState>,
}

enum EnqueuedState {
    Waits(Option<Begin>),
    Begun(Request),
    Over(MessageStatus),
}

impl fmt::Debug for Enqueued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enqueued").field("noun", &self.noun).finish_non_exhaustive()
    }
}

impl StreamTable {
    /// Adds a stream; returns its handle.
    pub fn insert(&self, queue: Option<ProgramStream>) -> c_int {
        let number = STREAM_NULL | (self.made.get() + 1);
        self.made.set(number & !STREAM_NULL);
        let stream = |queue| Stream {
            queue,
            turns: RefCell::default(),
            begun: RefCell::default(),
            waits: RefCell::default(),
            is_advanced: Cell::new(false),
            checked: Cell::new(Instant::now()),
        };
        self.streams.borrow_mut().insert(number, queue.map(|queue| Rc::new(stream(queue))));
        number
    }

    /// Removes a stream. Its operations, and communicators that have it, keep it.
    pub fn remove(&self, handle: c_int) -> Option<FoundStream> {
        self.streams.borrow_mut().remove(&handle)
    }

    /// Returns the stream with a handle, if there is one.
    pub fn get(&self, handle: c_int) -> Option<FoundStream> {
        self.streams.borrow().get(&handle).cloned()
    }

    /// Records that a communicator has a stream.
    pub fn attach(&self, communicator: Comm, handle: c_int, stream: FoundStream) {
        self.of_communicators.borrow_mut().insert(communicator, (handle, stream));
    }

    /// Returns the stream of a communicator and its handle, if it has one.
    pub fn of_communicator(&self, communicator: Comm) -> Option<(c_int, FoundStream)> {
        self.of_communicators.borrow().get(&communicator).cloned()
    }

    /// Records that a communicator was freed.
    pub fn detach(&self, communicator: Comm) {
        self.of_communicators.borrow_mut().remove(&communicator);
    }
}

impl Stream {
    /// Queues an operation. If the stream cannot wait for the processor, waits for the stream and
    /// begins the operation.
    ///
    /// # Errors
    /// The driver's.
    pub fn enqueue(
        self: &Rc<Self>,
        process: &Process,
        noun: &'static str,
        begin: Begin,
    ) -> base::Result<Rc<Enqueued>> {
        let state = RefCell::new(EnqueuedState::Waits(Some(begin)));
        let operation =
            Rc::new(Enqueued { noun, stream: Rc::clone(self), turn: Cell::new(0), state });
        self.await_room(process);
        if self.queue.takes_turns() {
            operation.turn.set(self.queue.queue_turn().map_err(other)?);
        } else {
            self.queue.synchronize().map_err(other)?;
        }
        self.turns.borrow_mut().push_back(Rc::clone(&operation));
        self.advance_from_now(process);
        Ok(operation)
    }

    /// Queues a wait of the stream, for [`await_operations`](Self::await_operations); returns its
    /// number, or none if the stream cannot wait for the processor.
    ///
    /// # Errors
    /// The driver's.
    pub fn queue_wait(&self, process: &Process) -> base::Result<Option<u32>> {
        if !self.queue.takes_turns() {
            return Ok(None);
        }
        self.await_room(process);
        self.queue.queue_wait().map(Some).map_err(other)
    }

    /// Ends the queued wait with this number when operations of the stream are complete. Without
    /// such a wait, waits for them here, and returns the first error among them.
    ///
    /// # Errors
    /// Those of operations that were waited for here.
    pub fn await_operations(
        self: &Rc<Self>,
        process: &Process,
        wait: Option<u32>,
        operations: Vec<AwaitedOperation>,
    ) -> base::Result<()> {
        if let Some(number) = wait {
            self.waits.borrow_mut().push_back(StreamWait { number, operations });
            // All operations may be complete already, and then nothing advances the stream.
            self.advance_from_now(process);
            return Ok(());
        }
        process.wait_until(&mut |_| operations.iter().all(|(operation, _)| operation.is_over()));
        operations.iter().map(report).fold(Ok(()), Result::and)
    }

    /// Lets the stream wait for an operation of which the program has no request.
    ///
    /// # Errors
    /// The driver's; then the operation no longer uses its buffer. If the operation was waited for
    /// here, its own.
    pub fn await_operation(
        self: &Rc<Self>,
        process: &Process,
        awaited: AwaitedOperation,
    ) -> base::Result<()> {
        let queued = self.queue_wait(process);
        if queued.is_err() {
            let operation = &awaited.0;
            operation.withdraw(MessageStatus::EMPTY);
            process.wait_until(&mut |_| operation.is_over());
        }
        self.await_operations(process, queued?, vec![awaited])
    }

    fn advance_from_now(self: &Rc<Self>, process: &Process) {
        if !self.is_advanced.replace(true) {
            process.keep_advancing(Rc::clone(self) as _);
        }
    }

    /// Makes progress until the driver's queue has room for another operation. Operations that were
    /// begun have left that queue.
    fn await_room(&self, process: &Process) {
        let has_room = || self.turns.borrow().len() + self.waits.borrow().len() < ENQUEUED_MAX;
        if !has_room() {
            process.wait_until(&mut |_| has_room());
        }
    }

    /// Takes the first operation whose turn has come.
    fn take_turn(&self) -> Option<Rc<Enqueued>> {
        let mut turns = self.turns.borrow_mut();
        let is_due = turns.front().is_some_and(|first| self.queue.has_reached(first.turn.get()));
        is_due.then(|| turns.pop_front()).flatten()
    }

    /// Returns the error because of which the stream comes to no more turns, if there is one.
    fn failure(&self) -> Option<String> {
        let now = Instant::now();
        let is_due =
            !self.turns.borrow().is_empty() && now >= self.checked.get() + STREAM_CHECK_PERIOD;
        is_due.then(|| self.checked.set(now))?;
        self.queue.check().err()
    }

    /// Takes the first wait of the stream if all its operations are complete.
    fn take_wait(&self) -> Option<StreamWait> {
        let mut waits = self.waits.borrow_mut();
        let is_over = |first: &StreamWait| first.operations.iter().all(|(one, _)| one.is_over());
        let is_due = waits.front().is_some_and(is_over);
        is_due.then(|| waits.pop_front()).flatten()
    }

    fn is_idle(&self) -> bool {
        self.turns.borrow().is_empty()
            && self.begun.borrow().is_empty()
            && self.waits.borrow().is_empty()
    }
}

impl ActiveOperation for Stream {
    fn noun(&self) -> &'static str {
        "operations on a stream of a device"
    }

    fn advance(&self, process: &Process) -> Step {
        let mut active = false;
        while let Some(operation) = self.take_turn() {
            operation.begin(process);
            self.begun.borrow_mut().push(operation);
            active = true;
        }
        if let Some(detail) = self.failure() {
            for operation in self.turns.take() {
                let error = Some(Box::new(other(detail.clone())));
                operation.withdraw(MessageStatus { error, ..MessageStatus::EMPTY });
            }
            active = true;
        }
        let before = self.begun.borrow().len();
        self.begun.borrow_mut().retain(|operation| !operation.settle(process));
        active |= self.begun.borrow().len() != before;
        while let Some(wait) = self.take_wait() {
            for operation in &wait.operations {
                if let Err(Error { detail, .. }) = report(operation) {
                    let what = operation.0.noun;
                    devices::note_failure(format!("{what} on a stream failed: {detail}"));
                }
            }
            self.queue.release(wait.number);
            active = true;
        }
        if self.is_idle() {
            self.is_advanced.set(false);
            return Step::Over;
        }
        if active { Step::Active } else { Step::Idle }
    }

    fn must_end(&self) -> bool {
        !self.is_idle()
    }
}

impl Enqueued {
    /// The stream on which the operation takes its turn.
    pub fn stream(&self) -> &Rc<Stream> {
        &self.stream
    }

    fn begin(&self, process: &Process) {
        let begin = match &mut *self.state.borrow_mut() {
            EnqueuedState::Waits(begin) => begin.take(),
            _ => None,
        };
        // Nothing is borrowed while the operation begins.
        let Some(begin) = begin else { return };
        let state = match begin(process) {
            Ok(request) => EnqueuedState::Begun(request),
            Err(error) => EnqueuedState::Over(MessageStatus {
                error: Some(Box::new(error)),
                ..MessageStatus::EMPTY
            }),
        };
        self.state.replace(state);
    }

    /// Makes the operation complete with `status`, unless its turn has come. It never begins.
    fn withdraw(&self, status: MessageStatus) {
        let mut state = self.state.borrow_mut();
        if matches!(*state, EnqueuedState::Waits(Some(_))) {
            *state = EnqueuedState::Over(status);
        }
    }

    /// Takes the status of the operation if it is complete; returns whether it is.
    fn settle(&self, process: &Process) -> bool {
        let mut state = self.state.borrow_mut();
        if let EnqueuedState::Begun(request) = &mut *state
            && let Some(status) = request.take_if_ready(process)
        {
            *state = EnqueuedState::Over(status);
        }
        matches!(*state, EnqueuedState::Over(_))
    }

    fn is_over(&self) -> bool {
        matches!(*self.state.borrow(), EnqueuedState::Over(_))
    }
}

/// The operation as a request of the program.
impl ActiveOperation for Enqueued {
    fn noun(&self) -> &'static str {
        self.noun
    }

    fn is_complete(&self, _: &Process) -> bool {
        self.is_over()
    }

    fn status(&self) -> MessageStatus {
        match &*self.state.borrow() {
            EnqueuedState::Over(status) => status.clone(),
            _ => MessageStatus::EMPTY,
        }
    }
}

/// Stores the status of an operation that is complete; returns its error.
fn report((operation, place): &AwaitedOperation) -> base::Result<()> {
    let status = operation.status();
    place.set(to_c(&status));
    status.error.map_or(Ok(()), |error| Err(*error))
}

fn other(detail: String) -> Error {
    Error::new(ErrorClass::Other, detail)
}
