//! Requests: operations that may still be underway (section 3.7 of the MPI standard).

use std::cell::RefMut;
use std::mem;
use std::rc::Rc;

use base::{Error, ErrorClass, Result};
use engine::{Outcome, RequestId};
use memory::Buffer;
use runtime::Runtime;

use crate::Process;
use crate::active_operation::ActiveOperation;
use crate::communicator::Communicator;
use crate::errors::revoked;
use crate::kernel::{HELPED_BYTES_MIN, ProcessKernel};
use crate::status::MessageStatus;
use crate::team::Team;

/// An operation of the program, as an MPI request.
#[derive(Debug)]
pub enum Request {
    /// A send or receive underway.
    Transfer(EngineTransfer),
    /// A request that was complete from the beginning, or whose status was taken; its status is
    /// empty.
    Done,
    /// A receive from no process.
    OfNull,
    /// Another operation that was begun or started: a collective or partitioned one, a packed
    /// message, an agreement, or an operation of a higher crate.
    Operation(Rc<dyn ActiveOperation>),
    /// A persistent operation (sections 3.9, 4.2 and 6.13), active or not.
    Persistent(Box<Persistent>),
}

/// A send or receive of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineTransfer {
    id: RequestId,
    receives: bool,
}

/// The state of a transfer, as [`TransferScan::settle`] returns it.
#[derive(Debug)]
pub enum TransferCompletion {
    /// The transfer does not exist any more.
    Unknown,
    /// The transfer is not complete.
    Underway,
    /// A process has failed that the transfer may wait for. The transfer stays and continues when
    /// the failure is acknowledged.
    Interrupted(MessageStatus),
    /// The transfer was complete and is removed now.
    Over(MessageStatus),
}

/// Checks many transfers while it borrows the runtime; no progress is made meanwhile.
pub struct TransferScan<'a>(RefMut<'a, Runtime>);

/// The arguments of a persistent operation, and the request of its last start.
#[derive(Debug)]
pub struct Persistent {
    pub(crate) operation: PersistentOperation,
    pub(crate) team: Rc<Team>,
    pub(crate) active: Option<Request>,
}

#[derive(Clone, Debug)]
pub(crate) enum PersistentOperation {
    /// A send to `MPI_PROC_NULL`.
    ToNull,
    /// A receive from `MPI_PROC_NULL`.
    FromNull,
    /// The send that the engine gets on each start.
    Send(engine::Send),
    BufferedSend {
        communicator: Rc<Communicator>,
        peer: u32,
        tag: i32,
        buffer: Buffer,
    },
    /// The receive that the engine gets on each start.
    Receive(engine::Receive),
    /// A receive from any source while the order of results is recorded or enforced.
    Ordered(engine::Receive),
    /// A collective or partitioned operation.
    Operation(Rc<dyn ActiveOperation>),
}

impl Request {
    /// Begins to send a message, without the attached buffer.
    #[inline(always)]
    pub(crate) fn begin_send(process: &Process, send: engine::Send) -> Self {
        let (gate, bytes) = (send.gate, send.buffer.len());
        let submitted = process.runtime().begin_send(send);
        match submitted {
            None => Request::Done,
            Some(id) => {
                if !process.runtime().is_near(gate) {
                    process.may_need_help(bytes);
                }
                Request::Transfer(EngineTransfer::send(id))
            }
        }
    }

    pub(crate) fn persistent(operation: PersistentOperation, team: &Rc<Team>) -> Self {
        let team = Rc::clone(team);
        Request::Persistent(Box::new(Persistent { operation, team, active: None }))
    }

