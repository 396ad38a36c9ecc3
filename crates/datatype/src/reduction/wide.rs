//! Floating-point numbers of 16 bytes without a Rust type: the 80-bit format of the x87, and IEEE
//! binary128.
//!
//! Both have a sign, 15 bits of exponent with one bias, and a significand. Its leading bit is
//! explicit in the first format, and implied by the exponent in the second. Sums and products are
//! correctly rounded to the nearest number, ties to even. There are no branches except for
//! infinities and NaNs, so the time does not depend on the data.

use std::hint::select_unpredictable;

use super::compound::Negated;
use super::element::{Arithmetic, Element, Nan, Ordered};

/// A number with a significand of `PRECISION` bits, as the bits of its format.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wide<const PRECISION: u32>(u128);

/// The 80-bit format of the x87 in 16 bytes, of which the upper six are padding.
pub(super) type Extended = Wide<64>;

/// IEEE binary128.
pub(super) type Quadruple = Wide<113>;

const EXPONENT_MAX: i32 = 0x7fff;
const BIAS: i32 = 0x3fff;
/// The number of bits behind the significand that decide its rounding; the last one is the sticky
/// bit for all that were shifted out. A further bit at the other end takes a carry.
const ROUNDING_BITS: u32 = 3;
const SURPLUS_BITS: u32 = ROUNDING_BITS + 1;

impl<const PRECISION: u32> Wide<PRECISION> {
    /// Whether the leading bit of the significand is explicit.
    const EXPLICIT: bool = PRECISION == 64;
    const EXPONENT_AT: u32 = if Self::EXPLICIT { 64 } else { 112 };
    const SIGN_AT: u32 = Self::EXPONENT_AT + 15;
    const FRACTION: u128 = (1 << Self::EXPONENT_AT) - 1;
    const MAGNITUDE: u128 = (1 << Self::SIGN_AT) - 1;
    const LEADING: u128 = 1 << (PRECISION - 1);
    const INFINITY: u128 =
        (EXPONENT_MAX as u128) << Self::EXPONENT_AT | (Self::LEADING & Self::FRACTION);
    /// Bits that turn any number into a quiet NaN.
    const QUIET_NAN: u128 = Self::INFINITY | 1 << (PRECISION - 2);

    #[inline(always)]
    fn exponent(self) -> i32 {
        (self.0 >> Self::EXPONENT_AT) as i32 & EXPONENT_MAX
    }

    #[inline(always)]
    fn sign(self) -> u128 {
        self.0 & 1 << Self::SIGN_AT
    }

    /// Returns the exponent, which is 1 for subnormal numbers, and the significand.
    #[inline(always)]
    fn parts(self) -> (i32, u128) {
        let exponent = self.exponent();
        let implied = if Self::EXPLICIT || exponent == 0 { 0 } else { Self::LEADING };
        (exponent.max(1), self.0 & Self::FRACTION | implied)
    }

    /// Returns an integer with the order of absolute values: the bits without the sign. If the
    /// leading bit is explicit, equal numbers get one exponent.
    #[inline(always)]
    fn magnitude(self) -> u128 {
        let magnitude = self.0 & Self::MAGNITUDE;
        let lower = Self::EXPLICIT & (self.exponent() == 0) & (self.0 & Self::LEADING != 0);
        magnitude + (u128::from(lower) << Self::EXPONENT_AT)
    }

    /// Whether it is infinite or a NaN. In the x87's format, numbers without the leading bit that
    /// their exponent requires are invalid and count as NaNs.
    #[inline(always)]
    fn is_special(self) -> bool {
        let exponent = self.exponent();
        let incomplete = Self::EXPLICIT & (exponent != 0) & (self.0 & Self::LEADING == 0);
        (exponent == EXPONENT_MAX) | incomplete
    }

    #[inline(always)]
    fn is_infinite(self) -> bool {
        self.0 & Self::MAGNITUDE == Self::INFINITY
    }

    #[inline(always)]
    fn is_no_number(self) -> bool {
        self.is_special() & !self.is_infinite()
    }

    /// Returns an integer with the order of numbers, with -0.0 below 0.0.
    #[inline(always)]
    fn signed(self) -> i128 {
        // -1 for negative numbers, otherwise 0.
        let sign = -((self.0 >> Self::SIGN_AT) as i128);
        self.magnitude() as i128 ^ sign
    }

