//! MPI datatypes: their geometry, their way to and from packed bytes, reduction kernels.
//!
//! A [`Datatype`] is immutable. On commit it is compiled to a plan: nested strided loops and lists
//! of runs, normalised, which packs, unpacks and tells runs of memory from any packed offset on
//! ([`memory::Layout`]). Nothing is flattened: a plan is as small as the constructors' arguments.
//!
//! This crate knows no handles and no MPI constants; it does no I/O.

#![forbid(unsafe_code)]

mod array;
mod blocks;
mod construction;
mod constructors;
mod contents;
mod datatype;
mod elements;
mod external32;
mod fortran;
mod geometry;
mod packing;
mod plan;
mod predefined;
pub mod reduction;
mod validate;

pub use construction::{
    ArgumentForm, ArrayOrder, Construction, DistributedDimension, Distribution,
    DistributionArgument, StructBlock, SubarrayDimension,
};
pub use contents::{Combiner, ContentInteger, Contents, ContentsCounts};
pub use datatype::{BorrowedDatatype, Datatype};
pub use fortran::TypeClass;
pub use packing::{pack, unpack};
pub use predefined::{Precision, Predefined, ValueKind};
