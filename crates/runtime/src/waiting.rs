//! Waiting: spin, then yield, then sleep.
//!
//! A yield costs about 0.2 µs, sleeping and being woken 24 to 43 µs (measured on virtual machines
//! of two cores). So whoever has a core of its own spins for a while; where processes outnumber
//! cores it yields from the first, as the message it waits for may be written by who gets the core;
//! where only threads of its own do, it looks a few times in between, as the peer may be at work on
//! another core; and whoever has waited long sleeps, and burns nothing.
//!
//! All of it sees the system as a [`WaitingSystem`], and who waits as a [`Waiter`], so that it also
//! runs in simulated time, where processes lose their cores and wake-ups come late (the crate
//! `sim`).

mod room;
mod sleeping;

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use queues::door::Threads;

pub use room::{LongWait, WaitNote, Waiter, WaitingThreads, wait};
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

/// There the clock is read once in this many rounds, some of which are system calls.
const ROUNDS_AMONG_THREADS: u32 = 4;

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
    /// When it yielded last to threads of its own process.
    yielded: Option<u64>,
    stage: WaitStage,
    /// After how long sleeping begins.
    awake_max: Duration,
    /// Whether others may be ready on the kernel thread of the one that waits.
    shares_kernel_thread: bool,
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
            yielded: None,
            stage,
            awake_max: AWAKE_MAX,
            shares_kernel_thread: false,
        }
    }

    /// The same, but whenever others are ready on the same kernel thread, these run at once.
    #[inline]
    pub fn on_shared_kernel_thread(self) -> Self {
        Self { shares_kernel_thread: true, ..self }
    }

    /// The same, but it sleeps soon, so that others have the core.
    #[inline]
    pub fn sparing(self) -> Self {
        Self { awake_max: AWAKE_MAX_IF_SPARING, ..self }
    }

    /// Something happened, though not what was waited for: the history begins anew.
    #[inline]
    pub fn renew(&mut self) {
        self.since = None;
        self.stage = Self::first_stage(self.core_sharing);
    }

    #[inline]
    fn first_stage(core_sharing: CoreSharing) -> WaitStage {
        if core_sharing == CoreSharing::Processes { WaitStage::Yield } else { WaitStage::Spin }
    }

    /// Passes the time of one round, and says whether it is time to sleep, which the caller does.
    #[inline]
    pub fn pass(&mut self, kernel: &impl WaitingSystem) -> WaitStage {
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
                self.yielded = None;
                kernel.pass_core();
            }
            WaitStage::Spin => kernel.spin(),
            WaitStage::Yield => kernel.pass_core(),
            WaitStage::Sleep => {}
        }
        self.stage
    }

    fn spin_among_threads(&mut self, kernel: &impl WaitingSystem) {
        if self.rounds % ROUNDS_AMONG_THREADS != 1 {
            kernel.spin();
            return;
        }
        let now = kernel.now();
        let spun = now - *self.yielded.get_or_insert(now);
        if Duration::from_nanos(spun) >= SPIN_AMONG_THREADS {
            kernel.pass_core();
            self.yielded = None;
        }
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
    use super::*;
    use crate::door::System;

    #[test]
    fn spins_then_yields_then_sleeps() {
        let mut wait_history = WaitHistory::new(CoreSharing::Exclusive);
        let mut stages = vec![wait_history.pass(&System)];
        while *stages.last().unwrap() != WaitStage::Sleep {
            let stage = wait_history.pass(&System);
            if stage != *stages.last().unwrap() {
                stages.push(stage);
            }
        }
        assert_eq!(stages.first(), Some(&WaitStage::Spin));
        wait_history.renew();
        assert_eq!(wait_history.pass(&System), WaitStage::Spin);
        assert_eq!(WaitHistory::new(CoreSharing::Processes).pass(&System), WaitStage::Yield);
    }
}
