//! Loops compiled for the widest vectors that the processor has.

/// A loop that is worth being compiled more than once.
pub trait Work {
    /// Runs the loop. Only what is inlined here is compiled anew: implementations, and what they
    /// call for each element, want `#[inline(always)]`.
    fn run(self);
}

/// Runs `work` with the vector instructions of this processor; the results are the same as by
/// calling [`Work::run`].
#[inline]
pub fn widest<W: Work>(work: W) {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2")
        && std::is_x86_feature_detected!("bmi2")
        && std::is_x86_feature_detected!("lzcnt")
    {
        // SAFETY: the processor has what the function was compiled for, as was just seen.
        return unsafe { with_avx2(work) };
    }
    work.run();
}

/// Also counts leading zeros and shifts by variable distances in one instruction each, which every
/// processor with AVX2 can, but is asked to confirm. No fused multiplication: it rounds otherwise.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi2,lzcnt")]
fn with_avx2<W: Work>(work: W) {
    work.run();
}
