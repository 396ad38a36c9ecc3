//! Loops compiled for the widest vectors of the processor.

/// A loop that is worth being compiled for several instruction sets.
pub trait Work {
    /// Runs the loop. Only inlined code is compiled anew, so implementations, and the functions
    /// that they call for each element, need `#[inline(always)]`.
    fn run(self);
}

/// Runs `work` with the vector instructions of this processor; the results are those of
/// [`Work::run`].
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
            // SAFETY: the check above found the features that the function is compiled for.
            return unsafe { with_avx512(work) };
        }
        // SAFETY: the check above found the features that the function is compiled for.
        return unsafe { with_avx2(work) };
    }
    work.run();
}

/// AVX-512 adds minimum and maximum of 8-byte integers, masks, and twice the number of registers;
/// the compiler may choose vectors that are no longer than with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi2,lzcnt,avx512vl,avx512bw,avx512dq")]
fn with_avx512<W: Work>(work: W) {
    work.run();
}

/// Also enables instructions that count leading zeros and shift by variable distances, which every
/// processor with AVX2 has; they are checked anyway. No fused multiplication: it rounds
/// differently.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi2,lzcnt")]
fn with_avx2<W: Work>(work: W) {
    work.run();
}
