//! The threads of a process that sleep, and the state of one wait's sleeps.

use std::cell::{Cell, RefCell};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use engine::RequestId;

use super::wait::WakeUp;
use super::waiter::Waiter;
use super::{SLEEP_MAX, SLEEP_MAX_IF_NEWS_WAKES};
use crate::system::WaitingSystem;

/// The sleeping threads of a process.
#[derive(Debug, Default)]
pub(in crate::waiting) struct SleepingThreads {
    pub(super) asleep: RefCell<Vec<Sleeper>>,
    /// What the designated waiter waits for, as long as it is asleep.
    pub(super) designated: Cell<Option<Awaited>>,
    /// Whether threads that share kernel threads have a designated waiter.
    pub(super) has_shared_designated: Cell<bool>,
}

/// The request whose completion is all that a thread waits for. If there is none, the thread must
/// wake up and check its condition itself.
pub(super) type Awaited = Option<RequestId>;

#[derive(Debug)]
pub(super) struct Sleeper {
    pub(super) awaited: Awaited,
    pub(super) word: Arc<AtomicU32>,
}

/// The state of one wait's sleeps.
#[derive(Debug)]
pub(super) struct Sleep {
    pub(super) awaited: Awaited,
    /// Whether it waits for memory for which no doorbell rings.
    reads_memory: bool,
    /// The lock's count of arrivals when this wait last read it.
    pub(super) arrivals: u32,
    /// Whether this wait has been the designated waiter.
    pub(super) was_designated: bool,
    /// Whether this wait is the designated waiter of threads that share kernel threads.
    pub(super) is_shared_designated: bool,
    /// The duration of the next sleep while something is pending for which no doorbell rings.
    pub(super) short_sleep: Duration,
    /// The time of its first sleep; 0 if it has not slept.
    since: u64,
    /// The time of its last check for failed processes and inquiries, or the time from which the
    /// interval until the first check counts; 0 if neither has happened.
    checked: u64,
    /// The number of rounds in which something happened that was not the awaited event.
    active_rounds: u32,
    /// How many times it has yielded to ready threads before its first sleep.
    pub(super) turns: u32,
    /// Whether the core of its thread is lent to other processes.
    lends_core: bool,
    /// Whether it has told the process that it sleeps.
    is_recorded: bool,
}

pub(super) const ASLEEP: u32 = 0;
/// Its request is complete, or it must check its condition itself.
pub(super) const WOKEN: u32 = 1;
/// It is the designated waiter from now on, even if it no longer waits for anything: it then wakes
/// the next one.
pub(super) const DESIGNATED: u32 = 2;

/// The clock is read once in this many rounds in which something happened.
const ACTIVE_ROUNDS_PER_CHECK: u32 = 256;

/// While something is pending for which no doorbell rings, the wait polls after the first duration.
/// Each poll without result doubles it, up to the second one.
const POLL_INTERVALS: (Duration, Duration) = (Duration::from_micros(25), Duration::from_millis(5));

/// A wait for memory for which no doorbell rings, or for room in a rail, looks about this many
/// times while its duration doubles, so that it ends late by at most this part of its duration.
const LOOKS_PER_DOUBLING: u32 = 8;

/// The shortest interval between two such looks.
const LOOK_INTERVAL_MIN: Duration = Duration::from_micros(100);

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

impl Sleep {
    /// Creates the state of a wait that begins when the lock counts `arrivals`.
    pub(super) fn new(wake_up: WakeUp, arrivals: u32) -> Self {
        Self {
            awaited: wake_up.request(),
            reads_memory: wake_up == WakeUp::Nothing,
            arrivals,
            was_designated: false,
            is_shared_designated: false,
            short_sleep: POLL_INTERVALS.0,
            since: 0,
            checked: 0,
            active_rounds: 0,
            turns: 0,
            lends_core: false,
            is_recorded: false,
        }
    }

    /// Records that the wait sleeps, at time `now`.
    pub(super) fn note_long(&mut self, now: u64) {
        if self.since == 0 {
            self.since = now;
        }
    }

