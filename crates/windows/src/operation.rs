//! Operations of an origin whose messages are underway.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use base::{Error, ErrorClass};
use engine::RequestId;
use memory::Buffer;
use mpi::{ActiveOperation, MessageStatus, Process, Team, error_of};

/// The event that completes an operation at the origin and reports its error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletedBy {
    /// The next synchronization of the epoch.
    Synchronization,
    /// The completion of a request of its own.
    Request,
}

/// One call of the program: its messages that are not complete.
pub struct WindowOperation {
    /// The communicator of the messages, which is the window's own.
    communicator: Rc<Team>,
    pub(super) target: u32,
    completed_by: CompletedBy,
    state: RefCell<PendingState>,
}

#[derive(Default)]
struct PendingState {
    /// Sends that read the program's memory.
    sends: Vec<RequestId>,
    answers: Vec<Answer>,
    error: Option<Error>,
}

/// Returned data.
struct Answer {
    id: RequestId,
    length: usize,
    /// The buffer in which it is received, the program's buffer, and the packed offset in it; none
    /// if it is received in the program's buffer itself.
    unpack: Option<(Buffer, Buffer, usize)>,
}

impl WindowOperation {
    pub(super) fn new(communicator: &Rc<Team>, target: u32, completed_by: CompletedBy) -> Rc<Self> {
        let communicator = Rc::clone(communicator);
        Rc::new(Self { communicator, target, completed_by, state: RefCell::default() })
    }

    pub(super) fn add_send(&self, id: RequestId) {
        self.state.borrow_mut().sends.push(id);
    }

    /// Adds the receive of `length` returned bytes. `unpack`: the buffer in which they are
    /// received, and their place in the program's buffer.
    pub(super) fn add_answer(
        &self,
        id: RequestId,
        length: usize,
        unpack: Option<(Buffer, Buffer, usize)>,
    ) {
        self.state.borrow_mut().answers.push(Answer { id, length, unpack });
    }

    /// Returns the error, unless a request reports it.
    pub(super) fn error(&self) -> Option<Error> {
        if self.completed_by == CompletedBy::Request {
            None
        } else {
            self.state.borrow().error.clone()
        }
    }
}

impl ActiveOperation for WindowOperation {
    fn noun(&self) -> &'static str {
        "a one-sided operation"
    }

    fn is_complete(&self, process: &Process) -> bool {
        let mut state = self.state.borrow_mut();
        let PendingState { sends, answers, error } = &mut *state;
        sends.retain(|id| {
            let Some(outcome) = process.runtime().take(*id) else { return true };
            if let Some(problem) = outcome.problem {
                error.get_or_insert_with(|| self.communicator.explained(error_of(problem)));
            }
            false
        });
        answers.retain(|answer| {
            let Some(outcome) = process.runtime().take(answer.id) else { return true };
            if let Some(problem) = outcome.problem {
                error.get_or_insert_with(|| self.communicator.explained(error_of(problem)));
            } else if outcome.bytes < answer.length as u64 {
                error.get_or_insert_with(|| refused(self.target));
            } else if let Some((from, into, offset)) = &answer.unpack {
                let mut data = vec![0; answer.length];
                from.read(0, &mut data);
                into.write(*offset, &data);
            }
            false
        });
        sends.is_empty() && answers.is_empty()
    }

    fn status(&self) -> MessageStatus {
        MessageStatus {
            error: self.state.borrow().error.clone().map(Box::new),
            ..MessageStatus::EMPTY
        }
    }
}

impl fmt::Debug for WindowOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.borrow();
        let (sends, answers) = (state.sends.len(), state.answers.len());
        write!(f, "Operation(rank {}, {sends} sends, {answers} answers)", self.target)
    }
}

#[cold]
fn refused(target: u32) -> Error {
    Error::new(
        ErrorClass::RmaRange,
        format!(
            "rank {target} refused to send data: the requested memory is not in its part of the \
             window, or not attached to it"
        ),
    )
}
