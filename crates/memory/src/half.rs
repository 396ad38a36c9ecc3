//! Conversion of arrays between half precision (IEEE binary16) and single precision.

use crate::vector::{self, Work};

/// Converts `halves`, 2 bytes each, to `singles`, 4 bytes each.
///
/// # Panics
/// If the numbers of elements differ.
pub fn widen(halves: &[u8], singles: &mut [u8]) {
    assert_eq!(2 * halves.len(), singles.len(), "as many numbers in both precisions");
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("f16c") {
        // SAFETY: the check above found the features that the function is compiled for.
        return unsafe { hardware::widen(halves, singles) };
    }
    vector::widest(Widening { halves, singles });
}

/// Converts `singles` to the nearest `halves`; ties go to the even one.
///
/// # Panics
/// If the numbers of elements differ.
pub fn narrow(singles: &[u8], halves: &mut [u8]) {
    assert_eq!(2 * halves.len(), singles.len(), "as many numbers in both precisions");
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("f16c") {
        // SAFETY: the check above found the features that the function is compiled for.
        return unsafe { hardware::narrow(singles, halves) };
    }
    vector::widest(Narrowing { singles, halves });
}

struct Widening<'a> {
    halves: &'a [u8],
    singles: &'a mut [u8],
}

impl Work for Widening<'_> {
    #[inline(always)]
    fn run(self) {
        for (half, single) in self.halves.chunks_exact(2).zip(self.singles.chunks_exact_mut(4)) {
            let half = u16::from_ne_bytes([half[0], half[1]]);
            single.copy_from_slice(&single_of_half(half).to_ne_bytes());
        }
    }
}

struct Narrowing<'a> {
    singles: &'a [u8],
    halves: &'a mut [u8],
}

impl Work for Narrowing<'_> {
    #[inline(always)]
    fn run(self) {
        for (single, half) in self.singles.chunks_exact(4).zip(self.halves.chunks_exact_mut(2)) {
            let single = f32::from_ne_bytes([single[0], single[1], single[2], single[3]]);
            half.copy_from_slice(&half_of_single(single).to_ne_bytes());
        }
    }
}

/// Conversion by the processor's F16C instructions.
#[cfg(target_arch = "x86_64")]
mod hardware {
    use std::arch::x86_64::{
        _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128, _mm_storeu_si128, _mm256_cvtph_ps,
        _mm256_cvtps_ph, _mm256_loadu_ps, _mm256_storeu_ps,
    };

    use super::{Narrowing, Widening, Work};

    /// The number of values converted by one instruction.
    const LANES: usize = 8;

    #[target_feature(enable = "avx,f16c")]
    pub(super) fn widen(halves: &[u8], singles: &mut [u8]) {
        let (mut from, mut to) =
            (halves.chunks_exact(2 * LANES), singles.chunks_exact_mut(4 * LANES));
        for (halves, singles) in (&mut from).zip(&mut to) {
            // SAFETY: both chunks hold eight numbers; the instructions require no alignment.
            unsafe {
                let values = _mm256_cvtph_ps(_mm_loadu_si128(halves.as_ptr().cast()));
                _mm256_storeu_ps(singles.as_mut_ptr().cast(), values);
            }
        }
        Widening { halves: from.remainder(), singles: to.into_remainder() }.run();
    }

    #[target_feature(enable = "avx,f16c")]
    pub(super) fn narrow(singles: &[u8], halves: &mut [u8]) {
        let (mut from, mut to) =
            (singles.chunks_exact(4 * LANES), halves.chunks_exact_mut(2 * LANES));
        for (singles, halves) in (&mut from).zip(&mut to) {
            // SAFETY: both chunks hold eight numbers; the instructions require no alignment.
            unsafe {
                let values = _mm256_loadu_ps(singles.as_ptr().cast());
                let numbers = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values);
                _mm_storeu_si128(halves.as_mut_ptr().cast(), numbers);
            }
        }
        Narrowing { singles: from.remainder(), halves: to.into_remainder() }.run();
    }
}

const HALF_SIGN: u16 = 0x8000;
const HALF_INFINITY: u16 = 0x7c00;
const HALF_QUIET: u16 = 0x0200;
const HALF_MANTISSA: u16 = 0x03ff;
/// The number of mantissa bits that single precision has and half precision lacks.
const LOST_DIGITS: u32 = 13;
/// The difference of the biases of the exponents, shifted to the exponent of single precision.
const BIAS: u32 = (127 - 15) << 23;
/// The smallest normal half, as single precision.
const SMALLEST_NORMAL: u32 = 0x3880_0000;
/// The power of two above all finite halves, as single precision.
const BEYOND_LARGEST: u32 = 0x4780_0000;

