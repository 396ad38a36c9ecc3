//! The dialects: what differs between the standard ABI and those of libraries that were there
//! before it. The crate is built once for each, and `cfg(dialect)` says for which; all that a
//! dialect is stands in its file here and in its tables (`abi/`), from which come the constants.

#[cfg(not(dialect = "mpich"))]
mod numbers;
#[cfg_attr(not(any(dialect = "mpich", dialect = "open_mpi")), path = "dialect/standard.rs")]
#[cfg_attr(dialect = "mpich", path = "dialect/mpich.rs")]
#[cfg_attr(dialect = "open_mpi", path = "dialect/open_mpi.rs")]
mod own;

pub use own::*;

/// How the parts of a handle of ours lie in it: generation, tag and index.
///
/// The tag tells the kind, and tells handles of ours from predefined ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandleLayout {
    /// Bits of the index, which are the lowest.
    pub index_bits: u32,
    /// The greatest index that tables use.
    pub index_max: usize,
    /// Where the generation begins, and how much of it there is.
    pub generation_shift: u32,
    pub generation_mask: u32,
    /// Where the tag begins.
    pub tag_shift: u32,
    pub tag_mask: usize,
    /// What is in the tag of every kind.
    pub mark: usize,
    /// Where the kind begins in the tag.
    pub kind_shift: u32,
    /// Whether handles are integers, so that Fortran has the same ones.
    pub is_integer: bool,
}

impl HandleLayout {
    /// In 64 bits: generation (32 bits, at least 1), kind (4 bits), index (28 bits).
    pub const WIDE: Self = Self {
        index_bits: 28,
        // The highest bit marks transfers (`crate::requests`).
        index_max: (1 << 27) - 1,
        generation_shift: 32,
        generation_mask: u32::MAX,
        tag_shift: 28,
        tag_mask: 0xf,
        mark: 0,
        kind_shift: 0,
        is_integer: false,
    };

    /// The tag of handles of a kind.
    #[inline(always)]
    pub const fn tag(&self, kind: usize) -> usize {
        self.mark | kind << self.kind_shift
    }

    /// Whether a handle looks like one of ours of a kind.
    #[inline(always)]
    pub const fn is_of_kind(&self, raw: usize, kind: usize) -> bool {
        (raw >> self.tag_shift) & self.tag_mask == self.tag(kind)
    }
}
