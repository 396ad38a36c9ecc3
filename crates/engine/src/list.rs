//! Doubly linked lists of numbered places: no allocation, and removal at any position in O(1).

use std::ops::IndexMut;

use crate::slab::NONE;

/// The neighbours of a place in one list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    pub previous: u32,
    pub next: u32,
}

impl Links {
    pub(crate) const NONE: Self = Self { previous: NONE, next: NONE };
}

/// A value that can be an element of a list. `WHICH` distinguishes several lists through one value.
pub(crate) trait Chain<const WHICH: usize> {
    fn links(&mut self) -> &mut Links;
}

/// The ends of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List<const WHICH: usize> {
    pub first: u32,
    last: u32,
}

impl<const WHICH: usize> List<WHICH> {
    pub(crate) const EMPTY: Self = Self { first: NONE, last: NONE };

    /// The offset of the first element's number.
    pub(crate) const FIRST: usize = std::mem::offset_of!(Self, first);

    #[inline]
    pub(crate) fn push_back<S>(&mut self, store: &mut S, index: u32)
    where
        S: IndexMut<u32, Output: Chain<WHICH>>,
    {
        *store[index].links() = Links { previous: self.last, next: NONE };
        if self.last == NONE {
            self.first = index;
        } else {
            store[self.last].links().next = index;
        }
        self.last = index;
    }

    #[inline]
    pub(crate) fn remove<S>(&mut self, store: &mut S, index: u32)
    where
        S: IndexMut<u32, Output: Chain<WHICH>>,
    {
        let Links { previous, next } = *store[index].links();
        if previous == NONE {
            self.first = next;
        } else {
            store[previous].links().next = next;
        }
        if next == NONE {
            self.last = previous;
        } else {
            store[next].links().previous = previous;
        }
    }
}
