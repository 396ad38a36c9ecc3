//! Memory as ranges of addresses.

use serde::{Deserialize, Serialize};

/// The bytes of a buffer: ranges in ascending order that neither touch nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRanges(Vec<(usize, usize)>);

impl MemoryRanges {
    /// Those that these make up, as (address, length), in whatever order.
    pub fn new(mut ranges: Vec<(usize, usize)>) -> Self {
        ranges.retain(|&(_, length)| length > 0);
        ranges.sort_unstable();
        let mut merged: Vec<(usize, usize)> = Vec::with_capacity(ranges.len().min(16));
        for (address, length) in ranges {
            match merged.last_mut() {
                Some((first, before)) if address <= *first + *before => {
                    *before = (*before).max(address + length - *first);
                }
                _ => merged.push((address, length)),
            }
        }
        Self(merged)
    }

    /// The first bytes that both have: their address, and how many they are in a row.
    pub fn common(&self, other: &Self) -> Option<(usize, usize)> {
        let (mut own, mut others) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(&&(a, a_bytes)), Some(&&(b, b_bytes))) = (own.peek(), others.peek()) {
            let (first, end) = (a.max(b), (a + a_bytes).min(b + b_bytes));
            if first < end {
                return Some((first, end - first));
            }
            if a + a_bytes <= b + b_bytes {
                own.next();
            } else {
                others.next();
            }
        }
        None
    }

    /// Adds those of another.
    pub fn add(&mut self, other: &Self) {
        // What follows what is there is frequent.
        let last = self.0.last().map_or(0, |(address, length)| address + length);
        match other.0[..] {
            [(address, length)] if !self.0.is_empty() && address >= last => match address - last {
                0 => self.0.last_mut().into_iter().for_each(|(_, before)| *before += length),
                _ => self.0.push((address, length)),
            },
            _ => *self = Self::new(self.iter().chain(other.iter()).collect()),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges, as (address, length).
    pub fn iter(&self) -> impl Iterator<Item = (usize, usize)> {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bytes_that_both_have_are_common() {
        let columns = |first: usize| {
            MemoryRanges::new((0..4).rev().map(|row| (first + row * 16, 4)).collect())
        };
        assert_eq!(columns(0).common(&columns(4)), None);
        assert_eq!(columns(0).common(&columns(2)), Some((2, 2)));
        assert_eq!(columns(18).common(&columns(0)), Some((18, 2)));
        assert_eq!(columns(0).common(&MemoryRanges::default()), None);
        assert_eq!(columns(0).common(&MemoryRanges::new(vec![(4, 12), (51, 1)])), Some((51, 1)));
    }

    #[test]
    fn what_is_added_is_merged() {
        let mut ranges = MemoryRanges::default();
        assert!(ranges.is_empty());
        for (address, length) in [(8, 4), (12, 4), (20, 4), (0, 4), (10, 1), (4, 4), (16, 4)] {
            ranges.add(&MemoryRanges::new(vec![(address, length)]));
        }
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [(0, 24)]);
    }

    #[test]
    fn what_touches_is_one_range() {
        let ranges = MemoryRanges::new(vec![(8, 8), (0, 8), (4, 2), (20, 0), (30, 1)]);
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [(0, 16), (30, 1)]);
    }
}
