//! Waiting: a thread first spins, then yields, then sleeps.
//!
//! A yield costs about 0.2 µs, sleeping and being woken 24 to 43 µs (measured on virtual machines
//! of two cores). How long a thread spins depends on the other users of its core ([`CoreSharing`]):
//!
//! - A thread with a core of its own spins for a while. If it then finds that processes of other
//!   jobs or containers wait on this core in turn with it, its next waits are like those of
//!   processes that outnumber cores.
//! - Where processes outnumber cores, or the threads of this process outnumber its cores, a thread
//!   spins for a few microseconds as long as such spins succeed often enough ([`SpinBudget`]).
//!   Otherwise it yields at once, as the thread that gets the core may be the one that sends the
//!   message, or whose message has arrived.
//! - A thread that has waited long sleeps, and uses no processor time.
//!
//! This code uses the system through [`WaitingSystem`] and the waiting process through [`Waiter`].
//! So it also runs in simulated time, in which processes lose their cores and wake-ups come late
//! (the crate `sim`).
//!
//! Why: docs/internals/decisions/0024-threads-look-in-turn-and-sleep-each-for-itself.md

mod poll_loop;
mod sleep;
mod sleeping;
mod spin_budget;
mod wait;
mod waiter;

use std::time::Duration;

pub use crate::system::WaitingSystem;
pub use poll_loop::PollLoop;
pub use sleep::LongWait;
pub use sleeping::wake_others;
pub use spin_budget::SpinBudget;
pub use wait::{WakeUp, wait};
pub use waiter::{News, WaitRecord, Waiter, WaitingThreads};

/// The longest time that a thread with a core of its own spins.
const SPIN_MAX: Duration = Duration::from_micros(200);

/// A wait of this length begins to sleep.
const AWAKE_MAX: Duration = Duration::from_millis(2);

/// A wait of this length begins to sleep if the process wants to spare the processor for its
/// program. It is about the time that a wake-up takes.
const AWAKE_MAX_IF_SPARING: Duration = Duration::from_micros(50);

/// Where threads outnumber cores, a wait spins for this time to twice this time before it yields
/// the core, if [`SpinBudget`] allows it. It is longer than a thread needs that gets the peer's
/// core and yields it at once.
const SPIN_IF_OVERSUBSCRIBED: Duration = Duration::from_micros(4);

/// In a short spin, and while yielding, the clock is read once in this many rounds, as some of
/// these rounds are system calls.
const ROUNDS_OF_SHORT_SPIN: u32 = 4;

/// The clock is read once in this many rounds.
const ROUNDS_PER_CHECK: u32 = 64;

/// The longest sleep of a thread that must look for news of the launcher itself, and the interval
/// at which a wait checks for failed processes unless it sleeps longer. It bounds the damage if a
/// ring of the doorbell were ever missed.
pub const SLEEP_MAX: Duration = Duration::from_millis(500);

/// The longest sleep of a thread that news of the launcher wakes. Such a sleep lasts as long as the
/// wait so far, so that a missed ring would double the wait at most.
const SLEEP_MAX_IF_NEWS_WAKES: Duration = Duration::from_secs(8);

/// The state of one wait: how long it has lasted, and what it does between two polls.
#[derive(Debug)]
pub struct WaitHistory {
    core_sharing: CoreSharing,
    /// Whether the job has a core for each process, although others may wait on this core as well.
    should_have_core: bool,
    rounds: u32,
    since: Option<u64>,
    /// Since when it has spun without yielding, where that is measured.
    spinning_since: Option<u64>,
    stage: WaitStage,
    /// The duration after which it sleeps.
    awake_max: Duration,
    /// Whether other threads may be ready on the kernel thread of the waiting thread.
    shares_kernel_thread: bool,
    /// Whether it spares the core for others: it then never spins before it yields to them.
    is_sparing: bool,
    /// Whether it spins for a while before it yields to others.
    may_spin: bool,
}

/// The competitors for the core of a thread that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreSharing {
    /// None: there is a core for each thread.
    Exclusive,
    /// Others: processes that together outnumber the cores, or threads of the same process that
    /// outnumber its cores.
    Shared,
}

/// What a wait does between two polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStage {
    /// Poll again immediately.
    Spin,
    /// Yield the core before the next poll.
    Yield,
    /// Sleep until something arrives.
    Sleep,
}

