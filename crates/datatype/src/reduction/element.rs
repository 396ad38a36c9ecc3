//! Elements of arrays of bytes, and the types of Rust as elements.

/// A value that is kept in a fixed number of bytes.
pub(super) trait Element: Copy {
    /// Bytes of one packed element.
    const BYTES: usize;

    /// The value of the first [`Element::BYTES`] bytes.
    fn load(bytes: &[u8]) -> Self;

    /// Keeps the value in the first [`Element::BYTES`] bytes.
    fn store(self, bytes: &mut [u8]);
}

/// Combines all elements of two slices, `incoming` on the left; the results go to `inout`.
///
/// The loop is over constant-size chunks without bounds checks, which the compiler turns into
/// vector instructions where the element allows it.
#[inline]
pub(super) fn apply<T: Element>(incoming: &[u8], inout: &mut [u8], operation: impl Fn(T, T) -> T) {
    assert_eq!(incoming.len(), inout.len(), "both operands have the same number of elements");
    let pairs = incoming.chunks_exact(T::BYTES).zip(inout.chunks_exact_mut(T::BYTES));
    for (left, right) in pairs {
        operation(T::load(left), T::load(right)).store(right);
    }
}

/// What can be added and multiplied.
pub(super) trait Arithmetic: Element {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

/// What can be compared.
pub(super) trait Ordered: Element {
    /// Whether this value is less; false if one of the two is no number.
    fn is_below(self, other: Self) -> bool;

    fn is_nan(self) -> bool {
        false
    }

    /// Whether the sign is negative; asked only to tell apart what is equal.
    fn is_negative(self) -> bool {
        false
    }

    /// The smaller value: a NaN if there is one, and -0.0 rather than 0.0.
    fn lesser(self, other: Self) -> Self {
        let equal = !self.is_below(other) && !other.is_below(self);
        let preferred = self.is_below(other) || (equal && self.is_negative());
        if self.is_nan() || (preferred && !other.is_nan()) { self } else { other }
    }

    /// The larger value: a NaN if there is one, and 0.0 rather than -0.0.
    fn greater(self, other: Self) -> Self {
        let equal = !self.is_below(other) && !other.is_below(self);
        let preferred = other.is_below(self) || (equal && !self.is_negative());
        if self.is_nan() || (preferred && !other.is_nan()) { self } else { other }
    }
}

/// What is combined bit by bit.
pub(super) trait Bits: Element {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn exclusive_or(self, other: Self) -> Self;
}

/// What can be true or false.
pub(super) trait Truth: Element {
    fn is_true(self) -> bool;
    fn of(truth: bool) -> Self;
}

macro_rules! native_element {
    ($($number:ty)*) => {
        $(impl Element for $number {
            const BYTES: usize = size_of::<$number>();

            #[inline]
            fn load(bytes: &[u8]) -> Self {
                let mut value = [0; Self::BYTES];
                value.copy_from_slice(&bytes[..Self::BYTES]);
                Self::from_ne_bytes(value)
            }

            #[inline]
            fn store(self, bytes: &mut [u8]) {
                bytes[..Self::BYTES].copy_from_slice(&self.to_ne_bytes());
            }
        })*
    };
}

macro_rules! integer {
    ($($number:ty)*) => {
        $(impl Arithmetic for $number {
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }

        impl Ordered for $number {
            fn is_below(self, other: Self) -> bool {
                self < other
            }
            fn lesser(self, other: Self) -> Self {
                self.min(other)
            }
            fn greater(self, other: Self) -> Self {
                self.max(other)
            }
        }

        impl Bits for $number {
            fn and(self, other: Self) -> Self {
                self & other
            }
            fn or(self, other: Self) -> Self {
                self | other
            }
            fn exclusive_or(self, other: Self) -> Self {
                self ^ other
            }
        }

        impl Truth for $number {
            fn is_true(self) -> bool {
                self != 0
            }
            fn of(truth: bool) -> Self {
                <$number>::from(truth)
            }
        })*
    };
}

macro_rules! real {
    ($($number:ty)*) => {
        $(impl Arithmetic for $number {
            fn plus(self, other: Self) -> Self {
                self + other
            }
            fn times(self, other: Self) -> Self {
                self * other
            }
        }

        impl Ordered for $number {
            fn is_below(self, other: Self) -> bool {
                self < other
            }
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            fn is_negative(self) -> bool {
                self.is_sign_negative()
            }
            // Selections instead of branches, so that they become vector instructions. Equal
            // numbers have equal bits, but for the sign of zero.
            fn lesser(self, other: Self) -> Self {
                let smaller = if self < other || self.is_nan() { self } else { other };
                let either = Self::from_bits(self.to_bits() | other.to_bits());
                if self == other { either } else { smaller }
            }
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
real!(f32 f64);
