//! Progress, and waiting with progress.

use std::any::Any;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use engine::{Outcome, RequestId};
use progress::helper::Need;
use progress::waiting::{
    self, LongWait, News, SLEEP_MAX, WaitHistory, WaitRecord, WaitStage, Waiter, WaitingThreads,
    WakeUp,
};
use progress::{System, entry_lock::Threads};
use runtime::Doorbell;

use super::{Process, ThreadLevel};
use crate::active_operation::{ActiveOperation, Step};
use crate::kernel::ProcessKernel;

impl Process {
    /// Advances an operation in each round of progress from now on, until the operation reports
    /// that it needs no more steps. Wakes the helper.
    pub fn keep_advancing(&self, operation: Rc<dyn ActiveOperation>) {
        let need = if operation.is_awaited() { Need::OfOthers } else { Need::OfProgram };
        self.advance_in_progress(operation);
        self.call_helper(need);
    }

    /// Advances an operation in each round of progress, as
    /// [`keep_advancing`](Self::keep_advancing) does, but does not wake the helper. Used if the
    /// program itself will most likely complete the operation soon.
    pub fn advance_in_progress(&self, operation: Rc<dyn ActiveOperation>) {
        self.operations.borrow_mut().push(operation);
        self.attention.set(true);
    }

    /// Returns the operation of this type that is being advanced, if there is one.
    pub(crate) fn advancing<T: ActiveOperation>(&self) -> Option<Rc<T>> {
        self.operations.borrow().iter().find_map(|one| {
            let one: Rc<dyn Any> = Rc::clone(one) as _;
            one.downcast().ok()
        })
    }

    /// Stops advancing an operation or service that has ended.
    #[inline]
    pub fn stop_advancing(&self, ended: &dyn ActiveOperation) {
        self.operations.borrow_mut().retain(|other| !ptr::addr_eq(Rc::as_ptr(other), ended));
    }

    /// Advances all operations and services. Returns whether there was anything to do.
    fn advance_operations(&self) -> bool {
        let (mut active, mut index) = (false, 0);
        loop {
            // Nothing is borrowed while an operation advances, because it may begin or complete
            // others.
            let Some(operation) = self.operations.borrow().get(index).cloned() else { break };
            let step = operation.advance(self);
            match step {
                Step::Over => self.stop_advancing(&*operation),
                Step::Idle | Step::Active => index += 1,
            }
            active |= step != Step::Idle;
        }
        active
    }

    /// Advances recovery, operations and services. Returns whether there was anything to do.
    #[cold]
    fn advance_more(&self) -> bool {
        // Operations that begin and messages that arrive from now on set the flag again.
        self.attention.set(false);
        let active = self.serve_recovery() | self.advance_operations();
        if !self.operations.borrow().is_empty() || self.has_arriving() {
            self.attention.set(true);
        }
        active
    }

    /// Makes one round of progress; returns whether there was anything to do.
    #[inline]
    pub fn progress(&self) -> bool {
        let mut active = self.runtime().progress();
        if self.attention.get() {
            active |= self.advance_more();
        }
        if active {
            self.wake_other_threads();
        }
        active
    }

    /// Waits for a request of the engine and takes its outcome.
    #[inline(always)]
    pub fn wait_for(&self, id: RequestId) -> Outcome {
        // The request is often complete, or completes soon.
        if let Some(outcome) = self.take_soon(id) {
            return outcome;
        }
        waiting::wait(self, WakeUp::Request(id), &mut |process| process.is_complete(id));
        let outcome = self.runtime().take(id);
        outcome.unwrap_or_else(|| self.give_up_interrupted(id))
    }

    /// Waits until a request of the engine is complete or does not exist any more.
    #[inline]
    pub(crate) fn wait_till_complete(&self, id: RequestId) {
        if self.completes_soon(id) {
            return;
        }
        waiting::wait(self, WakeUp::Request(id), &mut |process| process.is_complete(id));
    }

    /// Makes a few rounds of the engine's progress until `done` returns true, for an operation that
    /// each round of progress advances. Does nothing if there are others.
    #[inline]
    pub(crate) fn poll_for_messages_alone(&self, done: impl FnMut() -> bool) {
        let is_alone = self.operations.borrow().len() == 1;
        if is_alone {
            self.check_for_messages_only(done);
        }
    }

    /// Makes progress until `done` returns true. `done` is called after each round.
    #[inline]
    pub fn wait_until(&self, done: &mut dyn FnMut(&Process) -> bool) {
        waiting::wait(self, WakeUp::Doorbell, done);
    }

    /// Makes progress until `done` returns true, for a condition that other processes fulfil
    /// without ringing the doorbell. The process therefore looks again after sleeps that are short
    /// beside the duration of the wait.
    pub fn poll_until(&self, done: &mut dyn FnMut(&Process) -> bool) {
        waiting::wait(self, WakeUp::Nothing, done);
    }

