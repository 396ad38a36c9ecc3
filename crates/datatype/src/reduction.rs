//! The predefined reduction operations (section 6.9.2 of the MPI standard) on packed elements.
//!
//! All of them are symmetric bit for bit, so the order of the operands does not matter: the smaller
//! of 0.0 and -0.0 is -0.0 in either order, a NaN always prevails over numbers, and of equal values
//! `MPI_MINLOC` and `MPI_MAXLOC` take the lower index. Only the choice between two NaNs is left
//! open. Integers wrap around.
//!
//! Formats without a Rust type are computed by the processor if it supports them, and otherwise in
//! software, correctly rounded.

mod compound;
mod element;
mod half;
mod wide;

use base::{Error, ErrorClass, Result};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use memory::x87;
use memory::{Buffer, SharedBytes};

use self::compound::{Complex, MaximumLocation, MinimumLocation, Pair};
use self::element::{
    Arithmetic, Bits, BitwiseAnd, BitwiseOr, BitwiseXor, LogicalAnd, LogicalOr, LogicalXor,
    Maximum, Minimum, Ordered, Product, Sum, Truth, apply,
};
use self::half::{HalfBits, apply_to_halves};
use self::wide::{Extended, Quadruple};
use crate::predefined::{Precision, Predefined, ValueKind};

macro_rules! operators {
    ($($variant:ident = $name:literal;)*) => {
        /// The predefined operations.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Operator {
            $(#[doc = concat!("`", $name, "`.")] $variant,)*
        }

        impl Operator {
            /// Every operation, in the order of the variants.
            pub const ALL: &[Operator] = &[$(Operator::$variant),*];

            /// Returns the name in the C interface, such as `MPI_SUM`.
            pub const fn name(self) -> &'static str {
                match self { $(Operator::$variant => $name,)* }
            }
        }
    };
}

operators! {
    Sum = "MPI_SUM";
    Minimum = "MPI_MIN";
    Maximum = "MPI_MAX";
    Product = "MPI_PROD";
    BitwiseAnd = "MPI_BAND";
    BitwiseOr = "MPI_BOR";
    BitwiseXor = "MPI_BXOR";
    LogicalAnd = "MPI_LAND";
    LogicalOr = "MPI_LOR";
    LogicalXor = "MPI_LXOR";
    MinimumLocation = "MPI_MINLOC";
    MaximumLocation = "MPI_MAXLOC";
    Replace = "MPI_REPLACE";
    NoOperation = "MPI_NO_OP";
}

/// Whether `operator` is defined for elements of `element`: by the standard, or because programs
/// that were written for other libraries rely on it.
///
/// `MPI_REPLACE` and `MPI_NO_OP` are defined for all elements; the caller must check that they are
/// used in one-sided communication only (section 12.3.4).
pub fn supports(operator: Operator, element: Predefined) -> bool {
    kernel(operator, element).is_some()
}

/// Replaces each element of `inout` by `incoming operator inout`. Both hold packed elements
/// (without the padding of pairs), of one length in bytes, at any alignment.
///
/// # Errors
/// `Op` if the operation is not defined for the elements.
///
/// # Panics
/// If the lengths differ.
pub fn reduce(
    operator: Operator,
    element: Predefined,
    incoming: &[u8],
    inout: &mut [u8],
) -> Result<()> {
    let combine = combination(operator, element).ok_or_else(|| undefined(operator, element))?;
    combine(incoming, inout);
    Ok(())
}

/// Replaces each element of `into` by `from operator into`, for as many elements as the shorter of
/// the two has.
///
/// # Panics
/// If [`supports`] returns false.
pub fn combine(operator: Operator, element: Predefined, from: &Buffer, into: &Buffer) {
    let Some(kernel) = kernel(operator, element) else {
        panic!("{}", undefined(operator, element));
    };
    kernel.combine(from, into);
}

#[cold]
fn undefined(operator: Operator, element: Predefined) -> Error {
    let (operator, element) = (operator.name(), element.name());
    Error::new(
        ErrorClass::Op,
        format!(
            "{operator} is not defined for elements of {element}; section 6.9.2 of the MPI \
             standard lists the datatypes of each operation"
        ),
    )
}

