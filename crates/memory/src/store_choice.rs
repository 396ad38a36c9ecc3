//! The choice of how a process writes large data into memory that another process reads: through
//! its caches, or past them.
//!
//! Lines that the reader still has in its own cache must be taken from it before they are written
//! again. If both cores share a cache, that is cheap. If not, it takes ten times as long as to
//! write past the caches. Which case applies changes while a program runs, so a writer measures: it
//! times its writes.

use std::cell::Cell;
use std::time::Duration;

/// The store instructions that a copy uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stores {
    /// Ordinary stores, which keep the written lines in this core's caches.
    Regular,
    /// Non-temporal stores, which write past the caches.
    NonTemporal,
}

/// The current choice of this process for large writes.
#[derive(Debug, Default)]
pub struct StoreChoice {
    past_caches: Cell<bool>,
    /// The number of slow writes in a row.
    slow: Cell<u32>,
    /// The number of writes in a row that were not timed.
    untried: Cell<u32>,
}

/// Whether the write of `bytes` bytes was as slow as one for which the reader's cache must give up
/// each line. Such a write takes 100 ps per byte or more, and 400 if the reader has not written to
/// the lines; other writes take 20 to 60.
fn is_slow(bytes: usize, time: Duration) -> bool {
    time.as_nanos() > 100 + bytes as u128 / 14
}

/// After this many slow writes in a row the choice changes; a single slow write may be due to an
/// interrupt.
const SLOW_WRITES: u32 = 2;

/// A process that writes through the caches times one of this many writes.
const WRITES_BETWEEN_CHECKS: u32 = 8;

/// A process that writes past the caches tries a write through them once in this many writes.
const WRITES_BETWEEN_TRIALS: u32 = 256;

impl StoreChoice {
    /// Whether to write past the caches, unless the next write is timed.
    #[inline]
    pub fn is_past_caches(&self) -> bool {
        self.past_caches.get()
    }

    /// Returns the stores to use, unless the next write is timed.
    #[inline]
    pub fn stores(&self) -> Stores {
        if self.is_past_caches() { Stores::NonTemporal } else { Stores::Regular }
    }

    /// Whether the next write must go through the caches and be timed.
    #[inline]
    pub fn tries(&self) -> bool {
        let untried = self.untried.get() + 1;
        let period = match self.past_caches.get() {
            true => WRITES_BETWEEN_TRIALS,
            // The write after a slow one is timed immediately.
            false if self.slow.get() > 0 => 1,
            false => WRITES_BETWEEN_CHECKS,
        };
        let tries = untried >= period;
        self.untried.set(if tries { 0 } else { untried });
        tries
    }

    /// Records how long a write through the caches took.
    pub fn note(&self, bytes: usize, time: Duration) {
        self.slow.set(if is_slow(bytes, time) { self.slow.get() + 1 } else { 0 });
        self.past_caches.set(self.slow.get() >= SLOW_WRITES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_writes_slowly_goes_past_the_caches_and_comes_back() {
        let store_choice = StoreChoice::default();
        let write = |microseconds| {
            let tries = store_choice.tries();
            if tries {
                store_choice.note(32 << 10, Duration::from_micros(microseconds));
            }
            tries
        };
        let (fast, slow) = (1, 10);
        let timed = (0..8 * WRITES_BETWEEN_CHECKS).filter(|_| write(fast)).count();
        assert!(timed == 8 && !store_choice.is_past_caches());
        while !write(slow) {}
        assert!(write(fast) && !store_choice.is_past_caches(), "one may have been interrupted");
        while !write(slow) {}
        assert!(write(slow) && store_choice.is_past_caches());
        let tried = (0..2 * WRITES_BETWEEN_TRIALS).filter(|_| write(slow)).count();
        assert!(tried == 2 && store_choice.is_past_caches());
        assert!((0..WRITES_BETWEEN_TRIALS).any(|_| write(fast)) && !store_choice.is_past_caches());
    }
}
