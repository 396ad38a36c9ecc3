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
        if std::is_x86_feature_detected!("avx512vl")
            && std::is_x86_feature_detected!("avx512bw")
            && std::is_x86_feature_detected!("avx512dq")
        {
            // SAFETY: the processor has what the function was compiled for, as was just seen.
            return unsafe { with_avx512(work) };
        }
        // SAFETY: the same.
        return unsafe { with_avx2(work) };
    }
    work.run();
}

/// Smallest and largest of 8 bytes, masks, and half of the registers more; the vectors may be no
/// longer than with AVX2, as the compiler sees fit.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi2,lzcnt,avx512vl,avx512bw,avx512dq")]
fn with_avx512<W: Work>(work: W) {
    work.run();
}

/// Also counts leading zeros and shifts by variable distances in one instruction each, which every
/// processor with AVX2 can, but is asked to confirm. No fused multiplication: it rounds otherwise.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi2,lzcnt")]
fn with_avx2<W: Work>(work: W) {
    work.run();
}