/// Combines all elements of two slices. The function is chosen once per call, not per element.
type Combine = fn(&[u8], &mut [u8]);

/// An operation on the elements of one datatype.
#[derive(Clone, Copy, Debug)]
pub struct ReductionKernel {
    combine: Combine,
    element_bytes: usize,
}

impl ReductionKernel {
    /// Returns the size of one packed element, in bytes.
    #[inline]
    pub fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// Replaces each element of `into` by `from operator into`, for as many elements as the shorter
    /// of the two has.
    pub fn combine(&self, from: &Buffer, into: &Buffer) {
        into.combine_with(from, self.element_bytes, self.combine);
    }

    /// Replaces elements of `into` by `from operator into`, for `length` bytes, each from a packed
    /// offset of its buffer on.
    ///
    /// # Panics
    /// If one of the buffers has fewer bytes.
    #[inline]
    pub fn combine_range(
        &self,
        from: (&Buffer, usize),
        (into, offset): (&Buffer, usize),
        length: usize,
    ) {
        into.combine_range(offset, from, length, self.element_bytes, self.combine);
    }

    /// Replaces the elements of `into` from packed offset `offset` on by `from operator into`, for
    /// as many as `from` has.
    ///
    /// # Panics
    /// If `into` has fewer elements.
    #[inline]
    pub fn combine_shared(&self, from: SharedBytes<'_>, into: &Buffer, offset: usize) {
        into.combine_shared(offset, from, self.element_bytes, self.combine);
    }
}

/// Returns the kernel that combines elements of `element`, if `operator` is defined for them.
#[inline]
pub fn kernel(operator: Operator, element: Predefined) -> Option<ReductionKernel> {
    let element_bytes = element.size();
    combination(operator, element).map(|combine| ReductionKernel { combine, element_bytes })
}

/// Returns the function for an operation: the tables of section 6.9.2, and further combinations
/// that other libraries allow.
fn combination(operator: Operator, element: Predefined) -> Option<Combine> {
    match (operator, element.kind()) {
        (Operator::Replace, _) => Some(|incoming, inout| inout.copy_from_slice(incoming)),
        (Operator::NoOperation, _) => Some(|_, _| ()),
        // The standard allows bitwise operations only for bytes, and none for characters. Other
        // libraries treat bytes and MPI_CHARACTER as unsigned numbers and MPI_CHAR as a signed one.
        (_, ValueKind::Byte) => integer::<u8>(operator),
        (_, ValueKind::Character) => match element {
            Predefined::Char => integer::<i8>(operator),
            _ => integer::<u8>(operator),
        },
        (_, ValueKind::Signed) => match element.size() {
            1 => integer::<i8>(operator),
            2 => integer::<i16>(operator),
            4 => integer::<i32>(operator),
            8 => integer::<i64>(operator),
            _ => integer::<i128>(operator),
        },
        (_, ValueKind::Unsigned) => match element.size() {
            1 => integer::<u8>(operator),
            2 => integer::<u16>(operator),
            4 => integer::<u32>(operator),
            _ => integer::<u64>(operator),
        },
        (_, ValueKind::Logical) => match element.size() {
            1 => truth::<u8>(operator),
            2 => truth::<u16>(operator),
            4 => truth::<u32>(operator),
            8 => truth::<u64>(operator),
            _ => truth::<u128>(operator),
        },
        (_, ValueKind::Real(precision)) => match precision {
            Precision::Half => extreme::<HalfBits>(operator).or_else(|| halves::<f32>(operator)),
            Precision::Single => real::<f32>(operator),
            Precision::Double => real::<f64>(operator),
            Precision::Extended => extreme::<Extended>(operator).or_else(|| extended(operator)),
            Precision::Quadruple => real::<Quadruple>(operator),
        },
        (_, ValueKind::Complex(precision)) => match precision {
            Precision::Half => halves::<Complex<f32>>(operator),
            Precision::Single => arithmetic::<Complex<f32>>(operator),
            Precision::Double => arithmetic::<Complex<f64>>(operator),
            Precision::Extended => extended_complex(operator),
            Precision::Quadruple => arithmetic::<Complex<Quadruple>>(operator),
        },
        (_, ValueKind::Pair(..)) => pair(operator, element),
        (_, ValueKind::Packed | ValueKind::WideCharacter) => None,
    }
}

