//! Creates datatypes from constructors and their arguments.

mod array;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use base::Result;

use crate::arguments::ArgumentForm;
use crate::datatype::{BorrowedDatatype, Construction, Datatype};
use crate::fortran;
use crate::measure;
use crate::validate::validate;

/// At every multiple of this depth the plan is compiled at once, so that later commits recurse no
/// deeper.
const COMPILED_DEPTH: usize = 50;

impl Datatype {
    /// Creates the datatype that `construction` describes, with arguments that were passed in
    /// `form`.
    ///
    /// # Errors
    /// - class `Count` for a negative count, `Arg` for other values that the standard forbids;
    /// - class `Arg` if size or bounds exceed 2^63-1 bytes;
    /// - class `Type` if datatypes are nested more than 2,000 deep.
    pub fn create(construction: Construction, form: ArgumentForm) -> Result<Arc<Datatype>> {
        validate(&construction)?;
        let base = base_of(&construction)?;
        let (geometry, depth) = measure::measured(&construction, base.as_ref())?;
        let committed = match &construction {
            Construction::Named(_) => true,
            Construction::Duplicate(of) => of.is_committed(),
            _ => construction.is_parameterized(),
        };
        let datatype = Self {
            depth,
            construction,
            form,
            base,
            geometry,
            plan: OnceLock::new(),
            committed: AtomicBool::new(committed),
        };
        if datatype.depth.is_multiple_of(COMPILED_DEPTH) {
            datatype.plan();
        }
        Ok(Arc::new(datatype))
    }

    /// Returns the datatype of `selected_real_kind(precision, range)`; at least one of them must be
    /// given.
    ///
    /// # Errors
    /// Class `Arg` if there is no such type.
    pub fn fortran_real(precision: Option<i32>, range: Option<i32>) -> Result<Arc<Datatype>> {
        Datatype::create(Construction::FortranReal { precision, range }, ArgumentForm::Int)
    }

    /// Returns the datatype of complex numbers of `selected_real_kind(precision, range)`.
    ///
    /// # Errors
    /// Class `Arg` if there is no such type.
    pub fn fortran_complex(precision: Option<i32>, range: Option<i32>) -> Result<Arc<Datatype>> {
        Datatype::create(Construction::FortranComplex { precision, range }, ArgumentForm::Int)
    }

    /// Returns the datatype of `selected_int_kind(range)`.
    ///
    /// # Errors
    /// Class `Arg` if there is no such type.
    pub fn fortran_integer(range: i32) -> Result<Arc<Datatype>> {
        Datatype::create(Construction::FortranInteger { range }, ArgumentForm::Int)
    }
}

fn base_of(construction: &Construction) -> Result<Option<BorrowedDatatype>> {
    Ok(match construction {
        Construction::Duplicate(of) | Construction::Resized { of, .. } => Some(of.clone()),
        Construction::Subarray { dimensions, order, of } => {
            Some(array::subarray(dimensions, *order, of)?)
        }
        Construction::Darray { rank, dimensions, order, of, .. } => {
            Some(array::darray(*rank, dimensions, *order, of)?)
        }
        _ => fortran::representation(construction)?
            .map(|named| BorrowedDatatype::Borrowed(Datatype::named(named))),
    })
}
