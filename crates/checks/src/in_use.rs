//! Memory that pending operations use, by address.

use std::collections::BTreeMap;

use crate::MemoryRanges;

/// Pieces of memory with their users. The time of a lookup does not grow with the number of pieces.
#[derive(Debug)]
pub struct MemoryInUse<T> {
    /// The pieces by size class, the logarithm of a limit of their length. The class bounds how far
    /// before an address a piece can begin that contains this address.
    classes: BTreeMap<u32, PiecesOfClass<T>>,
}

/// From the address of a piece and the number of its user to the end of the piece and the user.
type PiecesOfClass<T> = BTreeMap<(usize, u64), (usize, T)>;

impl<T> Default for MemoryInUse<T> {
    fn default() -> Self {
        Self { classes: BTreeMap::new() }
    }
}

/// Returns the size class of pieces with `length` bytes.
fn class_of(length: usize) -> u32 {
    usize::BITS - length.leading_zeros()
}

impl<T: Clone> MemoryInUse<T> {
    /// Records that a user, identified by a number, begins to use memory.
    pub fn add(&mut self, memory: &MemoryRanges, number: u64, user: &T) {
        for (address, length) in memory.iter() {
            let class = self.classes.entry(class_of(length)).or_default();
            class.insert((address, number), (address + length, user.clone()));
        }
    }

    /// Records that the user with this number no longer uses this memory.
    pub fn remove(&mut self, memory: &MemoryRanges, number: u64) {
        for (address, length) in memory.iter() {
            let Some(class) = self.classes.get_mut(&class_of(length)) else { continue };
            class.remove(&(address, number));
            if class.is_empty() {
                self.classes.remove(&class_of(length));
            }
        }
    }

    /// Returns a user of some of this memory, and how many contiguous bytes of it that user uses.
    pub fn user_of(&self, memory: &MemoryRanges) -> Option<(usize, &T)> {
        memory.iter().find_map(|(address, length)| self.user_between(address, address + length))
    }

    fn user_between(&self, first: usize, end: usize) -> Option<(usize, &T)> {
        self.classes.iter().find_map(|(class, pieces)| {
            let longest = 1_usize.checked_shl(*class).map_or(usize::MAX, |limit| limit - 1);
            let from = first.saturating_sub(longest);
            let mut near = pieces.range((from, 0)..(end, 0));
            near.find_map(|((address, _), (piece_end, user))| {
                let common = (*piece_end).min(end).checked_sub(first.max(*address))?;
                (common > 0).then_some((common, user))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(ranges: &[(usize, usize)]) -> MemoryRanges {
        MemoryRanges::new(ranges.to_vec())
    }

    #[test]
    fn users_of_common_bytes_are_found_whatever_their_length() {
        let mut in_use = MemoryInUse::default();
        in_use.add(&memory(&[(0, 1 << 20)]), 1, &"large");
        in_use.add(&memory(&[(1 << 21, 4), (3 << 20, 1)]), 2, &"small");
        let found = |in_use: &MemoryInUse<&'static str>, address, length| {
            in_use.user_of(&memory(&[(address, length)])).map(|(bytes, user)| (bytes, *user))
        };
        assert_eq!(found(&in_use, (1 << 20) - 2, 8), Some((2, "large")));
        assert_eq!(found(&in_use, 1 << 20, 8), None);
        assert_eq!(found(&in_use, (1 << 21) + 3, 100), Some((1, "small")));
        assert_eq!(found(&in_use, (1 << 21) - 3, 3), None);
        assert_eq!(found(&in_use, 0, usize::MAX), Some((1, "small")));
        in_use.remove(&memory(&[(1 << 21, 4), (3 << 20, 1)]), 2);
        assert_eq!(found(&in_use, 3 << 20, 1), None);
        assert_eq!(found(&in_use, 5, 1), Some((1, "large")));
        in_use.remove(&memory(&[(0, 1 << 20)]), 1);
        assert!(in_use.classes.is_empty());
    }

    #[test]
    fn several_may_use_the_same_memory() {
        let mut in_use = MemoryInUse::default();
        let piece = memory(&[(64, 8)]);
        (0..3).for_each(|number| in_use.add(&piece, number, &number));
        in_use.remove(&piece, 0);
        assert_eq!(in_use.user_of(&piece), Some((8, &1)));
    }
}
