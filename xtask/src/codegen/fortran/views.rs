//! What becomes of a buffer that module `mpi_f08` hands over as a descriptor.

use super::routine::{ArgumentKind, FortranArgument, Intent, Routine};

/// How an array section is made an address, a count and a datatype; see `view_kind` in
/// fortran/descriptors.h. The words are those of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionView {
    /// `address`: only the address of the first element matters.
    Address,
    /// `block`: its count and its datatype are replaced.
    Single,
    /// `blocks`: several, so the datatype is replaced.
    Blocks,
    /// `whole`: the call needs the program's own datatype, or has none for this buffer.
    Whole,
    /// `region`: memory that the call uses as it is.
    Region,
}

impl SectionView {
    pub fn named(word: &str) -> Option<Self> {
        Some(match word {
            "address" => Self::Address,
            "block" => Self::Single,
            "blocks" => Self::Blocks,
            "whole" => Self::Whole,
            "region" => Self::Region,
            _ => return None,
        })
    }
}

/// The place of the datatype of a buffer: the first one after it.
pub fn datatype_of(routine: &Routine, buffer: usize) -> usize {
    let is_datatype =
        |one: &FortranArgument| one.kind == ArgumentKind::Handle("Datatype".to_owned());
    let after = routine.arguments.iter().skip(buffer).position(is_datatype);
    buffer + after.expect("buffers that are one block or several have a datatype")
}

/// What the call does with the buffer, as an expression in C.
pub fn uses(argument: &FortranArgument) -> &'static str {
    match (argument.intent == Intent::In, argument.is_kept) {
        (true, false) => "READ",
        (true, true) => "READ | KEPT",
        (false, false) => "READ | WRITTEN",
        (false, true) => "READ | WRITTEN | KEPT",
    }
}