impl WaitHistory {
    /// Creates the state of a wait that begins now.
    #[inline]
    pub fn new(core_sharing: CoreSharing) -> Self {
        let stage = Self::first_stage(core_sharing);
        Self {
            core_sharing,
            should_have_core: core_sharing == CoreSharing::Exclusive,
            rounds: 0,
            since: None,
            spinning_since: None,
            stage,
            awake_max: AWAKE_MAX,
            shares_kernel_thread: false,
            is_sparing: false,
            may_spin: false,
        }
    }

    /// Lets this wait spin before it yields to others, if the spin budget `spin_budget` allows
    /// it, and share the core if earlier waits found others on it.
    #[inline]
    pub fn with(self, spin_budget: &SpinBudget) -> Self {
        if self.core_sharing == CoreSharing::Exclusive && !spin_budget.shares_core() {
            return self;
        }
        let may_spin = spin_budget.is_left();
        let stage = if may_spin { WaitStage::Spin } else { WaitStage::Yield };
        Self { core_sharing: CoreSharing::Shared, may_spin, stage, ..self }
    }

    /// Lets this wait yield at once whenever other threads are ready on the shared kernel thread.
    #[inline]
    pub fn on_shared_kernel_thread(self) -> Self {
        Self { shares_kernel_thread: true, ..self }
    }

    /// Lets this wait sleep soon, so that others get the core.
    #[inline]
    pub fn sparing(self) -> Self {
        let stage = Self::first_stage(self.core_sharing);
        let awake_max = AWAKE_MAX_IF_SPARING;
        Self { awake_max, is_sparing: true, may_spin: false, stage, ..self }
    }

    /// Restarts this wait, because something happened that was not the awaited event. Where
    /// threads outnumber cores, a restarted wait spins if the spin budget allows it, like a wait
    /// that begins now: a process that serves requests of others during one long wait spins for the
    /// next request if that pays.
    #[inline]
    pub fn renew(&mut self, spin_budget: &SpinBudget) {
        self.since = None;
        self.spinning_since = None;
        self.stage = WaitStage::Spin;
        if self.core_sharing == CoreSharing::Shared {
            self.rounds = 0;
            self.may_spin = !self.is_sparing && spin_budget.is_left();
            if !self.may_spin {
                self.stage = WaitStage::Yield;
            }
        }
    }

    #[inline]
    fn first_stage(core_sharing: CoreSharing) -> WaitStage {
        if core_sharing == CoreSharing::Shared { WaitStage::Yield } else { WaitStage::Spin }
    }

    /// Passes the time of one round, and returns the stage of the wait. If that is
    /// [`WaitStage::Sleep`], the caller must sleep.
    #[inline]
    pub fn pass(&mut self, kernel: &impl WaitingSystem, spin_budget: &SpinBudget) -> WaitStage {
        self.rounds += 1;
        if self.rounds.is_multiple_of(ROUNDS_PER_CHECK) {
            self.read_clock(kernel);
        }
        match self.stage {
            WaitStage::Spin | WaitStage::Yield
                if self.shares_kernel_thread && kernel.has_others_ready() =>
            {
                self.spinning_since = None;
                kernel.pass_core();
            }
            WaitStage::Spin if self.may_spin => self.spin_oversubscribed(kernel, spin_budget),
            WaitStage::Spin => kernel.spin(),
            WaitStage::Yield => {
                if self.rounds == 1 {
                    spin_budget.record_yield(kernel);
                }
                self.pass_core(kernel, spin_budget);
                // Others may have had the core for milliseconds.
                if self.rounds.is_multiple_of(ROUNDS_OF_SHORT_SPIN) {
                    self.read_clock(kernel);
                }
            }
            WaitStage::Sleep => {}
        }
        self.stage
    }

    fn spin_oversubscribed(&mut self, kernel: &impl WaitingSystem, spin_budget: &SpinBudget) {
        let limit = Self::oversubscribed_spin_max(self.spinning_since.unwrap_or(0));
        if let Some(now) = self.has_spun(limit, kernel) {
            spin_budget.record_wasted_spin(now, limit);
            self.stage = WaitStage::Yield;
            self.pass_core(kernel, spin_budget);
        }
    }

    /// Yields the core. If the job has a core for each process, the turn of others is timed.
    fn pass_core(&self, kernel: &impl WaitingSystem, spin_budget: &SpinBudget) {
        if !self.should_have_core {
            return kernel.pass_core();
        }
        let before = kernel.now();
        kernel.pass_core();
        spin_budget.record_turn_of_others(kernel.now() - before);
    }

