//! Waiting: spin, then yield, then sleep.
//!
//! A yield costs about 0.2 µs, sleeping and being woken 24 to 43 µs (measured on virtual machines
//! of two cores). So whoever has a core of its own spins for a while; where processes outnumber
//! cores it looks for a few microseconds as long as that is seldom in vain ([`Patience`]), and else
//! yields from the first, as the message it waits for may be written by who gets the core; where
//! only threads of its own do, it looks a few times in between, as the peer may be at work on
//! another core; and whoever has waited long sleeps, and burns nothing.
//!
//! All of it sees the system as a [`WaitingSystem`], and who waits as a [`Waiter`], so that it also
//! runs in simulated time, where processes lose their cores and wake-ups come late (the crate
//! `sim`).

mod asking;
mod patience;
mod room;
mod sleeping;

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::door::Threads;

pub use asking::Asking;
pub use patience::Patience;
pub use room::{LongWait, WaitNote, Waiter, WaitingThreads, WakeUp, wait};
pub use sleeping::wake_others;

/// What waiting needs of the system besides what doors and locks do.
pub trait WaitingSystem: Threads + Default {
    /// Lets the time of one look pass.
    fn spin(&self);

    /// Sleeps while the word is `expected`, or shorter, and for `limit` at most.
    fn sleep_at_most(&self, word: &AtomicU32, expected: u32, limit: Duration);

    /// Sleeps for so long.
    fn pause(&self, duration: Duration);

    /// Whether the calling thread shares its kernel thread with others, which run while it waits
    /// and cannot while it looks.
    fn shares_kernel_thread(&self) -> bool {
        false
    }

    /// How many kernel threads those share with whom the calling thread shares one, if it does.
    fn workers(&self) -> Option<u32> {
        None
    }

    /// Whether another thread is ready to run on the kernel thread that the caller shares.
    fn has_others_ready(&self) -> bool {
        false
    }

    /// A number for the calling thread, never 0.
    fn thread_number(&self) -> u64;
}

/// Spinning at most this long with a core of one's own.
const SPIN_MAX: Duration = Duration::from_micros(200);

/// Sleeping begins after waiting this long.
const AWAKE_MAX: Duration = Duration::from_millis(2);

/// Of a process that wants the processor for its program: sleeping begins after waiting this long,
/// about as long as being woken takes.
const AWAKE_MAX_IF_SPARING: Duration = Duration::from_micros(50);

/// Where threads of one process outnumber its cores, one looks for so long before it yields: longer
/// than a change from thread to thread lasts, so that two that are at work on both sides go on
/// together.
const SPIN_AMONG_THREADS: Duration = Duration::from_micros(4);

/// Where processes outnumber cores, a wait looks for so long, and up to twice that, before it gives
/// the core away, if [`Patience`] says that this is worth it: longer than others take that get the
/// core of whom it waits for and give it back at once.
const SPIN_IN_CROWD: Duration = Duration::from_micros(4);

/// While looking for so short a time, or yielding, the clock is read once in this many rounds, some
/// of which are system calls.
const ROUNDS_OF_SHORT_SPIN: u32 = 4;

/// The clock is read once in this many rounds.
const ROUNDS_PER_LOOK: u32 = 64;

/// The longest sleep: a bound for the damage if a bell were ever missed.
pub const SLEEP_MAX: Duration = Duration::from_millis(500);

/// One wait's memory of how long it has lasted.
#[derive(Debug)]
pub struct WaitHistory {
    core_sharing: CoreSharing,
    rounds: u32,
    since: Option<u64>,
    /// Since when it has looked without yielding, where that is measured.
    spinning_since: Option<u64>,
    stage: WaitStage,
    /// After how long sleeping begins.
    awake_max: Duration,
    /// Whether others may be ready on the kernel thread of the one that waits.
    shares_kernel_thread: bool,
    /// Whether it wants the core for others, and never looks before it yields to processes.
    is_sparing: bool,
    /// Whether it looks for a while before it yields to processes.
    is_patient: bool,
}

/// Who else needs the core of whoever waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreSharing {
    /// There is a core for everybody.
    Exclusive,
    /// Threads of the same process, which outnumber its cores.
    Threads,
    /// Processes, which outnumber the cores.
    Processes,
}

/// What to do between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStage {
    /// Look again at once.
    Spin,
    /// Let others have the core in between.
    Yield,
    /// Sleep until something arrives.
    Sleep,
}

