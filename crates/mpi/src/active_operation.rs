//! The interface of everything that advances in steps while the program does something else.

use std::any::Any;
use std::fmt;
use std::rc::Rc;

use engine::RequestId;
use runtime::Runtime;

use crate::Process;
use crate::status::MessageStatus;

/// An operation that takes further steps after its call has returned, such as a collective
/// operation, or a service to other processes, such as a window. The process advances it in each
/// round of progress after [`Process::advance_in_progress`], and a request of the program may
/// name it.
///
/// Why: docs/internals/decisions/0085-everything-that-advances-is-one-trait.md
pub trait ActiveOperation: Any + fmt::Debug {
    /// Returns the name of the operation for users, with its article.
    fn noun(&self) -> &'static str;

    /// Advances as far as possible without waiting. Functions of the program may run only if the
    /// helper is not inside.
    fn advance(&self, _: &Process) -> Step {
        Step::Over
    }

    /// Whether the program's buffers may be used again and contain the results; makes no
    /// progress. A service is never complete.
    fn is_complete(&self, _: &Process) -> bool {
        false
    }

    /// Returns the status of the request, when it is complete.
    fn status(&self) -> MessageStatus {
        MessageStatus::EMPTY
    }

    /// Returns the status for a request that ends with it, if the operation is complete.
    fn take_if_complete(&self, process: &Process) -> Option<MessageStatus> {
        self.is_complete(process).then(|| self.status())
    }

    /// Ends the operation if it is complete without an error and its status is not needed. Returns
    /// whether it did; false is always permitted. The caller has borrowed the runtime.
    fn end_if_fine(&self, _: &mut Runtime) -> bool {
        false
    }

    /// Returns the receive that the operation waits for, if there is only one. The caller may have
    /// borrowed the runtime.
    fn awaited(&self) -> Option<RequestId> {
        None
    }

    /// Whether the process must not end before the operation.
    fn must_end(&self) -> bool {
        false
    }

    /// Whether other processes may wait for the next steps, and not only this program.
    fn is_awaited(&self) -> bool {
        true
    }

    /// Polls a few times for the completion of the operation, if that has less overhead than a
    /// wait. Returns whether the operation is complete.
    fn poll_a_while(&self, _: &Process) -> bool {
        false
    }

    /// Starts a persistent operation. The request of another operation is never started.
    fn start(self: Rc<Self>, _: &Process) {}

    /// Whether the program may free the request of an operation that it has started.
    fn may_be_freed(&self, _: &Process) -> bool {
        true
    }

    /// Releases the operation, whose request the program has freed. It completes nevertheless.
    fn free(&self, _: &Process) {}
}

/// The result of a step of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There was nothing to do.
    Idle,
    /// There was something to do, and further steps follow.
    Active,
    /// The operation needs no more steps.
    Over,
}