    /// Counts a test call that found nothing after a round of progress. If processes outnumber
    /// cores and the program does nothing but poll, passes the core to other processes.
    #[inline]
    pub fn record_empty_poll(&self) {
        let polls = self.empty_polls.get().wrapping_add(1);
        self.empty_polls.set(polls);
        if polls.is_multiple_of(EMPTY_POLLS_PER_CLOCK) {
            self.check_for_failures_if_due();
        }
        if self.is_oversubscribed() {
            self.give_way_to_processes();
        }
    }

    /// Checks for failed processes, unless that was done within [`SLEEP_MAX`]. A program may wait
    /// with test calls, and no message reports a failure to it.
    #[cold]
    pub fn check_for_failures_if_due(&self) {
        let now = System.now();
        let since = now.saturating_sub(self.checked_for_failures.get());
        if Duration::from_nanos(since) >= SLEEP_MAX {
            self.checked_for_failures.set(now);
            self.check_for_failures();
        }
    }

    #[cold]
    fn give_way_to_processes(&self) {
        let WaitingThreads { lock, poll_loop, spin_budget, .. } = &self.wait_state;
        let is_shared = self.is_shared();
        let calls = if is_shared { lock.arrivals() } else { self.entry_lock.steps() / 2 };
        let begin = || ProcessKernel::wait_history(self);
        let Some(mut wait_history) = poll_loop.continue_wait(calls, System.now(), begin) else {
            return;
        };
        let mut pause = || {
            if wait_history.pass(&System, spin_budget) == WaitStage::Sleep {
                System.pass_core();
            }
        };
        match is_shared {
            true => lock.without(pause),
            false => pause(),
        }
        poll_loop.give_back(wait_history, System.now());
    }

    /// Wakes the sleeping threads whose requests are complete.
    #[inline]
    pub fn wake_other_threads(&self) {
        waiting::wake_others(self);
    }
}

impl Waiter for Process {
    type VirtualKernel = System;

    #[inline(always)]
    fn wait_state(&self) -> &WaitingThreads {
        &self.wait_state
    }

    #[inline]
    fn is_shared(&self) -> bool {
        self.highest_level() == ThreadLevel::Multiple
    }

    #[inline]
    fn wait_history(&self) -> WaitHistory {
        ProcessKernel::wait_history(self)
    }

    #[inline]
    fn progress(&self) -> bool {
        Process::progress(self)
    }

    #[inline]
    fn is_complete(&self, request: RequestId) -> bool {
        ProcessKernel::is_complete(self, request)
    }

    fn calls_helper(&self) -> bool {
        self.call_helper(Need::OfOthers);
        self.has_helper()
    }

    fn bell_changes(&self) -> u32 {
        boards::awaited_changes()
    }

    fn must_poll_again(&self) -> bool {
        self.runtime().must_poll_again()
    }

    fn awaits_only_room(&self) -> bool {
        self.runtime().awaits_only_room()
    }

    fn doorbell(&self) -> Option<&Arc<dyn Doorbell>> {
        ProcessKernel::doorbell(self)
    }

    fn lend_core(&self) -> bool {
        ProcessKernel::lend_core(self)
    }

    fn take_core_back(&self) {
        ProcessKernel::take_core_back(self);
    }

    fn news(&self) -> Option<News> {
        Process::news(self)
    }

    fn hear_news(&self) -> bool {
        self.hears_news()
    }

    fn begin_sleeps(&self) {
        ProcessKernel::begin_sleeps(self);
    }

    fn end_sleeps(&self) {
        ProcessKernel::end_sleeps(self);
    }

    fn note_sleep(&self, slept: Duration) {
        self.instruments().runtime.note_sleep(slept);
        self.instruments().journal.note_sleep(slept);
    }

    fn note_long_wait(&self) {
        self.check_for_failures();
    }

    fn answer_inquiries(&self, wait: &LongWait) {
        Process::answer_inquiries(self);
        self.inquire_about_receive(wait.awaited);
        self.answer_question(wait, System.now());
    }

    #[inline]
    fn begin_record(&self, awaited: Option<RequestId>) -> Option<WaitRecord> {
        if self.is_profiled() { self.begin_wait_record(awaited) } else { None }
    }

    fn update_record(&self, record: &mut WaitRecord) {
        self.update_wait_record(record);
    }

    fn end_record(&self, record: WaitRecord) {
        self.end_wait_record(record);
    }

    fn is_asked(&self, now: u64) -> bool {
        self.is_asked_now(now)
    }
}

/// The clock is read once in this number of polls without result.
const EMPTY_POLLS_PER_CLOCK: u32 = 16;
