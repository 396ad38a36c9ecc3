//! Memory of our own, for data on its way.

use std::cell::UnsafeCell;

use crate::copy::Memory;

/// A zeroed block of memory that buffers of ours refer to.
#[derive(Debug)]
pub struct Scratch {
    bytes: Box<[UnsafeCell<u8>]>,
}

// SAFETY: the bytes are touched only through buffers, under the same rule as the program's
// memory: whoever has a transfer on a range underway leaves that range alone.
unsafe impl Sync for Scratch {}

impl Scratch {
    /// `length` zero bytes.
    pub fn zeroed(length: usize) -> Self {
        Self { bytes: (0..length).map(|_| UnsafeCell::new(0)).collect() }
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn memory(&self, offset: usize, length: usize) -> Memory {
        self.memory_around(offset as isize, 0, length as isize)
    }

    pub(crate) fn memory_around(&self, origin: isize, low: isize, high: isize) -> Memory {
        let inside = origin + low >= 0 && origin + high <= self.bytes.len() as isize;
        assert!(inside || high <= low, "{low}..{high} around {origin} leaves the scratch memory");
        let base = self.bytes.as_ptr().cast::<u8>().cast_mut().wrapping_offset(origin);
        // SAFETY:
        // - The range was just checked to lie inside this allocation, whose cells may be written.
        // - Buffers hold the allocation alive (their `_owner`).
        unsafe { Memory::new(base, low, high) }
    }
}
