//! Conversion between the 80-bit numbers of the x87, which `long double` is, and IEEE binary128.
//!
//! Both have 15 bits of exponent with one bias. The x87 format has an explicit leading bit and 63
//! bits of fraction; binary128 has 112 bits of fraction.

const EXPONENT_MAX: u64 = 0x7fff;
const LEADING_BIT: u64 = 1 << 63;
/// The number of bits of fraction that binary128 has and the x87 format lacks.
const SHIFT: u32 = 112 - 63;

/// Returns the bits of the binary128 number with the value of `native`.
pub(crate) fn to_quadruple(native: [u8; 16]) -> u128 {
    let bits = u128::from_le_bytes(native);
    let significand = bits as u64;
    let sign = (bits >> 79) & 1;
    let exponent = (bits >> 64) as u64 & EXPONENT_MAX;
    let leading = significand & LEADING_BIT != 0;
    let fraction = u128::from(significand & !LEADING_BIT) << SHIFT;
    let (exponent, fraction) = match (exponent, leading) {
        // Not normalised; its exponent is the smallest one of normal numbers.
        (0, true) => (1, fraction),
        // An invalid number without a leading bit; converted to a quiet NaN.
        (1.., false) => (EXPONENT_MAX, fraction | 1 << 111),
        (exponent, _) => (exponent, fraction),
    };
    sign << 127 | u128::from(exponent) << 112 | fraction
}

/// Returns the nearest x87 number (ties to even), in 16 bytes of which the last 6 are zero.
pub(crate) fn from_quadruple(bits: u128) -> [u8; 16] {
    let sign = bits >> 127;
    let exponent = (bits >> 112) as u64 & EXPONENT_MAX;
    let fraction = bits & ((1 << 112) - 1);
    let kept = (fraction >> SHIFT) as u64;
    let (exponent, significand) = if exponent == EXPONENT_MAX {
        // Infinity, or a NaN whose fraction must not become that of infinity.
        let quiet = if fraction != 0 && kept == 0 { 1 << 62 } else { 0 };
        (exponent, LEADING_BIT | kept | quiet)
    } else {
        rounded(exponent, kept, fraction)
    };
    let bits = sign << 79 | u128::from(exponent) << 64 | u128::from(significand);
    bits.to_le_bytes()
}

fn rounded(exponent: u64, kept: u64, fraction: u128) -> (u64, u64) {
    let lost = fraction & ((1 << SHIFT) - 1);
    let half = 1 << (SHIFT - 1);
    let up = lost > half || (lost == half && kept & 1 == 1);
    let kept = kept + u64::from(up);
    // A carry out of the fraction yields the next power of two: from below the normal numbers the
    // smallest normal one, from the largest ones infinity.
    let carry = kept >> 63;
    let exponent = exponent + carry;
    let fraction = if carry == 1 { 0 } else { kept };
    (exponent, if exponent == 0 { fraction } else { LEADING_BIT | fraction })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn x87(sign: u128, exponent: u128, significand: u64) -> [u8; 16] {
        (sign << 79 | exponent << 64 | u128::from(significand)).to_le_bytes()
    }

    #[test]
    fn known_values() {
        let one = x87(0, 0x3fff, LEADING_BIT);
        assert_eq!(to_quadruple(one), 0x3fff << 112);
        let minus_three_halves = x87(1, 0x3fff, 3 << 62);
        assert_eq!(to_quadruple(minus_three_halves), 1 << 127 | 0x3fff << 112 | 1 << 111);
        assert_eq!(to_quadruple(x87(0, 0, 0)), 0);
        assert_eq!(to_quadruple(x87(0, 0x7fff, LEADING_BIT)), 0x7fff << 112);
    }

    #[test]
    fn rounding_goes_to_the_nearest_and_to_even() {
        let one = 0x3fff_u128 << 112;
        let half = 1 << (SHIFT - 1);
        assert_eq!(from_quadruple(one | half), x87(0, 0x3fff, LEADING_BIT));
        assert_eq!(from_quadruple(one | (half + 1)), x87(0, 0x3fff, LEADING_BIT | 1));
        assert_eq!(from_quadruple(one | (3 * half)), x87(0, 0x3fff, LEADING_BIT | 2));
        let below_two = one | ((1 << 112) - 1);
        assert_eq!(from_quadruple(below_two), x87(0, 0x4000, LEADING_BIT));
        let largest = 0x7ffe << 112 | ((1 << 112) - 1);
        assert_eq!(from_quadruple(largest), x87(0, 0x7fff, LEADING_BIT));
        assert_eq!(from_quadruple((1 << 112) - 1), x87(0, 1, LEADING_BIT));
    }

    #[test]
    fn every_canonical_number_survives() {
        let significands = [LEADING_BIT, LEADING_BIT | 1, u64::MAX, 0xdead_beef_0123_4567];
        for exponent in [1, 2, 0x3fff, 0x7ffe, 0x7fff] {
            for significand in significands {
                let native = x87(1, exponent, significand | LEADING_BIT);
                assert_eq!(from_quadruple(to_quadruple(native)), native);
            }
        }
        let denormal = x87(0, 0, 12345);
        assert_eq!(from_quadruple(to_quadruple(denormal)), denormal);
    }
}
