//! The standard's numbers for predefined handles and for addresses that are none.

use crate::c::{Datatype, HandleKind, Op};
use crate::dialect::HandleLayout;

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

/// Datatypes that mark the lower and the upper bound of a structure.
pub const BOUND_MARKERS: [Option<Datatype>; 2] = [None; 2];

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
