//! Control of the order in which a core starts instructions.

/// Makes this core finish the preceding instructions before it starts the following ones. Without
/// it, a load starts long before its turn. It does not wait until stores have left the core.
#[inline(always)]
pub fn finish_earlier_instructions() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every processor of this architecture has the instruction, which changes no state that
    // the program can see.
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
}
