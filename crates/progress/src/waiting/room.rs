//! The wait itself: a loop of progress, checks, pauses and sleeps.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use crate::door::Threads;
use driver::Doorbell;
use engine::RequestId;

use super::sleeping::{self, Sleep, SleepingThreads};
use super::{Asking, Patience, SLEEP_MAX, WaitHistory, WaitStage, WaitingSystem};
use crate::reentrant_lock::ReentrantLock;
use crate::system::System;

/// The state that the waiting threads of one process share.
#[derive(Debug, Default)]
pub struct WaitingThreads<K = System> {
    /// The lock that each call holds if all threads may call at the same time. A wait releases it.
    pub lock: ReentrantLock<K>,
    pub(super) kernel: K,
    pub(super) sleepers: SleepingThreads,
    /// The spin budget, learned from waits beside other processes.
    pub patience: Patience,
    /// The last poll without result.
    pub asking: Asking,
    /// The number of checks for failed processes and inquiries that long waits have made so far.
    long_waits: Cell<u32>,
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

/// A process whose threads wait.
pub trait Waiter {
    /// The system that its threads run on.
    type VirtualKernel: WaitingSystem;

    /// Returns the state that its waiting threads share.
    fn room(&self) -> &WaitingThreads<Self::VirtualKernel>;

    /// Whether all its threads may call at the same time, so that each call holds the lock of
    /// [`room`](Self::room).
    fn is_shared(&self) -> bool;

    /// Whether a helper makes progress while all threads sleep. Called when a thread is about to
    /// sleep.
    fn is_looked_after(&self) -> bool {
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
    fn must_look_again(&self) -> bool;

    /// Returns the doorbell that rings when something arrives; none if nothing can arrive.
    fn doorbell(&self) -> Option<&Arc<dyn Doorbell>>;

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
    fn begin_note(&self, _awaited: Option<RequestId>) -> Option<WaitNote> {
        None
    }

    /// Updates the record of a wait that continues: called after some rounds, or a sleep.
    fn go_on_with_note(&self, _note: &mut WaitNote) {}

    /// Ends the record of a wait.
    fn end_note(&self, _note: WaitNote) {}

    /// Whether an inquiry about what the process does has arrived since the last call of this
    /// function. Called after sleeps; `_now` is the time of the kernel's clock.
    fn is_asked(&self, _now: u64) -> bool {
        false
    }
}

/// The record of a wait, for reports of how long it lasted and why.
#[derive(Clone, Copy, Debug)]
pub struct WaitNote {
    /// The request that it waits for, if a request is all that it waits for.
    pub awaited: Option<RequestId>,
    /// The time of the last update, by the kernel's clock.
    pub looked: u64,
    /// The duration of the wait up to that time.
    pub lasted: Duration,
    /// Rounds since that time.
    rounds: u32,
}

/// The number of rounds between two updates of the record.
const ROUNDS_PER_NOTE: u32 = 16;

impl WaitNote {
    /// Creates the record of a wait for `awaited` that begins now. The first update follows the
    /// first round, which may last long where processes outnumber cores.
    pub fn new(awaited: Option<RequestId>, now: u64) -> Self {
        Self { awaited, looked: now, lasted: Duration::ZERO, rounds: ROUNDS_PER_NOTE }
    }

