//! The state that an origin keeps of its operations on one window.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::rc::Rc;

use mpi::{ActiveOperation, Process};

use super::Window;
use super::message::{FIRST_REPLY_TAG, REPLY_TAGS};
use super::operation::WindowOperation;

#[derive(Debug, Default)]
pub(super) struct Traffic {
    next_reply: Cell<i32>,
    targets: RefCell<BTreeMap<u32, TargetTraffic>>,
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

/// The requests and operations to one target.
#[derive(Debug, Default)]
struct TargetTraffic {
    /// The number of requests sent that have no answer, counted from the first one on.
    sent: u64,
    /// The number of those that are known to be done.
    done: u64,
    /// Operations whose messages may be underway.
    outstanding: OutstandingQueue<Rc<WindowOperation>>,
}

/// Operations in the order in which they began, which is mostly that in which they complete.
#[derive(Debug)]
struct OutstandingQueue<T> {
    operations: VecDeque<T>,
    /// When there are this many operations, complete ones are removed.
    swept_at: usize,
}

/// Fewer operations are kept without a search for complete ones.
const OUTSTANDING_MAX: usize = 256;

impl TargetTraffic {
    fn is_idle(&self) -> bool {
        self.done == self.sent && self.outstanding.operations.is_empty()
    }
}

impl<T> Default for OutstandingQueue<T> {
    fn default() -> Self {
        Self { operations: VecDeque::new(), swept_at: OUTSTANDING_MAX }
    }
}

impl<T> OutstandingQueue<T> {
    /// Adds an operation. Complete ones are removed at twice the length that the last removal left,
    /// so that each addition examines few operations on average.
    fn push(&mut self, operation: T, is_over: impl Fn(&T) -> bool) {
        if self.operations.len() >= self.swept_at {
            self.operations.retain(|one| !is_over(one));
            self.swept_at = OUTSTANDING_MAX.max(2 * self.operations.len());
        }
        self.operations.push_back(operation);
    }

    /// Removes complete operations up to the oldest one that is not complete.
    fn remove_oldest(&mut self, is_over: impl Fn(&T) -> bool) {
        while self.operations.front().is_some_and(&is_over) {
            self.operations.pop_front();
        }
    }
}

/// Returns the rank of a target, or the ranks of all targets.
fn ranks(target: Option<u32>) -> RangeInclusive<u32> {
    target.map_or(0..=u32::MAX, |target| target..=target)
}

/// Whether an operation is complete and has no error that the next synchronization reports.
fn is_over(process: &Process, operation: &WindowOperation) -> bool {
    operation.is_complete(process) && operation.error().is_none()
}

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

    /// Records an operation: how many of its requests to the target have no answer, and the
    /// operation itself while it is underway.
    pub(super) fn note_sent(
        &self,
        process: &Process,
        target: u32,
        unanswered: u64,
        underway: Option<&Rc<WindowOperation>>,
    ) {
        if unanswered == 0 && underway.is_none() {
            return;
        }
        let mut targets = self.traffic.targets.borrow_mut();
        let traffic = targets.entry(target).or_default();
        traffic.sent += unanswered;
        if let Some(operation) = underway {
            traffic.outstanding.push(Rc::clone(operation), |one| is_over(process, one));
        }
    }

    /// Whether all requests to a target, or to all targets, are known to be done.
    pub(super) fn is_idle(&self, target: Option<u32>) -> bool {
        let targets = self.traffic.targets.borrow();
        match target {
            Some(target) => targets.get(&target).is_none_or(TargetTraffic::is_idle),
            None => targets.values().all(TargetTraffic::is_idle),
        }
    }

    /// Does what [`is_idle`](Self::is_idle) does, but first removes complete operations, which it
    /// examines up to the first one that is underway.
    pub(super) fn is_idle_by_now(&self, process: &Process, target: u32) -> bool {
        let mut targets = self.traffic.targets.borrow_mut();
        targets.get_mut(&target).is_none_or(|traffic| {
            traffic.outstanding.remove_oldest(|one| is_over(process, one));
            traffic.is_idle()
        })
    }

    /// Returns those of the targets that may not have done all requests, with the numbers of
    /// requests sent.
    ///
    /// They stay recorded until [`Window::note_done`]: another thread may send requests meanwhile.
    pub(super) fn unflushed(&self, target: Option<u32>) -> Vec<(u32, u64)> {
        let targets = self.traffic.targets.borrow();
        let open = targets.range(ranks(target)).filter(|(_, one)| one.done < one.sent);
        open.map(|(at, one)| (*at, one.sent)).collect()
    }

    /// Records that a target has done this many requests.
    pub(super) fn note_done(&self, target: u32, done: u64) {
        if let Some(asked) = self.traffic.targets.borrow_mut().get_mut(&target) {
            asked.done = asked.done.max(done);
        }
    }

    /// Returns the target, or all targets, with operations that may be underway.
    pub(super) fn unsettled(&self, target: Option<u32>) -> Vec<u32> {
        let targets = self.traffic.targets.borrow();
        let open = targets.range(ranks(target));
        let open = open.filter(|(_, one)| !one.outstanding.operations.is_empty());
        open.map(|(at, _)| *at).collect()
    }

    /// Returns the last operation to a target that may be underway.
    pub(super) fn outstanding(&self, target: u32) -> Option<Rc<WindowOperation>> {
        self.traffic.targets.borrow().get(&target)?.outstanding.operations.back().map(Rc::clone)
    }

    /// Removes an operation that is complete.
    pub(super) fn forget_outstanding(&self, operation: &Rc<WindowOperation>) {
        let mut targets = self.traffic.targets.borrow_mut();
        let Some(traffic) = targets.get_mut(&operation.target) else { return };
        let operations = &mut traffic.outstanding.operations;
        if let Some(index) = operations.iter().rposition(|other| Rc::ptr_eq(other, operation)) {
            operations.swap_remove_back(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_examined_a_few_times_though_none_completes() {
        let (mut queue, examined) = (OutstandingQueue::default(), Cell::new(0));
        let is_complete = Cell::new(false);
        let is_over = |_: &u32| {
            examined.set(examined.get() + 1);
            is_complete.get()
        };
        for operation in 0..16_000_u32 {
            queue.remove_oldest(is_over);
            queue.push(operation, is_over);
        }
        assert!(examined.get() <= 4 * 16_000, "{} steps", examined.get());
        assert_eq!(queue.operations.len(), 16_000);
        is_complete.set(true);
        examined.set(0);
        queue.remove_oldest(is_over);
        assert_eq!((queue.operations.len(), examined.get()), (0, 16_000));
    }

    #[test]
    fn complete_operations_are_removed_though_the_oldest_one_is_underway() {
        let mut queue = OutstandingQueue::default();
        for operation in 0..16_000_u32 {
            queue.remove_oldest(|one| *one > 0);
            queue.push(operation, |one| *one > 0);
            assert!(queue.operations.len() <= OUTSTANDING_MAX);
        }
        assert_eq!(queue.operations.front(), Some(&0));
    }
}
