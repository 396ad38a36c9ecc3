//! The order in which a core begins instructions.

/// Has this core finish what precedes before it begins what follows: without it, a look at memory
/// begins long before its turn. It does not wait until stores have left the core.
#[inline(always)]
pub fn finish_earlier_instructions() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every processor of this architecture has the instruction, which changes nothing that
    // the program sees.
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
}
