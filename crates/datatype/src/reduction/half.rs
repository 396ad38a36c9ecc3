//! Half precision, which no Rust type has.

use super::compound::Negated;
use super::element::{Arithmetic, Element, Nan, Ordered};

/// IEEE binary16, as the single-precision number that has its value: to be computed with.
///
/// One addition or multiplication in single precision and one rounding give the correctly rounded
/// result in half precision: single precision has more than twice its digits.
#[derive(Clone, Copy)]
pub(super) struct Half(f32);

/// IEEE binary16 as its bits: to be compared.
#[derive(Clone, Copy)]
pub(super) struct HalfBits(u16);

impl Element for Half {
    const BYTES: usize = 2;

    #[inline(always)]
    fn load(bytes: &[u8]) -> Self {
        Self(single_of_half(u16::load(bytes)))
    }

    #[inline(always)]
    fn store(self, bytes: &mut [u8]) {
        half_of_single(self.0).store(bytes);
    }
}

impl Arithmetic for Half {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        Self(self.0 * other.0)
    }
}

impl Negated for Half {
    #[inline(always)]
    fn negated(self) -> Self {
        Self(-self.0)
    }
}

impl Element for HalfBits {
    const BYTES: usize = 2;

    #[inline(always)]
    fn load(bytes: &[u8]) -> Self {
        Self(u16::load(bytes))
    }

    #[inline(always)]
    fn store(self, bytes: &mut [u8]) {
        self.0.store(bytes);
    }
}

impl Ordered for HalfBits {
    type Key = i16;

    #[inline(always)]
    fn key(self, nan: Nan) -> i16 {
        let magnitude = (self.0 & !HALF_SIGN) as i16;
        // -1 for negative numbers, else 0.
        let sign = self.0 as i16 >> 15;
        let key = (magnitude ^ sign) - sign;
        let is_nan = magnitude > HALF_INFINITY as i16;
        if is_nan { nan.of(i16::MIN, i16::MAX) } else { key }
    }

    #[inline(always)]
    fn is_negative(self) -> bool {
        self.0 & HALF_SIGN != 0
    }
}

const HALF_SIGN: u16 = 0x8000;
const HALF_INFINITY: u16 = 0x7c00;
const HALF_QUIET: u16 = 0x0200;
const HALF_MANTISSA: u16 = 0x03ff;
/// How many digits of a single-precision mantissa a half has no room for.
const LOST_DIGITS: u32 = 13;
/// The biases of the exponents differ by this much; here where single precision keeps it.
const BIAS: u32 = (127 - 15) << 23;
/// The smallest normal half, as single precision.
const SMALLEST_NORMAL: u32 = 0x3880_0000;
/// The power of two above all halves, as single precision.
const BEYOND_LARGEST: u32 = 0x4780_0000;

// Both conversions compute all cases and select one, so that they become vector instructions.

#[inline(always)]
fn single_of_half(half: u16) -> f32 {
    let magnitude = u32::from(half & !HALF_SIGN);
    let special = f32::INFINITY.to_bits() | magnitude << LOST_DIGITS;
    let normal = (magnitude << LOST_DIGITS) + BIAS;
    // A subnormal counts steps of 2^-24.
    let subnormal = (magnitude as i32 as f32 / 16_777_216.0).to_bits();
    let finite = if magnitude > u32::from(HALF_MANTISSA) { normal } else { subnormal };
    let value = if magnitude >= u32::from(HALF_INFINITY) { special } else { finite };
    f32::from_bits(value | u32::from(half & HALF_SIGN) << 16)
}

/// Rounds to the nearest half, to the even one of two.
#[inline(always)]
fn half_of_single(single: f32) -> u16 {
    let sign = (single.to_bits() >> 16) as u16 & HALF_SIGN;
    let magnitude = single.to_bits() & 0x7fff_ffff;
    let payload = (magnitude >> LOST_DIGITS) as u16 & HALF_MANTISSA;
    let nan = HALF_INFINITY | HALF_QUIET | payload;
    let even = (magnitude >> LOST_DIGITS) & 1;
    let half_step = (1 << (LOST_DIGITS - 1)) - 1;
    let normal = magnitude.wrapping_sub(BIAS).wrapping_add(half_step + even) >> LOST_DIGITS;
    // The last digit of 0.5 is worth 2^-24, so the addition rounds to steps of a subnormal.
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
            }
        }
    }
}