impl WaitHistory {
    /// A wait that begins now.
    #[inline]
    pub fn new(core_sharing: CoreSharing) -> Self {
        let stage = Self::first_stage(core_sharing);
        Self {
            core_sharing,
            rounds: 0,
            since: None,
            spinning_since: None,
            stage,
            awake_max: AWAKE_MAX,
            shares_kernel_thread: false,
            is_sparing: false,
            is_patient: false,
        }
    }

    /// The same, but where processes outnumber cores it looks for a while if that is worth it.
    #[inline]
    pub fn with(self, patience: &Patience) -> Self {
        let is_patient = self.core_sharing == CoreSharing::Processes && patience.is_there();
        let stage = if is_patient { WaitStage::Spin } else { self.stage };
        Self { is_patient, stage, ..self }
    }

    /// The same, but whenever others are ready on the same kernel thread, these run at once.
    #[inline]
    pub fn on_shared_kernel_thread(self) -> Self {
        Self { shares_kernel_thread: true, ..self }
    }

    /// The same, but it sleeps soon, so that others have the core.
    #[inline]
    pub fn sparing(self) -> Self {
        let stage = Self::first_stage(self.core_sharing);
        let awake_max = AWAKE_MAX_IF_SPARING;
        Self { awake_max, is_sparing: true, is_patient: false, stage, ..self }
    }

    /// Something happened, though not what was waited for: the history begins anew. Where processes
    /// outnumber cores it is as a wait that begins now: who answers others, for as long as a wait
    /// lasts, looks for the next question if that pays.
    #[inline]
    pub fn renew(&mut self, patience: &Patience) {
        self.since = None;
        self.spinning_since = None;
        self.stage = WaitStage::Spin;
        if self.core_sharing == CoreSharing::Processes {
            self.rounds = 0;
            self.is_patient = !self.is_sparing && patience.is_there();
            if !self.is_patient {
                self.stage = WaitStage::Yield;
            }
        }
    }

    #[inline]
    fn first_stage(core_sharing: CoreSharing) -> WaitStage {
        if core_sharing == CoreSharing::Processes { WaitStage::Yield } else { WaitStage::Spin }
    }

    /// Passes the time of one round, and says whether it is time to sleep, which the caller does.
    #[inline]
    pub fn pass(&mut self, kernel: &impl WaitingSystem, patience: &Patience) -> WaitStage {
        self.rounds += 1;
        if self.rounds.is_multiple_of(ROUNDS_PER_LOOK) {
            self.look_at_clock(kernel);
        }
        match self.stage {
            WaitStage::Spin if self.core_sharing == CoreSharing::Threads => {
                self.spin_among_threads(kernel)
            }
            WaitStage::Spin | WaitStage::Yield
                if self.shares_kernel_thread && kernel.has_others_ready() =>
            {
                self.spinning_since = None;
                kernel.pass_core();
            }
            WaitStage::Spin if self.is_patient => self.spin_in_crowd(kernel, patience),
            WaitStage::Spin => kernel.spin(),
            WaitStage::Yield => {
                if self.rounds == 1 {
                    patience.note_yield(kernel);
                }
                kernel.pass_core();
                // Others may have had the core for milliseconds.
                if self.rounds.is_multiple_of(ROUNDS_OF_SHORT_SPIN) {
                    self.look_at_clock(kernel);
                }
            }
            WaitStage::Sleep => {}
        }
        self.stage
    }

    fn spin_among_threads(&mut self, kernel: &impl WaitingSystem) {
        if self.has_spun(SPIN_AMONG_THREADS, kernel).is_some() {
            self.spinning_since = None;
            kernel.pass_core();
        }
    }

    fn spin_in_crowd(&mut self, kernel: &impl WaitingSystem, patience: &Patience) {
        let limit = Self::spin_in_crowd_max(self.spinning_since.unwrap_or(0));
        if let Some(now) = self.has_spun(limit, kernel) {
            patience.note_vain_spin(now, limit);
            self.stage = WaitStage::Yield;
            kernel.pass_core();
        }
    }

    /// How long to look from this time on. It is not always the same: two that give up at the same
    /// moment may find each other's cores taken again and again.
    fn spin_in_crowd_max(since: u64) -> Duration {
        SPIN_IN_CROWD + SPIN_IN_CROWD / 8 * (since / 32 % 8) as u32
    }

