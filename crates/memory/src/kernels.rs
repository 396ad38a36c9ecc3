//! Copies between addresses, for runs and blocks of different lengths.

use std::ptr;

/// Expands `$body` with the block's size for sizes that have specialized copies, and with 0 for
/// others, as [`copy_block`] requires.
macro_rules! with_constant_block {
    ($block:expr, $body:ident) => {
        match $block {
            1 => $body!(1),
            2 => $body!(2),
            4 => $body!(4),
            8 => $body!(8),
            12 => $body!(12),
            16 => $body!(16),
            24 => $body!(24),
            32 => $body!(32),
            40 => $body!(40),
            48 => $body!(48),
            64 => $body!(64),
            128 => $body!(128),
            _ => $body!(0),
        }
    };
}

pub(crate) use with_constant_block;

/// Copies `length` bytes; the shortest runs without a function call.
///
/// # Safety
/// Those of `ptr::copy_nonoverlapping`.
#[inline(always)]
pub(crate) unsafe fn copy_run(from: *const u8, to: *mut u8, length: usize) {
    /// Two words, the first and the last of the run, which overlap when it is shorter.
    macro_rules! two_words {
        ($word:ty) => {{
            let last = length - size_of::<$word>();
            // SAFETY: the run is at least a word and at most two words long, so both words lie
            // inside it on both sides; the accesses are unaligned ones.
            unsafe {
                let first_word = from.cast::<$word>().read_unaligned();
                let last_word = from.add(last).cast::<$word>().read_unaligned();
                to.cast::<$word>().write_unaligned(first_word);
                to.add(last).cast::<$word>().write_unaligned(last_word);
            }
        }};
    }
    match length {
        8..=16 => two_words!(u64),
        4..=7 => two_words!(u32),
        0 => {}
        // SAFETY: passed on to the caller.
        _ => unsafe { ptr::copy_nonoverlapping(from, to, length) },
    }
}

/// Copies `length` bytes without keeping the destination in this core's caches.
///
/// # Safety
/// Those of `ptr::copy_nonoverlapping`.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) unsafe fn copy_past_caches(from: *const u8, to: *mut u8, length: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const LINE: usize = 64;
    let aligned = to.align_offset(LINE).min(length);
    let lines = (length - aligned) / LINE;
    let end = aligned + lines * LINE;
    // SAFETY:
    // - All accesses are inside the `length` bytes on both sides, which the caller vouches for; the
    //   loads are unaligned ones, the stores begin at a multiple of 64 from the first aligned byte.
    // - SSE2, to which the instructions belong, is part of every x86-64 processor.
    // - The fence orders the stores before all later ones, as ordinary stores would be.
    unsafe {
        ptr::copy_nonoverlapping(from, to, aligned);
        let mut at = aligned;
        while at < end {
            let source = from.add(at).cast::<__m128i>();
            let target = to.add(at).cast::<__m128i>();
            // Without closures, which builds without optimisation of the whole program call.
            let (first, second) = (_mm_loadu_si128(source), _mm_loadu_si128(source.add(1)));
            let (third, fourth) = (_mm_loadu_si128(source.add(2)), _mm_loadu_si128(source.add(3)));
            _mm_stream_si128(target, first);
            _mm_stream_si128(target.add(1), second);
            _mm_stream_si128(target.add(2), third);
            _mm_stream_si128(target.add(3), fourth);
            at += LINE;
        }
        _mm_sfence();
        ptr::copy_nonoverlapping(from.add(end), to.add(end), length - end);
    }
}

/// Copies `length` bytes through the caches, as no instructions to bypass them are known here.
///
/// # Safety
/// Those of `ptr::copy_nonoverlapping`.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) unsafe fn copy_past_caches(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: passed on to the caller.
    unsafe { ptr::copy_nonoverlapping(from, to, length) }
}

/// Copies `count` blocks of `block` bytes between two strided places.
///
/// # Safety
/// All blocks are readable at the source and writable at the destination, without overlap.
pub(crate) unsafe fn copy_strided(
    from: *const u8,
    from_stride: isize,
    to: *mut u8,
    to_stride: isize,
    block: usize,
    count: usize,
) {
    macro_rules! blocks_of {
        ($bytes:expr) => {
            for i in 0..count as isize {
                // SAFETY: the caller vouches for block `i` on both sides, without overlap.
                unsafe {
                    let (from, to) = (from.offset(i * from_stride), to.offset(i * to_stride));
                    copy_block::<{ $bytes }>(from, to, block);
                }
            }
        };
    }
    with_constant_block!(block, blocks_of);
}

/// Copies a block of `length` bytes, word by word from the first to the last. `length` is `BYTES`,
/// or any number if `BYTES` is 0.
///
/// The compiler's own copies of constant length write the last word first. If the destination lines
/// are in another core's cache, as those of a ring are, they then arrive one by one instead of
/// being prefetched: packing blocks of 64 bytes into a ring took twice as long.
///
/// # Safety
/// Those of `ptr::copy_nonoverlapping`.
#[inline(always)]
pub(crate) unsafe fn copy_block<const BYTES: usize>(from: *const u8, to: *mut u8, length: usize) {
    if BYTES == 0 {
        // SAFETY: passed on to the caller.
        return unsafe { ptr::copy_nonoverlapping(from, to, length) };
    }
    debug_assert_eq!(length, BYTES);
    let mut done = 0;
    macro_rules! word {
        ($word:ty) => {{
            // SAFETY: the word lies in the block; the accesses are unaligned ones.
            unsafe {
                let word = from.add(done).cast::<$word>().read_unaligned();
                to.add(done).cast::<$word>().write_unaligned(word);
            }
            done += size_of::<$word>();
        }};
    }
    while done + size_of::<u128>() <= BYTES {
        word!(u128);
    }
    if BYTES - done >= size_of::<u64>() {
        word!(u64);
    }
    if BYTES - done >= size_of::<u32>() {
        word!(u32);
    }
    if BYTES - done >= size_of::<u16>() {
        word!(u16);
    }
    if BYTES > done {
        word!(u8);
    }
    debug_assert_eq!(done, BYTES);
}
