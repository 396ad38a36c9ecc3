//! The memory of a ring, shared by processes.

use std::ptr::NonNull;

use memory::{SharedBytes, SharedBytesMut};

use super::{Control, HEADER_BYTES, LINE_BYTES, check_lines};
use crate::primitive::AtomicU64;

/// The control words and lines, in memory whose validity the creator guarantees for as long as the
/// value exists.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    control: NonNull<Control>,
    first_line: NonNull<u8>,
    mask: u64,
    /// The binary logarithm of the number of lines.
    lap_shift: u32,
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
        Self { control, first_line, mask: lines as u64 - 1, lap_shift: lines.trailing_zeros() }
    }

    #[inline]
    pub(crate) fn control(&self) -> &Control {
        // SAFETY: the type guarantees that the memory is valid, and that these words are accessed
        // only as atomics.
        unsafe { self.control.as_ref() }
    }

    /// How many lines there are.
    #[inline]
    pub(crate) fn lines(&self) -> u64 {
        self.mask + 1
    }

    /// A number that changes from lap to lap and is never zero.
    #[inline]
    pub(crate) fn lap(&self, number: u64) -> u64 {
        (number >> self.lap_shift) & 0x7f | 0x80
    }

    #[inline]
    fn line(&self, number: u64) -> NonNull<u8> {
        let index = (number & self.mask) as usize;
        // SAFETY: the index is below the number of lines, all of which the type vouches for.
        unsafe { self.first_line.add(index * LINE_BYTES) }
    }

    #[inline]
    pub(crate) fn header(&self, number: u64) -> &AtomicU64 {
        // SAFETY: every line begins with an aligned word that is only accessed atomically once the
        // ring is in use. Where the word lies inside a packet's bytes, no thread reads it as a
        // header until the consumer has cleared it.
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
        // SAFETY: the caller guarantees the lines, which exist as long as the ring does. Peers that
        // obey the protocol leave them alone until the header is published.
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
        // SAFETY: the caller guarantees the lines, which exist as long as the ring does. A producer
        // that obeys the protocol leaves them alone until they are given back.
        take(unsafe { SharedBytes::new(self.line(first).add(HEADER_BYTES), length) });
    }

    /// Prefetches a line that is going to be read.
    #[inline]
    pub(crate) fn prefetch(&self, number: u64) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a hint, which has no effect on what the program sees, whatever the address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(self.line(number).as_ptr().cast());
        }
        #[cfg(all(target_arch = "aarch64", not(miri)))]
        // SAFETY: a hint, which has no effect on what the program sees, whatever the address.
        unsafe {
            let line = self.line(number).as_ptr();
            std::arch::asm!("prfm pldl1keep, [{}]", in(reg) line, options(nostack, preserves_flags));
        }
        #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
        let _ = number;
    }

    /// Takes a line, whose first word is 0 for all processes, out of the other cores' caches, to be
    /// written later. Where this is only a prefetch hint, the core does not wait for it.
    #[inline]
    pub(crate) fn take_to_write(&self, number: u64) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a hint without effect on what the program sees; a processor without the
        // instruction does nothing.
        unsafe {
            let line = self.line(number).as_ptr();
            std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags));
        }
        #[cfg(all(target_arch = "aarch64", not(miri)))]
        // SAFETY: a hint without effect on what the program sees.
        unsafe {
            let line = self.line(number).as_ptr();
            std::arch::asm!("prfm pstl1keep, [{}]", in(reg) line, options(nostack, preserves_flags));
        }
        #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
        self.header(number).store(0, crate::primitive::Ordering::Relaxed);
    }

    /// Moves a written line out of this core's private caches, nearer to the other cores, which
    /// then need not fetch it from here. Not for the first line of a packet, which the consumer has
    /// already requested.
    #[inline]
    pub(crate) fn hand_over(&self, number: u64) {
        memory::hand_over(self.line(number).as_ptr());
    }
}
