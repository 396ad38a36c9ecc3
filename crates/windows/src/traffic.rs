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
    /// The number of requests without a reply sent since the window was created.
    sent: u64,
    /// The number of these requests that the target has reported as done.
    done: u64,
    /// Operations whose messages may not be complete at the origin.
    outstanding: OutstandingQueue<Rc<WindowOperation>>,
}

/// Operations in the order in which they began. Most operations complete in this order, so
/// complete ones are looked for at the front.
#[derive(Debug)]
struct OutstandingQueue<T> {
    operations: VecDeque<T>,
    /// The number of operations at which the next addition removes all complete ones: at least
    /// [`OUTSTANDING_MAX`], and at most twice the number of operations if that is more.
    sweep_length: usize,
}

/// The number of operations up to which a queue is not searched for complete ones.
const OUTSTANDING_MAX: usize = 256;

impl TargetTraffic {
    fn is_idle(&self) -> bool {
        self.done == self.sent && self.outstanding.operations.is_empty()
    }
}

impl<T> Default for OutstandingQueue<T> {
    fn default() -> Self {
        Self { operations: VecDeque::new(), sweep_length: OUTSTANDING_MAX }
    }
}

impl<T> OutstandingQueue<T> {
    /// Adds an operation. Removes all complete ones first if the queue has twice as many operations
    /// as the previous search left, so that each addition examines few operations on average.
    fn push(&mut self, operation: T, is_over: impl Fn(&T) -> bool) {
        if self.operations.len() >= self.sweep_length {
            self.operations.retain(|one| !is_over(one));
            self.sweep_length = OUTSTANDING_MAX.max(2 * self.operations.len());
        }
        self.operations.push_back(operation);
    }

    /// Removes complete operations up to the oldest one that is not complete.
    fn remove_oldest(&mut self, is_over: impl Fn(&T) -> bool) {
        while self.operations.front().is_some_and(&is_over) {
            self.operations.pop_front();
            self.lower_sweep_length();
        }
    }

    /// Removes the last operation that satisfies `is_it`. The others keep their order.
    fn remove_last(&mut self, is_it: impl Fn(&T) -> bool) {
        if let Some(index) = self.operations.iter().rposition(is_it) {
            self.operations.remove(index);
            self.lower_sweep_length();
        }
    }

    /// Adapts `sweep_length` to a queue that has become shorter. Otherwise a queue that once had
    /// thousands of operations would keep complete ones until it has as many again.
    fn lower_sweep_length(&mut self) {
        let length = OUTSTANDING_MAX.max(2 * self.operations.len());
        self.sweep_length = self.sweep_length.min(length);
    }
}

/// Returns the range that contains one target's rank, or all ranks.
fn ranks(target: Option<u32>) -> RangeInclusive<u32> {
    target.map_or(0..=u32::MAX, |target| target..=target)
}

/// Whether an operation is complete and has no error that the next synchronization reports.
fn is_over(process: &Process, operation: &WindowOperation) -> bool {
    operation.is_complete(process) && operation.error().is_none()
}

impl Window {
    /// Returns a tag for a reply.
    pub(super) fn next_reply(&self) -> i32 {
        let next = self.traffic.next_reply.get();
        self.traffic.next_reply.set((next + 1) % REPLY_TAGS);
        FIRST_REPLY_TAG + next
    }

    /// Whether a short operation at a target is likely to be the only one before the next
    /// synchronization: it is the first one, and the last burst had at most one operation.
    pub(super) fn is_alone(&self, target: u32) -> bool {
        let (last, settled) = (self.traffic.last_burst.get(), self.settled.get());
        let goes_on = (last.target, last.settled) == (target, settled) && last.operations > 0;
        let operations = if goes_on { last.operations + 1 } else { 1 };
        self.traffic.last_burst.set(AccessBurst { target, settled, operations });
        !goes_on && last.operations <= 1
    }

    /// Records an operation: the number of its requests to the target that get no reply, and the
    /// operation itself if its messages are not complete at the origin.
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

