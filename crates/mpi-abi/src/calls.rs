//! The implementations behind the entry points, by chapter of the standard. Each takes checked
//! arguments, calls the crates `mpi` or `datatype`, and stores the results in the memory of the
//! program.

pub mod attributes;
pub mod buffering;
pub mod collectives;
pub mod communicators;
pub mod conversions;
pub mod datatypes;
pub mod devices;
pub mod dynamic;
pub mod environment;
pub mod error_handlers;
pub mod errors;
pub mod files;
#[cfg(any(dialect = "mpich", dialect = "open_mpi"))]
pub mod former;
pub mod groups;
pub mod infos;
pub mod interface;
pub mod one_sided;
pub mod operations;
pub mod packing;
pub mod partitioned;
pub mod point_to_point;
pub mod recovery;
pub mod representations;
pub mod requests;
pub mod sessions;
pub mod spawning;
pub mod statuses;
pub mod streams;
pub mod tools;
pub mod topologies;
pub mod transfers;
pub mod type_contents;
pub mod windows;
