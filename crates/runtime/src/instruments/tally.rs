//! One tool's view of a performance variable: for each handle a counter starts at zero, and counts
//! only between start and stop (section 15.3.7 of the MPI standard).

use super::performance::VariableClass;

/// The value of a variable as one handle sees it.
#[derive(Clone, Copy, Debug)]
pub enum Tally {
    /// The value of the process.
    Whole,
    /// The increase while it ran.
    Sum {
        /// The increase before the last start.
        total: u64,
        /// The value of the process at the last start; none if stopped.
        since: Option<u64>,
    },
    /// The highest value while it ran.
    Peak {
        /// The highest value.
        highest: u64,
        /// Whether it runs.
        running: bool,
    },
}

impl Tally {
    /// Creates the view of a variable of this class; stopped, if the class can be stopped.
    pub fn new(class: VariableClass) -> Self {
        match class {
            VariableClass::Level | VariableClass::Size => Tally::Whole,
            VariableClass::HighWatermark => Tally::Peak { highest: 0, running: false },
            VariableClass::Counter | VariableClass::Aggregate | VariableClass::Timer => {
                Tally::Sum { total: 0, since: None }
            }
        }
    }

    /// Whether it counts now.
    pub fn is_running(&self) -> bool {
        match *self {
            Tally::Whole => true,
            Tally::Sum { since, .. } => since.is_some(),
            Tally::Peak { running, .. } => running,
        }
    }

    /// Starts or continues to count; `now` is the value of the process.
    pub fn start(&mut self, now: u64) {
        match self {
            Tally::Whole => {}
            Tally::Sum { since, .. } => *since = since.or(Some(now)),
            Tally::Peak { highest, running } => {
                *running = true;
                *highest = now.max(*highest);
            }
        }
    }

    /// Stops counting; `now` is the value of the process.
    pub fn stop(&mut self, now: u64) {
        let value = self.value(now);
        match self {
            Tally::Whole => {}
            Tally::Sum { total, since } => (*total, *since) = (value, None),
            Tally::Peak { running, .. } => *running = false,
        }
    }

    /// Resets the value, whether it runs or not: to zero, or for a peak to the current level `now`.
    pub fn reset(&mut self, now: u64) {
        let anew = if matches!(self, Tally::Peak { .. }) { now } else { 0 };
        self.write(now, anew);
    }

    /// Sets the value; counting continues from there.
    pub fn write(&mut self, now: u64, value: u64) {
        match self {
            Tally::Whole => {}
            Tally::Sum { total, since } => (*total, *since) = (value, since.map(|_| now)),
            Tally::Peak { highest, .. } => *highest = value,
        }
    }

    /// Updates the peak by the highest value since the last update.
    pub fn notice(&mut self, peak: u64) {
        if let Tally::Peak { highest, running: true } = self {
            *highest = peak.max(*highest);
        }
    }

    /// Returns the value; `now` is the value of the process.
    pub fn value(&self, now: u64) -> u64 {
        match *self {
            Tally::Whole => now,
            Tally::Sum { total, since } => {
                total.wrapping_add(since.map_or(0, |since| now.wrapping_sub(since)))
            }
            Tally::Peak { highest, .. } => highest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_counts_between_start_and_stop() {
        let mut tally = Tally::new(VariableClass::Counter);
        assert_eq!((tally.value(10), tally.is_running()), (0, false));
        tally.start(10);
        tally.start(12);
        assert_eq!(tally.value(15), 5);
        tally.stop(17);
        assert_eq!(tally.value(100), 7);
        tally.start(100);
        assert_eq!(tally.value(101), 8);
        tally.reset(101);
        assert_eq!(tally.value(104), 3);
        tally.write(104, 40);
        tally.stop(105);
        assert_eq!(tally.value(200), 41);
    }

    #[test]
    fn a_peak_is_the_highest_while_it_runs() {
        let mut tally = Tally::new(VariableClass::HighWatermark);
        tally.notice(9);
        assert_eq!(tally.value(0), 0);
        tally.start(2);
        tally.notice(7);
        tally.notice(3);
        assert_eq!(tally.value(0), 7);
        tally.stop(3);
        tally.notice(20);
        assert_eq!(tally.value(0), 7);
        tally.reset(4);
        assert_eq!(tally.value(0), 4);
    }

    #[test]
    fn a_level_is_what_it_is() {
        let mut tally = Tally::new(VariableClass::Level);
        tally.start(1);
        tally.reset(1);
        assert_eq!(tally.value(5), 5);
        assert!(tally.is_running());
    }
}
