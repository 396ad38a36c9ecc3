//! The ABI of the MPI 5.0 standard (chapter 20), `libmpi_abi.so.1`.

use std::ffi::c_int;

pub use super::numbers::*;
use crate::c::HandleKind;

/// The name of the dialect in messages.
pub const NAME: &str = "its standard ABI";

/// The number of bits for the class in an error code of this library.
pub const CLASS_BITS: u32 = 14;
/// The number of bits for the sequence number in an error code.
pub const SEQUENCE_BITS: u32 = 16;

/// `MPI_Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Status {
    /// `MPI_SOURCE`.
    pub source: c_int,
    /// `MPI_TAG`.
    pub tag: c_int,
    /// `MPI_ERROR`.
    pub error: c_int,
    /// `MPI_internal`: the number of bytes in two halves, and whether the operation was cancelled.
    pub internal: [c_int; 5],
}

const _: () = assert!(size_of::<Status>() == 32);

impl Status {
    /// Creates a status with the given envelope, of a message with `bytes` bytes that was not
    /// cancelled.
    #[inline]
    pub fn new(source: c_int, tag: c_int, error: c_int, bytes: u64) -> Self {
        let mut status = Self { source, tag, error, internal: [0; 5] };
        status.set_bytes(bytes);
        status
    }

    /// Returns the number of bytes of the message.
    pub fn bytes(&self) -> u64 {
        u64::from(self.internal[0] as u32) | u64::from(self.internal[1] as u32) << 32
    }

    /// Sets the number of bytes.
    #[inline]
    pub fn set_bytes(&mut self, bytes: u64) {
        self.internal[0] = bytes as u32 as c_int;
        self.internal[1] = (bytes >> 32) as c_int;
    }

    /// Whether the operation was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.internal[2] != 0
    }

    /// Sets whether the operation was cancelled.
    #[inline]
    pub fn set_cancelled(&mut self, cancelled: bool) {
        self.internal[2] = cancelled.into();
    }
}

/// Returns the handle inside the library for a handle of the program, which has an equal value.
#[inline(always)]
pub const fn received(handle: usize, _kind: HandleKind) -> usize {
    handle
}

/// Returns the handle for the program of a handle inside the library, which has an equal value.
#[inline(always)]
pub const fn handed(handle: usize) -> usize {
    handle
}

/// Returns the Fortran integer of a predefined handle.
#[inline(always)]
pub const fn fortran_integer(number: usize) -> c_int {
    number as c_int
}

/// Returns the predefined handle of a Fortran integer.
#[inline(always)]
pub const fn of_fortran_integer(integer: c_int, _kind: HandleKind) -> usize {
    integer as u32 as usize
}
