//! The arguments of constructors that are more than numbers.

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
