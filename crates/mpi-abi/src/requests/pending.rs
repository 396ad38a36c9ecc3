//! The operations that request handles name.

use std::rc::Rc;

use mpi::buffered::BufferPlace;
use mpi::{MessageStatus, Process};

use super::generalized::Generalized;
use crate::handler_owner::HandlerOwner;

/// The object that a request handle names.
#[derive(Debug)]
pub struct PendingRequest {
    /// The object whose error handler is called for errors.
    pub handler_owner: HandlerOwner,
    /// The operation.
    pub work: Pending,
}

/// An operation of the program that may be in progress.
#[derive(Debug)]
pub enum Pending {
    /// One operation.
    One(mpi::Request),
    /// A send and a receive that complete together, with the status of the receive.
    Both { send: Box<mpi::Request>, receive: mpi::Request },
    /// A generalized request, which is an operation of the program itself.
    Generalized(Rc<Generalized>),
    /// The flush of a buffer, which is complete when all buffered messages have been sent.
    Flush(Rc<BufferPlace>),
}

/// The status of a complete request.
pub enum Taken {
    /// The request is freed with its status.
    Status(MessageStatus),
    /// The request is persistent, and stays.
    OfPersistent(MessageStatus),
    /// The program must be asked for the status, at a time when nothing is borrowed.
    Ask(Rc<Generalized>),
}

impl Pending {
    /// Whether the operation is complete or inactive; makes no progress.
    #[inline]
    pub fn is_ready(&self, process: &Process) -> bool {
        match self {
            Pending::One(request) => request.is_ready(process),
            Pending::Both { send, receive } => send.is_ready(process) && receive.is_ready(process),
            Pending::Generalized(operation) => operation.is_complete(),
            Pending::Flush(place) => place.is_empty(process),
        }
    }

    /// Takes the status of the operation if it is complete; makes no progress.
    #[inline]
    pub fn take_if_ready(&mut self, process: &Process) -> Option<Taken> {
        match self {
            Pending::One(request) => {
                let status = request.take_if_ready(process)?;
                Some(match request.is_persistent() {
                    true => Taken::OfPersistent(status),
                    false => Taken::Status(status),
                })
            }
            Pending::Both { send, receive } => {
                if !send.is_ready(process) || !receive.is_ready(process) {
                    return None;
                }
                send.take_status(process);
                Some(Taken::Status(receive.take_status(process)))
            }
            Pending::Generalized(operation) => {
                operation.is_complete().then(|| Taken::Ask(Rc::clone(operation)))
            }
            Pending::Flush(place) => {
                place.is_empty(process).then_some(Taken::Status(MessageStatus::EMPTY))
            }
        }
    }

    /// Returns the status of the operation without taking it; `None` while it is in progress.
    pub fn status(&self, process: &Process) -> Option<Taken> {
        let status = match self {
            Pending::One(request) => request.status(process)?,
            Pending::Both { send, receive } => {
                send.status(process)?;
                receive.status(process)?
            }
            Pending::Generalized(operation) => {
                return operation.is_complete().then(|| Taken::Ask(Rc::clone(operation)));
            }
            Pending::Flush(place) if place.is_empty(process) => MessageStatus::EMPTY,
            Pending::Flush(_) => return None,
        };
        Some(Taken::Status(status))
    }

    /// Whether this is a persistent request that was not started, so that there is nothing to wait
    /// for.
    #[inline]
    pub fn is_inactive(&self) -> bool {
        matches!(self, Pending::One(request) if request.is_inactive())
    }
}
