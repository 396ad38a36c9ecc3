//! Sets of members.

use wire::Codec;

/// A set of the members of a communicator, which are numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSet {
    size: u32,
    words: Vec<u64>,
}

impl MemberSet {
    /// Makes the empty set for a communicator of `size` members.
    pub fn none(size: u32) -> Self {
        Self { size, words: vec![0; words_for(size)] }
    }

    /// Returns the number of members of the communicator, in the set or not.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Adds a member, which must exist. Returns whether it was not in the set.
    pub fn insert(&mut self, member: u32) -> bool {
        assert!(member < self.size, "there is such a member");
        let (word, bit) = place(member);
        let fresh = self.words[word] & bit == 0;
        self.words[word] |= bit;
        fresh
    }

    /// Whether a member is in the set.
    pub fn contains(&self, member: u32) -> bool {
        let (word, bit) = place(member);
        self.words.get(word).is_some_and(|found| found & bit != 0)
    }

    /// Adds all members of another set of equal size.
    pub fn unite(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(own, other)| *own |= other);
    }

    /// Removes all members that are not in another set of equal size.
    pub fn keep_only(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(own, other)| *own &= other);
    }

    /// Whether all members of the set are in another set of equal size.
    pub fn is_subset_of(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(own, other)| own & !other == 0)
    }

    /// Returns the members of the set, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.size).filter(|&member| self.contains(member))
    }

    /// Returns the first member that is not in the set.
    pub fn first_absent(&self) -> Option<u32> {
        (0..self.size).find(|&member| !self.contains(member))
    }

    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        self.words.iter().for_each(|word| word.write(bytes));
    }

    /// Takes an encoded set off the front of bytes. `None` if it is cut short, or if it names
    /// members that do not exist.
    pub(super) fn read(bytes: &mut &[u8], size: u32) -> Option<Self> {
        let words: Vec<u64> = (0..words_for(size)).map_while(|_| u64::read(bytes)).collect();
        let last = size % u64::BITS;
        let strange = last != 0 && words.last().is_some_and(|word| word >> last != 0);
        (words.len() == words_for(size) && !strange).then_some(Self { size, words })
    }
}

fn words_for(size: u32) -> usize {
    size.div_ceil(u64::BITS) as usize
}

fn place(member: u32) -> (usize, u64) {
    ((member / u64::BITS) as usize, 1 << (member % u64::BITS))
}
