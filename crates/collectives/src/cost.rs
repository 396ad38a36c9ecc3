//! The predicted time of an algorithm.

use std::fmt;
use std::ops::{Add, Mul};

/// A predicted time. Arithmetic saturates: a time too long to represent is the longest one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost(u128);

impl Cost {
    pub(crate) fn of_picoseconds(picoseconds: u128) -> Self {
        Self(picoseconds)
    }

    /// Returns the time in microseconds, for display.
    pub fn microseconds(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Mul<u64> for Cost {
    type Output = Self;

    fn mul(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count.into()))
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.microseconds() {
            time if time < 10.0 => write!(f, "{time:.2} us"),
            time if time < 1e4 => write!(f, "{time:.0} us"),
            time if time < 1e7 => write!(f, "{:.0} ms", time / 1e3),
            time => write!(f, "{:.0} s", time / 1e6),
        }
    }
}
