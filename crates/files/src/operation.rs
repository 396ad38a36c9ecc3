//! Nonblocking operations, as their requests see them.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use memory::LentBuffer;
use mpi::{ActiveOperation, MessageStatus, Process, Request};

use crate::pool::PoolTask;
use crate::prepared::Prepared;
use crate::transfer::Progress;

/// An operation of one process.
pub(crate) struct FileOperation {
    state: RefCell<OperationState>,
}

enum OperationState {
    Underway(Box<StartedTransfer>),
    Over(MessageStatus),
}

/// A transfer on another thread.
pub(crate) struct StartedTransfer {
    /// The name of the file for users.
    pub name: String,
    pub task: PoolTask<(LentBuffer, Progress)>,
    pub prepared: Prepared,
}

impl FileOperation {
    /// Creates a completed operation.
    pub fn over(status: MessageStatus) -> Self {
        Self { state: RefCell::new(OperationState::Over(status)) }
    }

    /// Creates an operation that another thread executes.
    pub fn underway(started: StartedTransfer) -> Self {
        Self { state: RefCell::new(OperationState::Underway(Box::new(started))) }
    }

    /// Returns a request for it.
    pub fn into_request(self) -> Request {
        Request::Operation(Rc::new(self))
    }
}

impl ActiveOperation for FileOperation {
    fn noun(&self) -> &'static str {
        "an operation on a file"
    }

    fn is_complete(&self, _process: &Process) -> bool {
        let mut state = self.state.borrow_mut();
        let OperationState::Underway(started) = &mut *state else { return true };
        let Some((memory, progress)) = started.task.take() else { return false };
        started.prepared.return_memory(memory);
        let status = started.prepared.conclude(&started.name, progress);
        *state = OperationState::Over(status);
        true
    }

    fn status(&self) -> MessageStatus {
        match &*self.state.borrow() {
            OperationState::Over(status) => status.clone(),
            OperationState::Underway(_) => MessageStatus::EMPTY,
        }
    }
}

impl fmt::Debug for FileOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.state.borrow() {
            OperationState::Underway(started) => write!(f, "FileOperation({:?})", started.task),
            OperationState::Over(status) => write!(f, "FileOperation({status:?})"),
        }
    }
}
