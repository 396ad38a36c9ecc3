//! Elements made of two others: complex numbers, and values with an index.

use super::element::{Arithmetic, Element, Ordered};

/// A complex number: real and imaginary part.
#[derive(Clone, Copy)]
pub(super) struct Complex<T> {
    real: T,
    imaginary: T,
}

/// A value and its index, for `MPI_MINLOC` and `MPI_MAXLOC`, packed: without the padding that a
/// C struct has.
#[derive(Clone, Copy)]
pub(super) struct Pair<V, I> {
    value: V,
    index: I,
}

/// The pair of the smaller value; of equal ones that of the lower index.
pub(super) fn minimum_location<V: Ordered, I: Ordered>(
    left: Pair<V, I>,
    right: Pair<V, I>,
) -> Pair<V, I> {
    let prevails = |one: V, other: V| one.is_below(other) || (one.is_nan() && !other.is_nan());
    located(left, right, prevails)
}

/// The pair of the larger value; of equal ones that of the lower index.
pub(super) fn maximum_location<V: Ordered, I: Ordered>(
    left: Pair<V, I>,
    right: Pair<V, I>,
) -> Pair<V, I> {
    let prevails = |one: V, other: V| other.is_below(one) || (one.is_nan() && !other.is_nan());
    located(left, right, prevails)
}

fn located<V: Ordered, I: Ordered>(
    left: Pair<V, I>,
    right: Pair<V, I>,
    prevails: impl Fn(V, V) -> bool,
) -> Pair<V, I> {
    let precedes = |one: I, other: I| one.is_below(other) || (other.is_nan() && !one.is_nan());
    // Zeros of both signs are equal, but which one is taken must not depend on the order.
    let signs = |pair: Pair<V, I>| (pair.value.is_negative(), pair.index.is_negative());
    if prevails(left.value, right.value) {
        left
    } else if prevails(right.value, left.value) || precedes(right.index, left.index) {
        right
    } else if precedes(left.index, right.index) || signs(left) > signs(right) {
        left
    } else {
        right
    }
}

impl<T: Element> Element for Complex<T> {
    const BYTES: usize = 2 * T::BYTES;

    #[inline]
    fn load(bytes: &[u8]) -> Self {
        Self { real: T::load(bytes), imaginary: T::load(&bytes[T::BYTES..]) }
    }

    #[inline]
    fn store(self, bytes: &mut [u8]) {
        self.real.store(bytes);
        self.imaginary.store(&mut bytes[T::BYTES..]);
    }
}

impl<T: Arithmetic + Negated> Arithmetic for Complex<T> {
    fn plus(self, other: Self) -> Self {
        Self { real: self.real.plus(other.real), imaginary: self.imaginary.plus(other.imaginary) }
    }

    fn times(self, other: Self) -> Self {
        let minus = self.imaginary.times(other.imaginary).negated();
        Self {
            real: self.real.times(other.real).plus(minus),
            imaginary: self.real.times(other.imaginary).plus(self.imaginary.times(other.real)),
        }
    }
}

/// What has a negative.
pub(super) trait Negated {
    fn negated(self) -> Self;
}

impl Negated for f32 {
    fn negated(self) -> Self {
        -self
    }
}

impl Negated for f64 {
    fn negated(self) -> Self {
        -self
    }
}

impl<V: Element, I: Element> Element for Pair<V, I> {
    const BYTES: usize = V::BYTES + I::BYTES;

    #[inline]
    fn load(bytes: &[u8]) -> Self {
        Self { value: V::load(bytes), index: I::load(&bytes[V::BYTES..]) }
    }

    #[inline]
    fn store(self, bytes: &mut [u8]) {
        self.value.store(bytes);
        self.index.store(&mut bytes[V::BYTES..]);
    }
}