    /// Returns the operation of the request, started or not, unless it is a transfer of the
    /// engine.
    #[inline]
    pub fn operation(&self) -> Option<&Rc<dyn ActiveOperation>> {
        match self {
            Request::Operation(operation) => Some(operation),
            Request::Persistent(persistent) => match &persistent.operation {
                PersistentOperation::Operation(operation) => Some(operation),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the engine's transfer that a persistent operation waits for, if any.
    #[inline]
    pub fn started_transfer(&self) -> Option<EngineTransfer> {
        let Request::Persistent(persistent) = self else { return None };
        match persistent.active.as_ref()? {
            Request::Transfer(transfer) => Some(*transfer),
            Request::Operation(operation) => operation.awaited().map(EngineTransfer::receive),
            _ => None,
        }
    }

    /// Whether the request stays allocated after it completes, to be started again.
    pub fn is_persistent(&self) -> bool {
        matches!(self, Request::Persistent(_))
    }

    /// Ends a persistent operation if its status is not needed: if it is complete without an
    /// error, or was not started. Returns whether it did. Makes no progress.
    #[inline]
    pub fn end_if_fine(&mut self, transfers: &mut TransferScan<'_>) -> bool {
        let Request::Persistent(persistent) = self else { return false };
        // Frequent cases first.
        if let Some(Request::Transfer(transfer)) = &persistent.active {
            let is_fine = transfers.forget_if_fine(*transfer);
            if is_fine {
                mem::forget(persistent.active.take());
            }
            return is_fine;
        }
        if let Some(Request::Done) = &persistent.active {
            mem::forget(persistent.active.take());
            return true;
        }
        let is_fine = match &persistent.active {
            None | Some(Request::OfNull) => true,
            Some(Request::Operation(operation)) => operation.end_if_fine(&mut transfers.0),
            _ => false,
        };
        if is_fine {
            persistent.active = None;
        }
        is_fine
    }

    /// Starts a persistent message if its start makes no progress, so that no function of the
    /// program runs meanwhile. Returns the result of the start, or `None` for other requests.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    #[inline]
    pub fn start_message(&mut self, process: &Process) -> Option<Result<()>> {
        let Request::Persistent(persistent) = self else { return None };
        match persistent.operation {
            PersistentOperation::BufferedSend { .. } | PersistentOperation::Operation(_) => None,
            PersistentOperation::Send(_) | PersistentOperation::Receive(_) => {
                let is_started = self.start_at_once(process);
                Some(if is_started { Ok(()) } else { self.start(process) })
            }
            _ => Some(self.start(process)),
        }
    }

    /// Starts a persistent short message that can be sent immediately, or the receive of a short
    /// message. This is the frequent case, in which nothing but the engine is involved and no
    /// error can occur. If it returns false, nothing has happened.
    #[inline(always)]
    pub fn start_at_once(&mut self, process: &Process) -> bool {
        let Request::Persistent(persistent) = self else { return false };
        if persistent.active.is_some() || persistent.team.is_revoked() {
            return false;
        }
        let started = match &persistent.operation {
            PersistentOperation::Send(send) => {
                if !process.runtime().try_send(send) {
                    return false;
                }
                Request::Done
            }
            PersistentOperation::Receive(receive) if receive.buffer.len() < HELPED_BYTES_MIN => {
                let id = process.runtime().receive(receive.clone());
                Request::Transfer(EngineTransfer::receive(id))
            }
            _ => return false,
        };
        // `active` was `None`, so nothing needs to be dropped.
        mem::forget(persistent.active.replace(started));
        true
    }

    /// Whether the request is persistent and not started: waiting for it returns immediately.
    pub fn is_inactive(&self) -> bool {
        matches!(self, Request::Persistent(persistent) if persistent.active.is_none())
    }
}

impl EngineTransfer {
    #[inline]
    pub(crate) fn send(id: RequestId) -> Self {
        Self { id, receives: false }
    }

    #[inline]
    pub(crate) fn receive(id: RequestId) -> Self {
        Self { id, receives: true }
    }

    /// Makes a transfer from the values of [`id`](Self::id) and [`receives`](Self::receives).
    #[inline]
    pub fn from_parts(id: u64, receives: bool) -> Self {
        Self { id: RequestId::from_u64(id), receives }
    }

    /// Returns the identifier of the transfer: the number of its place (lower half), which is
    /// small while few transfers exist at a time, and the generation of the place.
    #[inline]
    pub fn id(self) -> u64 {
        self.id.to_u64()
    }

    /// Whether it is a receive.
    #[inline]
    pub fn receives(self) -> bool {
        self.receives
    }
}

impl TransferScan<'_> {
    /// Whether the transfer exists and is not detached.
    #[inline]
    pub fn is_known(&self, transfer: EngineTransfer) -> bool {
        self.0.is_known(transfer.id)
    }

    /// Whether a transfer is complete; also true if it does not exist any more.
    #[inline]
    pub fn is_complete(&self, transfer: EngineTransfer) -> bool {
        self.0.is_complete(transfer.id)
    }

    /// Removes a transfer whose status is not needed, if it is complete without an error. Returns
    /// whether it did.
    #[inline]
    pub fn forget_if_fine(&mut self, transfer: EngineTransfer) -> bool {
        self.0.forget_if_fine(transfer.id)
    }

    /// Takes the status of a transfer, if it is complete.
    #[inline]
    pub fn settle(&mut self, transfer: EngineTransfer) -> TransferCompletion {
        match self.0.settle(transfer.id) {
            engine::Completion::Unknown => TransferCompletion::Unknown,
            engine::Completion::Underway => TransferCompletion::Underway,
            engine::Completion::Interrupted => TransferCompletion::Interrupted(interrupted()),
            engine::Completion::Over(outcome) => {
                TransferCompletion::Over(status_of(transfer, outcome))
            }
        }
    }
}

impl ProcessKernel {
    /// Begins a scan of transfers. It must be dropped before any other method of the process is
    /// called.
    #[inline]
    pub fn scan_transfers(&self) -> TransferScan<'_> {
        TransferScan(self.runtime())
    }

    /// Returns the transfer in a place, if there is one.
    pub fn transfer_at(&self, place: u32, receives: bool) -> Option<EngineTransfer> {
        let id = self.inspect(|runtime| runtime.request_at(place))??;
        Some(EngineTransfer { id, receives })
    }
}

impl EngineTransfer {
    /// Makes progress until the transfer is complete or does not exist any more.
    #[inline]
    pub fn wait(self, process: &Process) {
        process.wait_till_complete(self.id);
    }
}

impl Request {
    /// Whether a request is complete (or inactive); makes no progress.
    #[inline]
    pub fn is_ready(&self, process: &Process) -> bool {
        match self {
            Request::Transfer(transfer) => process.is_complete(transfer.id),
            Request::Done | Request::OfNull => true,
            Request::Operation(operation) => operation.is_complete(process),
            Request::Persistent(persistent) => {
                persistent.active.as_ref().is_none_or(|active| active.is_ready(process))
            }
        }
    }