    /// Prepares for a sleep of the calling thread. Lends its core until the wait ends: it uses
    /// little time for what arrives in between.
    pub(super) fn begin(&mut self, waiter: &impl Waiter) {
        if !mem::replace(&mut self.is_recorded, true) {
            waiter.begin_sleeps();
        }
        if !self.lends_core {
            self.lends_core = waiter.lend_core();
        }
    }

    /// Ends what [`begin`](Self::begin) began, at the end of the wait.
    #[inline]
    pub(super) fn end(&self, waiter: &impl Waiter) {
        if self.is_recorded {
            waiter.end_sleeps();
        }
        if self.lends_core {
            waiter.take_core_back();
        }
    }

    /// Returns a description of this wait of the calling thread, for reports such as that of
    /// `combray ps`.
    pub(super) fn long_wait(&self, kernel: &impl WaitingSystem) -> LongWait {
        let since = if self.since == 0 { kernel.now() } else { self.since };
        LongWait { awaited: self.awaited, since, thread: kernel.thread_number() }
    }

    /// Whether this wait has slept.
    pub(super) fn has_slept(&self) -> bool {
        self.since != 0
    }

    /// Records that something happened: sleeps are short again.
    pub(super) fn renew(&mut self) {
        self.short_sleep = POLL_INTERVALS.0;
        self.active_rounds = self.active_rounds.wrapping_add(1);
    }

    /// Whether the clock must be read, because so many active rounds have passed that time may have
    /// elapsed without a sleep.
    pub(super) fn has_seen_much(&self) -> bool {
        self.active_rounds.is_multiple_of(ACTIVE_ROUNDS_PER_CHECK)
    }

    /// Whether a check for failed processes is due; if so, restarts the interval. The interval does
    /// not depend on what ends a sleep or happens meanwhile, as none of that reveals a failed
    /// process.
    pub(super) fn is_check_due(&mut self, now: u64) -> bool {
        if self.checked == 0 {
            self.checked = if self.since == 0 { now } else { self.since };
        }
        let is_long = Duration::from_nanos(now.saturating_sub(self.checked)) >= SLEEP_MAX;
        if is_long {
            self.checked = now;
        }
        is_long
    }

    /// Returns how long the wait, whose first sleep has begun, sleeps from time `now` on at most.
    /// `news_wakes` means that news of the launcher ends the sleep.
    pub(super) fn longest(&self, now: u64, news_wakes: bool) -> Duration {
        let waited = Duration::from_nanos(now.saturating_sub(self.since));
        if self.reads_memory {
            return self.part_of_wait(now).clamp(LOOK_INTERVAL_MIN, SLEEP_MAX);
        }
        waited.clamp(SLEEP_MAX, if news_wakes { SLEEP_MAX_IF_NEWS_WAKES } else { SLEEP_MAX })
    }

    /// Returns how long to sleep from time `now` on while something is pending for which no
    /// doorbell rings, and doubles the duration for the next time. If only room is awaited, sleeps
    /// get longer with the wait: thousands of ranks may wait for the ring of one.
    pub(super) fn next_short_sleep(&mut self, now: u64, only_room: bool) -> Duration {
        let part = if only_room { self.part_of_wait(now) } else { Duration::ZERO };
        let longest = part.clamp(POLL_INTERVALS.1, SLEEP_MAX);
        let longer = longest.min(self.short_sleep * 2);
        mem::replace(&mut self.short_sleep, longer)
    }

    /// Returns the part of its duration by which a wait that looks from time to time may end late.
    fn part_of_wait(&self, now: u64) -> Duration {
        Duration::from_nanos(now.saturating_sub(self.since)) / LOOKS_PER_DOUBLING
    }

    /// Whether this wait is a designated waiter, which makes progress for all threads.
    pub(super) fn is_designated(&self) -> bool {
        self.was_designated || self.is_shared_designated
    }
}

impl Sleeper {
    pub(super) fn wake(&self, how: u32, kernel: &impl WaitingSystem) {
        self.word.store(how, Ordering::Release);
        kernel.wake_one(&self.word);
    }
}