    /// Passes the time of a look; the time of the clock, once it has looked for so long.
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
    fn look_at_clock(&mut self, kernel: &impl WaitingSystem) {
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

    use super::*;
    use crate::system::System;

    #[test]
    fn spins_then_yields_then_sleeps() {
        let mut wait_history = WaitHistory::new(CoreSharing::Exclusive);
        let patience = Patience::default();
        let mut stages = vec![wait_history.pass(&System, &patience)];
        while *stages.last().unwrap() != WaitStage::Sleep {
            let stage = wait_history.pass(&System, &patience);
            if stage != *stages.last().unwrap() {
                stages.push(stage);
            }
        }
        assert_eq!(stages.first(), Some(&WaitStage::Spin));
        wait_history.renew(&patience);
        assert_eq!(wait_history.pass(&System, &patience), WaitStage::Spin);
        let mut crowded = WaitHistory::new(CoreSharing::Processes);
        assert_eq!(crowded.pass(&System, &patience), WaitStage::Yield);
    }

    /// A clock that goes on with each look at it.
    #[derive(Debug, Default)]
    struct Clock {
        now: Cell<u64>,
        yields: Cell<u32>,
        /// How long others have the core when they get it.
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

    /// How many rounds a wait that begins now makes before it yields, and for how long.
    fn rounds_till_yield(clock: &Clock, patience: &Patience) -> (u32, Duration) {
        let mut wait_history = WaitHistory::new(CoreSharing::Processes).with(patience);
        let (yields, began) = (clock.yields.get(), clock.now.get());
        let mut rounds = 0;
        while clock.yields.get() == yields {
            wait_history.pass(clock, patience);
            rounds += 1;
        }
        (rounds, Duration::from_nanos(clock.now.get() - began))
    }

    #[test]
    fn in_a_crowd_waits_look_for_a_while_only_as_long_as_that_is_seldom_in_vain() {
        let (clock, patience) = (Clock::default(), Patience::default());
        for _ in 0..100 {
            clock.now.set(clock.now.get() + 1_000_000);
            let (rounds, looked) = rounds_till_yield(&clock, &patience);
            assert!(rounds > 1 && looked >= SPIN_IN_CROWD && looked <= 2 * SPIN_IN_CROWD);
        }
        let in_vain = (0..100).filter(|_| rounds_till_yield(&clock, &patience).0 > 1).count();
        assert!((3..10).contains(&in_vain), "{in_vain} waits in a row looked in vain");
        assert_eq!(rounds_till_yield(&clock, &patience).0, 1);
    }

    #[test]
    fn who_answers_others_for_as_long_as_a_wait_lasts_looks_for_the_next_question_once_that_pays() {
        let (clock, patience) = (Clock::default(), Patience::default());
        while rounds_till_yield(&clock, &patience).0 > 1 {}
        let mut wait_history = WaitHistory::new(CoreSharing::Processes).with(&patience);
        let mut answered = 0;
        while wait_history.pass(&clock, &patience) == WaitStage::Yield && answered < 10_000 {
            wait_history.renew(&patience);
            answered += 1;
        }
        assert!((100..5000).contains(&answered), "{answered} questions before it looked");
        for _ in 0..10_000 {
            assert_eq!(wait_history.pass(&clock, &patience), WaitStage::Spin);
            wait_history.renew(&patience);
        }
    }

    #[test]
    fn a_wait_sleeps_in_time_although_others_have_the_core_for_long() {
        for core_sharing in [CoreSharing::Exclusive, CoreSharing::Processes] {
            let clock = Clock::default();
            clock.turn.set(10_000_000);
            let mut wait_history = WaitHistory::new(core_sharing);
            while wait_history.pass(&clock, &Patience::default()) != WaitStage::Sleep {}
            let yields = clock.yields.get();
            assert!(yields <= 2 * ROUNDS_OF_SHORT_SPIN, "{yields} yields, each of which lasts");
        }
    }

    #[test]
    fn who_wants_the_core_for_its_program_yields_at_once() {
        let (clock, patience) = (Clock::default(), Patience::default());
        let mut sparing = WaitHistory::new(CoreSharing::Processes).with(&patience).sparing();
        assert_eq!(sparing.pass(&clock, &patience), WaitStage::Yield);
        sparing.renew(&patience);
        assert_eq!(sparing.pass(&clock, &patience), WaitStage::Yield);
    }
}
