//! Sets of members.

use std::collections::BTreeMap;
use std::ops::Range;

use wire::Codec;

/// A set of the members of a communicator, which are numbered from 0. It takes memory for each run
/// of consecutive members in it: a set of few members is small, and so is the set of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSet {
    size: u32,
    /// The first member of each run, and the one behind its last. Runs are not empty, and there is
    /// a member between any two.
    runs: BTreeMap<u32, u32>,
}

impl MemberSet {
    /// Makes the empty set for a communicator of `size` members.
    pub fn none(size: u32) -> Self {
        Self { size, runs: BTreeMap::new() }
    }

    /// Returns the number of members of the communicator, in the set or not.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Adds a member, which must exist. Returns whether it was not in the set.
    pub fn insert(&mut self, member: u32) -> bool {
        assert!(member < self.size, "there is such a member");
        let is_fresh = !self.contains(member);
        if is_fresh {
            self.insert_run(member, member + 1);
        }
        is_fresh
    }

    /// Adds the members from `first` to before `end`. Runs that overlap or touch become one.
    fn insert_run(&mut self, mut first: u32, mut end: u32) {
        while let Some((begin, behind)) = self.run_from(end)
            && behind >= first
        {
            self.runs.remove(&begin);
            (first, end) = (first.min(begin), end.max(behind));
        }
        self.runs.insert(first, end);
    }

    /// Whether a member is in the set.
    pub fn contains(&self, member: u32) -> bool {
        self.run_from(member).is_some_and(|(_, end)| member < end)
    }

    /// Adds all members of another set of equal size.
    pub fn unite(&mut self, other: &Self) {
        if !other.is_subset_of(self) {
            other.runs.iter().for_each(|(first, end)| self.insert_run(*first, *end));
        }
    }

    /// Removes all members that are not in another set of equal size.
    pub fn keep_only(&mut self, other: &Self) {
        let mut both = BTreeMap::new();
        for (&first, &end) in &self.runs {
            let beginning = other.run_from(first).map_or(first, |(begin, _)| begin);
            for (&other_first, &other_end) in other.runs.range(beginning..end) {
                let (from, to) = (first.max(other_first), end.min(other_end));
                if from < to {
                    both.insert(from, to);
                }
            }
        }
        self.runs = both;
    }

    /// Whether all members of the set are in another set of equal size.
    pub fn is_subset_of(&self, other: &Self) -> bool {
        let is_inside = |(&first, &end): (&u32, &u32)| {
            other.run_from(first).is_some_and(|(_, other_end)| end <= other_end)
        };
        self.runs.iter().all(is_inside)
    }

    /// Returns the first member of the set.
    pub(super) fn first(&self) -> Option<u32> {
        self.runs.first_key_value().map(|(first, _)| *first)
    }

    /// Returns the first member of a range that is neither in this set nor in another one of equal
    /// size.
    pub(super) fn first_in_neither(&self, other: &Self, range: Range<u32>) -> Option<u32> {
        let mut next = range.start;
        while let Some((_, end)) =
            [self, other].into_iter().filter_map(|set| set.run_from(next)).find(|run| run.1 > next)
        {
            next = end;
        }
        (next < range.end).then_some(next)
    }

    /// Returns the members of the set, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs.iter().flat_map(|(&first, &end)| first..end)
    }

    /// Returns the members that are not in the set, in order, from `first` on.
    pub(super) fn absent_from(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let mut next = first;
        std::iter::from_fn(move || {
            if let Some((_, end)) = self.run_from(next) {
                next = next.max(end);
            }
            let absent = (next < self.size).then_some(next)?;
            next += 1;
            Some(absent)
        })
    }

    /// Returns the first member that is not in the set.
    pub fn first_absent(&self) -> Option<u32> {
        self.absent_from(0).next()
    }

    /// Returns the last run that begins at a member or before it: its first member, and the one
    /// behind its last.
    fn run_from(&self, member: u32) -> Option<(u32, u32)> {
        self.runs.range(..=member).next_back().map(|(first, end)| (*first, *end))
    }

    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        (self.runs.len() as u32).write(bytes);
        for (first, end) in &self.runs {
            first.write(bytes);
            end.write(bytes);
        }
    }

    /// Takes an encoded set off the front of bytes. `None` if it is cut short, or if it names
    /// members that do not exist, or runs that no set has.
    pub(super) fn read(bytes: &mut &[u8], size: u32) -> Option<Self> {
        let count = u32::read(bytes)?;
        let mut set = Self::none(size);
        let mut lowest = 0;
        for _ in 0..count {
            let (first, end) = (u32::read(bytes)?, u32::read(bytes)?);
            if first < lowest || end <= first || end > size {
                return None;
            }
            set.runs.insert(first, end);
            lowest = end + 1;
        }
        Some(set)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const SIZE: u32 = 40;

    fn of(members: &BTreeSet<u32>) -> MemberSet {
        let mut set = MemberSet::none(SIZE);
        members.iter().rev().for_each(|member| assert!(set.insert(*member)));
        set
    }

    fn members() -> impl Strategy<Value = BTreeSet<u32>> {
        let run = (0..SIZE, 1_u32..12).prop_map(|(first, count)| first..SIZE.min(first + count));
        proptest::collection::vec(run, 0..6).prop_map(|runs| runs.into_iter().flatten().collect())
    }

    proptest! {
        #[test]
        fn sets_of_members_follow_their_laws(one in members(), two in members()) {
            let (a, b) = (of(&one), of(&two));
            prop_assert!(a.iter().eq(one.iter().copied()));
            prop_assert!((0..SIZE).all(|member| a.contains(member) == one.contains(&member)));
            for first in [0, 7, SIZE - 1] {
                let absent = (first..SIZE).filter(|member| !one.contains(member));
                prop_assert!(a.absent_from(first).eq(absent));
            }
            prop_assert_eq!(a.first(), one.first().copied());
            for range in [0..SIZE, 5..SIZE - 9] {
                let in_neither = |member: &u32| !one.contains(member) && !two.contains(member);
                let first = range.clone().find(in_neither);
                prop_assert_eq!(a.first_in_neither(&b, range), first);
            }
            prop_assert_eq!(a.is_subset_of(&b), one.is_subset(&two));
            let mut united = a.clone();
            united.unite(&b);
            prop_assert_eq!(united, of(&one.union(&two).copied().collect()));
            let mut common = a.clone();
            common.keep_only(&b);
            prop_assert_eq!(common, of(&one.intersection(&two).copied().collect()));
            let mut bytes = Vec::new();
            a.write(&mut bytes);
            prop_assert_eq!(MemberSet::read(&mut &*bytes, SIZE), Some(a));
        }
    }
}