    /// Returns the smaller value if NaNs sort below all numbers, otherwise the larger value.
    #[cold]
    #[inline(never)]
    fn special_extreme(self, other: Self, nan: Nan) -> Self {
        let (left, right) = (self.key(nan), other.key(nan));
        if nan.of(left < right, left > right) { self } else { other }
    }

    #[cold]
    #[inline(never)]
    fn special_sum(self, other: Self) -> Self {
        match (self.is_infinite(), other.is_infinite()) {
            _ if self.is_no_number() => Self(self.0 | Self::QUIET_NAN),
            _ if other.is_no_number() => Self(other.0 | Self::QUIET_NAN),
            (true, true) if self.sign() != other.sign() => Self(Self::QUIET_NAN),
            (true, _) => self,
            _ => other,
        }
    }

    /// Returns the product of two numbers, one of which is special or 0.
    #[cold]
    #[inline(never)]
    fn special_product(self, other: Self) -> Self {
        let sign = self.sign() ^ other.sign();
        match (self.is_infinite(), other.is_infinite()) {
            _ if self.is_no_number() => Self(self.0 | Self::QUIET_NAN),
            _ if other.is_no_number() => Self(other.0 | Self::QUIET_NAN),
            (false, false) => Self(sign),
            _ if self.parts().1 == 0 || other.parts().1 == 0 => Self(Self::QUIET_NAN),
            _ => Self(sign | Self::INFINITY),
        }
    }

    /// Returns the nearest number to `significand` with the sign bit `sign`. `significand` is not 0
    /// and has room for [`SURPLUS_BITS`] more bits than fit; the first of these has `exponent`, at
    /// least 1.
    #[inline(always)]
    fn rounded(sign: u128, exponent: i32, significand: u128) -> Self {
        let unused = significand.leading_zeros() as i32 - (128 - PRECISION - SURPLUS_BITS) as i32;
        let shift = unused.min(exponent - 1);
        let (exponent, significand) = (exponent - shift, significand << shift);
        let rest = significand as u32 & ((1 << SURPLUS_BITS) - 1);
        let kept = significand >> SURPLUS_BITS;
        let half = 1 << (SURPLUS_BITS - 1);
        let up = (rest > half) | ((rest == half) & (kept as u32 & 1 == 1));
        let kept = kept + u128::from(up);
        // Without a leading bit the number is subnormal, and its exponent is 1. The leading bit,
        // and a carry into the next one, are added to the exponent.
        let leading = kept >> (PRECISION - 1);
        let fraction = if Self::EXPLICIT { kept >> (leading >> 1) } else { kept & Self::FRACTION };
        let magnitude =
            (((exponent - 1) as u128 + leading) << Self::EXPONENT_AT) + (fraction & Self::FRACTION);
        Self(sign | magnitude.min(Self::INFINITY))
    }

    /// Returns the first 128 bits of the product of two normalised significands; the last one is a
    /// sticky bit for all that follow.
    #[inline(always)]
    fn product(left: u128, right: u128) -> u128 {
        if PRECISION == 64 {
            return u128::from(left as u64) * u128::from(right as u64);
        }
        let half = |bits: u128| ((bits >> 64) as u64, bits as u64);
        let times = |left: u64, right: u64| u128::from(left) * u128::from(right);
        let (left_high, left_low) = half(left << (128 - PRECISION));
        let (right_high, right_low) = half(right << (128 - PRECISION));
        let low = times(left_low, right_low);
        let (first, second) = (times(left_high, right_low), times(left_low, right_high));
        let middle = (low >> 64) + u128::from(first as u64) + u128::from(second as u64);
        let high = times(left_high, right_high) + (first >> 64) + (second >> 64) + (middle >> 64);
        high | u128::from((low as u64 | middle as u64) != 0)
    }
}

/// Shifts to the right; the last bit is a sticky bit for all lost bits.
#[inline(always)]
fn shifted(bits: u128, distance: i32) -> u128 {
    let distance = distance.min(127);
    let kept = bits >> distance;
    kept | u128::from(kept << distance != bits)
}

impl<const PRECISION: u32> Element for Wide<PRECISION> {
    const BYTES: usize = 16;
    const ALONE: bool = true;

    #[inline(always)]
    fn load(bytes: &[u8]) -> Self {
        let unused = 127 - Self::SIGN_AT;
        Self(u128::load(bytes) << unused >> unused)
    }

    #[inline(always)]
    fn store(self, bytes: &mut [u8]) {
        self.0.store(bytes);
    }
}

