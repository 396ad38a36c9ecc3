//! The ABI of the MPICH family (MPICH 3.1 and newer, Intel MPI, MVAPICH, Cray MPICH),
//! `libmpi.so.12`.

use std::ffi::{c_int, c_void};

use super::HandleLayout;
use crate::c::{Datatype, HandleKind, Op};
use crate::generated::constants;

/// The name of the dialect in messages.
pub const NAME: &str = "the ABI of MPICH";

/// The type of handles: integers, except for files and the tools interface, whose handles are
/// pointers.
pub type HandleWord = u32;

/// The first special address: `MPI_BUFFER_AUTOMATIC` is -2, `MPI_IN_PLACE` -1, `MPI_BOTTOM` 0.
pub const FIRST_NUMBER: usize = -2_isize as usize;
/// The number of special addresses after the first one.
pub const NUMBERS_AFTER: usize = 2;

/// The upper half of the handles of most predefined datatypes. The lower half contains their size
/// and their number, one byte each.
const TYPES_HEAD: u32 = 0x4c00;
const NUMBERS: usize = 0x100;
/// The first handle of predefined pairs with gaps.
const PAIRS_BEGIN: u32 = 0x8c00_0000;
const PAIRS: u32 = 8;
/// `MPI_LB` and `MPI_UB`, which the standard has removed.
pub const BOUND_MARKERS: [Option<Datatype>; 2] =
    [Some(Datatype(0x4c00_0010)), Some(Datatype(0x4c00_0011))];
/// The number of slots in a table of predefined datatypes.
pub const TYPES: usize = NUMBERS + PAIRS as usize;
/// The first handle of predefined operations.
const OPERATIONS_BEGIN: u32 = 0x5800_0000;
/// The number of slots in a table of predefined operations.
pub const OPERATIONS: usize = 0x10;

/// The number of bits for the class in an error code of this library.
pub const CLASS_BITS: u32 = 7;
/// The number of bits for the sequence number in an error code.
pub const SEQUENCE_BITS: u32 = 16;

/// The layout of handles that are integers: the two highest bits, which no predefined handle has,
/// kind (4 bits), a bit that only transfers have, generation (4 bits), index (21 bits).
const INTEGERS: HandleLayout = HandleLayout {
    index_bits: 21,
    index_max: (1 << 21) - 1,
    generation_shift: 21,
    generation_mask: 0xf,
    tag_shift: 25,
    tag_mask: 0x7f,
    mark: 0x60,
    kind_shift: 1,
    is_integer: true,
};

/// `MPI_Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Status {
    /// The lower half of the number of bytes.
    pub count_low: c_int,
    /// The lowest bit is set if the operation was cancelled; above it is the upper half of the
    /// number of bytes.
    pub count_high_and_cancelled: c_int,
    /// `MPI_SOURCE`.
    pub source: c_int,
    /// `MPI_TAG`.
    pub tag: c_int,
    /// `MPI_ERROR`.
    pub error: c_int,
}

const _: () = assert!(size_of::<Status>() == 20);

impl Status {
    /// Creates a status with the given envelope, of a message with `bytes` bytes that was not
    /// cancelled.
    #[inline]
    pub fn new(source: c_int, tag: c_int, error: c_int, bytes: u64) -> Self {
        let mut status = Self { count_low: 0, count_high_and_cancelled: 0, source, tag, error };
        status.set_bytes(bytes);
        status
    }

    /// Returns the number of bytes of the message.
    pub fn bytes(&self) -> u64 {
        let high = self.count_high_and_cancelled as u32 >> 1;
        u64::from(self.count_low as u32) | u64::from(high) << 32
    }

    /// Sets the number of bytes.
    #[inline]
    pub fn set_bytes(&mut self, bytes: u64) {
        self.count_low = bytes as u32 as c_int;
        let high = ((bytes >> 32) as c_int) << 1;
        self.count_high_and_cancelled = high | self.count_high_and_cancelled & 1;
    }

    /// Whether the operation was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.count_high_and_cancelled & 1 != 0
    }

    /// Sets whether the operation was cancelled.
    #[inline]
    pub fn set_cancelled(&mut self, cancelled: bool) {
        self.count_high_and_cancelled &= !1;
        self.count_high_and_cancelled |= c_int::from(cancelled);
    }
}

/// Returns the layout of handles of a kind.
#[inline(always)]
pub const fn layout(kind: HandleKind) -> HandleLayout {
    match kind {
        HandleKind::File
        | HandleKind::PackedMessage
        | HandleKind::CvarHandle
        | HandleKind::PvarSession
        | HandleKind::PvarHandle
        | HandleKind::EventRegistration => HandleLayout::WIDE,
        _ => INTEGERS,
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

/// Returns the index of a predefined datatype in tables; for other datatypes it is out of range.
#[inline(always)]
pub fn type_index(handle: Datatype) -> usize {
    if handle.0 >> 16 == TYPES_HEAD {
        handle.0 as usize % NUMBERS
    } else {
        (handle.0.wrapping_sub(PAIRS_BEGIN) as usize).saturating_add(NUMBERS)
    }
}

/// Returns the index of a predefined operation in tables; for other operations it is out of range.
#[inline(always)]
pub fn operation_index(handle: Op) -> usize {
    handle.0.wrapping_sub(OPERATIONS_BEGIN) as usize
}

/// Returns the size that the handle of a predefined datatype without gaps contains.
#[cfg(test)]
pub fn reported_size(handle: Datatype) -> Option<usize> {
    (handle.0 >> 16 == TYPES_HEAD).then_some((handle.0 >> 8) as usize % NUMBERS)
}

/// An exported variable with a pointer that the library never dereferences.
#[repr(transparent)]
pub struct Pointer(usize);

/// The variables whose values are not in the header, so that programs read them.
#[unsafe(no_mangle)]
pub static MPI_UNWEIGHTED: Pointer = Pointer(constants::MPI_UNWEIGHTED);
#[unsafe(no_mangle)]
pub static MPI_WEIGHTS_EMPTY: Pointer = Pointer(constants::MPI_WEIGHTS_EMPTY);
#[unsafe(no_mangle)]
pub static MPI_T_PVAR_ALL_HANDLES: Pointer = Pointer(constants::MPI_T_PVAR_ALL_HANDLES);

/// The function that stands for `MPI_COMM_DUP_FN` and its equivalents in this dialect, which copies
/// the pointer.
///
/// # Safety
/// The pointers come from the library, or from a program that calls the function as MPI would.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIR_Dup_fn(
    _object: c_int,
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