    /// Returns how long a spin that begins at this time lasts. The duration varies: two processes
    /// that gave up at the same moment would find each other's cores taken again and again.
    fn oversubscribed_spin_max(since: u64) -> Duration {
        SPIN_IF_OVERSUBSCRIBED + SPIN_IF_OVERSUBSCRIBED / 8 * (since / 32 % 8) as u32
    }

    /// Passes the time of one poll. Returns the current time once the spin has lasted for `limit`.
    fn has_spun(&mut self, limit: Duration, kernel: &impl WaitingSystem) -> Option<u64> {
        if self.rounds % ROUNDS_OF_SHORT_SPIN != 1 {
            kernel.spin();
            return None;
        }
        let now = kernel.now();
        let spun = now - *self.spinning_since.get_or_insert(now);
        (Duration::from_nanos(spun) >= limit).then_some(now)
    }

    #[cold]
    fn read_clock(&mut self, kernel: &impl WaitingSystem) {
        let now = kernel.now();
        let waited = Duration::from_nanos(now - *self.since.get_or_insert(now));
        if waited >= self.awake_max {
            self.stage = WaitStage::Sleep;
        } else if waited >= SPIN_MAX {
            self.stage = WaitStage::Yield;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::entry_lock::Threads;
    use crate::system::System;

    #[test]
    fn spins_then_yields_then_sleeps() {
        let mut wait_history = WaitHistory::new(CoreSharing::Exclusive);
        let spin_budget = SpinBudget::default();
        let mut stages = vec![wait_history.pass(&System, &spin_budget)];
        while *stages.last().unwrap() != WaitStage::Sleep {
            let stage = wait_history.pass(&System, &spin_budget);
            if stage != *stages.last().unwrap() {
                stages.push(stage);
            }
        }
        assert_eq!(stages.first(), Some(&WaitStage::Spin));
        wait_history.renew(&spin_budget);
        assert_eq!(wait_history.pass(&System, &spin_budget), WaitStage::Spin);
        let mut oversubscribed = WaitHistory::new(CoreSharing::Shared);
        assert_eq!(oversubscribed.pass(&System, &spin_budget), WaitStage::Yield);
    }

    /// A clock that advances with each reading.
    #[derive(Debug, Default)]
    struct Clock {
        now: Cell<u64>,
        yields: Cell<u32>,
        /// How long other processes keep the core after a yield, in nanoseconds.
        turn: Cell<u64>,
    }

    impl Threads for Clock {
        fn pass_barrier(&self) {}

        fn sleep(&self, _: &AtomicU32, _: u32) {}

        fn wake(&self, _: &AtomicU32) {}

        fn wake_one(&self, _: &AtomicU32) {}

        fn pass_core(&self) {
            self.yields.set(self.yields.get() + 1);
            self.now.set(self.now.get() + self.turn.get());
        }

        fn now(&self) -> u64 {
            self.now.set(self.now.get() + 100);
            self.now.get()
        }
    }

    impl WaitingSystem for Clock {
        fn spin(&self) {}

        fn sleep_at_most(&self, _: &AtomicU32, _: u32, _: Duration) {}

        fn pause(&self, _: Duration) {}

        fn thread_number(&self) -> u64 {
            1
        }
    }

    /// Returns how many rounds a new wait makes before it first yields, and how long they last.
    fn rounds_till_yield(clock: &Clock, spin_budget: &SpinBudget) -> (u32, Duration) {
        rounds_of(WaitHistory::new(CoreSharing::Shared), clock, spin_budget)
    }

    /// Returns how many rounds `wait_history` makes before it first yields, and how long they last.
    fn rounds_of(
        wait_history: WaitHistory,
        clock: &Clock,
        spin_budget: &SpinBudget,
    ) -> (u32, Duration) {
        let mut wait_history = wait_history.with(spin_budget);
        let (yields, began) = (clock.yields.get(), clock.now.get());
        let mut rounds = 0;
        while clock.yields.get() == yields {
            wait_history.pass(clock, spin_budget);
            rounds += 1;
        }
        (rounds, Duration::from_nanos(clock.now.get() - began))
    }

    #[test]
    fn oversubscribed_waits_spin_only_while_few_spins_are_wasted() {
        let (clock, spin_budget) = (Clock::default(), SpinBudget::default());
        for _ in 0..100 {
            clock.now.set(clock.now.get() + 1_000_000);
            let (rounds, looked) = rounds_till_yield(&clock, &spin_budget);
            assert!(
                rounds > 1
                    && looked >= SPIN_IF_OVERSUBSCRIBED
                    && looked <= 2 * SPIN_IF_OVERSUBSCRIBED
            );
        }
        let wasted = (0..100).filter(|_| rounds_till_yield(&clock, &spin_budget).0 > 1).count();
        assert!((3..10).contains(&wasted), "{wasted} waits in a row looked in vain");
        assert_eq!(rounds_till_yield(&clock, &spin_budget).0, 1);
    }

    #[test]
    fn a_wait_that_serves_requests_spins_for_the_next_one_once_that_pays() {
        let (clock, spin_budget) = (Clock::default(), SpinBudget::default());
        while rounds_till_yield(&clock, &spin_budget).0 > 1 {}
        let mut wait_history = WaitHistory::new(CoreSharing::Shared).with(&spin_budget);
        let mut answered = 0;
        while wait_history.pass(&clock, &spin_budget) == WaitStage::Yield && answered < 10_000 {
            wait_history.renew(&spin_budget);
            answered += 1;
        }
        assert!((100..5000).contains(&answered), "{answered} questions before it looked");
        for _ in 0..10_000 {
            assert_eq!(wait_history.pass(&clock, &spin_budget), WaitStage::Spin);
            wait_history.renew(&spin_budget);
        }
    }

    #[test]
    fn a_wait_sleeps_in_time_although_others_have_the_core_for_long() {
        for core_sharing in [CoreSharing::Exclusive, CoreSharing::Shared] {
            let clock = Clock::default();
            clock.turn.set(10_000_000);
            let mut wait_history = WaitHistory::new(core_sharing);
            while wait_history.pass(&clock, &SpinBudget::default()) != WaitStage::Sleep {}
            let yields = clock.yields.get();
            assert!(yields <= 2 * ROUNDS_OF_SHORT_SPIN, "{yields} yields, each of which lasts");
        }
    }

    #[test]
    fn processes_that_wait_in_turn_on_a_core_find_that_they_share_it() {
        let (clock, spin_budget) = (Clock::default(), SpinBudget::default());
        let next = || {
            rounds_of(WaitHistory::new(CoreSharing::Exclusive), &clock, &spin_budget).1
                - turn(&clock)
        };
        // Nobody else is there.
        clock.turn.set(200);
        assert!(next() >= SPIN_MAX && next() >= SPIN_MAX);
        // A process that spins for SPIN_MAX, until it finds that it shares the core.
        clock.turn.set(SPIN_MAX.as_nanos() as u64);
        assert!(next() >= SPIN_MAX);
        assert!((0..10_000).all(|_| next() <= 2 * SPIN_IF_OVERSUBSCRIBED));
        clock.turn.set(SPIN_IF_OVERSUBSCRIBED.as_nanos() as u64);
        let short = (0..10_000).take_while(|_| next() <= 2 * SPIN_IF_OVERSUBSCRIBED).count();
        assert!((100..1000).contains(&short), "{short} waits before it spins again");
        // A program that computes takes its place, and keeps the core for its slice now and then.
        clock.turn.set(SPIN_MAX.as_nanos() as u64);
        assert!(next() >= SPIN_MAX && next() <= 2 * SPIN_IF_OVERSUBSCRIBED);
        clock.turn.set(3_000_000);
        assert!(next() <= 2 * SPIN_IF_OVERSUBSCRIBED);
        clock.turn.set(SPIN_MAX.as_nanos() as u64);
        let long = (0..10_000).take_while(|_| next() >= SPIN_MAX).count();
        assert!((1000..4000).contains(&long), "{long} waits before it shares the core again");
    }

    /// Returns how long others keep the core.
    fn turn(clock: &Clock) -> Duration {
        Duration::from_nanos(clock.turn.get())
    }

    #[test]
    fn a_wait_that_spares_the_core_yields_at_once() {
        let (clock, spin_budget) = (Clock::default(), SpinBudget::default());
        let mut sparing = WaitHistory::new(CoreSharing::Shared).with(&spin_budget).sparing();
        assert_eq!(sparing.pass(&clock, &spin_budget), WaitStage::Yield);
        sparing.renew(&spin_budget);
        assert_eq!(sparing.pass(&clock, &spin_budget), WaitStage::Yield);
    }
}
