//! The state that the waiting threads of a process share, and what they need of the process.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use driver::Doorbell;
use engine::RequestId;

use super::sleep::{LongWait, SleepingThreads};
use super::{PollLoop, SpinBudget, WaitHistory};
use crate::reentrant_lock::ReentrantLock;
use crate::system::{System, WaitingSystem};

/// The state that the waiting threads of one process share.
#[derive(Debug, Default)]
pub struct WaitingThreads<K = System> {
    /// The lock that each call holds if all threads may call at the same time. A wait releases it.
    pub lock: ReentrantLock<K>,
    pub(super) kernel: K,
    pub(super) sleepers: SleepingThreads,
    /// The spin budget, learned from waits beside other processes.
    pub spin_budget: SpinBudget,
    /// The last poll without result.
    pub poll_loop: PollLoop,
    /// The number of checks for failed processes and inquiries that long waits have made so far.
    pub(super) long_waits: Cell<u32>,
}

impl<K> WaitingThreads<K> {
    /// Returns the number of checks for failed processes and inquiries that long waits have made so
    /// far.
    #[inline]
    pub fn long_waits(&self) -> u32 {
        self.long_waits.get()
    }

    /// Makes each waiting thread check and report its wait, as it does after a long wait.
    pub fn count_long_wait(&self) {
        self.long_waits.set(self.long_waits.get().wrapping_add(1));
    }
}

/// The word by which the launcher announces news, and its value when the process last looked for
/// news.
#[derive(Clone, Copy, Debug)]
pub struct News {
    /// Counts the news. Threads that sleep on it are woken after each change.
    pub word: &'static AtomicU32,
    /// Its value when the process last looked.
    pub heard: u32,
}

/// A process whose threads wait.
pub trait Waiter {
    /// The system that its threads run on.
    type VirtualKernel: WaitingSystem;

    /// Returns the state that its waiting threads share.
    fn wait_state(&self) -> &WaitingThreads<Self::VirtualKernel>;

    /// Whether all its threads may call at the same time, so that each call holds the lock of
    /// [`wait_state`](Self::wait_state).
    fn is_shared(&self) -> bool;

    /// Whether a helper makes progress while all threads sleep. Called when a thread is about to
    /// sleep.
    fn calls_helper(&self) -> bool {
        false
    }

    /// Returns the state of a wait that begins now.
    fn wait_history(&self) -> WaitHistory;

    /// Makes one round of progress, and wakes the sleeping threads that it concerns
    /// ([`wake_others`]). Returns whether there was anything to do.
    ///
    /// [`wake_others`]: super::wake_others
    fn progress(&self) -> bool;

    /// Whether a request is complete.
    fn is_complete(&self, request: RequestId) -> bool;

    /// Whether something is pending for which no doorbell rings.
    fn must_poll_again(&self) -> bool;

    /// Whether all that is pending without a doorbell is data that waits for room in a rail.
    fn awaits_only_room(&self) -> bool {
        false
    }

    /// Returns a number that changes whenever this process changes what may ring its doorbell: what
    /// other processes did meanwhile may not have rung.
    fn bell_changes(&self) -> u32 {
        0
    }

    /// Returns the doorbell that rings when something arrives; none if nothing can arrive.
    fn doorbell(&self) -> Option<&Arc<dyn Doorbell>>;

    /// Returns the word by which the launcher announces inquiries and failures, if there is one.
    fn news(&self) -> Option<News> {
        None
    }

    /// Records that the process looks at the news now; returns whether there are any since it last
    /// did.
    fn hear_news(&self) -> bool {
        false
    }

    /// Records that the calling thread begins to sleep in a wait: until
    /// [`end_sleeps`](Self::end_sleeps) this wait makes all progress, and the helper may sleep.
    fn begin_sleeps(&self) {}

    /// Records that the wait of [`begin_sleeps`](Self::begin_sleeps) has ended.
    fn end_sleeps(&self) {}

    /// Lends the core of the calling thread to other processes until
    /// [`take_core_back`](Self::take_core_back) is called; returns whether it did. Called before
    /// the first sleep of a wait.
    fn lend_core(&self) -> bool {
        false
    }

    /// Ends what [`lend_core`](Self::lend_core) began. Called at the end of the wait.
    fn take_core_back(&self) {}

    /// Records that a thread has slept for this long.
    fn note_sleep(&self, slept: Duration);

    /// Handles a wait that has lasted long since it began, or since the last call of this function
    /// for it: a process may have failed without any message that reports it.
    fn note_long_wait(&self);

    /// Reports the wait of the calling thread, which is long. Called after a round of progress that
    /// followed the last count of a long wait.
    fn answer_inquiries(&self, wait: &LongWait);

    /// Begins to record a wait, whose condition was not met immediately; none if waits are not
    /// recorded.
    fn begin_record(&self, _awaited: Option<RequestId>) -> Option<WaitRecord> {
        None
    }

    /// Updates the record of a wait that continues: called after some rounds, or a sleep.
    fn update_record(&self, _record: &mut WaitRecord) {}

    /// Ends the record of a wait.
    fn end_record(&self, _record: WaitRecord) {}

    /// Whether an inquiry about what the process does has arrived since the last call of this
    /// function. Called after sleeps; `_now` is the time of the kernel's clock.
    fn is_asked(&self, _now: u64) -> bool {
        false
    }
}

/// The record of a wait, for reports of how long it lasted and why.
#[derive(Clone, Copy, Debug)]
pub struct WaitRecord {
    /// The request that it waits for, if a request is all that it waits for.
    pub awaited: Option<RequestId>,
    /// The time of the last update, by the kernel's clock.
    pub checked: u64,
    /// The duration of the wait up to that time.
    pub lasted: Duration,
    /// Rounds since that time.
    pub(super) rounds: u32,
}

/// The number of rounds between two updates of the record.
pub(super) const ROUNDS_PER_RECORD: u32 = 16;

impl WaitRecord {
    /// Creates the record of a wait for `awaited` that begins now. The first update follows the
    /// first round, which may last long where processes outnumber cores.
    pub fn new(awaited: Option<RequestId>, now: u64) -> Self {
        Self { awaited, checked: now, lasted: Duration::ZERO, rounds: ROUNDS_PER_RECORD }
    }

    /// Updates the record to time `now`; returns the time since the previous update.
    pub fn pass(&mut self, now: u64) -> Duration {
        let passed = Duration::from_nanos(now.saturating_sub(self.checked));
        self.checked = now;
        self.lasted += passed;
        passed
    }
}
