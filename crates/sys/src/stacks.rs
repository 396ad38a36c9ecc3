//! Memory for the stacks of user-level threads, each with a guard below it.

use std::io;
use std::ptr::{self, NonNull};

use crate::pages::page_bytes;

/// One mapping with room for several stacks of one size. Below each is an inaccessible page: a
/// stack overflow ends the program instead of overwriting other data. Unmapped when dropped.
#[derive(Debug)]
pub struct StackSlab {
    base: NonNull<u8>,
    count: usize,
    stride: usize,
}

// SAFETY: a slab is a range of addresses valid in every thread; the code that assigns the stacks is
// responsible for their use.
unsafe impl Send for StackSlab {}
// SAFETY: the methods only read the fields.
unsafe impl Sync for StackSlab {}

/// Marks pages as a guard without splitting the mapping (Linux 6.13 and later).
const MADV_GUARD_INSTALL: libc::c_int = 102;

impl StackSlab {
    /// Makes room for `count` stacks of `bytes` each, a multiple of
    /// [`page_bytes`](crate::pages::page_bytes). They use memory only when they are touched.
    ///
    /// # Errors
    /// The error of the kernel. Before Linux 6.13 each stack takes two of the mappings that a
    /// process may have (`vm.max_map_count`), so `ENOMEM` occurs after about 32,000 stacks.
    pub fn new(count: usize, bytes: usize) -> io::Result<Self> {
        assert!(
            bytes.is_multiple_of(page_bytes()) && bytes > 0 && count > 0,
            "{count} of {bytes} bytes"
        );
        let stride = bytes + page_bytes();
        let length = stride.checked_mul(count).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: requests fresh addresses; no existing mapping is affected.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>());
        let base = base.ok_or_else(|| io::Error::other("mmap returned address zero"))?;
        let slab = Self { base, count, stride };
        // SAFETY: the range is this mapping. A huge page would make one touched stack use the
        // memory of many.
        unsafe { libc::madvise(slab.base.as_ptr().cast(), length, libc::MADV_NOHUGEPAGE) };
        (0..count).try_for_each(|index| slab.guard(index))?;
        Ok(slab)
    }

    /// Makes the lowest page of a stack inaccessible.
    fn guard(&self, index: usize) -> io::Result<()> {
        // SAFETY: the page is inside the mapping, which is new and unused.
        let done = unsafe {
            let page = self.base.as_ptr().add(index * self.stride).cast();
            match libc::madvise(page, page_bytes(), MADV_GUARD_INSTALL) {
                0 => 0,
                _ => libc::mprotect(page, page_bytes(), libc::PROT_NONE),
            }
        };
        crate::check(libc::c_long::from(done)).map(drop)
    }

    /// Returns how many stacks there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the lowest address of a stack, which is its guard's, and the address above its
    /// highest byte.
    pub fn bounds(&self, index: usize) -> (usize, usize) {
        assert!(index < self.count, "stack {index} of {}", self.count);
        let low = self.base.as_ptr().addr() + index * self.stride;
        (low, low + self.stride)
    }
}

impl Drop for StackSlab {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and no code may use it after the slab's end.
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), self.count * self.stride);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_lie_apart_and_can_be_written_above_their_guards() {
        let slab = StackSlab::new(3, 4 * page_bytes()).unwrap();
        for index in 0..3 {
            let (low, high) = slab.bounds(index);
            assert_eq!(high - low, 5 * page_bytes());
            // SAFETY: the lowest byte above the guard and the highest one, which only this test
            // uses.
            unsafe {
                ptr::with_exposed_provenance_mut::<u8>(low + page_bytes()).write_volatile(1);
                ptr::with_exposed_provenance_mut::<u8>(high - 1).write_volatile(1);
            }
        }
    }
}