fn pair(operator: Operator, element: Predefined) -> Option<Combine> {
    match element {
        Predefined::FloatInt => location::<f32, i32>(operator),
        Predefined::DoubleInt => location::<f64, i32>(operator),
        Predefined::LongInt => location::<i64, i32>(operator),
        Predefined::TwoInt | Predefined::TwoInteger => location::<i32, i32>(operator),
        Predefined::ShortInt => location::<i16, i32>(operator),
        Predefined::LongDoubleInt => match Precision::LONG_DOUBLE {
            Precision::Extended => location::<Extended, i32>(operator),
            _ => location::<Quadruple, i32>(operator),
        },
        Predefined::TwoReal => location::<f32, f32>(operator),
        Predefined::TwoDoublePrecision => location::<f64, f64>(operator),
        _ => None,
    }
}

/// The standard allows logical operations for the integers of C only. Other libraries also have
/// them for `MPI_AINT`, `MPI_COUNT`, `MPI_OFFSET` and integers of Fortran, and programs rely on it.
fn integer<T: Arithmetic + Ordered + Bits + Truth>(operator: Operator) -> Option<Combine> {
    real::<T>(operator).or_else(|| bits::<T>(operator)).or_else(|| truth::<T>(operator))
}

fn real<T: Arithmetic + Ordered>(operator: Operator) -> Option<Combine> {
    extreme::<T>(operator).or_else(|| arithmetic::<T>(operator))
}

fn extreme<T: Ordered>(operator: Operator) -> Option<Combine> {
    match operator {
        Operator::Minimum => Some(apply::<T, Minimum>),
        Operator::Maximum => Some(apply::<T, Maximum>),
        _ => None,
    }
}

fn arithmetic<T: Arithmetic>(operator: Operator) -> Option<Combine> {
    match operator {
        Operator::Sum => Some(apply::<T, Sum>),
        Operator::Product => Some(apply::<T, Product>),
        _ => None,
    }
}

/// Returns the function for numbers of half precision, which computes in single precision.
fn halves<T: Arithmetic>(operator: Operator) -> Option<Combine> {
    match operator {
        Operator::Sum => Some(apply_to_halves::<T, Sum>),
        Operator::Product => Some(apply_to_halves::<T, Product>),
        _ => None,
    }
}

/// Returns the function for the x87's own format, computed by the x87.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn extended(operator: Operator) -> Option<Combine> {
    match operator {
        Operator::Sum => Some(x87::add),
        Operator::Product => Some(x87::multiply),
        _ => None,
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn extended_complex(operator: Operator) -> Option<Combine> {
    match operator {
        Operator::Sum => Some(x87::add),
        Operator::Product => Some(x87::multiply_complex),
        _ => None,
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn extended(operator: Operator) -> Option<Combine> {
    arithmetic::<Extended>(operator)
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn extended_complex(operator: Operator) -> Option<Combine> {
    arithmetic::<Complex<Extended>>(operator)
}

fn bits<T: Bits>(operator: Operator) -> Option<Combine> {
    match operator {
        Operator::BitwiseAnd => Some(apply::<T, BitwiseAnd>),
        Operator::BitwiseOr => Some(apply::<T, BitwiseOr>),
        Operator::BitwiseXor => Some(apply::<T, BitwiseXor>),
        _ => None,
    }
}

fn truth<T: Truth>(operator: Operator) -> Option<Combine> {
    match operator {
        Operator::LogicalAnd => Some(apply::<T, LogicalAnd>),
        Operator::LogicalOr => Some(apply::<T, LogicalOr>),
        Operator::LogicalXor => Some(apply::<T, LogicalXor>),
        _ => None,
    }
}

fn location<V: Ordered, I: Ordered>(operator: Operator) -> Option<Combine> {
    match operator {
        Operator::MinimumLocation => Some(apply::<Pair<V, I>, MinimumLocation>),
        Operator::MaximumLocation => Some(apply::<Pair<V, I>, MaximumLocation>),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
