//! The spin budget: whether a wait spins for a while before it yields, where processes outnumber
//! cores, or threads the cores of their process.
//!
//! Two processes that exchange messages while both have a core need not yield: each answers before
//! the spin of the other ends, as long as the system leaves them on their cores. That costs less
//! than a context switch per message. If the awaited process has no core, each spin is wasted. So a
//! process spins as long as wasted spins are a small part of its time. Beyond that part its waits
//! yield immediately, and it tries to spin again rarely.
//!
//! Why: docs/internals/decisions/0072-in-a-crowd-waits-look-as-long-as-that-pays.md

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::{SPIN_MAX, WaitingSystem};

/// The spin budget of a process, learned from its waits. Its threads may use it concurrently
/// without a lock: lost updates are harmless.
#[derive(Debug)]
pub struct SpinBudget {
    is_left: AtomicBool,
    /// The wasted spin time in nanoseconds, less the allowed part of the time since.
    wasted_ns: AtomicU64,
    /// The time of the last update of `wasted_ns`, in nanoseconds.
    updated: AtomicU64,
    /// The number of waits that have yielded immediately since the budget ran out or was last tried
    /// again.
    yields: AtomicU32,
    /// The number of waits yielding immediately after which spinning is tried again.
    yields_till_trial: AtomicU32,
    /// The number of next waits that share their core although the job has a core for each process.
    /// Below zero, the number of next waits that do not, whatever others do.
    sharing_waits: AtomicI32,
}

/// One part in this many of a process's time may be wasted spins.
const ALLOWED_PART: u64 = 50;

/// The budget runs out when wasted spins exceed their allowed part by this much. That is several
/// waits in a row, such as follow when the system gives the cores to processes that do not wait for
/// each other.
const LOSS_MAX: Duration = Duration::from_micros(32);

/// After the first number of waits that yielded at once, spinning is tried again. Each trial that
/// fails doubles the number, up to the second one.
const YIELDS_TILL_TRIAL: (u32, u32) = (128, 4096);

/// The time for which another waiting process keeps the core, in nanoseconds. Kernel threads keep
/// it for less than the lower bound. A process that spins for [`SPIN_MAX`] keeps it for less than
/// the upper one. A program that computes keeps it for its time slice, which is longer (see
/// [`EXCLUSIVE_WAITS`]).
const TURN_OF_WAITING_PROCESS: RangeInclusive<u64> = 20_000..=2 * SPIN_MAX.as_nanos() as u64;

/// The number of waits for which a core counts as shared. The next wait spins for [`SPIN_MAX`] to
/// learn whether it still is: 1 % of the time of that many waits with a context switch or two.
const SHARING_WAITS: i32 = 512;

/// The number of waits for which a core does not count as shared after a program has kept it for
/// its time slice. Where one computes, a yield now and then costs a slice of 3 ms or more, and
/// another process of the job that computes for a short time between two waits looks like one that
/// waits: this bounds what that costs to 1 or 2 µs per wait.
const EXCLUSIVE_WAITS: i32 = 2048;

impl Default for SpinBudget {
    fn default() -> Self {
        Self {
            is_left: AtomicBool::new(true),
            wasted_ns: AtomicU64::new(0),
            updated: AtomicU64::new(0),
            yields: AtomicU32::new(0),
            yields_till_trial: AtomicU32::new(YIELDS_TILL_TRIAL.0),
            sharing_waits: AtomicI32::new(0),
        }
    }
}

impl SpinBudget {
    /// Whether a wait that begins now spins for a while.
    #[inline]
    pub(super) fn is_left(&self) -> bool {
        self.is_left.load(Ordering::Relaxed)
    }

