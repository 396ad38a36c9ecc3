//! The shortest way: elements of one predefined datatype without gaps, in memory that all processes
//! have mapped. What is not so, or is wrong, is left to [`Window::access`].

use datatype::reduction::Operator;
use datatype::{Predefined, ValueKind};
use memory::Buffer;

use super::exposed::ExposedParts;
use super::locks;
use super::{CompletedBy, Window};

/// Elements of a predefined datatype at a target.
#[derive(Clone, Copy, Debug)]
pub struct PlainPlace {
    /// The target.
    pub target: u32,
    /// In units of its part, from the beginning.
    pub displacement: i64,
    /// How many bytes.
    pub length: usize,
}

impl Window {
    /// Puts plain data. False: nothing was done.
    #[inline]
    pub fn put_plain(&self, place: PlainPlace, origin: &Buffer, completed_by: CompletedBy) -> bool {
        if origin.len() != place.length {
            return false;
        }
        let Some((part, offset)) = self.plain_part(place, completed_by) else { return false };
        copy_plain((origin, 0), (part, offset), place.length);
        true
    }

    /// Gets plain data. False: nothing was done.
    #[inline]
    pub fn get_plain(&self, place: PlainPlace, result: &Buffer, completed_by: CompletedBy) -> bool {
        if result.len() != place.length {
            return false;
        }
        let Some((part, offset)) = self.plain_part(place, completed_by) else { return false };
        copy_plain((part, offset), (result, 0), place.length);
        true
    }

    /// Adds to one element of 4 or 8 bytes, or replaces it; what was there goes to `result`, if
    /// there is one. False: nothing was done.
    #[inline]
    pub fn accumulate_plain(
        &self,
        place: PlainPlace,
        (operator, element): (Operator, Predefined),
        origin: &Buffer,
        result: Option<&Buffer>,
        completed_by: CompletedBy,
    ) -> bool {
        let length = place.length;
        let adds = operator == Operator::Sum
            && matches!(element.kind(), ValueKind::Signed | ValueKind::Unsigned);
        if !(adds || operator == Operator::Replace)
            || !matches!(length, 4 | 8)
            || element.size() != length
            || origin.len() != length
            || result.is_some_and(|result| result.len() != length)
        {
            return false;
        }
        let given = word_in(origin, 0, length);
        let change = |there: u64| match (adds, length) {
            (false, _) => given,
            (true, 4) => u64::from((there as u32).wrapping_add(given as u32)),
            (true, _) => there.wrapping_add(given),
        };
        let Some(before) = self.change_plain(place, completed_by, change) else { return false };
        if let Some(result) = result {
            write_word(result, 0, length, before);
        }
        true
    }

    /// Compares and swaps one integer of 4 or 8 bytes. False: nothing was done.
    #[inline]
    pub fn swap_plain(
        &self,
        place: PlainPlace,
        element: Predefined,
        (new, expected): (&Buffer, &Buffer),
        result: &Buffer,
    ) -> bool {
        let length = place.length;
        if !matches!(element.kind(), ValueKind::Signed | ValueKind::Unsigned)
            || !matches!(length, 4 | 8)
            || [new, expected, result].iter().any(|buffer| buffer.len() != length)
        {
            return false;
        }
        let (new, expected) = (word_in(new, 0, length), word_in(expected, 0, length));
        let change = |there| if there == expected { new } else { there };
        let Some(before) = self.change_plain(place, CompletedBy::Synchronization, change) else {
            return false;
        };
        write_word(result, 0, length, before);
        true
    }

    /// Changes a word, while nobody else accumulates to the part; what was there.
    #[inline(always)]
    fn change_plain(
        &self,
        place: PlainPlace,
        completed_by: CompletedBy,
        change: impl FnOnce(u64) -> u64,
    ) -> Option<u64> {
        let (part, offset) = self.plain_part(place, completed_by)?;
        let ExposedParts::Shared { memory, own_process, .. } = &self.memory else { return None };
        Some(locks::accumulating(memory, place.target).hold(*own_process, || {
            let before = word_in(part, offset, place.length);
            write_word(part, offset, place.length, change(before));
            before
        }))
    }

    /// The part and where in it; `None` if it is not mapped here, or the call is wrong.
    #[inline(always)]
    fn plain_part(&self, place: PlainPlace, completed_by: CompletedBy) -> Option<(&Buffer, usize)> {
        let ExposedParts::Shared { parts, .. } = &self.memory else { return None };
        let index = place.target as usize;
        let (share, part) = (self.shares.get(index)?, parts.get(index)?);
        let offset = usize::try_from(place.displacement).ok()?.checked_mul(share.unit)?;
        if offset.checked_add(place.length)? > share.size {
            return None;
        }
        self.epochs.borrow_mut().admit(place.target, completed_by).ok()?;
        Some((part, offset))
    }
}

/// Copies bytes from an offset in one buffer to one in another; a word by a load and a store.
#[inline(always)]
fn copy_plain(from: (&Buffer, usize), to: (&Buffer, usize), length: usize) {
    match length {
        4 | 8 => write_word(to.0, to.1, length, word_in(from.0, from.1, length)),
        _ => from.0.copy_range(from.1, to.0, to.1, length),
    }
}

/// The 4 or 8 bytes at `offset` as a number.
#[inline(always)]
fn word_in(buffer: &Buffer, offset: usize, length: usize) -> u64 {
    if length == 4 {
        let mut word = [0; 4];
        buffer.read(offset, &mut word);
        u64::from(u32::from_ne_bytes(word))
    } else {
        let mut word = [0; 8];
        buffer.read(offset, &mut word);
        u64::from_ne_bytes(word)
    }
}

#[inline(always)]
fn write_word(buffer: &Buffer, offset: usize, length: usize, word: u64) {
    if length == 4 {
        buffer.write(offset, &(word as u32).to_ne_bytes());
    } else {
        buffer.write(offset, &word.to_ne_bytes());
    }
}
