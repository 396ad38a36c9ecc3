//! Whether to look for a while before giving the core away, where processes outnumber cores.
//!
//! Two that exchange messages while both have a core go on together, each answering before the
//! other has given up, as long as the system lets them: that costs less than a change to another
//! process with each message. Where who is waited for has no core, each look is in vain. So a
//! process looks as long as what it looked in vain is a small part of its time; where it is not it
//! yields at once, and tries again seldom.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::WaitingSystem;

/// What the waits of a process have taught it. Its threads may use it all at once: what they lose
/// of each other's notes does not matter.
#[derive(Debug)]
pub struct Patience {
    is_there: AtomicBool,
    /// For how many nanoseconds it has looked in vain, less the allowed part of the time since.
    lost: AtomicU64,
    /// When that was reckoned up.
    reckoned: AtomicU64,
    /// How many waits have yielded at once since patience was lost or last tried.
    yields: AtomicU32,
    /// After how many of them it is tried again.
    yields_till_trial: AtomicU32,
}

/// One part in so many of a process's time may be looking in vain.
const ALLOWED_PART: u64 = 50;

/// Patience is lost with so much more than that: some waits in vain in a row, as after the system
/// has given cores to processes of which none waits for the other.
const LOSS_MAX: Duration = Duration::from_micros(32);

/// After so many waits that yielded at once patience is tried again; each trial in vain doubles
/// that, from the first to the last.
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
    /// Whether a wait that begins now looks for a while.
    #[inline]
    pub(super) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Relaxed)
    }

    /// A wait has looked in vain for so long, until now.
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

    /// A wait has yielded at once.
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

    /// Waits that look in vain, one in each `period`, until patience is lost; how many.
    fn vain_spins(patience: &Patience, mut now: u64, period: Duration) -> usize {
        let mut spins = 0;
        while patience.is_there() && spins < 1000 {
            now += period.as_nanos() as u64;
            patience.note_vain_spin(now, SPUN);
            spins += 1;
        }
        spins
    }

    /// Waits that yield at once until patience is tried again; how many.
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