    /// Whether no operation to a target, or to any target, is outstanding, and the targets have
    /// reported all requests as done.
    pub(super) fn is_idle(&self, target: Option<u32>) -> bool {
        let targets = self.traffic.targets.borrow();
        match target {
            Some(target) => targets.get(&target).is_none_or(TargetTraffic::is_idle),
            None => targets.values().all(TargetTraffic::is_idle),
        }
    }

    /// Removes the complete operations to a target up to the oldest one that is not complete, and
    /// returns [`is_idle`](Self::is_idle) for this target.
    pub(super) fn is_idle_by_now(&self, process: &Process, target: u32) -> bool {
        let mut targets = self.traffic.targets.borrow_mut();
        targets.get_mut(&target).is_none_or(|traffic| {
            traffic.outstanding.remove_oldest(|one| is_over(process, one));
            traffic.is_idle()
        })
    }

    /// Returns the targets that have not reported all requests as done, each with the number of
    /// requests sent to it. Considers one target, or all targets.
    ///
    /// The caller passes this number to [`Window::note_done`] after a flush. Requests that another
    /// thread sends in the meantime stay recorded.
    pub(super) fn unflushed(&self, target: Option<u32>) -> Vec<(u32, u64)> {
        let targets = self.traffic.targets.borrow();
        let open = targets.range(ranks(target)).filter(|(_, one)| one.done < one.sent);
        open.map(|(at, one)| (*at, one.sent)).collect()
    }

    /// Records that a target has done the first `done` of the requests sent to it.
    pub(super) fn note_done(&self, target: u32, done: u64) {
        if let Some(traffic) = self.traffic.targets.borrow_mut().get_mut(&target) {
            traffic.done = traffic.done.max(done);
        }
    }

    /// Returns the targets with outstanding operations. Considers one target, or all targets.
    pub(super) fn unsettled(&self, target: Option<u32>) -> Vec<u32> {
        let targets = self.traffic.targets.borrow();
        let open = targets.range(ranks(target));
        let open = open.filter(|(_, one)| !one.outstanding.operations.is_empty());
        open.map(|(at, _)| *at).collect()
    }

    /// Returns the outstanding operation to a target that began last.
    pub(super) fn outstanding(&self, target: u32) -> Option<Rc<WindowOperation>> {
        self.traffic.targets.borrow().get(&target)?.outstanding.operations.back().map(Rc::clone)
    }

    /// Removes a complete operation from the outstanding ones.
    pub(super) fn forget_outstanding(&self, operation: &Rc<WindowOperation>) {
        let mut targets = self.traffic.targets.borrow_mut();
        let Some(traffic) = targets.get_mut(&operation.target) else { return };
        traffic.outstanding.remove_last(|other| Rc::ptr_eq(other, operation));
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

    #[test]
    fn a_queue_that_was_long_removes_complete_operations_again() {
        type Emptying = fn(&mut OutstandingQueue<u32>, u32);
        let from_the_front: Emptying = |queue, _| queue.remove_oldest(|_| true);
        let from_the_back: Emptying = |queue, operation| queue.remove_last(|one| *one == operation);
        for remove in [from_the_front, from_the_back] {
            let mut queue = OutstandingQueue::default();
            (0..16_000).for_each(|operation| queue.push(operation, |_| false));
            (0..16_000).rev().for_each(|operation| remove(&mut queue, operation));
            assert!(queue.operations.is_empty());
            for operation in 0..1000 {
                queue.push(operation, |_| true);
                assert!(queue.operations.len() <= OUTSTANDING_MAX);
            }
        }
    }

    #[test]
    fn operations_keep_their_order_when_one_is_removed() {
        let mut queue = OutstandingQueue::default();
        (0..6).for_each(|operation| queue.push(operation, |_| false));
        queue.remove_last(|one| *one == 1);
        queue.remove_last(|one| *one == 4);
        queue.remove_last(|one| *one == 9);
        assert_eq!(queue.operations, [0, 2, 3, 5]);
    }
}
