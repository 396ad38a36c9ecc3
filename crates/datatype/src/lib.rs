#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod arguments;
mod blocks;
mod constructors;
mod contents;
mod creation;
mod datatype;
mod elements;
mod external32;
mod fortran;
mod geometry;
mod measure;
mod packing;
mod plan;
mod predefined;
pub mod reduction;
mod validate;

pub use arguments::{
    ArgumentForm, ArrayOrder, DistributedDimension, Distribution, DistributionArgument,
    SubarrayDimension,
};
pub use contents::{Combiner, ContentInteger, Contents, ContentsCounts};
pub use datatype::{BorrowedDatatype, Construction, Datatype, StructBlock};
pub use fortran::TypeClass;
pub use packing::{Elements, pack, unpack};
pub use predefined::{Precision, Predefined, ValueKind};