    /// Waits for a request and takes its status. A persistent request becomes inactive, another
    /// request is consumed.
    #[inline]
    pub fn wait(&mut self, process: &Process) -> MessageStatus {
        if let Request::Transfer(transfer) = self {
            let outcome = process.wait_for(transfer.id);
            let status = status_of(*transfer, outcome);
            *self = Request::Done;
            return status;
        }
        process.wait_until(&mut |process| self.is_ready(process));
        self.take_status(process)
    }

    /// Makes one round of progress and, if the request is complete, takes its status as
    /// [`wait`](Self::wait) does.
    #[inline]
    pub fn test(&mut self, process: &Process) -> Option<MessageStatus> {
        if !self.is_ready(process) {
            process.progress();
            if !self.is_ready(process) {
                return None;
            }
        }
        Some(self.take_status(process))
    }

    /// Takes the status of a request, as [`wait`](Self::wait) does, if it is complete; makes no
    /// progress.
    #[inline]
    pub fn take_if_ready(&mut self, process: &Process) -> Option<MessageStatus> {
        let status = match self {
            Request::Transfer(transfer) => {
                let outcome = process.runtime().take(transfer.id);
                if outcome.is_none() && !process.is_complete(transfer.id) {
                    return None;
                }
                let outcome = outcome.unwrap_or_else(|| process.give_up_interrupted(transfer.id));
                status_of(*transfer, outcome)
            }
            Request::Done => return Some(MessageStatus::EMPTY),
            Request::OfNull => return Some(MessageStatus::OF_NULL),
            Request::Operation(operation) => operation.take_if_complete(process)?,
            Request::Persistent(persistent) => {
                let Some(active) = &mut persistent.active else {
                    return Some(MessageStatus::EMPTY);
                };
                let status = active.take_if_ready(process)?;
                persistent.active = None;
                return Some(status);
            }
        };
        *self = Request::Done;
        Some(status)
    }

    /// Takes the status of a request that is complete.
    ///
    /// # Panics
    /// If the request is not complete.
    #[inline]
    pub fn take_status(&mut self, process: &Process) -> MessageStatus {
        self.take_if_ready(process).expect("the request is complete")
    }

    /// Returns the status of a complete request without changing the request
    /// (`MPI_Request_get_status`); `None` while it is underway.
    pub fn status(&self, process: &Process) -> Option<MessageStatus> {
        match self {
            Request::Transfer(transfer) => {
                let outcome = process.runtime().outcome(transfer.id);
                if outcome.is_none() && process.is_complete(transfer.id) {
                    return Some(interrupted());
                }
                Some(status_of(*transfer, outcome?))
            }
            Request::Done => Some(MessageStatus::EMPTY),
            Request::OfNull => Some(MessageStatus::OF_NULL),
            Request::Operation(operation) => {
                operation.is_complete(process).then(|| operation.status())
            }
            Request::Persistent(persistent) => match &persistent.active {
                None => Some(MessageStatus::EMPTY),
                Some(active) => active.status(process),
            },
        }
    }

    /// Frees a request; its operation completes nevertheless (`MPI_Request_free`).
    pub fn free(self, process: &Process) {
        match self {
            Request::Transfer(transfer) => process.runtime().detach(transfer.id),
            Request::Done | Request::OfNull => {}
            Request::Operation(operation) => operation.free(process),
            Request::Persistent(persistent) => match *persistent {
                Persistent { operation: PersistentOperation::Operation(operation), .. } => {
                    operation.free(process);
                }
                Persistent { active: Some(active), .. } => active.free(process),
                Persistent { active: None, .. } => {}
            },
        }
    }

