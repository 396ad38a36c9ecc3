#![doc = include_str!("../README.md")]
#![allow(
    non_camel_case_types,
    non_snake_case,
    clippy::missing_safety_doc,
    clippy::manual_dangling_ptr
)]

mod generated {
    //! The declarations.

    pub mod constants;
    pub mod functions;
    pub mod types;

    pub use super::{MPI_Aint, MPI_Count, MPI_Offset, MPI_Status};
    pub use types::*;
}

pub use generated::constants::*;
pub use generated::functions::*;
pub use generated::types::*;

use std::ffi::c_int;

/// An address, or a difference of addresses.
pub type MPI_Aint = isize;
/// A number of bytes or elements in files.
pub type MPI_Offset = i64;
/// A number of elements or bytes, also a large one.
pub type MPI_Count = i64;

/// What is known about a message that was received.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MPI_Status {
    /// The rank of the sender.
    pub MPI_SOURCE: c_int,
    /// The tag of the message.
    pub MPI_TAG: c_int,
    /// The error code, in arrays of statuses.
    pub MPI_ERROR: c_int,
    /// The library's.
    pub MPI_internal: [c_int; 5],
}
