//! Memory of this library, for data in transit.

use std::cell::UnsafeCell;
use std::rc::Rc;

use base::limits::CACHE_LINE;

use crate::copy::AddressRange;

/// A zeroed block of memory that the buffers of one thread refer to; aligned to cache lines if it
/// is longer than one.
#[derive(Debug)]
pub(crate) struct Scratch {
    bytes: ScratchBytes,
    length: usize,
}

#[derive(Debug)]
enum ScratchBytes {
    /// At most a line, stored in the value itself: that saves an allocation for short data, and the
    /// search for an aligned place.
    Few(FewBytes),
    Lines(Box<[CacheLine]>),
}

/// A few bytes. They are aligned for any element, as functions of programs get pointers into
/// scratch memory.
#[repr(align(16))]
#[derive(Debug)]
struct FewBytes {
    bytes: UnsafeCell<[u8; CACHE_LINE]>,
}

#[repr(align(64))]
#[derive(Debug)]
struct CacheLine {
    _bytes: UnsafeCell<[u8; CACHE_LINE]>,
}

impl Scratch {
    /// Allocates `length` zero bytes.
    pub(crate) fn zeroed(length: usize) -> Self {
        if length <= CACHE_LINE {
            let few = FewBytes { bytes: UnsafeCell::new([0; CACHE_LINE]) };
            return Self { bytes: ScratchBytes::Few(few), length };
        }
        let line = || CacheLine { _bytes: UnsafeCell::new([0; CACHE_LINE]) };
        let lines = (0..length.div_ceil(CACHE_LINE)).map(|_| line()).collect();
        Self { bytes: ScratchBytes::Lines(lines), length }
    }

    /// Returns the range of all bytes. It must not be used after this value is dropped or moved;
    /// buffers hold the value as their owner.
    pub(crate) fn memory(self: &Rc<Self>) -> AddressRange {
        let base = match &self.bytes {
            ScratchBytes::Few(few) => few.bytes.get().cast::<u8>(),
            ScratchBytes::Lines(lines) => lines.as_ptr().cast::<u8>().cast_mut(),
        };
        // SAFETY:
        // - The cells hold at least `length` bytes: they may be written through a shared
        //   borrow, and nobody ever borrows what is in a cell.
        // - The value is not `Sync`, and neither is `AddressRange`: one thread uses both.
        unsafe { AddressRange::new(base, 0, self.length as isize) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;

    #[test]
    fn is_zero_aligned_and_bounded() {
        let buffer = Buffer::zeroed(100);
        assert_eq!((buffer.len(), buffer.base_address() % CACHE_LINE), (100, 0));
        let mut bytes = [1; 100];
        buffer.read(0, &mut bytes);
        assert_eq!(bytes, [0; 100]);
        assert!(Buffer::zeroed(0).is_empty());
        for length in [1, CACHE_LINE, CACHE_LINE + 1] {
            let buffer = Buffer::zeroed(length);
            let clone = buffer.clone();
            assert!(buffer.len() == length && buffer.base_address().is_multiple_of(16));
            clone.write(length - 1, &[9]);
            drop(clone);
            let mut last = [0];
            buffer.read(length - 1, &mut last);
            assert_eq!(last, [9]);
        }
    }

    #[test]
    #[should_panic(expected = "leave the buffer")]
    fn its_end_is_the_length_asked_for() {
        Buffer::zeroed(100).contiguous_part(60, 41);
    }

    #[test]
    fn memory_is_kept_by_its_parts() {
        let whole = Buffer::zeroed(100);
        assert!(whole.is_sole_owner());
        let part = whole.contiguous_part(60, 40);
        assert!(!whole.is_sole_owner());
        drop(whole);
        part.write(39, &[7]);
        assert!(part.is_sole_owner() && part.is_owned());
    }
}
