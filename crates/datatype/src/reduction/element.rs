//! Elements of arrays of bytes, and Rust's number types as elements.

use std::hint::select_unpredictable;
use std::marker::PhantomData;

use memory::vector::{self, Work};

/// A value that is stored in a fixed number of bytes.
pub(super) trait Element: Copy {
    /// The size of one packed element, in bytes.
    const BYTES: usize;

    /// Whether vectors of several elements are slower than element after element, although the
    /// compiler assumes the opposite: it is so where vectors must be assembled from pieces.
    const ALONE: bool = false;

    /// Returns the value in the first [`Element::BYTES`] bytes.
    fn load(bytes: &[u8]) -> Self;

    /// Stores the value in the first [`Element::BYTES`] bytes.
    fn store(self, bytes: &mut [u8]);
}

/// An operation on two elements. It is a type because a function pointer would not be inlined into
/// loops for wider vectors.
pub(super) trait ElementOperation<T> {
    fn of(left: T, right: T) -> T;
}

/// Defines operations by expressions.
macro_rules! combinations {
    ($($name:ident of $bound:path: |$left:ident, $right:ident| $result:expr;)*) => {
        $(pub(super) struct $name;

        impl<T: $bound> ElementOperation<T> for $name {
            #[inline(always)]
            fn of($left: T, $right: T) -> T {
                $result
            }
        })*
    };
}

combinations! {
    Sum of Arithmetic: |left, right| left.plus(right);
    Product of Arithmetic: |left, right| left.times(right);
    Minimum of Ordered: |left, right| left.lesser(right);
    Maximum of Ordered: |left, right| left.greater(right);
    BitwiseAnd of Bits: |left, right| left.and(right);
    BitwiseOr of Bits: |left, right| left.or(right);
    BitwiseXor of Bits: |left, right| left.exclusive_or(right);
    LogicalAnd of Truth: |left, right| T::from(left.is_true() & right.is_true());
    LogicalOr of Truth: |left, right| T::from(left.is_true() | right.is_true());
    LogicalXor of Truth: |left, right| T::from(left.is_true() ^ right.is_true());
}

/// For at most this many bytes the check of the processor's features costs more than wider vectors
/// save.
const FEW_BYTES: usize = 32;

/// Combines all elements of two slices, `incoming` on the left; the results go to `inout`.
pub(super) fn apply<T: Element, C: ElementOperation<T>>(incoming: &[u8], inout: &mut [u8]) {
    assert_eq!(incoming.len(), inout.len(), "both operands have the same number of elements");
    let few = T::ALONE || incoming.len() <= FEW_BYTES;
    let elements = ElementwiseWork::<T, C> { incoming, inout, how: PhantomData };
    if few { elements.run() } else { vector::widest(elements) }
}

struct ElementwiseWork<'a, T, C> {
    incoming: &'a [u8],
    inout: &'a mut [u8],
    how: PhantomData<(T, C)>,
}

impl<T: Element, C: ElementOperation<T>> Work for ElementwiseWork<'_, T, C> {
    /// A loop over chunks of constant size without bounds checks, which the compiler turns into
    /// vector instructions where the element allows it.
    #[inline(always)]
    fn run(self) {
        let left = self.incoming.chunks_exact(T::BYTES);
        for (left, right) in left.zip(self.inout.chunks_exact_mut(T::BYTES)) {
            C::of(T::load(left), T::load(right)).store(right);
        }
    }
}

/// A number that can be added and multiplied.
pub(super) trait Arithmetic: Element {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

/// Where a NaN sorts.
#[derive(Clone, Copy)]
pub(super) enum Nan {
    Below,
    Above,
}

impl Nan {
    #[inline(always)]
    pub fn of<T>(self, lowest: T, highest: T) -> T {
        match self {
            Nan::Below => lowest,
            Nan::Above => highest,
        }
    }
}

/// A value that can be compared.
pub(super) trait Ordered: Element {
    /// An integer.
    type Key: Copy + Ord;

