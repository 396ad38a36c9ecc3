//! Datatypes that Fortran programs select by precision, range or size (section 19.1.9).

use base::{Error, ErrorClass, Result};

use crate::datatype::{Construction, Datatype};
use crate::predefined::{Precision, Predefined, ValueKind};

/// The family of types in which `MPI_Type_match_size` searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TypeClass {
    /// Integers.
    Integer,
    /// Floating-point numbers.
    Real,
    /// Complex numbers.
    Complex,
    /// Truth values.
    Logical,
}

impl Datatype {
    /// Returns the named datatype of a variable of `class` with `size` bytes.
    ///
    /// # Errors
    /// Class `Arg` if there is no such type.
    pub fn match_size(class: TypeClass, size: usize) -> Result<Predefined> {
        let named = match (class, size) {
            (TypeClass::Integer, 1) => Predefined::Integer1,
            (TypeClass::Integer, 2) => Predefined::Integer2,
            (TypeClass::Integer, 4) => Predefined::Integer4,
            (TypeClass::Integer, 8) => Predefined::Integer8,
            (TypeClass::Integer, 16) => Predefined::Integer16,
            (TypeClass::Real, 2) => Predefined::Real2,
            (TypeClass::Real, 4) => Predefined::Real4,
            (TypeClass::Real, 8) => Predefined::Real8,
            (TypeClass::Real, 16) => Predefined::Real16,
            (TypeClass::Complex, 4) => Predefined::Complex4,
            (TypeClass::Complex, 8) => Predefined::Complex8,
            (TypeClass::Complex, 16) => Predefined::Complex16,
            (TypeClass::Complex, 32) => Predefined::Complex32,
            (TypeClass::Logical, 1) => Predefined::Logical1,
            (TypeClass::Logical, 2) => Predefined::Logical2,
            (TypeClass::Logical, 4) => Predefined::Logical4,
            (TypeClass::Logical, 8) => Predefined::Logical8,
            (TypeClass::Logical, 16) => Predefined::Logical16,
            _ => {
                let class = match class {
                    TypeClass::Integer => "integer",
                    TypeClass::Real => "real",
                    TypeClass::Complex => "complex",
                    TypeClass::Logical => "logical",
                };
                let detail = format!("there is no {class} datatype with a size of {size} bytes");
                return Err(Error::new(ErrorClass::Arg, detail));
            }
        };
        Ok(named)
    }

    /// Returns the named pair of `value` and `index` for `MPI_MAXLOC` and `MPI_MINLOC`, if there is
    /// one (section 6.9.4).
    pub fn value_index(value: Predefined, index: Predefined) -> Option<Predefined> {
        let wanted = ValueKind::Pair(value, index);
        Predefined::ALL.iter().copied().find(|named| named.kind() == wanted)
    }
}

/// Returns the named datatype that represents a parameterized one; `None` for all other
/// constructions.
pub(crate) fn representation(construction: &Construction) -> Result<Option<Predefined>> {
    Ok(Some(match *construction {
        Construction::FortranReal { precision, range } => match real_kind(precision, range)? {
            Precision::Half | Precision::Single => Predefined::Real4,
            Precision::Double => Predefined::Real8,
            Precision::Extended => Predefined::LongDouble,
            Precision::Quadruple => Predefined::Real16,
        },
        Construction::FortranComplex { precision, range } => match real_kind(precision, range)? {
            Precision::Half | Precision::Single => Predefined::Complex8,
            Precision::Double => Predefined::Complex16,
            Precision::Extended => Predefined::LongDoubleComplex,
            Precision::Quadruple => Predefined::Complex32,
        },
        Construction::FortranInteger { range } => integer_kind(range)?,
        _ => return Ok(None),
    }))
}

/// Returns the choice of `selected_real_kind`: the smallest of the compilers' kinds 4, 8, 10 and 16
/// with at least this many decimal digits and this decimal exponent range.
fn real_kind(precision: Option<i32>, range: Option<i32>) -> Result<Precision> {
    if precision.is_none() && range.is_none() {
        let detail = "neither precision nor range is given; at least one must be defined";
        return Err(Error::new(ErrorClass::Arg, detail));
    }
    let kinds = [
        (6, 37, Precision::Single),
        (15, 307, Precision::Double),
        (18, 4931, Precision::Extended),
        (33, 4931, Precision::Quadruple),
    ];
    let (digits, exponent) = (precision.unwrap_or(0), range.unwrap_or(0));
    // Kind 10 is the x87's format, which no other processor has.
    let exists = |kind: &&(_, _, Precision)| {
        kind.2 != Precision::Extended || Precision::LONG_DOUBLE == Precision::Extended
    };
    let mut kinds = kinds.iter().filter(exists);
    let fits = kinds.find(|kind| digits <= kind.0 && exponent <= kind.1);
    fits.map(|kind| kind.2).ok_or_else(|| {
        let detail = format!(
            "there is no real type with {digits} decimal digits and a decimal exponent range of \
             {exponent}; at most 33 digits and a range of 4931 are available"
        );
        Error::new(ErrorClass::Arg, detail)
    })
}

fn integer_kind(range: i32) -> Result<Predefined> {
    Ok(match range {
        ..=2 => Predefined::Integer1,
        3..=4 => Predefined::Integer2,
        5..=9 => Predefined::Integer4,
        10..=18 => Predefined::Integer8,
        19..=38 => Predefined::Integer16,
        39.. => {
            let detail = format!(
                "there is no integer type with a decimal range of {range}; the largest is 38"
            );
            return Err(Error::new(ErrorClass::Arg, detail));
        }
    })
}