    /// Records a wasted spin that lasted for `spun` and ended at `now`.
    pub(super) fn record_wasted_spin(&self, now: u64, spun: Duration) {
        let (since, spun) = (self.updated.load(Ordering::Relaxed), spun.as_nanos() as u64);
        let allowed = now.saturating_sub(since) / ALLOWED_PART;
        if allowed >= spun {
            self.yields_till_trial.store(YIELDS_TILL_TRIAL.0, Ordering::Relaxed);
        }
        let wasted_ns = self.wasted_ns.load(Ordering::Relaxed).saturating_sub(allowed) + spun;
        self.wasted_ns.store(wasted_ns, Ordering::Relaxed);
        self.updated.store(now, Ordering::Relaxed);
        self.is_left.store(wasted_ns < LOSS_MAX.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Records that a wait yielded immediately.
    #[inline]
    pub(super) fn record_yield(&self, kernel: &impl WaitingSystem) {
        let yields = self.yields.load(Ordering::Relaxed) + 1;
        self.yields.store(yields, Ordering::Relaxed);
        if yields >= self.yields_till_trial.load(Ordering::Relaxed) {
            self.try_again(yields, kernel.now());
        }
    }

    /// Records that others kept the core for `turn` nanoseconds after a yield.
    pub(super) fn record_turn_of_others(&self, turn: u64) {
        let waits = self.sharing_waits.load(Ordering::Relaxed);
        if turn > *TURN_OF_WAITING_PROCESS.end() {
            self.sharing_waits.store(-EXCLUSIVE_WAITS, Ordering::Relaxed);
        } else if waits >= 0 && TURN_OF_WAITING_PROCESS.contains(&turn) {
            self.sharing_waits.store(SHARING_WAITS, Ordering::Relaxed);
        }
    }

    /// Whether a wait that begins now shares its core although the job has a core for each process.
    #[inline]
    pub(super) fn shares_core(&self) -> bool {
        let waits = self.sharing_waits.load(Ordering::Relaxed);
        if waits != 0 {
            self.sharing_waits.store(waits - waits.signum(), Ordering::Relaxed);
        }
        waits > 0
    }

    #[cold]
    fn try_again(&self, yields: u32, now: u64) {
        self.yields.store(0, Ordering::Relaxed);
        let next = YIELDS_TILL_TRIAL.1.min(yields * 2);
        self.yields_till_trial.store(next, Ordering::Relaxed);
        self.wasted_ns.store(0, Ordering::Relaxed);
        self.updated.store(now, Ordering::Relaxed);
        self.is_left.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::System;

    const SPUN: Duration = Duration::from_micros(4);

    /// Records wasted spins, one in each `period`, until the budget runs out; returns their number.
    fn wasted_spins(spin_budget: &SpinBudget, mut now: u64, period: Duration) -> usize {
        let mut spins = 0;
        while spin_budget.is_left() && spins < 1000 {
            now += period.as_nanos() as u64;
            spin_budget.record_wasted_spin(now, SPUN);
            spins += 1;
        }
        spins
    }

    /// Records waits that yield immediately until spinning is tried again; returns their number.
    fn yields(spin_budget: &SpinBudget) -> u32 {
        let mut yields = 0;
        while !spin_budget.is_left() {
            spin_budget.record_yield(&System);
            yields += 1;
        }
        yields
    }

    #[test]
    fn the_budget_lasts_where_few_spins_are_wasted() {
        let spin_budget = SpinBudget::default();
        assert_eq!(wasted_spins(&spin_budget, 0, Duration::from_micros(200)), 1000);
        assert_eq!(
            wasted_spins(&SpinBudget::default(), 0, Duration::ZERO),
            8,
            "no more is allowed"
        );
        assert_eq!(wasted_spins(&SpinBudget::default(), 0, Duration::from_micros(5)), 9);
        assert!(wasted_spins(&SpinBudget::default(), 0, Duration::from_micros(100)) < 20);
    }

    #[test]
    fn spinning_is_tried_again_less_and_less_often_until_it_pays() {
        let spin_budget = SpinBudget::default();
        wasted_spins(&spin_budget, 0, SPUN);
        let mut found = Vec::new();
        for _ in 0..8 {
            found.push(yields(&spin_budget));
            let now = spin_budget.updated.load(Ordering::Relaxed);
            assert!(wasted_spins(&spin_budget, now, SPUN) < 10);
        }
        assert_eq!(found, [128, 256, 512, 1024, 2048, 4096, 4096, 4096]);
        yields(&spin_budget);
        let now = spin_budget.updated.load(Ordering::Relaxed);
        wasted_spins(&spin_budget, now + 3_000_000, SPUN);
        assert_eq!(yields(&spin_budget), 128);
    }
}
