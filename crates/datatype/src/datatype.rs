//! The datatype: its constructor, its geometry, and whether it is committed.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use base::Result;

use crate::arguments::{ArgumentForm, ArrayOrder, DistributedDimension, SubarrayDimension};
use crate::geometry::Geometry;
use crate::plan::TypePlan;
use crate::predefined::Predefined;

/// An MPI datatype: basic elements, in an order, at displacements (section 5.1).
///
/// It is immutable, and can be shared freely. Handles, names and attributes are kept elsewhere.
#[derive(Debug)]
pub struct Datatype {
    pub(crate) construction: Construction,
    pub(crate) form: ArgumentForm,
    /// The datatype with the data of this one at its places, if this one is only another view of
    /// it: a duplicate, a resized datatype, an array in terms of vectors.
    pub(crate) base: Option<BorrowedDatatype>,
    pub(crate) geometry: Geometry,
    /// The largest number of datatypes between this one and a predefined one.
    pub(crate) depth: usize,
    pub(crate) plan: OnceLock<TypePlan>,
    pub(crate) committed: AtomicBool,
}

/// A reference to a datatype. Predefined datatypes exist for ever, so their users need not be
/// counted.
pub type BorrowedDatatype = Cow<'static, Arc<Datatype>>;

/// One block of a struct.
#[derive(Clone, Debug)]
pub struct StructBlock {
    /// The number of its elements.
    pub length: i64,
    /// Its displacement in bytes.
    pub displacement: i64,
    /// The datatype of its elements.
    pub of: BorrowedDatatype,
}

/// A constructor and its arguments. Displacements and strides are in bytes if the C call takes
/// bytes, otherwise in extents of the old datatype `of`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Construction {
    /// A predefined datatype with a name.
    Named(Predefined),
    /// `MPI_Type_dup`.
    Duplicate(BorrowedDatatype),
    /// `MPI_Type_contiguous`.
    Contiguous {
        #[allow(missing_docs)]
        count: i64,
        #[allow(missing_docs)]
        of: BorrowedDatatype,
    },
    /// `MPI_Type_vector`; the stride counts extents.
    #[allow(missing_docs)]
    Vector { count: i64, block_length: i64, stride: i64, of: BorrowedDatatype },
    /// `MPI_Type_create_hvector`; the stride counts bytes.
    #[allow(missing_docs)]
    Hvector { count: i64, block_length: i64, stride: i64, of: BorrowedDatatype },
    /// `MPI_Type_indexed`: as many block lengths as displacements, which count extents.
    #[allow(missing_docs)]
    Indexed { block_lengths: Vec<i64>, displacements: Vec<i64>, of: BorrowedDatatype },
    /// `MPI_Type_create_hindexed`; the displacements count bytes.
    #[allow(missing_docs)]
    Hindexed { block_lengths: Vec<i64>, displacements: Vec<i64>, of: BorrowedDatatype },
    /// `MPI_Type_create_indexed_block`; the displacements count extents.
    #[allow(missing_docs)]
    IndexedBlock { block_length: i64, displacements: Vec<i64>, of: BorrowedDatatype },
    /// `MPI_Type_create_hindexed_block`; the displacements count bytes.
    #[allow(missing_docs)]
    HindexedBlock { block_length: i64, displacements: Vec<i64>, of: BorrowedDatatype },
    /// `MPI_Type_create_struct`.
    Struct(Vec<StructBlock>),
    /// `MPI_Type_create_subarray`.
    #[allow(missing_docs)]
    Subarray { dimensions: Vec<SubarrayDimension>, order: ArrayOrder, of: BorrowedDatatype },
    /// `MPI_Type_create_darray`: the part of process `rank` of `size`.
    #[allow(missing_docs)]
    Darray {
        size: i64,
        rank: i64,
        dimensions: Vec<DistributedDimension>,
        order: ArrayOrder,
        of: BorrowedDatatype,
    },
    /// `MPI_Type_create_resized`, in bytes.
    #[allow(missing_docs)]
    Resized { lower_bound: i64, extent: i64, of: BorrowedDatatype },
    /// `MPI_Type_create_f90_real`: decimal digits and exponent range, `None` if undefined.
    #[allow(missing_docs)]
    FortranReal { precision: Option<i32>, range: Option<i32> },
    /// `MPI_Type_create_f90_complex`.
    #[allow(missing_docs)]
    FortranComplex { precision: Option<i32>, range: Option<i32> },
    /// `MPI_Type_create_f90_integer`: the decimal range.
    #[allow(missing_docs)]
    FortranInteger { range: i32 },
}

impl Construction {
    /// Whether it is one of the parameterized predefined datatypes, which need no commit and cannot
    /// be freed.
    pub(crate) fn is_parameterized(&self) -> bool {
        matches!(
            self,
            Self::FortranReal { .. } | Self::FortranComplex { .. } | Self::FortranInteger { .. }
        )
    }
}