// Both conversions compute all cases and select one, so that they become vector instructions.

#[inline(always)]
fn single_of_half(half: u16) -> f32 {
    let magnitude = u32::from(half & !HALF_SIGN);
    let special = f32::INFINITY.to_bits() | magnitude << LOST_DIGITS;
    let normal = (magnitude << LOST_DIGITS) + BIAS;
    // A subnormal half counts multiples of 2^-24.
    let subnormal = (magnitude as i32 as f32 / 16_777_216.0).to_bits();
    let finite = if magnitude > u32::from(HALF_MANTISSA) { normal } else { subnormal };
    let value = if magnitude >= u32::from(HALF_INFINITY) { special } else { finite };
    f32::from_bits(value | u32::from(half & HALF_SIGN) << 16)
}

/// Rounds to the nearest half; ties go to the even one.
#[inline(always)]
fn half_of_single(single: f32) -> u16 {
    let sign = (single.to_bits() >> 16) as u16 & HALF_SIGN;
    let magnitude = single.to_bits() & 0x7fff_ffff;
    let payload = (magnitude >> LOST_DIGITS) as u16 & HALF_MANTISSA;
    let nan = HALF_INFINITY | HALF_QUIET | payload;
    let even = (magnitude >> LOST_DIGITS) & 1;
    let half_step = (1 << (LOST_DIGITS - 1)) - 1;
    let normal = magnitude.wrapping_sub(BIAS).wrapping_add(half_step + even) >> LOST_DIGITS;
    // The last bit of 0.5 is worth 2^-24, so the addition rounds to multiples of the smallest
    // subnormal.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let finite = if magnitude >= SMALLEST_NORMAL { normal } else { subnormal } as u16;
    let number = if magnitude >= BEYOND_LARGEST { HALF_INFINITY } else { finite };
    sign | if magnitude > f32::INFINITY.to_bits() { nan } else { number }
}

#[cfg(test)]
mod tests {
    use rustc_apfloat::ieee;
    use rustc_apfloat::{Float, FloatConvert};

    use super::*;

    #[test]
    fn arrays_are_converted_like_single_numbers() {
        let halves: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_ne_bytes).collect();
        let all = if cfg!(miri) { 100 } else { 1 << 16 };
        for length in [0, 1, 7, 8, 9, all] {
            let halves = &halves[..2 * length];
            let mut singles = vec![0; 4 * length];
            widen(halves, &mut singles);
            let mut again = vec![0; 2 * length];
            narrow(&singles, &mut again);
            for (index, single) in singles.chunks(4).enumerate() {
                let (bits, expected) = (index as u16, single_of_half(index as u16));
                let single = f32::from_ne_bytes(single.try_into().unwrap());
                assert!(
                    single.to_bits() == expected.to_bits() || single.is_nan() && expected.is_nan()
                );
                let quiet = if single.is_nan() { HALF_QUIET } else { 0 };
                assert_eq!(again[2 * index..][..2], (bits | quiet).to_ne_bytes());
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "arithmetic only, and too long")]
    fn every_half_survives_single_precision() {
        for bits in 0..=u16::MAX {
            let single = single_of_half(bits);
            let mut exact = false;
            let reference: ieee::Single =
                ieee::Half::from_bits(u128::from(bits)).convert(&mut exact).value;
            if single.is_nan() {
                assert!(reference.is_nan());
                assert_eq!(half_of_single(single), bits | HALF_QUIET);
            } else {
                assert_eq!(u128::from(single.to_bits()), reference.to_bits(), "{bits:#x}");
                assert_eq!(half_of_single(single), bits);
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn halves_are_rounded_to_the_nearest(bits: u32, exponent in 100..145u32) {
            for bits in [bits, (bits & 0x807f_ffff) | exponent << 23] {
                let single = f32::from_bits(bits);
                let mut exact = false;
                let reference: ieee::Half =
                    ieee::Single::from_bits(u128::from(bits)).convert(&mut exact).value;
                if single.is_nan() {
                    assert!(single_of_half(half_of_single(single)).is_nan());
                } else {
                    assert_eq!(u128::from(half_of_single(single)), reference.to_bits());
                }
                let mut halves = [0; 16];
                narrow(&[single; 8].map(f32::to_ne_bytes).concat(), &mut halves);
                for half in halves.chunks(2) {
                    let half = u16::from_ne_bytes([half[0], half[1]]);
                    let nan = single.is_nan() && single_of_half(half).is_nan();
                    assert!(half == half_of_single(single) || nan);
                }
            }
        }
    }
}
