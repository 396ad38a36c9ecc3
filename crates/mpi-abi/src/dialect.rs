//! The dialects: what differs between the standard ABI and the ABIs of libraries that existed
//! before it. The crate is compiled once for each dialect, which `cfg(dialect)` selects. Everything
//! that depends on the dialect is in its file here and in its tables (`abi/`), from which the
//! constants are generated.
//!
//! Why: docs/internals/decisions/0052-dialects-are-one-source-compiled-for-each.md

#[cfg(not(dialect = "mpich"))]
mod numbers;
#[cfg_attr(not(any(dialect = "mpich", dialect = "open_mpi")), path = "dialect/standard.rs")]
#[cfg_attr(dialect = "mpich", path = "dialect/mpich.rs")]
#[cfg_attr(dialect = "open_mpi", path = "dialect/open_mpi.rs")]
mod own;

pub use own::*;

/// The layout of handles of this library: generation, tag and index.
///
/// The tag contains the kind, and distinguishes handles of this library from predefined ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandleLayout {
    /// The number of bits of the index, which are the lowest.
    pub index_bits: u32,
    /// The largest index that tables use.
    pub index_max: usize,
    /// The first bit of the generation; `generation_mask` selects its bits after the shift.
    pub generation_shift: u32,
    pub generation_mask: u32,
    /// The first bit of the tag; `tag_mask` selects its bits after the shift.
    pub tag_shift: u32,
    pub tag_mask: usize,
    /// Bits that are set in the tag of every kind.
    pub mark: usize,
    /// The first bit of the kind in the tag.
    pub kind_shift: u32,
    /// Whether handles are integers, so that Fortran uses equal values.
    pub is_integer: bool,
}

impl HandleLayout {
    /// The layout in 64 bits: generation (32 bits, at least 1), kind (4 bits), index (28 bits).
    pub const WIDE: Self = Self {
        index_bits: 28,
        // The highest bit of the index marks transfers (`crate::requests`).
        index_max: (1 << 27) - 1,
        generation_shift: 32,
        generation_mask: u32::MAX,
        tag_shift: 28,
        tag_mask: 0xf,
        mark: 0,
        kind_shift: 0,
        is_integer: false,
    };

    /// Returns the tag of handles of a kind.
    #[inline(always)]
    pub const fn tag(&self, kind: usize) -> usize {
        self.mark | kind << self.kind_shift
    }

    /// Whether a value has the tag of handles of a kind.
    #[inline(always)]
    pub const fn is_of_kind(&self, raw: usize, kind: usize) -> bool {
        (raw >> self.tag_shift) & self.tag_mask == self.tag(kind)
    }
}