impl<const PRECISION: u32> Arithmetic for Wide<PRECISION> {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        if self.is_special() | other.is_special() {
            return self.special_sum(other);
        }
        // Selects without a branch: the data gives the branch predictor no pattern.
        let swap = self.magnitude() < other.magnitude();
        let larger = Self(select_unpredictable(swap, other.0, self.0));
        let smaller = Self(select_unpredictable(swap, self.0, other.0));
        let (sign, differ) = (larger.sign(), self.sign() != other.sign());
        let ((exponent, larger), (lower_exponent, smaller)) = (larger.parts(), smaller.parts());
        let larger = larger << ROUNDING_BITS;
        let smaller = shifted(smaller << ROUNDING_BITS, exponent - lower_exponent);
        let sum = select_unpredictable(differ, larger - smaller, larger + smaller);
        if sum == 0 {
            return Self(if differ { 0 } else { sign });
        }
        Self::rounded(sign, exponent + 1, sum)
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        let (left, right) = (self.parts(), other.parts());
        let zero = (left.1 == 0) | (right.1 == 0);
        if self.is_special() | other.is_special() | zero {
            return self.special_product(other);
        }
        let whole = |(exponent, significand): (i32, u128)| {
            let shift = significand.leading_zeros() as i32 - (128 - PRECISION) as i32;
            (exponent - shift, significand << shift)
        };
        let (left, right) = (whole(left), whole(right));
        let product = Self::product(left.1, right.1);
        let exponent = left.0 + right.0 - BIAS + 1;
        let below = (1 - exponent).max(0);
        let surplus = (128 - PRECISION - SURPLUS_BITS) as i32;
        Self::rounded(
            self.sign() ^ other.sign(),
            exponent.max(1),
            shifted(product, surplus + below),
        )
    }
}

impl<const PRECISION: u32> Ordered for Wide<PRECISION> {
    type Key = i128;

    #[inline(always)]
    fn key(self, nan: Nan) -> i128 {
        let key = self.signed() + i128::from(self.sign() != 0);
        if self.is_no_number() { nan.of(i128::MIN, i128::MAX) } else { key }
    }

    #[inline(always)]
    fn lesser(self, other: Self) -> Self {
        if self.is_special() | other.is_special() {
            return self.special_extreme(other, Nan::Below);
        }
        Self(select_unpredictable(self.signed() < other.signed(), self.0, other.0))
    }

    #[inline(always)]
    fn greater(self, other: Self) -> Self {
        if self.is_special() | other.is_special() {
            return self.special_extreme(other, Nan::Above);
        }
        Self(select_unpredictable(self.signed() > other.signed(), self.0, other.0))
    }

    #[inline(always)]
    fn is_negative(self) -> bool {
        self.sign() != 0
    }
}

