//! How a process writes much into memory that another reads: through its caches, or past them.
//!
//! Bytes that the reader still has in its own cache must be taken from it before they are written
//! again. Where both cores share a cache that is cheap. Where they do not, it takes ten times as
//! long as to write past the caches. Which of both it is changes while a program runs, and so a
//! writer finds out: it times how it writes.

use std::cell::Cell;
use std::time::Duration;

/// Which stores a copy uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stores {
    /// Those of all programs, which keep what they write in this core's caches.
    Regular,
    /// Non-temporal ones, which write past the caches.
    NonTemporal,
}

/// How this process writes much.
#[derive(Debug, Default)]
pub struct Manner {
    past_caches: Cell<bool>,
    /// How many writes in a row were slow.
    slow: Cell<u32>,
    /// How many writes were not timed, in a row.
    untried: Cell<u32>,
}

/// Whether it took as long to write so many bytes as where the reader's cache has to give up each
/// line: that is 100 ps/B or more, and 400 where the reader has not written to the lines; otherwise
/// it takes 20 to 60.
fn is_slow(bytes: usize, time: Duration) -> bool {
    time.as_nanos() > 100 + bytes as u128 / 14
}

/// So often in a row, as whoever writes may also have been interrupted.
const SLOW_WRITES: u32 = 2;

/// Who writes through the caches looks how long that takes once in so many times.
const WRITES_BETWEEN_LOOKS: u32 = 8;

/// Who writes past the caches tries the other way once in so many times.
const WRITES_BETWEEN_TRIALS: u32 = 256;

impl Manner {
    /// Whether to write past the caches, unless the next write is timed.
    #[inline]
    pub fn is_past_caches(&self) -> bool {
        self.past_caches.get()
    }

    /// With which stores to write, unless the next write is timed.
    #[inline]
    pub fn stores(&self) -> Stores {
        if self.is_past_caches() { Stores::NonTemporal } else { Stores::Regular }
    }

    /// Whether the next write shall go through the caches and be timed.
    #[inline]
    pub fn tries(&self) -> bool {
        let untried = self.untried.get() + 1;
        let period = match self.past_caches.get() {
            true => WRITES_BETWEEN_TRIALS,
            // One that was slow is looked at again at once.
            false if self.slow.get() > 0 => 1,
            false => WRITES_BETWEEN_LOOKS,
        };
        let tries = untried >= period;
        self.untried.set(if tries { 0 } else { untried });
        tries
    }

    /// So long a write took that did not go past the caches.
    pub fn note(&self, bytes: usize, time: Duration) {
        self.slow.set(if is_slow(bytes, time) { self.slow.get() + 1 } else { 0 });
        self.past_caches.set(self.slow.get() >= SLOW_WRITES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_writes_slowly_goes_past_the_caches_and_comes_back() {
        let manner = Manner::default();
        let write = |microseconds| {
            let tries = manner.tries();
            if tries {
                manner.note(32 << 10, Duration::from_micros(microseconds));
            }
            tries
        };
        let (fast, slow) = (1, 10);
        let timed = (0..8 * WRITES_BETWEEN_LOOKS).filter(|_| write(fast)).count();
        assert!(timed == 8 && !manner.is_past_caches());
        while !write(slow) {}
        assert!(write(fast) && !manner.is_past_caches(), "one may have been interrupted");
        while !write(slow) {}
        assert!(write(slow) && manner.is_past_caches());
        let tried = (0..2 * WRITES_BETWEEN_TRIALS).filter(|_| write(slow)).count();
        assert!(tried == 2 && manner.is_past_caches());
        assert!((0..WRITES_BETWEEN_TRIALS).any(|_| write(fast)) && !manner.is_past_caches());
    }
}
