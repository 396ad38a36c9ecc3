//! The ABI of the MPI 5.0 standard (chapter 20), `libmpi_abi.so.1`.

use std::ffi::c_int;

use super::HandleLayout;
use crate::c::{Datatype, HandleKind, Op};

/// What it is to people.
pub const NAME: &str = "its standard ABI";

/// What handles are: in C pointers to incomplete structs.
pub type HandleWord = usize;

/// Where an address is one of the numbers that stand for something else: from the first of them,
/// so many follow.
pub const FIRST_NUMBER: usize = 0;
/// How many follow.
pub const NUMBERS_AFTER: usize = 2;

/// Predefined datatypes have handles from here on.
const TYPES_BEGIN: usize = 0x200;
/// How many places a table of predefined datatypes has.
pub const TYPES: usize = 0x100;
/// Predefined operations have handles from here on.
const OPERATIONS_BEGIN: usize = 0x20;
/// How many places a table of predefined operations has.
pub const OPERATIONS: usize = 0x20;

/// Bits of an error code of ours that tell the class.
pub const CLASS_BITS: u32 = 14;
/// Bits that count the errors.
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
    /// `MPI_internal`: bytes of data in two halves, whether cancelled.
    pub internal: [c_int; 5],
}

const _: () = assert!(size_of::<Status>() == 32);

impl Status {
    /// A status with the given envelope, of a message with `bytes` bytes that was not
    /// cancelled.
    #[inline]
    pub fn new(source: c_int, tag: c_int, error: c_int, bytes: u64) -> Self {
        let mut status = Self { source, tag, error, internal: [0; 5] };
        status.set_bytes(bytes);
        status
    }

    /// The bytes of data in the message.
    pub fn bytes(&self) -> u64 {
        u64::from(self.internal[0] as u32) | u64::from(self.internal[1] as u32) << 32
    }

    /// Changes the bytes of data.
    #[inline]
    pub fn set_bytes(&mut self, bytes: u64) {
        self.internal[0] = bytes as u32 as c_int;
        self.internal[1] = (bytes >> 32) as c_int;
    }

    /// Whether the operation was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.internal[2] != 0
    }

    /// Changes whether the operation was cancelled.
    #[inline]
    pub fn set_cancelled(&mut self, cancelled: bool) {
        self.internal[2] = cancelled.into();
    }
}

/// How handles of ours of a kind are made up.
#[inline(always)]
pub const fn layout(_kind: HandleKind) -> HandleLayout {
    HandleLayout::WIDE
}

/// The place of a predefined datatype in tables; others have none.
#[inline(always)]
pub fn type_index(handle: Datatype) -> usize {
    handle.0.wrapping_sub(TYPES_BEGIN)
}

/// The place of a predefined operation in tables; others have none.
#[inline(always)]
pub fn operation_index(handle: Op) -> usize {
    handle.0.wrapping_sub(OPERATIONS_BEGIN)
}

/// The size that the handle of a datatype of fixed size tells (section 20.3).
#[cfg(test)]
pub fn size_told(handle: Datatype) -> Option<usize> {
    (handle.0 >= 0x240).then(|| 1 << (handle.0 >> 3 & 7))
}
