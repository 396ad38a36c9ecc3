//! Waiting: spin, then yield, then sleep.
//!
//! A yield costs about 0.2 µs, sleeping and being woken 24 to 43 µs (measured on virtual machines
//! of two cores). So whoever has a core of its own spins for a while; where processes outnumber
//! cores it yields from the first, as the message it waits for may be written by who gets the
//! core; and whoever has waited long sleeps, and burns nothing.

use std::hint;
use std::time::{Duration, Instant};

use sys::cores;

/// Spinning at most this long with a core of one's own.
const SPIN_MAX: Duration = Duration::from_micros(200);

/// Sleeping begins after waiting this long.
const AWAKE_MAX: Duration = Duration::from_millis(2);

/// The clock is read once in this many rounds.
const ROUNDS_PER_LOOK: u32 = 64;

/// The longest sleep: a bound for the damage if a bell were ever missed.
pub const SLEEP_MAX: Duration = Duration::from_millis(500);

/// One wait's memory of how long it has lasted.
#[derive(Debug)]
pub struct Patience {
    rounds: u32,
    since: Option<Instant>,
    stage: Stage,
}

/// What to do between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Look again at once.
    Spin,
    /// Let others have the core in between.
    Yield,
    /// Sleep until something arrives.
    Sleep,
}

impl Patience {
    /// A wait that begins now, or has just seen something happen; `crowded`: processes or their
    /// threads outnumber cores.
    #[inline]
    pub fn new(crowded: bool) -> Self {
        let stage = if crowded { Stage::Yield } else { Stage::Spin };
        Self { rounds: 0, since: None, stage }
    }

    /// Passes the time of one round, and says whether it is time to sleep, which the caller does.
    #[inline]
    pub fn pass(&mut self) -> Stage {
        self.rounds += 1;
        if self.rounds.is_multiple_of(ROUNDS_PER_LOOK) {
            self.look_at_clock();
        }
        match self.stage {
            Stage::Spin => hint::spin_loop(),
            Stage::Yield => cores::yield_now(),
            Stage::Sleep => {}
        }
        self.stage
    }

    #[cold]
    fn look_at_clock(&mut self) {
        let now = Instant::now();
        let waited = now - *self.since.get_or_insert(now);
        if waited >= AWAKE_MAX {
            self.stage = Stage::Sleep;
        } else if waited >= SPIN_MAX {
            self.stage = Stage::Yield;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spins_then_yields_then_sleeps() {
        let mut patience = Patience::new(false);
        let mut stages = vec![patience.pass()];
        while *stages.last().unwrap() != Stage::Sleep {
            let stage = patience.pass();
            if stage != *stages.last().unwrap() {
                stages.push(stage);
            }
        }
        assert_eq!(stages.first(), Some(&Stage::Spin));
        assert_eq!(Patience::new(true).pass(), Stage::Yield);
    }
}
