//! Accesses to a whole block of memory, for measurements: each byte once, as fast as this processor
//! can.

use std::hint::black_box;
use std::sync::atomic::{Ordering, fence};

use sys::cross_memory::{self, Run};

/// A cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct Line(pub [u64; 8]);

/// Reads all of a block.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(never)]
pub fn load(block: &[Line]) {
    use std::arch::x86_64::{__m128i, _mm_load_si128, _mm_setzero_si128, _mm_xor_si128};
    // SAFETY: SSE2, to which the instructions belong, is part of every x86-64 processor; a line has
    // four such words and is aligned to more than one of them.
    let sums = unsafe {
        let mut sums = [_mm_setzero_si128(); 4];
        for Line(words) in block {
            let from = words.as_ptr().cast::<__m128i>();
            for (word, sum) in sums.iter_mut().enumerate() {
                *sum = _mm_xor_si128(*sum, _mm_load_si128(from.add(word)));
            }
        }
        sums
    };
    let [first, second, third, fourth] = sums;
    black_box((first, second, third, fourth));
}

/// Reads all of a block.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(never)]
pub fn load(block: &[Line]) {
    let mut sums = [0_u64; 8];
    for Line(words) in block {
        for (sum, word) in sums.iter_mut().zip(words) {
            *sum = sum.wrapping_add(*word);
        }
    }
    black_box(sums);
}

/// Writes all of a block through the caches: `value` to the first line, one more to each following
/// line. Other processors can see it when this function returns.
#[inline(never)]
pub fn store(block: &mut [Line], value: u64) {
    let mut value = value;
    for Line(words) in &mut *block {
        *words = [value; 8];
        // With equal lines the compiler would replace the loop by a function call.
        value = value.wrapping_add(1);
    }
    fence(Ordering::SeqCst);
}

/// Writes all of a block past the caches, where the instructions for that are known: `value` to the
/// first line, one more to each following line.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(never)]
pub fn store_past_caches(block: &mut [Line], value: u64) {
    use std::arch::x86_64::{__m128i, _mm_set1_epi64x, _mm_stream_si128};
    let mut value = value;
    for Line(words) in &mut *block {
        let to = words.as_mut_ptr().cast::<__m128i>();
        for word in 0..4 {
            // SAFETY: a line has four such words and is aligned to more than one of them; SSE2, to
            // which the instruction belongs, is part of every x86-64 processor, and the fence below
            // orders the stores.
            unsafe { _mm_stream_si128(to.add(word), _mm_set1_epi64x(value as i64)) };
        }
        value = value.wrapping_add(1);
    }
    fence(Ordering::SeqCst);
}

/// Copies a block by the system call that copies between processes, as if it were memory of another
/// process. Returns whether all bytes were copied.
pub fn copy_by_system(from: &[Line], into: &mut [Line]) -> bool {
    let length = size_of_val(from).min(size_of_val(into));
    let local = Run { address: into.as_mut_ptr() as usize, length };
    let remote = Run { address: from.as_ptr() as usize, length };
    // SAFETY: the local run lies in `into`, which is borrowed exclusively, and any bytes are valid
    // lines.
    let copied = unsafe { cross_memory::read(std::process::id() as i32, &[local], &[remote]) };
    copied.is_ok_and(|copied| copied == length)
}

/// Evicts a block from all caches; returns whether the instructions for that are known.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub fn evict(block: &[Line]) -> bool {
    use std::arch::x86_64::{_mm_clflush, _mm_mfence};
    for line in block {
        // SAFETY: flushing a readable line changes no value; SSE2 is part of every x86-64
        // processor.
        unsafe { _mm_clflush(std::ptr::from_ref(line).cast()) };
    }
    // SAFETY: this is only a fence; SSE2 is part of every x86-64 processor.
    unsafe { _mm_mfence() };
    true
}

/// Evicts a block from all caches; returns whether the instructions for that are known.
#[cfg(all(target_arch = "aarch64", not(miri)))]
pub fn evict(block: &[Line]) -> bool {
    for line in block {
        // SAFETY: cleaning and invalidating a readable line changes no value. Linux lets programs
        // execute the instruction.
        unsafe {
            let line = std::ptr::from_ref(line);
            std::arch::asm!("dc civac, {}", in(reg) line, options(nostack, preserves_flags));
        }
    }
    // SAFETY: this only waits until the lines are evicted.
    unsafe { std::arch::asm!("dsb ish", options(nostack, preserves_flags)) };
    true
}

/// Writes all of a block through the caches, as no instructions to bypass them are known here.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub fn store_past_caches(block: &mut [Line], value: u64) {
    store(block, value);
}

/// Does nothing and returns false, as no instructions to evict lines are known here.
#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
pub fn evict(_block: &[Line]) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_what_was_stored() {
        let mut block = vec![Line::default(); 33];
        for (value, how) in [(3, store as fn(&mut [Line], u64)), (5, store_past_caches)] {
            how(&mut block, value);
            load(&block);
            evict(&block);
            assert!(block.iter().zip(value..).all(|(line, value)| line.0 == [value; 8]));
        }
    }
}