    /// Updates the record to time `now`; returns the time since the previous update.
    pub fn pass(&mut self, now: u64) -> Duration {
        let passed = Duration::from_nanos(now.saturating_sub(self.looked));
        self.looked = now;
        self.lasted += passed;
        passed
    }
}

/// A wait that has lasted until it slept.
#[derive(Clone, Copy, Debug)]
pub struct LongWait {
    /// The request that it waits for, if a request is all that it waits for.
    pub awaited: Option<RequestId>,
    /// The start of the wait by the kernel's clock: about the time of its first sleep.
    pub since: u64,
    /// The thread that waits, by [`WaitingSystem::thread_number`].
    pub thread: u64,
}

/// What ends the sleep of a thread that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeUp {
    /// The completion of a request, which is all that it waits for.
    Request(RequestId),
    /// The doorbell, which rings for each event that can end the wait.
    Doorbell,
    /// Nothing: between short sleeps it polls memory that others write without ringing.
    Nothing,
}

impl WakeUp {
    /// Returns the request, if its completion is all that the thread waits for.
    fn request(self) -> Option<RequestId> {
        match self {
            Self::Request(request) => Some(request),
            Self::Doorbell | Self::Nothing => None,
        }
    }
}

/// Makes progress until `done` returns true; `done` is called after each round. This is the only
/// way to wait in the library.
pub fn wait<W: Waiter>(waiter: &W, wake_up: WakeUp, done: &mut dyn FnMut(&W) -> bool) {
    if done(waiter) {
        return;
    }
    let awaited = wake_up.request();
    let room = waiter.room();
    let shares_kernel_thread = room.kernel.shares_kernel_thread();
    let mut wait_history = waiter.wait_history();
    let mut long_waits = room.long_waits.get();
    let mut sleep = Sleep::new(awaited, room.lock.arrivals());
    let mut note = waiter.begin_note(awaited);
    loop {
        let active = waiter.progress();
        if done(waiter) {
            break;
        }
        // The round of progress above has checked the processes since the count changed, so the
        // report is current.
        if long_waits != room.long_waits.get() {
            long_waits = room.long_waits.get();
            waiter.answer_inquiries(&sleep.long_wait(&room.kernel));
        }
        if active && (room.lock.present() <= 1 || sleep.is_watch()) {
            wait_history.renew(&room.patience);
            sleep.renew();
            if sleep.has_seen_much() {
                sleeping::look_around_in_time(waiter, &mut sleep);
            }
        } else if wake_up == WakeUp::Nothing {
            sleeping::look_again_soon(waiter, &mut wait_history, &mut sleep);
        } else if shares_kernel_thread {
            sleeping::let_others_run(waiter, &mut wait_history, &mut sleep);
        } else if pass(waiter, &mut wait_history, &mut sleep, done) {
            // An event for another thread's request does not restart this wait.
            break;
        }
        if let Some(note) = &mut note {
            note.rounds += 1;
            if note.rounds >= ROUNDS_PER_NOTE || sleep.has_slept() {
                note.rounds = 0;
                waiter.go_on_with_note(note);
            }
        }
    }
    if let Some(note) = note {
        waiter.end_note(note);
    }
    sleeping::rise(waiter, &sleep);
}

/// Lets time pass until there may be something to do; returns whether `done` returned true.
#[inline]
fn pass<W: Waiter>(
    waiter: &W,
    wait_history: &mut WaitHistory,
    sleep: &mut Sleep,
    done: &mut dyn FnMut(&W) -> bool,
) -> bool {
    let room = waiter.room();
    if !waiter.is_shared() {
        return wait_history.pass(&room.kernel, &room.patience) == WaitStage::Sleep
            && sleep_until_rung(waiter, sleep, done);
    }
    let mut stage = WaitStage::Spin;
    room.lock.share(|| {
        stage = wait_history.pass(&room.kernel, &room.patience);
        stage != WaitStage::Sleep
    });
    stage == WaitStage::Sleep && sleeping::sleep_beside_others(waiter, sleep, done)
}

/// Sleeps until the doorbell rings; returns whether `done` returned true before the sleep.
#[cold]
pub(super) fn sleep_until_rung<W: Waiter>(
    waiter: &W,
    sleep: &mut Sleep,
    done: &mut dyn FnMut(&W) -> bool,
) -> bool {
    let Some(doorbell) = waiter.doorbell().cloned() else { return false };
    let room = waiter.room();
    let ticket = doorbell.arm();
    // Three things do not ring: what arrived before the bell was armed; flags that were raised on
    // boards, which only `done` or an active operation checks; and a rail that has room again.
    let active = waiter.progress();
    if done(waiter) {
        return true;
    }
    if active {
        room.kernel.pass_core();
        return false;
    }
    let limit = if waiter.must_look_again() { sleep.next_nap() } else { SLEEP_MAX };
    let since = room.kernel.now();
    sleep.note_long(since);
    room.lock.without(|| doorbell.wait(ticket, limit));
    // The process that rang may have raised a flag that only the thread that waits for it checks.
    sleeping::wake_lookers(room);
    let now = room.kernel.now();
    let slept = Duration::from_nanos(now - since);
    waiter.note_sleep(slept);
    sleeping::look_around(waiter, sleep, now);
    false
}
