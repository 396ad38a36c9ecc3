//! The state that an origin keeps of its operations on one window.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use mpi::{ActiveOperation, Process};

use super::Window;
use super::message::{FIRST_REPLY_TAG, REPLY_TAGS};
use super::operation::WindowOperation;

#[derive(Debug, Default)]
pub(super) struct Traffic {
    next_reply: Cell<i32>,
    /// By target: the numbers of its requests sent and done.
    targets: RefCell<BTreeMap<u32, OperationNumbers>>,
    /// Operations whose messages may be underway.
    outstanding: RefCell<Vec<Rc<WindowOperation>>>,
    last_burst: Cell<AccessBurst>,
}

/// Short operations at one target that one synchronization completes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AccessBurst {
    target: u32,
    /// The number of synchronizations before it.
    settled: u64,
    operations: u64,
}

/// Numbers of requests, counted from the first one on.
#[derive(Clone, Copy, Debug, Default)]
struct OperationNumbers {
    sent: u64,
    /// The number of requests that are known to be done.
    done: u64,
}

/// At multiples of this number of recorded operations, complete ones are removed.
const OUTSTANDING_MAX: usize = 256;

impl Window {
    /// Returns a tag for an answer.
    pub(super) fn next_reply(&self) -> i32 {
        let next = self.traffic.next_reply.get();
        self.traffic.next_reply.set((next + 1) % REPLY_TAGS);
        FIRST_REPLY_TAG + next
    }

    /// Whether a short operation is likely to be the only one before the next synchronization: it
    /// is the first one, and the last burst had at most one.
    pub(super) fn is_alone(&self, target: u32) -> bool {
        let (last, settled) = (self.traffic.last_burst.get(), self.settled.get());
        let goes_on = (last.target, last.settled) == (target, settled) && last.operations > 0;
        let operations = if goes_on { last.operations + 1 } else { 1 };
        self.traffic.last_burst.set(AccessBurst { target, settled, operations });
        !goes_on && last.operations <= 1
    }

    /// Records that a request was sent to a target.
    pub(super) fn note_asked(&self, target: u32) {
        self.traffic.targets.borrow_mut().entry(target).or_default().sent += 1;
    }

    /// Whether all requests to a target, or to all targets, are known to be done.
    pub(super) fn is_idle(&self, target: Option<u32>) -> bool {
        let is_done = |asked: &OperationNumbers| asked.done == asked.sent;
        let targets = self.traffic.targets.borrow();
        let all_done = match target {
            Some(target) => targets.get(&target).is_none_or(is_done),
            None => targets.values().all(is_done),
        };
        all_done && self.outstanding(target).is_none()
    }

    /// Does what [`is_idle`](Self::is_idle) does, but first removes complete operations.
    pub(super) fn is_idle_by_now(&self, process: &Process, target: u32) -> bool {
        let mut outstanding = self.traffic.outstanding.borrow_mut();
        outstanding.retain(|one| {
            one.target != target || !one.is_complete(process) || one.error().is_some()
        });
        drop(outstanding);
        self.is_idle(Some(target))
    }

    /// Returns those of the targets that may not have done all requests, with the numbers of
    /// requests sent.
    ///
    /// They stay recorded until [`Window::note_done`]: another thread may send requests meanwhile.
    pub(super) fn unflushed(&self, target: Option<u32>) -> Vec<(u32, u64)> {
        let targets = self.traffic.targets.borrow();
        let wanted = |at: u32| target.is_none_or(|target| target == at);
        let open = targets.iter().filter(|(at, asked)| wanted(**at) && asked.done < asked.sent);
        open.map(|(at, asked)| (*at, asked.sent)).collect()
    }

    /// Records that a target has done this many requests.
    pub(super) fn note_done(&self, target: u32, done: u64) {
        if let Some(asked) = self.traffic.targets.borrow_mut().get_mut(&target) {
            asked.done = asked.done.max(done);
        }
    }

    pub(super) fn note_outstanding(&self, process: &Process, operation: &Rc<WindowOperation>) {
        let mut outstanding = self.traffic.outstanding.borrow_mut();
        if outstanding.len() >= OUTSTANDING_MAX && outstanding.len().is_multiple_of(OUTSTANDING_MAX)
        {
            outstanding.retain(|one| !one.is_complete(process) || one.error().is_some());
        }
        outstanding.push(Rc::clone(operation));
    }

    /// Returns an operation to one of the targets that may be underway.
    pub(super) fn outstanding(&self, target: Option<u32>) -> Option<Rc<WindowOperation>> {
        let outstanding = self.traffic.outstanding.borrow();
        outstanding
            .iter()
            .rfind(|one| target.is_none_or(|target| one.target == target))
            .map(Rc::clone)
    }

    /// Removes an operation that is complete.
    pub(super) fn forget_outstanding(&self, operation: &Rc<WindowOperation>) {
        let mut outstanding = self.traffic.outstanding.borrow_mut();
        if let Some(index) = outstanding.iter().rposition(|other| Rc::ptr_eq(other, operation)) {
            outstanding.swap_remove(index);
        }
    }
}
