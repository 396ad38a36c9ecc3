//! Half precision, which has no Rust type.
//!
//! One addition or multiplication in single precision and one rounding yield the correctly rounded
//! result in half precision: single precision has more than twice its digits.

use memory::half;

use super::element::{Element, ElementOperation, Nan, Ordered, apply};

/// Combines elements of half precision, `incoming` on the left, after conversion to single
/// precision: `T` consists of one or more single-precision numbers.
pub(super) fn apply_to_halves<T: Element, C: ElementOperation<T>>(
    incoming: &[u8],
    inout: &mut [u8],
) {
    if incoming.len() <= SMALL_PIECE_BYTES {
        apply_by_pieces::<T, C, SMALL_PIECE_BYTES>(incoming, inout);
    } else {
        apply_by_pieces::<T, C, PIECE_BYTES>(incoming, inout);
    }
}

/// The number of bytes of halves that are combined at once: their values stay in the nearest cache.
const PIECE_BYTES: usize = 1024;

/// A smaller piece, for a few elements that should not pay for clearing a large one.
const SMALL_PIECE_BYTES: usize = 32;

fn apply_by_pieces<T: Element, C: ElementOperation<T>, const BYTES: usize>(
    incoming: &[u8],
    inout: &mut [u8],
) {
    assert_eq!(incoming.len(), inout.len(), "both operands have the same number of elements");
    let (mut left, mut right) = ([[0; BYTES]; 2], [[0; BYTES]; 2]);
    let (left, right) = (left.as_flattened_mut(), right.as_flattened_mut());
    for (incoming, inout) in incoming.chunks(BYTES).zip(inout.chunks_mut(BYTES)) {
        let (left, right) = (&mut left[..2 * incoming.len()], &mut right[..2 * incoming.len()]);
        half::widen(incoming, left);
        half::widen(inout, right);
        apply::<T, C>(left, right);
        half::narrow(right, inout);
    }
}

/// IEEE binary16 as its bits, for comparisons.
#[derive(Clone, Copy)]
pub(super) struct HalfBits(u16);

const HALF_SIGN: u16 = 0x8000;
const HALF_INFINITY: u16 = 0x7c00;

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
        // -1 for negative numbers, otherwise 0.
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
