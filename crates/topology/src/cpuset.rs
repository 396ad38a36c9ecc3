//! Sets of hardware threads.

use std::fmt;

/// A set of hardware threads by the kernel's numbers; it also serves for NUMA nodes. Displayed as a
/// list: `0-3,8`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuSet {
    /// The bits, least significant word first. The last word is not 0.
    words: Vec<u64>,
}

/// Numbers are below this limit, which exceeds what any kernel supports.
const NUMBER_MAX: usize = 1 << 16;

impl CpuSet {
    /// Parses hwloc's notation: hexadecimal words of 32 bits, most significant first, separated by
    /// commas. Returns `None` if the text is malformed or the set is infinite.
    pub fn from_hexadecimal(text: &str) -> Option<Self> {
        let mut set = Self::default();
        for (position, word) in text.trim().rsplit(',').enumerate() {
            let digits = word.trim().trim_start_matches("0x");
            let value = if digits.is_empty() { 0 } else { u32::from_str_radix(digits, 16).ok()? };
            if position * 32 >= NUMBER_MAX {
                return None;
            }
            (0..32)
                .filter(|bit| value >> bit & 1 == 1)
                .for_each(|bit| set.insert(position * 32 + bit));
        }
        Some(set)
    }

    /// Parses a list such as `0-3,8`. Returns `None` if the text is malformed.
    pub fn from_list(text: &str) -> Option<Self> {
        let mut set = Self::default();
        for range in text.trim().split(',').filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last >= NUMBER_MAX {
                return None;
            }
            set.extend(first..=last);
        }
        Some(set)
    }

    /// Adds a number. Numbers above 65535 are ignored.
    pub fn insert(&mut self, number: usize) {
        if number >= NUMBER_MAX {
            return;
        }
        if self.words.len() <= number / 64 {
            self.words.resize(number / 64 + 1, 0);
        }
        self.words[number / 64] |= 1 << (number % 64);
    }

    /// Whether the set contains a number.
    pub fn contains(&self, number: usize) -> bool {
        self.words.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The numbers, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        let numbers = |(index, word): (usize, &u64)| {
            let word = *word;
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index * 64 + bit)
        };
        self.words.iter().enumerate().flat_map(numbers)
    }

    /// The smallest number.
    pub fn first(&self) -> Option<usize> {
        self.iter().next()
    }

    /// The numbers that are in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let words = self.words.iter().zip(&other.words).map(|(one, two)| one & two);
        Self::trimmed(words.collect())
    }

    /// The numbers that are in at least one of the sets.
    pub fn union(&self, other: &Self) -> Self {
        self.iter().chain(other.iter()).collect()
    }

    /// The numbers that are in this set but not in the other.
    pub fn without(&self, other: &Self) -> Self {
        self.iter().filter(|number| !other.contains(*number)).collect()
    }

    /// Whether the other set contains all of this set.
    pub fn is_subset(&self, other: &Self) -> bool {
        let others = other.words.iter().chain(std::iter::repeat(&0));
        self.words.iter().zip(others).all(|(own, other)| own & !other == 0)
    }

    /// Whether the sets have a common number.
    pub fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(one, two)| one & two != 0)
    }

    fn trimmed(mut words: Vec<u64>) -> Self {
        while words.last() == Some(&0) {
            words.pop();
        }
        Self { words }
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        let mut set = Self::default();
        set.extend(numbers);
        set
    }
}

impl Extend<usize> for CpuSet {
    fn extend<I: IntoIterator<Item = usize>>(&mut self, numbers: I) {
        numbers.into_iter().for_each(|number| self.insert(number));
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<usize> = self.iter().collect();
        for (position, run) in numbers.chunk_by(|one, next| one + 1 == *next).enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            match run {
                [one] => write!(f, "{one}")?,
                [first, .., last] => write!(f, "{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    #[test]
    fn sets_are_read_as_hwloc_and_the_kernel_write_them() {
        let read = |text| CpuSet::from_hexadecimal(text).map(|set| set.to_string());
        assert_eq!(read("0x00000003").as_deref(), Some("0-1"));
        assert_eq!(read("0x80000000,,0x00000001").as_deref(), Some("0,95"));
        assert_eq!(read("0x0").as_deref(), Some(""));
        assert_eq!(read("0xf...f"), None);
        assert_eq!(read("cores"), None);
        assert_eq!(CpuSet::from_list("0-2,7").map(|set| set.len()), Some(4));
        for wrong in ["2-1", "a", "1-", "70000"] {
            assert_eq!(CpuSet::from_list(wrong), None);
        }
    }

    proptest! {
        #[test]
        fn sets_follow_their_laws(
            one in proptest::collection::btree_set(0_usize..300, 0..40),
            two in proptest::collection::btree_set(0_usize..300, 0..40),
        ) {
            let (a, b): (CpuSet, CpuSet) = (one.iter().copied().collect(), two.iter().copied().collect());
            prop_assert!(a.iter().eq(one.iter().copied()));
            prop_assert_eq!(a.len(), one.len());
            prop_assert!(a.intersection(&b).iter().eq(one.intersection(&two).copied()));
            prop_assert!(a.union(&b).iter().eq(one.union(&two).copied()));
            prop_assert!(a.without(&b).iter().eq(one.difference(&two).copied()));
            prop_assert_eq!(a.is_subset(&b), one.is_subset(&two));
            prop_assert_eq!(a.intersects(&b), !one.is_disjoint(&two));
            prop_assert_eq!(CpuSet::from_list(&a.to_string()), Some(a));
        }
    }
}
