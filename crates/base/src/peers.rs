//! Tables by the number of a peer, whose memory grows with the peers used.

use std::ops::{Index, IndexMut};

/// Values by the number of a peer: a gate, or a rank. The first numbers lie in one piece, as in a
/// [`Vec`], so that small jobs pay no second step. Higher numbers lie in pages of `PAGE` values,
/// each made when one of its values is first used. A process that uses few of many peers therefore
/// needs `8 / PAGE` bytes per peer below the highest number used, and one page per used peer.
#[derive(Clone, Debug)]
pub struct PeerTable<T, const PAGE: usize> {
    /// The values with numbers below [`IN_ONE_PIECE`].
    first: Vec<T>,
    pages: Vec<Option<Box<[T; PAGE]>>>,
}

/// The number of values that lie in one piece.
pub const IN_ONE_PIECE: usize = 64;

impl<T, const PAGE: usize> Default for PeerTable<T, PAGE> {
    fn default() -> Self {
        Self { first: Vec::new(), pages: Vec::new() }
    }
}

impl<T, const PAGE: usize> PeerTable<T, PAGE> {
    /// Returns the value of this number, or `None` if it was never used. Values that share a piece
    /// or page with a used one exist too, as `make` of [`entry`](Self::entry) made them.
    #[inline(always)]
    pub fn get(&self, number: u32) -> Option<&T> {
        match self.first.get(number as usize) {
            Some(value) => Some(value),
            None => self.in_page(number),
        }
    }

    /// Returns the value of this number for change, or `None` if it was never used.
    #[inline(always)]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let number = number as usize;
        if number < self.first.len() {
            return Some(&mut self.first[number]);
        }
        self.in_page_mut(number)
    }

    /// Returns the value of this number. If it was never used, it is made by `make`, with its
    /// neighbours in the piece or page.
    #[inline(always)]
    pub fn entry(&mut self, number: u32, make: impl Fn() -> T) -> &mut T {
        let number = number as usize;
        if number < self.first.len() {
            return &mut self.first[number];
        }
        self.made(number, make)
    }

    /// Iterates over the values that exist, with their numbers, by rising number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let pages = (IN_ONE_PIECE as u32..).step_by(PAGE).zip(&self.pages);
        let paged = pages.filter_map(|(first, page)| Some((first, page.as_deref()?)));
        (0..).zip(&self.first).chain(paged.flat_map(|(first, page)| (first..).zip(page)))
    }

    /// Iterates over the values that exist for change, with their numbers, by rising number.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        let pages = (IN_ONE_PIECE as u32..).step_by(PAGE).zip(&mut self.pages);
        let paged = pages.filter_map(|(first, page)| Some((first, page.as_deref_mut()?)));
        (0..).zip(&mut self.first).chain(paged.flat_map(|(first, page)| (first..).zip(page)))
    }

    /// Returns the bytes that the table occupies on the heap, without what its values own.
    pub fn heap_bytes(&self) -> usize {
        let made = self.pages.iter().flatten().count();
        self.first.capacity() * size_of::<T>()
            + self.pages.capacity() * size_of::<Option<Box<[T; PAGE]>>>()
            + made * size_of::<[T; PAGE]>()
    }

    #[inline(never)]
    fn in_page(&self, number: u32) -> Option<&T> {
        let paged = (number as usize).checked_sub(IN_ONE_PIECE)?;
        Some(&self.pages.get(paged / PAGE)?.as_deref()?[paged % PAGE])
    }

    #[inline(never)]
    fn in_page_mut(&mut self, number: usize) -> Option<&mut T> {
        let paged = number.checked_sub(IN_ONE_PIECE)?;
        Some(&mut self.pages.get_mut(paged / PAGE)?.as_deref_mut()?[paged % PAGE])
    }

    #[inline(never)]
    fn made(&mut self, number: usize, make: impl Fn() -> T) -> &mut T {
        let Some(paged) = number.checked_sub(IN_ONE_PIECE) else {
            self.first.resize_with(number + 1, make);
            return &mut self.first[number];
        };
        let page = paged / PAGE;
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        let values =
            self.pages[page].get_or_insert_with(|| Box::new(std::array::from_fn(|_| make())));
        &mut values[paged % PAGE]
    }
}

impl<T, const PAGE: usize> Index<u32> for PeerTable<T, PAGE> {
    type Output = T;

    #[inline(always)]
    fn index(&self, number: u32) -> &T {
        self.get(number).expect("the peer has been used")
    }
}

impl<T, const PAGE: usize> IndexMut<u32> for PeerTable<T, PAGE> {
    #[inline(always)]
    fn index_mut(&mut self, number: u32) -> &mut T {
        self.get_mut(number).expect("the peer has been used")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// The numbers around the border between piece and pages and between pages, and others.
    const NUMBERS: [u32; 13] = [0, 1, 5, 62, 63, 64, 65, 67, 68, 71, 72, 1000, 100_000];

    #[test]
    fn a_table_is_a_map_whatever_the_order_of_first_uses() {
        for start in 0..NUMBERS.len() {
            for step in [1, 2, 3, 5, 7] {
                let mut table: PeerTable<u64, 4> = PeerTable::default();
                let mut map = BTreeMap::new();
                let order = (0..NUMBERS.len()).map(|turn| NUMBERS[(start + turn * step) % 13]);
                for number in order {
                    *table.entry(number, || 0) += u64::from(number) + 1;
                    *map.entry(number).or_insert(0) += u64::from(number) + 1;
                    assert_eq!(table[number], map[&number]);
                }
                for (number, value) in table.iter_mut() {
                    *value *= 2 + u64::from(number % 2);
                }
                map.iter_mut().for_each(|(number, value)| *value *= 2 + u64::from(number % 2));
                let used: BTreeMap<u32, u64> = table
                    .iter()
                    .map(|(number, value)| (number, *value))
                    .filter(|e| e.1 > 0)
                    .collect();
                assert_eq!(used, map);
                assert!(table.iter().map(|entry| entry.0).is_sorted());
            }
        }
    }

    #[test]
    fn values_that_were_never_used_are_absent() {
        let mut table: PeerTable<u64, 4> = PeerTable::default();
        assert_eq!(table.get(0), None);
        table.entry(70, || 7);
        for absent in [0, 63, 64, 67, 72, u32::MAX] {
            assert_eq!(table.get(absent), None, "{absent}");
            assert_eq!(table.get_mut(absent), None, "{absent}");
        }
        assert_eq!(table.get(69), Some(&7));
    }

    #[test]
    fn one_peer_of_a_million_costs_two_bytes_per_peer_below_it_and_a_page() {
        let mut table: PeerTable<[u64; 32], 4> = PeerTable::default();
        table.entry(999_999, || [0; 32]);
        assert!(table.heap_bytes() <= 2_000_000 + 1024, "{} bytes", table.heap_bytes());
        let mut small: PeerTable<u64, 64> = PeerTable::default();
        small.entry(999_999, || 0);
        assert!(small.heap_bytes() <= 125_000 + 512, "{} bytes", small.heap_bytes());
    }
}
