//! The calls from one place by the size of their data.

use profiles::SizeTotals;

use super::seconds_of_ticks;

/// A range of sizes: above half of a power of two, and up to that power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SizeClass(u8);

impl SizeClass {
    /// Returns the range of a number of bytes. 0 bytes have a range of their own, the default.
    pub(super) fn of(bytes: u64) -> Self {
        Self(bytes.checked_sub(1).map_or(0, |less| (65 - less.leading_zeros()).min(64) as u8))
    }

    /// Returns the largest number of bytes in the range.
    fn bytes_max(self) -> u64 {
        self.0.checked_sub(1).map_or(0, |power| 1 << power)
    }
}

/// The number of calls and their time, by the size of their data.
#[derive(Debug, Default)]
pub(super) struct SizeSums {
    all: Vec<SizeSum>,
    /// The size of the data of the last call for which it was determined.
    pub(super) last: SizeClass,
}

#[derive(Debug)]
struct SizeSum {
    size: SizeClass,
    calls: u64,
    ticks: u64,
}

impl SizeSums {
    /// Adds so many calls, which took so many ticks in all.
    pub(super) fn add(&mut self, size: SizeClass, calls: u64, ticks: u64) {
        match self.all.iter_mut().find(|one| one.size == size) {
            Some(sum) => (sum.calls, sum.ticks) = (sum.calls + calls, sum.ticks + ticks),
            None => self.all.push(SizeSum { size, calls, ticks }),
        }
    }

    pub(super) fn totals(&self, ns_per_tick: f64) -> Vec<SizeTotals> {
        let total = |one: &SizeSum| SizeTotals {
            bytes_max: one.size.bytes_max(),
            calls: one.calls,
            seconds: seconds_of_ticks(one.ticks, ns_per_tick),
        };
        self.all.iter().map(total).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_ends_at_a_power_of_two() {
        let maxima = [(0, 0), (1, 1), (2, 2), (3, 4), (1024, 1024), (1025, 2048)];
        for (bytes, expected) in maxima.into_iter().chain([(u64::MAX, 1 << 63)]) {
            assert_eq!(SizeClass::of(bytes).bytes_max(), expected, "{bytes}");
        }
    }
}
