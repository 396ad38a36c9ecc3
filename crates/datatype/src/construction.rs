//! The constructor of a datatype and its arguments, kept for envelope and contents.

use crate::datatype::BorrowedDatatype;
use crate::predefined::Predefined;

/// The form of the C call that passed the arguments; it decides how contents return them (section
/// 5.1.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArgumentForm {
    /// The call with `int` and `MPI_Aint` arguments.
    Int,
    /// The call with the suffix `_c`, whose counts and displacements are `MPI_Count`.
    Large,
}

/// The order in which the dimensions of an array lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArrayOrder {
    /// The last dimension is contiguous (`MPI_ORDER_C`).
    C,
    /// The first dimension is contiguous (`MPI_ORDER_FORTRAN`).
    Fortran,
}

/// How one dimension of an array is distributed to processes (section 5.1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// Not distributed: every process has the whole dimension.
    None,
    /// One block for each process.
    Block,
    /// Blocks in cyclic order.
    Cyclic,
}

/// The block size of a distributed dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DistributionArgument {
    /// The default of the standard (`MPI_DISTRIBUTE_DFLT_DARG`).
    Default,
    /// This number of elements.
    Size(i64),
}

/// One dimension of a distributed array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DistributedDimension {
    /// The number of elements of the global array.
    pub global_size: i64,
    /// The distribution of these elements.
    pub distribution: Distribution,
    /// The block size.
    pub argument: DistributionArgument,
    /// The number of processes in this dimension of the process grid.
    pub processes: i64,
}

/// One dimension of a subarray.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubarrayDimension {
    /// The number of elements of the whole array.
    pub size: i64,
    /// The number of elements of the part.
    pub subsize: i64,
    /// The first element of the part, counted from 0.
    pub start: i64,
}

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
