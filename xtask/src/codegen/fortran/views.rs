//! How a buffer that module `mpi_f08` passes as a descriptor is converted.

/// How an array section is converted to an address, a count and a datatype; see `view_kind` in
/// fortran/descriptors.h. The words are those of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionView {
    /// `address`: only the address of the first element is used.
    Address,
    /// `block`: count and datatype are replaced.
    Single,
    /// `blocks`: there are several blocks, so only the datatype is replaced.
    Blocks,
    /// `whole`: the call needs the program's own datatype, or has no datatype for this buffer. A
    /// section with gaps is copied.
    Whole,
    /// `region`: memory that stays in use after the call. A section with gaps is refused.
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
