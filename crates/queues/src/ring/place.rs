//! Where a ring lies: in memory that processes share.

use std::ptr::NonNull;

use memory::{SharedBytes, SharedBytesMut};

use super::{Control, HEADER_BYTES, LINE_BYTES, check_lines};
use crate::primitive::AtomicU64;

/// Control words and lines in memory that was vouched for, for as long as the value is there.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    control: NonNull<Control>,
    first_line: NonNull<u8>,
    mask: u64,
}

impl Place {
    /// # Safety
    /// As for [`super::RingProducer::new`].
    pub(crate) unsafe fn new(memory: NonNull<u8>, lines: usize) -> Self {
        check_lines(lines);
        assert!(memory.as_ptr().cast::<Control>().is_aligned());
        let control = memory.cast::<Control>();
        // SAFETY: the caller vouches for `memory_bytes(lines)` bytes, of which control is the
        // first part.
        let first_line = unsafe { control.add(1).cast::<u8>() };
        Self { control, first_line, mask: lines as u64 - 1 }
    }

    #[inline]
    pub(crate) fn control(&self) -> &Control {
        // SAFETY: the type's promise: the memory is there, and nobody touches these words but as
        // atomics.
        unsafe { self.control.as_ref() }
    }

    /// How many lines there are.
    #[inline]
    pub(crate) fn lines(&self) -> u64 {
        self.mask + 1
    }

    #[inline]
    fn line(&self, number: u64) -> NonNull<u8> {
        let index = (number & self.mask) as usize;
        // SAFETY: the index is below the number of lines, all of which the type vouches for.
        unsafe { self.first_line.add(index * LINE_BYTES) }
    }

    #[inline]
    pub(crate) fn header(&self, number: u64) -> &AtomicU64 {
        // SAFETY: every line begins, aligned, with a word that is only accessed atomically once
        // the ring is in use, or lies inside a packet's bytes, which nobody looks at until the
        // consumer cleared it.
        unsafe { self.line(number).cast::<AtomicU64>().as_ref() }
    }

    /// Lets `fill` write the body of a packet that begins with line `first`.
    ///
    /// # Safety
    /// The packet's lines are before the end of the ring, and the caller's alone: reserved, and not
    /// published.
    #[inline(always)]
    pub(crate) unsafe fn fill(
        &self,
        first: u64,
        length: usize,
        fill: impl FnOnce(SharedBytesMut<'_>),
    ) {
        // SAFETY: the caller vouches for the lines, which are there as long as the ring is; peers
        // that obey the protocol leave them alone until the header is published.
        fill(unsafe { SharedBytesMut::new(self.line(first).add(HEADER_BYTES), length) });
    }

    /// Lets `take` read the body of a packet that begins with line `first`.
    ///
    /// # Safety
    /// The packet's lines are before the end of the ring, were seen to be published, and have not
    /// been given back.
    #[inline(always)]
    pub(crate) unsafe fn take(
        &self,
        first: u64,
        length: usize,
        take: impl FnOnce(SharedBytes<'_>),
    ) {
        // SAFETY: the caller vouches for the lines, which are there as long as the ring is; a
        // producer that obeys the protocol leaves them alone until they are given back.
        take(unsafe { SharedBytes::new(self.line(first).add(HEADER_BYTES), length) });
    }

    /// A hint that a line is going to be looked at.
    #[inline]
    pub(crate) fn prefetch(&self, number: u64) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a hint, which has no effect on what the program sees, whatever the address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(self.line(number).as_ptr().cast());
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = number;
    }

    /// Takes a line, whose first word is 0 for everyone, out of the others' caches, to be written
    /// later. Where that is a hint, nobody waits for it.
    #[inline]
    pub(crate) fn take_to_write(&self, number: u64) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a hint, as above; a processor that does not know it does nothing.
        unsafe {
            let line = self.line(number).as_ptr();
            std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags));
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        self.header(number).store(0, crate::primitive::Ordering::Relaxed);
    }

    /// Has a line that was written moved out of this core's own caches, nearer to the others: they
    /// then need not fetch it from here. Not the first of a packet, which they have already asked
    /// for.
    #[inline]
    pub(crate) fn hand_over(&self, number: u64) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a hint, as above; a processor that does not know it does nothing.
        unsafe {
            let line = self.line(number).as_ptr();
            std::arch::asm!("cldemote [{}]", in(reg) line, options(nostack, preserves_flags));
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = number;
    }
}
