//! The ABI of Open MPI (3.0 and newer), `libmpi.so.40`.
//!
//! Predefined handles are the addresses of objects that the library exports, or of copies in a
//! program without position-independent code. The loader decides which of them are used, and the
//! library sees the addresses that the program sees. Inside the library, predefined handles are the
//! numbers of the standard.
//!
//! Why: docs/internals/decisions/0056-handles-of-open-mpi-become-numbers-at-the-door.md

mod objects;

use std::ffi::{c_int, c_void};

use crate::generated::constants;

pub use super::numbers::*;
pub use objects::{HandleObject, fortran_integer, handed, of_fortran_integer, received};

/// The name of the dialect in messages.
pub const NAME: &str = "the ABI of Open MPI";

/// The number of bits for the class in an error code of this library.
pub const CLASS_BITS: u32 = 7;
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
    /// Whether the operation was cancelled.
    pub cancelled: c_int,
    /// The number of bytes.
    pub count: u64,
}

const _: () = assert!(size_of::<Status>() == 24);

impl Status {
    /// Creates a status with the given envelope, of a message with `bytes` bytes that was not
    /// cancelled.
    #[inline]
    pub fn new(source: c_int, tag: c_int, error: c_int, bytes: u64) -> Self {
        Self { source, tag, error, cancelled: 0, count: bytes }
    }

    /// Returns the number of bytes of the message.
    pub fn bytes(&self) -> u64 {
        self.count
    }

    /// Sets the number of bytes.
    #[inline]
    pub fn set_bytes(&mut self, bytes: u64) {
        self.count = bytes;
    }

    /// Whether the operation was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled != 0
    }

    /// Sets whether the operation was cancelled.
    #[inline]
    pub fn set_cancelled(&mut self, cancelled: bool) {
        self.cancelled = cancelled.into();
    }
}

/// Defines the functions that stand for `MPI_COMM_DUP_FN` and its equivalents.
macro_rules! attribute_functions {
    ($($copies:ident, $leaves:ident, $deletes:ident;)*) => {$(
        /// Copies the pointer.
        ///
        /// # Safety
        /// The pointers come from the library, or from a program that calls the function as MPI
        /// would.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $copies(
            _object: usize,
            _keyval: c_int,
            _extra_state: *mut c_void,
            value: *mut c_void,
            copied: *mut *mut c_void,
            flag: *mut c_int,
        ) -> c_int {
            // SAFETY: the caller guarantees that the pointers may be written.
            unsafe {
                copied.write(value);
                flag.write(1);
            }
            constants::MPI_SUCCESS
        }

        /// Leaves the attribute out of the copy.
        ///
        /// # Safety
        /// The pointers come from the library, or from a program that calls the function as MPI
        /// would.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $leaves(
            _object: usize,
            _keyval: c_int,
            _extra_state: *mut c_void,
            _value: *mut c_void,
            _copied: *mut *mut c_void,
            flag: *mut c_int,
        ) -> c_int {
            // SAFETY: the caller guarantees that the pointer may be written.
            unsafe { flag.write(0) };
            constants::MPI_SUCCESS
        }

        /// Does nothing.
        #[unsafe(no_mangle)]
        pub extern "C" fn $deletes(
            _object: usize,
            _keyval: c_int,
            _value: *mut c_void,
            _extra_state: *mut c_void,
        ) -> c_int {
            constants::MPI_SUCCESS
        }
    )*};
}

attribute_functions! {
    OMPI_C_MPI_DUP_FN, OMPI_C_MPI_NULL_COPY_FN, OMPI_C_MPI_NULL_DELETE_FN;
    OMPI_C_MPI_COMM_DUP_FN, OMPI_C_MPI_COMM_NULL_COPY_FN, OMPI_C_MPI_COMM_NULL_DELETE_FN;
    OMPI_C_MPI_TYPE_DUP_FN, OMPI_C_MPI_TYPE_NULL_COPY_FN, OMPI_C_MPI_TYPE_NULL_DELETE_FN;
    OMPI_C_MPI_WIN_DUP_FN, OMPI_C_MPI_WIN_NULL_COPY_FN, OMPI_C_MPI_WIN_NULL_DELETE_FN;
}

/// Defines the symbols to which every C++ program refers that was compiled with the header of Open
/// MPI up to 4.1. They are parts of the C++ interface, which the standard removed in 2012 and which
/// this library does not have. Hardly any program calls them.
macro_rules! interface_of_cxx {
    ($($function:ident as $symbol:literal;)*) => {$(
        /// Ends the process with a message.
        #[unsafe(export_name = $symbol)]
        pub extern "C" fn $function() -> ! {
            eprintln!(
                "combray: this program calls the C++ interface of MPI (namespace MPI), which the \
                 standard removed in 2012 and Combray does not have; it can be compiled for \
                 Combray if it calls the functions of C instead"
            );
            std::process::abort()
        }
    )*};
}

interface_of_cxx! {
    cxx_win_free as "_ZN3MPI3Win4FreeEv";
    cxx_comm as "_ZN3MPI4CommC2Ev";
    cxx_comm_complete as "_ZN3MPI4CommC1Ev";
    cxx_datatype_free as "_ZN3MPI8Datatype4FreeEv";
    cxx_operation as "ompi_mpi_cxx_op_intercept";
    cxx_operation_callback as "ompi_op_set_cxx_callback";
}
