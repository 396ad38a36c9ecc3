//! Memory of our own, for data on its way.

use std::cell::UnsafeCell;

use base::limits::CACHE_LINE;

use crate::copy::Memory;

/// A zeroed block of memory that buffers of ours refer to, aligned to cache lines.
#[derive(Debug)]
pub struct Scratch {
    lines: Box<[Line]>,
    length: usize,
}

/// A cache line: the functions of programs get pointers into scratch memory, and may ask for any
/// alignment that an element has.
#[repr(align(64))]
#[derive(Debug)]
struct Line {
    _bytes: UnsafeCell<[u8; CACHE_LINE]>,
}

// SAFETY: the bytes are touched only through buffers, under the same rule as the program's
// memory: whoever has a transfer on a range underway leaves that range alone.
unsafe impl Sync for Scratch {}

impl Scratch {
    /// `length` zero bytes.
    pub fn zeroed(length: usize) -> Self {
        let line = || Line { _bytes: UnsafeCell::new([0; CACHE_LINE]) };
        let lines = (0..length.div_ceil(CACHE_LINE)).map(|_| line()).collect();
        Self { lines, length }
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(crate) fn memory(&self, offset: usize, length: usize) -> Memory {
        self.memory_around(offset as isize, 0, length as isize)
    }

    pub(crate) fn memory_around(&self, origin: isize, low: isize, high: isize) -> Memory {
        let inside = origin + low >= 0 && origin + high <= self.length as isize;
        assert!(inside || high <= low, "{low}..{high} around {origin} leaves the scratch memory");
        let base = self.lines.as_ptr().cast::<u8>().cast_mut().wrapping_offset(origin);
        // SAFETY:
        // - The range was just checked to lie inside this allocation, whose cells may be written.
        // - Buffers hold the allocation alive (their `_owner`).
        unsafe { Memory::new(base, low, high) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Buffer;

    #[test]
    fn is_zero_aligned_and_bounded() {
        let scratch = Arc::new(Scratch::zeroed(100));
        assert_eq!(scratch.len(), 100);
        let buffer = Buffer::of_scratch(&scratch, 0, 100);
        assert_eq!(buffer.base_address() % CACHE_LINE, 0);
        let mut bytes = [1; 100];
        buffer.read(0, &mut bytes);
        assert_eq!(bytes, [0; 100]);
    }

    #[test]
    #[should_panic(expected = "leaves the scratch memory")]
    fn its_end_is_the_length_asked_for() {
        Buffer::of_scratch(&Arc::new(Scratch::zeroed(100)), 60, 41);
    }
}