    /// Returns a key with the order of the values; equal for equal values, such as zeros of both
    /// signs.
    fn key(self, nan: Nan) -> Self::Key;

    /// Whether the sign is negative; used only to distinguish equal values.
    #[inline(always)]
    fn is_negative(self) -> bool {
        false
    }

    /// Returns the smaller value: a NaN if there is one, and -0.0 rather than 0.0.
    #[inline(always)]
    fn lesser(self, other: Self) -> Self {
        let (left, right) = (self.key(Nan::Below), other.key(Nan::Below));
        let first = (left < right) | ((left == right) & self.is_negative());
        select_unpredictable(first, self, other)
    }

    /// Returns the larger value: a NaN if there is one, and 0.0 rather than -0.0.
    #[inline(always)]
    fn greater(self, other: Self) -> Self {
        let (left, right) = (self.key(Nan::Above), other.key(Nan::Above));
        let first = (left > right) | ((left == right) & !self.is_negative());
        select_unpredictable(first, self, other)
    }
}

/// A value that is combined bit by bit.
pub(super) trait Bits: Element {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn exclusive_or(self, other: Self) -> Self;
}

/// A value that is true or false.
pub(super) trait Truth: Element + From<bool> {
    fn is_true(self) -> bool;
}

macro_rules! native_element {
    ($($number:ty)*) => {
        $(impl Element for $number {
            const BYTES: usize = size_of::<$number>();

            #[inline(always)]
            fn load(bytes: &[u8]) -> Self {
                let mut value = [0; Self::BYTES];
                value.copy_from_slice(&bytes[..Self::BYTES]);
                Self::from_ne_bytes(value)
            }

            #[inline(always)]
            fn store(self, bytes: &mut [u8]) {
                bytes[..Self::BYTES].copy_from_slice(&self.to_ne_bytes());
            }
        })*
    };
}

macro_rules! integer {
    ($($number:ty)*) => {
        $(impl Arithmetic for $number {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }

        impl Ordered for $number {
            type Key = $number;

            #[inline(always)]
            fn key(self, _: Nan) -> $number {
                self
            }
            #[inline(always)]
            fn lesser(self, other: Self) -> Self {
                self.min(other)
            }
            #[inline(always)]
            fn greater(self, other: Self) -> Self {
                self.max(other)
            }
        }

        impl Bits for $number {
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn exclusive_or(self, other: Self) -> Self {
                self ^ other
            }
        }

        impl Truth for $number {
            #[inline(always)]
            fn is_true(self) -> bool {
                self != 0
            }
        })*
    };
}

macro_rules! real {
    ($($number:ty: $key:ty;)*) => {
        $(impl Arithmetic for $number {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }
        }

        impl Ordered for $number {
            type Key = $key;

            #[inline(always)]
            fn key(self, nan: Nan) -> $key {
                let magnitude = self.abs().to_bits() as $key;
                // -1 for negative numbers, otherwise 0.
                let sign = self.to_bits() as $key >> (<$key>::BITS - 1);
                let key = (magnitude ^ sign) - sign;
                if self.is_nan() { nan.of(<$key>::MIN, <$key>::MAX) } else { key }
            }
            #[inline(always)]
            fn is_negative(self) -> bool {
                self.is_sign_negative()
            }
            // Selections instead of branches, so that they become vector instructions. Equal
            // numbers have equal bits, except for the sign of zero.
            #[inline(always)]
            fn lesser(self, other: Self) -> Self {
                let smaller = if self < other || self.is_nan() { self } else { other };
                let either = Self::from_bits(self.to_bits() | other.to_bits());
                if self == other { either } else { smaller }
            }
            #[inline(always)]
            fn greater(self, other: Self) -> Self {
                let larger = if self > other || self.is_nan() { self } else { other };
                let both = Self::from_bits(self.to_bits() & other.to_bits());
                if self == other { both } else { larger }
            }
        })*
    };
}

native_element!(i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64);
integer!(i8 i16 i32 i64 i128 u8 u16 u32 u64 u128);
real!(f32: i32; f64: i64;);
