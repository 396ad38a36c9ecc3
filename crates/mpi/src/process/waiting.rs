//! Progress, and waiting with progress.

use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use engine::{Outcome, RequestId};
use progress::waiting::{
    self, CoreSharing, LongWait, SLEEP_MAX, WaitHistory, WaitNote, WaitStage, Waiter,
    WaitingSystem, WaitingThreads, WakeUp,
};
use progress::{System, door::Threads};
use runtime::{Aim, Doorbell};

use super::helping::Need;
use super::{Process, ThreadLevel};
use crate::active_operation::{ActiveOperation, Step};

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

    /// Whether a round of progress must do more than advance the engine.
    #[inline]
    pub fn has_more_to_advance(&self) -> bool {
        self.attention.get()
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
        if !self.has_more_to_advance() {
            // The request is often complete, or completes soon: poll without releasing the
            // runtime.
            if self.level.get() == ThreadLevel::Multiple {
                self.look_alone(id);
            } else {
                let mut runtime = self.runtime();
                for _ in 0..self.started().looks {
                    if let Some(outcome) = runtime.take(id) {
                        return outcome;
                    }
                    runtime.progress();
                }
            }
        }
        waiting::wait(self, WakeUp::Request(id), &mut |process| process.is_complete(id));
        let outcome = self.runtime().take(id);
        outcome.unwrap_or_else(|| self.give_up_interrupted(id))
    }

    /// Returns the outcome of an interrupted receive, for which there will be no further wait.
    #[cold]
    pub(crate) fn give_up_interrupted(&self, id: RequestId) -> Outcome {
        self.runtime().take_interrupted(id).expect("the request is complete")
    }

    /// Makes a few rounds of the engine's progress until `done` returns true. The awaited message
    /// often arrives soon, and this has less overhead than a wait.
    #[inline]
    pub(crate) fn look_for_messages(&self, mut done: impl FnMut() -> bool) {
        if self.has_more_to_advance() || self.level.get() == ThreadLevel::Multiple {
            return;
        }
        let looks = self.started().looks;
        let _found = (0..looks).any(|_| {
            let active = self.runtime().progress();
            active && done()
        });
    }

    /// Waits until a request of the engine is complete or does not exist any more.
    #[inline]
    pub(crate) fn wait_till_complete(&self, id: RequestId) {
        if !self.has_more_to_advance() {
            if self.level.get() == ThreadLevel::Multiple {
                self.look_alone(id);
            } else {
                let mut runtime = self.runtime();
                for _ in 0..self.started().looks {
                    runtime.progress();
                    if runtime.is_complete(id) {
                        return;
                    }
                }
            }
        }
        waiting::wait(self, WakeUp::Request(id), &mut |process| process.is_complete(id));
    }

    /// Makes a few rounds of the engine's progress until `done` returns true, for an operation that
    /// each round of progress advances. Does nothing if there are others.
    #[inline]
    pub(crate) fn look_for_messages_alone(&self, mut done: impl FnMut() -> bool) {
        let is_alone = self.operations.borrow().len() == 1;
        if !is_alone || self.level.get() == ThreadLevel::Multiple {
            return;
        }
        let looks = self.started().looks;
        let _found = (0..looks).any(|_| {
            let active = self.runtime().progress();
            active && done()
        });
    }

    /// Polls for a request as long as no other thread is in the library.
    fn look_alone(&self, id: RequestId) {
        if self.room.lock.present() > 1 {
            return;
        }
        let mut runtime = self.runtime();
        for look in 0..self.started().looks {
            let gives_way = look >= LOOKS_BESIDE_OTHERS && System.has_others_ready();
            if runtime.is_complete(id) || self.room.lock.is_wanted() || gives_way {
                return;
            }
            runtime.progress();
        }
    }

    /// Makes progress until `done` returns true. `done` is called after each round.
    #[inline]
    pub fn wait_until(&self, done: &mut dyn FnMut(&Process) -> bool) {
        waiting::wait(self, WakeUp::Doorbell, done);
    }

    /// Polls a few times for a condition in shared memory, without progress of messages.
    #[inline]
    pub(crate) fn look_a_while(&self, mut done: impl FnMut() -> bool) {
        let looks = if self.started().map.is_crowded_here() { 0 } else { LOOKS_AT_MEMORY };
        let _found = (0..looks).any(|_| done());
    }

    /// Makes progress until `done` returns true, for a condition that other processes fulfil
    /// without ringing the doorbell. The process therefore polls again after short sleeps.
    pub fn poll_until(&self, done: &mut dyn FnMut(&Process) -> bool) {
        waiting::wait(self, WakeUp::Nothing, done);
    }

    /// Counts a test call that found nothing after a round of progress. If processes outnumber
    /// cores and the program does nothing but poll, passes the core to other processes.
    #[inline]
    pub fn note_vain_look(&self) {
        let looks = self.vain_looks.get().wrapping_add(1);
        self.vain_looks.set(looks);
        if looks.is_multiple_of(VAIN_LOOKS_PER_CLOCK) {
            self.look_for_failures_in_time();
        }
        if self.is_crowded() {
            self.give_way_to_processes();
        }
    }

    /// Checks for failed processes, unless that was done within [`SLEEP_MAX`]. A program may wait
    /// with test calls, and no message reports a failure to it.
    #[cold]
    pub fn look_for_failures_in_time(&self) {
        let now = System.now();
        let since = now.saturating_sub(self.looked_for_failures.get());
        if Duration::from_nanos(since) >= SLEEP_MAX {
            self.looked_for_failures.set(now);
            self.look_for_failures();
        }
    }

    #[cold]
    fn give_way_to_processes(&self) {
        let WaitingThreads { lock, asking, patience, .. } = &self.room;
        let is_shared = Waiter::is_shared(self);
        let calls = if is_shared { lock.arrivals() } else { self.door.steps() / 2 };
        let begin = || Waiter::wait_history(self);
        let Some(mut wait_history) = asking.ask(calls, System.now(), begin) else { return };
        let mut pause = || {
            if wait_history.pass(&System, patience) == WaitStage::Sleep {
                System.pass_core();
            }
        };
        match is_shared {
            true => lock.without(pause),
            false => pause(),
        }
        asking.give_back(wait_history, System.now());
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
    fn room(&self) -> &WaitingThreads {
        &self.room
    }

    #[inline]
    fn is_shared(&self) -> bool {
        self.level.get() == ThreadLevel::Multiple
    }

    #[inline]
    fn wait_history(&self) -> WaitHistory {
        let started = self.started();
        let workers = System.workers();
        let threads = workers.unwrap_or(self.room.lock.present());
        let mut wait_history =
            WaitHistory::new(match (started.map.is_crowded_here(), threads > started.cores_each) {
                (true, _) => CoreSharing::Processes,
                (false, true) => CoreSharing::Threads,
                (false, false) => CoreSharing::Exclusive,
            })
            .with(&self.room.patience);
        if workers.is_some() {
            wait_history = wait_history.on_shared_kernel_thread();
        }
        if started.aim == Aim::Compute { wait_history.sparing() } else { wait_history }
    }

    #[inline]
    fn progress(&self) -> bool {
        Process::progress(self)
    }

    #[inline]
    fn is_complete(&self, request: RequestId) -> bool {
        Process::is_complete(self, request)
    }

    fn is_looked_after(&self) -> bool {
        self.call_helper(Need::OfOthers);
        self.has_helper()
    }

    fn must_look_again(&self) -> bool {
        self.runtime().must_look_again()
    }

    fn doorbell(&self) -> Option<&Arc<dyn Doorbell>> {
        self.started().doorbell.as_ref()
    }

    fn note_sleep(&self, slept: Duration) {
        self.instruments.runtime.note_sleep(slept);
        self.instruments.journal.note_sleep(slept);
    }

    fn note_long_wait(&self) {
        self.look_for_failures();
    }

    fn answer_inquiries(&self, wait: &LongWait) {
        Process::answer_inquiries(self);
        self.answer_question(wait, System.now());
    }

    #[inline]
    fn begin_note(&self, awaited: Option<RequestId>) -> Option<WaitNote> {
        if self.is_profiled() { self.begin_noting(awaited) } else { None }
    }

    fn go_on_with_note(&self, note: &mut WaitNote) {
        self.go_on_noting(note);
    }

    fn end_note(&self, note: WaitNote) {
        self.end_noting(note);
    }

    fn is_asked(&self, now: u64) -> bool {
        self.is_asked_now(now)
    }
}

/// The clock is read once in this number of polls without result.
const VAIN_LOOKS_PER_CLOCK: u32 = 16;

/// The number of polls for messages before a wait begins, if there is a core for each process.
pub(super) const LOOKS: u32 = 1000;

/// The number of polls before a thread gives way to others that are ready on its kernel thread.
/// They take about as long as it takes to sleep and be woken, and longer than a reply within the
/// machine takes.
const LOOKS_BESIDE_OTHERS: u32 = 20;

/// The number of polls of shared memory before a wait lets messages make progress: about as long
/// as another process takes for a small collective operation.
const LOOKS_AT_MEMORY: u32 = 50;
