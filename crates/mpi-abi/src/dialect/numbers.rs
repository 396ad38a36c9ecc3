//! The numbers of the standard for predefined handles and for special addresses.

use crate::c::{Datatype, HandleKind, Op};
use crate::dialect::HandleLayout;

/// The type of handles, which in C are pointers to incomplete structs.
pub type HandleWord = usize;

/// The first special address.
pub const FIRST_NUMBER: usize = 0;
/// The number of special addresses after the first one.
pub const NUMBERS_AFTER: usize = 2;

/// The first handle of predefined datatypes.
const TYPES_BEGIN: usize = 0x200;
/// The number of slots in a table of predefined datatypes.
pub const TYPES: usize = 0x100;
/// The first handle of predefined operations.
const OPERATIONS_BEGIN: usize = 0x20;
/// The number of slots in a table of predefined operations.
pub const OPERATIONS: usize = 0x20;

/// Datatypes that mark the lower and the upper bound of a structure.
pub const BOUND_MARKERS: [Option<Datatype>; 2] = [None; 2];

/// Returns the layout of handles of a kind.
#[inline(always)]
pub const fn layout(_kind: HandleKind) -> HandleLayout {
    HandleLayout::WIDE
}

/// Returns the index of a predefined datatype in tables; for other datatypes it is out of range.
#[inline(always)]
pub fn type_index(handle: Datatype) -> usize {
    handle.0.wrapping_sub(TYPES_BEGIN)
}

/// Returns the index of a predefined operation in tables; for other operations it is out of range.
#[inline(always)]
pub fn operation_index(handle: Op) -> usize {
    handle.0.wrapping_sub(OPERATIONS_BEGIN)
}

/// Returns the size that the handle of a datatype of fixed size contains (section 20.3).
#[cfg(test)]
pub fn reported_size(handle: Datatype) -> Option<usize> {
    (handle.0 >= 0x240).then(|| 1 << (handle.0 >> 3 & 7))
}
