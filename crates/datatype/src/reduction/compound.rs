//! Elements that consist of two others: complex numbers, and values with an index.

use std::hint::select_unpredictable;

use super::element::{Arithmetic, Element, ElementOperation, Nan, Ordered};

/// A complex number: real and imaginary part.
#[derive(Clone, Copy)]
pub(super) struct Complex<T> {
    real: T,
    imaginary: T,
}

/// A value and its index, for `MPI_MINLOC` and `MPI_MAXLOC`, packed: without the padding of a C
/// struct.
#[derive(Clone, Copy)]
pub(super) struct Pair<V, I> {
    value: V,
    index: I,
}

/// Selects the pair with the smaller value; of equal values the one with the lower index.
pub(super) struct MinimumLocation;

/// Selects the pair with the larger value; of equal values the one with the lower index.
pub(super) struct MaximumLocation;

impl<V: Ordered, I: Ordered> ElementOperation<Pair<V, I>> for MinimumLocation {
    #[inline(always)]
    fn of(left: Pair<V, I>, right: Pair<V, I>) -> Pair<V, I> {
        let (one, other) = (left.value.key(Nan::Below), right.value.key(Nan::Below));
        let first = if one == other { precedes(left, right) } else { one < other };
        select(first, left, right)
    }
}

impl<V: Ordered, I: Ordered> ElementOperation<Pair<V, I>> for MaximumLocation {
    #[inline(always)]
    fn of(left: Pair<V, I>, right: Pair<V, I>) -> Pair<V, I> {
        let (one, other) = (left.value.key(Nan::Above), right.value.key(Nan::Above));
        let first = if one == other { precedes(left, right) } else { one > other };
        select(first, left, right)
    }
}

/// Selects a pair without a branch: the data gives the branch predictor no pattern.
#[inline(always)]
fn select<V: Ordered, I: Ordered>(first: bool, left: Pair<V, I>, right: Pair<V, I>) -> Pair<V, I> {
    Pair {
        value: select_unpredictable(first, left.value, right.value),
        index: select_unpredictable(first, left.index, right.index),
    }
}

/// Whether `left` is selected from two pairs with equal values. Zeros of both signs are equal, but
/// the selection must not depend on the order of the operands.
#[inline(always)]
fn precedes<V: Ordered, I: Ordered>(left: Pair<V, I>, right: Pair<V, I>) -> bool {
    let (one, other) = (left.index.key(Nan::Above), right.index.key(Nan::Above));
    let signs = |pair: Pair<V, I>| {
        2 * u8::from(pair.value.is_negative()) + u8::from(pair.index.is_negative())
    };
    (one < other) | ((one == other) & (signs(left) > signs(right)))
}

impl<T: Element> Element for Complex<T> {
    const BYTES: usize = 2 * T::BYTES;

    #[inline(always)]
    fn load(bytes: &[u8]) -> Self {
        Self { real: T::load(bytes), imaginary: T::load(&bytes[T::BYTES..]) }
    }

    #[inline(always)]
    fn store(self, bytes: &mut [u8]) {
        self.real.store(bytes);
        self.imaginary.store(&mut bytes[T::BYTES..]);
    }
}

impl<T: Arithmetic + Negated> Arithmetic for Complex<T> {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self { real: self.real.plus(other.real), imaginary: self.imaginary.plus(other.imaginary) }
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        let minus = self.imaginary.times(other.imaginary).negated();
        Self {
            real: self.real.times(other.real).plus(minus),
            imaginary: self.real.times(other.imaginary).plus(self.imaginary.times(other.real)),
        }
    }
}

/// A number that has a negative.
pub(super) trait Negated {
    fn negated(self) -> Self;
}

impl Negated for f32 {
    #[inline(always)]
    fn negated(self) -> Self {
        -self
    }
}

impl Negated for f64 {
    #[inline(always)]
    fn negated(self) -> Self {
        -self
    }
}

impl<V: Element, I: Element> Element for Pair<V, I> {
    const BYTES: usize = V::BYTES + I::BYTES;
    const ALONE: bool = !Self::BYTES.is_power_of_two();

    #[inline(always)]
    fn load(bytes: &[u8]) -> Self {
        Self { value: V::load(bytes), index: I::load(&bytes[V::BYTES..]) }
    }

    #[inline(always)]
    fn store(self, bytes: &mut [u8]) {
        self.value.store(bytes);
        self.index.store(&mut bytes[V::BYTES..]);
    }
}
