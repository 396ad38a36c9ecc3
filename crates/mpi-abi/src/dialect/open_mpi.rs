//! The ABI of Open MPI (3.0 and newer), `libmpi.so.40`.
//!
//! Predefined handles are the addresses of objects that the library exports, or of the copies that
//! a program without position-independent code has of them: the system's loader decides, and the
//! library sees what it decided as the program does. Inside they are the standard's numbers.

mod objects;

use std::ffi::{c_int, c_void};

use crate::generated::constants;

pub use super::numbers::*;
pub use objects::{HandleObject, fortran_integer, handed, of_fortran_integer, received};

/// What it is to people.
pub const NAME: &str = "the ABI of Open MPI";

/// Bits of an error code of ours that tell the class.
pub const CLASS_BITS: u32 = 7;
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
    /// Whether cancelled.
    pub cancelled: c_int,
    /// The bytes of data.
    pub count: u64,
}

const _: () = assert!(size_of::<Status>() == 24);

impl Status {
    /// A status with the given envelope, of a message with `bytes` bytes that was not
    /// cancelled.
    #[inline]
    pub fn new(source: c_int, tag: c_int, error: c_int, bytes: u64) -> Self {
        Self { source, tag, error, cancelled: 0, count: bytes }
    }

    /// The bytes of data in the message.
    pub fn bytes(&self) -> u64 {
        self.count
    }

    /// Changes the bytes of data.
    #[inline]
    pub fn set_bytes(&mut self, bytes: u64) {
        self.count = bytes;
    }

    /// Whether the operation was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled != 0
    }

    /// Changes whether the operation was cancelled.
    #[inline]
    pub fn set_cancelled(&mut self, cancelled: bool) {
        self.cancelled = cancelled.into();
    }
}

/// The functions that stand for `MPI_COMM_DUP_FN` and its kin.
macro_rules! attribute_functions {
    ($($copies:ident, $leaves:ident, $deletes:ident;)*) => {$(
        /// Copies the pointer.
        ///
        /// # Safety
        /// The places are the library's, or those of a program that calls it as MPI would.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $copies(
            _object: usize,
            _keyval: c_int,
            _extra_state: *mut c_void,
            value: *mut c_void,
            copied: *mut *mut c_void,
            flag: *mut c_int,
        ) -> c_int {
            // SAFETY: as the caller says.
            unsafe {
                copied.write(value);
                flag.write(1);
            }
            constants::MPI_SUCCESS
        }

        /// Leaves the attribute out of the copy.
        ///
        /// # Safety
        /// Likewise.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $leaves(
            _object: usize,
            _keyval: c_int,
            _extra_state: *mut c_void,
            _value: *mut c_void,
            _copied: *mut *mut c_void,
            flag: *mut c_int,
        ) -> c_int {
            // SAFETY: as the caller says.
            unsafe { flag.write(0) };
            constants::MPI_SUCCESS
        }

        /// Has nothing to do.
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

/// What every program in C++ refers to that was compiled with the header of Open MPI until 4.1:
/// parts of the C++ interface, which the standard removed in 2012 and which is not here. Hardly any
/// calls them.
macro_rules! interface_of_cxx {
    ($($function:ident as $symbol:literal;)*) => {$(
        /// Ends the process with a message.
        #[unsafe(export_name = $symbol)]
        pub extern "C" fn $function() -> ! {
            eprintln!(
                "combray: this program calls the C++ interface of MPI (namespace MPI), which the \
                 standard removed in 2012 and Combray does not have; it can be compiled for Combray \
                 when it calls the functions of C instead"
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