    /// Checks whether a request may be freed now.
    ///
    /// # Errors
    /// `Request` for a partitioned operation that is active and not complete (section 4.2.1), and
    /// for an active collective operation (sections 6.12 and 6.13).
    pub fn check_free(&self, process: &Process) -> Result<()> {
        let started = match self {
            Request::Persistent(persistent) => persistent.active.as_ref(),
            _ => Some(self),
        };
        match started {
            Some(Request::Operation(operation)) if !operation.may_be_freed(process) => {
                let noun = operation.noun();
                let what = format!("the request is {noun} that is active: wait for it first");
                Err(Error::new(ErrorClass::Request, what))
            }
            _ => Ok(()),
        }
    }

    /// Whether a request is a receive that has not got a message yet; `None` if it is no receive.
    pub fn awaits_message(&self, process: &Process) -> Option<bool> {
        match self {
            Request::Transfer(transfer) if transfer.receives => {
                Some(process.runtime().is_posted(transfer.id))
            }
            Request::Persistent(persistent) => persistent.active.as_ref()?.awaits_message(process),
            _ => None,
        }
    }

    /// Cancels a request (`MPI_Cancel`). Its status reports whether it was cancelled.
    ///
    /// # Errors
    /// `Request` for a persistent request that is not active, and for operations that cannot be
    /// cancelled.
    pub fn cancel(&mut self, process: &Process) -> Result<()> {
        match self {
            Request::Transfer(transfer) => process.runtime().cancel(transfer.id),
            Request::Done | Request::OfNull => {}
            Request::Operation(operation) => {
                let noun = operation.noun();
                let what = format!("the request is {noun}, which cannot be cancelled");
                return Err(Error::new(ErrorClass::Request, what));
            }
            Request::Persistent(persistent) => match &mut persistent.active {
                Some(active) => return active.cancel(process),
                None => {
                    let what = "the persistent request is not active: start it first";
                    return Err(Error::new(ErrorClass::Request, what));
                }
            },
        }
        Ok(())
    }

    /// Starts a persistent request (`MPI_Start`).
    ///
    /// # Errors
    /// `Request` if it is not persistent or is active already; `Revoked` if the communicator was
    /// revoked; the errors of the operation.
    pub fn start(&mut self, process: &Process) -> Result<()> {
        let Request::Persistent(persistent) = self else {
            let what = "the request is not persistent: only requests of MPI_*_init can be started";
            return Err(Error::new(ErrorClass::Request, what));
        };
        if persistent.active.is_some() {
            let what = "the request is active already: wait for it before starting it again";
            return Err(Error::new(ErrorClass::Request, what));
        }
        if persistent.team.is_revoked() {
            return Err(revoked());
        }
        let started = match &persistent.operation {
            PersistentOperation::ToNull => Request::Done,
            PersistentOperation::FromNull => Request::OfNull,
            PersistentOperation::Send(send) => Self::begin_send(process, send.clone()),
            PersistentOperation::BufferedSend { communicator, peer, tag, buffer } => {
                communicator.send_buffered(process, *peer, *tag, buffer.clone())?;
                Request::Done
            }
            PersistentOperation::Receive(receive) => {
                persistent.team.begin_receive(process, receive.clone())
            }
            PersistentOperation::Ordered(receive) => {
                let (source, tag) = {
                    let team = &persistent.team;
                    process.ordered_selection(team, receive.context, receive.tag, false)
                };
                let receive = engine::Receive { source, tag, ..receive.clone() };
                persistent.team.begin_receive(process, receive)
            }
            PersistentOperation::Operation(operation) => {
                Rc::clone(operation).start(process);
                Request::Operation(Rc::clone(operation))
            }
        };
        // `active` was `None`, so nothing needs to be dropped.
        mem::forget(persistent.active.replace(started));
        Ok(())
    }
}

/// The status of a receive from any source while the failure of a possible sender is not
/// acknowledged.
#[cold]
fn interrupted() -> MessageStatus {
    let error = Error::new(
        ErrorClass::ProcFailedPending,
        "a process that could send the message has failed; after MPIX_Comm_failure_ack the receive \
         goes on without this process",
    );
    MessageStatus { error: Some(Box::new(error)), ..MessageStatus::EMPTY }
}

#[inline]
fn status_of(transfer: EngineTransfer, outcome: Outcome) -> MessageStatus {
    if transfer.receives {
        MessageStatus::of_receive(outcome)
    } else {
        MessageStatus::of_send(outcome)
    }
}
