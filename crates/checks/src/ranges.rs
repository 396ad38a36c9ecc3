//! Memory as ranges of addresses.

use serde::{Deserialize, Serialize};

/// The bytes of a buffer: ranges in ascending order that neither touch nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRanges(Vec<(usize, usize)>);

impl MemoryRanges {
    /// Builds the set from ranges (address, length) in any order. Empty ranges are dropped, and
    /// ranges that touch or overlap are merged.
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

    /// Returns the first run of bytes that both sets contain, as (address, length).
    pub fn common(&self, other: &Self) -> Option<(usize, usize)> {
        let (few, many) = if self.0.len() <= other.0.len() { (self, other) } else { (other, self) };
        few.iter().find_map(|(address, length)| {
            let place = many.0.partition_point(|(first, before)| first + before <= address);
            let &(first, before) = many.0.get(place)?;
            let start = first.max(address);
            let end = (first + before).min(address + length);
            (start < end).then(|| (start, end - start))
        })
    }

    /// Adds all bytes of another set.
    pub fn add(&mut self, other: &Self) {
        for (address, length) in other.iter() {
            let end = address + length;
            // All ranges that touch the new range are merged with it.
            let first = self.0.partition_point(|(one, before)| one + before < address);
            let last = first + self.0[first..].partition_point(|(one, _)| *one <= end);
            let touching = self.0[first..last].iter();
            let (start, end) = touching.fold((address, end), |(start, end), &(one, before)| {
                (start.min(one), end.max(one + before))
            });
            self.0.splice(first..last, [(start, end - start)]);
        }
    }

    /// Returns the bytes of this set that lie in the memory from `address` on, with their addresses
    /// changed as if that memory began at `base`. `None` if no byte of the set lies there.
    pub fn within(&self, address: usize, length: usize, base: usize) -> Option<Self> {
        let end = address + length;
        let first = self.0.partition_point(|(one, before)| one + before <= address);
        let inside = self.0[first..].iter().take_while(|(one, _)| *one < end);
        let moved = inside.map(|&(one, before)| {
            let (start, stop) = (one.max(address), (one + before).min(end));
            (start - address + base, stop - start)
        });
        let moved: Vec<_> = moved.collect();
        (!moved.is_empty()).then_some(Self(moved))
    }

    /// The number of ranges.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set contains no bytes.
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
    fn what_lies_inside_is_moved() {
        let ranges = MemoryRanges::new(vec![(0, 4), (8, 4), (16, 4)]);
        let inside = |address, length| {
            let moved = ranges.within(address, length, 100);
            moved.map(|moved| moved.iter().collect::<Vec<_>>())
        };
        assert_eq!(inside(2, 8), Some(vec![(100, 2), (106, 2)]));
        assert_eq!(inside(4, 4), None);
        assert_eq!(inside(20, 80), None);
        assert_eq!(inside(0, 20), Some(vec![(100, 4), (108, 4), (116, 4)]));
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