impl<const PRECISION: u32> Negated for Wide<PRECISION> {
    #[inline(always)]
    fn negated(self) -> Self {
        Self(self.0 ^ 1 << Self::SIGN_AT)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rustc_apfloat::Float;
    use rustc_apfloat::ieee::{Quad, X87DoubleExtended};

    use super::*;
    use crate::predefined::{Precision, Predefined};
    use crate::reduction::{Operator, reduce};

    /// Returns bits of numbers whose exponents are often close together, or at an end of their
    /// range.
    fn bits(exponent_at: u32) -> impl Strategy<Value = u128> {
        let exponent = prop_oneof![
            4 => 0x3fff_u128 - 70..0x3fff + 70,
            2 => 0..4_u128,
            1 => 60..130_u128,
            1 => 0x1fff - 80..0x1fff + 80_u128,
            2 => 0x7ffb..=0x7fff_u128,
            1 => 0..=0x7fff_u128,
        ];
        let fraction = prop_oneof![
            any::<u128>(),
            (0..128_u32, any::<u128>()).prop_map(|(shift, bits)| bits.checked_shl(shift).unwrap()),
            (0..128_u32, any::<u128>()).prop_map(|(shift, bits)| bits.checked_shr(shift).unwrap()),
            Just(0),
            Just(u128::MAX),
        ];
        (any::<bool>(), exponent, fraction, 0..20_u32).prop_map(
            move |(negative, exponent, fraction, normal)| {
                let sign = u128::from(negative) << (exponent_at + 15);
                let fraction = fraction & ((1 << exponent_at) - 1);
                let complete = exponent_at == 64 && exponent != 0 && normal > 0;
                let leading = if complete { 1 << 63 } else { 0 };
                sign | exponent << exponent_at | fraction | leading
            },
        )
    }

    /// Returns the kernel's result for two numbers, as the second of three equal elements.
    fn reduced(operator: Operator, element: Predefined, left: u128, right: u128) -> u128 {
        let mut inout = [right; 3].map(u128::to_ne_bytes).concat();
        reduce(operator, element, &[left; 3].map(u128::to_ne_bytes).concat(), &mut inout)
            .expect("defined");
        assert_eq!(inout[..16], inout[32..]);
        u128::load(&inout[16..])
    }

    /// Returns the kernel's result for two complex numbers.
    fn reduced_complex(element: Predefined, left: [u128; 2], right: [u128; 2]) -> [u128; 2] {
        let mut inout = right.map(u128::to_ne_bytes).concat();
        reduce(Operator::Product, element, &left.map(u128::to_ne_bytes).concat(), &mut inout)
            .expect("defined");
        [u128::load(&inout), u128::load(&inout[16..])]
    }

    fn check_complex<F: Float, const PRECISION: u32>(element: Predefined, parts: [u128; 4]) {
        let [a, b, c, d] = parts.map(F::from_bits);
        let product = |left: F, right: F| (left * right).value;
        let real = (product(a, c) - product(b, d)).value;
        let imaginary = (product(a, d) + product(b, c)).value;
        let found = reduced_complex(element, [parts[0], parts[1]], [parts[2], parts[3]]);
        for (found, expected) in found.into_iter().zip([real, imaginary]) {
            let both_nan = Wide::<PRECISION>(found).is_no_number() && expected.is_nan();
            assert!(found == expected.to_bits() || both_nan, "{parts:x?}: {found:#x}");
        }
    }

    fn check<F: Float, const PRECISION: u32>(element: Predefined, left: u128, right: u128) {
        let (a, b) = (Wide::<PRECISION>(left), Wide::<PRECISION>(right));
        let (x, y) = (F::from_bits(left), F::from_bits(right));
        let (sum, product) = ((x + y).value, (x * y).value);
        for (found, expected) in [
            (a.plus(b), sum),
            (b.plus(a), sum),
            (a.times(b), product),
            (Wide(reduced(Operator::Sum, element, left, right)), sum),
            (Wide(reduced(Operator::Product, element, left, right)), product),
        ] {
            let same = found.0 == expected.to_bits() || found.is_no_number() && expected.is_nan();
            assert!(same, "{left:#x} {right:#x}: {:#x}, not {:#x}", found.0, expected.to_bits());
        }
        assert_eq!(a.is_no_number(), x.is_nan());
        for nan in [Nan::Below, Nan::Above] {
            if !x.is_nan() && !y.is_nan() {
                let order = x.partial_cmp(&y).expect("two numbers");
                assert_eq!(a.key(nan).cmp(&b.key(nan)), order, "{left:#x} {right:#x}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 20_000 }))]

        // Elsewhere no datatype has this format.
        #[cfg(target_arch = "x86_64")]
        #[test]
        fn extended_numbers_are_those_of_the_reference(left in bits(64), right in bits(64)) {
            check::<X87DoubleExtended, 64>(Predefined::LongDouble, left, right);
        }

        #[test]
        fn complex_numbers_are_those_of_the_reference(
            extended in [bits(64), bits(64), bits(64), bits(64)],
            quadruple in [bits(112), bits(112), bits(112), bits(112)],
        ) {
            if Precision::LONG_DOUBLE == Precision::Extended {
                check_complex::<X87DoubleExtended, 64>(Predefined::LongDoubleComplex, extended);
            } else {
                check_complex::<Quad, 113>(Predefined::LongDoubleComplex, quadruple);
            }
            check_complex::<Quad, 113>(Predefined::Complex32, quadruple);
        }

        #[test]
        fn quadruple_numbers_are_those_of_the_reference(left in bits(112), right in bits(112)) {
            check::<Quad, 113>(Predefined::Real16, left, right);
            if Precision::LONG_DOUBLE == Precision::Quadruple {
                check::<Quad, 113>(Predefined::LongDouble, left, right);
            }
        }
    }

    #[test]
    fn extended_is_laid_out_as_by_the_x87() {
        let mut bytes = [0xff; 16];
        bytes[..10].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0xc0, 0xff, 0x3f]);
        let one_and_a_half = Extended::load(&bytes);
        one_and_a_half.times(one_and_a_half).store(&mut bytes);
        // 2.25: the integer bit is explicit, the exponent is 1 + 16383, the padding is zero.
        assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0, 0x90, 0, 0x40, 0, 0, 0, 0, 0, 0]);
    }
}