impl Datatype {
    /// Returns the predefined datatype `named`, always one and the same object.
    #[inline]
    pub fn named(named: Predefined) -> &'static Arc<Datatype> {
        &NAMED[named as usize]
    }

    /// Returns a reference to this datatype for its users, or for constructors of other datatypes.
    pub fn borrowed(self: &Arc<Self>) -> BorrowedDatatype {
        match self.construction {
            Construction::Named(named) => BorrowedDatatype::Borrowed(Self::named(named)),
            _ => BorrowedDatatype::Owned(Arc::clone(self)),
        }
    }

    /// Whether it may be used in communication.
    #[inline]
    pub fn is_committed(&self) -> bool {
        self.committed.load(Ordering::Acquire)
    }

    /// Returns the number of data bytes in one element.
    #[inline]
    pub fn size(&self) -> usize {
        self.geometry.size
    }

    /// Returns the distance of consecutive elements, in bytes.
    #[inline]
    pub fn extent(&self) -> isize {
        self.geometry.extent()
    }

    /// Returns the lower bound, in bytes.
    pub fn lower_bound(&self) -> isize {
        self.geometry.bounds().0
    }

    /// Returns the upper bound in bytes: lower bound plus extent.
    pub fn upper_bound(&self) -> isize {
        self.geometry.bounds().1
    }

    /// Returns the displacement of the lowest byte of data; 0 if there is no data.
    pub fn true_lower_bound(&self) -> isize {
        self.geometry.data.map_or(0, |(low, _)| low)
    }

    /// Returns the distance from the lowest byte of data to one past the highest.
    pub fn true_extent(&self) -> isize {
        self.geometry.data.map_or(0, |(low, high)| high - low)
    }

    /// Returns the number of basic elements in one element; both members of a pair count.
    pub fn element_count(&self) -> usize {
        self.geometry.elements
    }

    /// Returns the predefined datatype that this datatype is: a named one, or a parameterized one
    /// of Fortran, which behaves like the named one of its representation. The result is none for a
    /// duplicate.
    #[inline]
    pub fn predefined(&self) -> Option<Predefined> {
        match &self.construction {
            Construction::Named(named) => Some(*named),
            construction if construction.is_parameterized() => self.base()?.predefined(),
            _ => None,
        }
    }

    /// Returns the predefined datatype of all its elements, treating pairs as one element, as
    /// accumulates of one-sided communication require it (section 12.3.4). `None` if they differ or
    /// there are none.
    pub fn operand(&self) -> Option<Predefined> {
        self.predefined().or_else(|| self.geometry.operands.only())
    }

    /// Returns its constructor and arguments.
    pub fn construction(&self) -> &Construction {
        &self.construction
    }

    /// Returns the form of the call that created it.
    pub fn form(&self) -> ArgumentForm {
        self.form
    }

    /// Returns the number of data bytes in `count` elements.
    ///
    /// # Errors
    /// Class `Count` if it exceeds 2^63-1, or if the elements exceed the address space.
    #[inline]
    pub fn packed_size(&self, count: usize) -> Result<usize> {
        let size = self.geometry.size.checked_mul(count);
        match size {
            Some(size) if size <= isize::MAX as usize => Ok(size),
            _ => Err(too_many(count)),
        }
    }

    /// Returns the displacements that `count` elements touch: lowest byte, one past the highest;
    /// (0, 0) if they touch nothing.
    ///
    /// # Errors
    /// Class `Count` if they exceed the address space.
    pub fn data_bounds(&self, count: usize) -> Result<(isize, isize)> {
        let Some((low, high)) = self.geometry.data.filter(|_| count > 0) else {
            return Ok((0, 0));
        };
        if count == 1 {
            // The bounds of one element were checked when the datatype was created.
            return Ok((low, high));
        }
        let reach = isize::try_from(count - 1).ok().and_then(|n| n.checked_mul(self.extent()));
        let bounds = reach.and_then(|reach| {
            Some((low.checked_add(reach.min(0))?, high.checked_add(reach.max(0))?))
        });
        match bounds {
            Some((low, high)) if high.checked_sub(low).is_some() => Ok((low, high)),
            _ => Err(too_many(count)),
        }
    }

    pub(crate) fn base(&self) -> Option<&Arc<Datatype>> {
        self.base.as_deref()
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }
}

static NAMED: LazyLock<Vec<Arc<Datatype>>> = LazyLock::new(|| {
    let named = |&named: &Predefined| {
        let geometry = Geometry::of_named(named);
        let datatype = Datatype {
            construction: Construction::Named(named),
            form: ArgumentForm::Int,
            base: None,
            geometry,
            depth: 0,
            plan: OnceLock::new(),
            committed: AtomicBool::new(true),
        };
        Arc::new(datatype)
    };
    Predefined::ALL.iter().map(named).collect()
});

#[cold]
fn too_many(count: usize) -> base::Error {
    base::Error::new(
        base::ErrorClass::Count,
        format!("{count} elements of this datatype exceed 2^63-1 bytes; use a smaller count"),
    )
}
