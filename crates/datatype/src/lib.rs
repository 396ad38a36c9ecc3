#![doc = include_str!("../README.md")]
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
pub use packing::{Elements, pack, unpack};
pub use predefined::{Precision, Predefined, ValueKind};
