//! The spin budget: whether a wait spins for a while before it yields, where processes outnumber
//! cores.
//!
//! Two processes that exchange messages while both have a core need not yield: each answers before
//! the spin of the other ends, as long as the system leaves them on their cores. That costs less
//! than a context switch per message. If the awaited process has no core, each spin is wasted. So a
//! process spins as long as wasted spins are a small part of its time. Beyond that part its waits
//! yield immediately, and it tries to spin again rarely.
//!
//! Why: docs/internals/decisions/0072-in-a-crowd-waits-look-as-long-as-that-pays.md

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::WaitingSystem;

/// The spin budget of a process, learned from its waits. Its threads may use it concurrently
/// without a lock: lost updates are harmless.
#[derive(Debug)]
pub struct Patience {
    is_there: AtomicBool,
    /// The wasted spin time in nanoseconds, less the allowed part of the time since.
    lost: AtomicU64,
    /// The time of the last update of `lost`, in nanoseconds.
    reckoned: AtomicU64,
    /// The number of waits that have yielded immediately since the budget ran out or was last tried
    /// again.
    yields: AtomicU32,
    /// The number of waits yielding immediately after which spinning is tried again.
    yields_till_trial: AtomicU32,
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

impl Default for Patience {
    fn default() -> Self {
        Self {
            is_there: AtomicBool::new(true),
            lost: AtomicU64::new(0),
            reckoned: AtomicU64::new(0),
            yields: AtomicU32::new(0),
            yields_till_trial: AtomicU32::new(YIELDS_TILL_TRIAL.0),
        }
    }
}

impl Patience {
    /// Whether a wait that begins now spins for a while.
    #[inline]
    pub(super) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Relaxed)
    }

    /// Records a wasted spin that lasted for `spun` and ended at `now`.
    pub(super) fn note_vain_spin(&self, now: u64, spun: Duration) {
        let (since, spun) = (self.reckoned.load(Ordering::Relaxed), spun.as_nanos() as u64);
        let allowed = now.saturating_sub(since) / ALLOWED_PART;
        if allowed >= spun {
            self.yields_till_trial.store(YIELDS_TILL_TRIAL.0, Ordering::Relaxed);
        }
        let lost = self.lost.load(Ordering::Relaxed).saturating_sub(allowed) + spun;
        self.lost.store(lost, Ordering::Relaxed);
        self.reckoned.store(now, Ordering::Relaxed);
        self.is_there.store(lost < LOSS_MAX.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Records that a wait yielded immediately.
    #[inline]
    pub(super) fn note_yield(&self, kernel: &impl WaitingSystem) {
        let yields = self.yields.load(Ordering::Relaxed) + 1;
        self.yields.store(yields, Ordering::Relaxed);
        if yields >= self.yields_till_trial.load(Ordering::Relaxed) {
            self.try_again(yields, kernel.now());
        }
    }

    #[cold]
    fn try_again(&self, yields: u32, now: u64) {
        self.yields.store(0, Ordering::Relaxed);
        let next = YIELDS_TILL_TRIAL.1.min(yields * 2);
        self.yields_till_trial.store(next, Ordering::Relaxed);
        self.lost.store(0, Ordering::Relaxed);
        self.reckoned.store(now, Ordering::Relaxed);
        self.is_there.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::System;

    const SPUN: Duration = Duration::from_micros(4);

    /// Records wasted spins, one in each `period`, until the budget runs out; returns their number.
    fn vain_spins(patience: &Patience, mut now: u64, period: Duration) -> usize {
        let mut spins = 0;
        while patience.is_there() && spins < 1000 {
            now += period.as_nanos() as u64;
            patience.note_vain_spin(now, SPUN);
            spins += 1;
        }
        spins
    }

    /// Records waits that yield immediately until spinning is tried again; returns their number.
    fn yields(patience: &Patience) -> u32 {
        let mut yields = 0;
        while !patience.is_there() {
            patience.note_yield(&System);
            yields += 1;
        }
        yields
    }

    #[test]
    fn patience_lasts_where_looking_is_seldom_in_vain() {
        let patience = Patience::default();
        assert_eq!(vain_spins(&patience, 0, Duration::from_micros(200)), 1000);
        assert_eq!(vain_spins(&Patience::default(), 0, Duration::ZERO), 8, "no more is allowed");
        assert_eq!(vain_spins(&Patience::default(), 0, Duration::from_micros(5)), 9);
        assert!(vain_spins(&Patience::default(), 0, Duration::from_micros(100)) < 20);
    }

    #[test]
    fn patience_is_tried_again_ever_more_seldom_until_it_pays() {
        let patience = Patience::default();
        vain_spins(&patience, 0, SPUN);
        let mut found = Vec::new();
        for _ in 0..8 {
            found.push(yields(&patience));
            let now = patience.reckoned.load(Ordering::Relaxed);
            assert!(vain_spins(&patience, now, SPUN) < 10);
        }
        assert_eq!(found, [128, 256, 512, 1024, 2048, 4096, 4096, 4096]);
        yields(&patience);
        let now = patience.reckoned.load(Ordering::Relaxed);
        vain_spins(&patience, now + 3_000_000, SPUN);
        assert_eq!(yields(&patience), 128);
    }
}
