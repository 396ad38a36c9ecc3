//! The sizes of the slots in which members of a communicator show each other data.

use crate::limits::CACHE_LINE;

/// How large the slots of an operation on a board are; of smaller ones there are more. The
/// schedules of collective operations are made for these sizes, and the memory of boards is divided
/// into them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SlotSize {
    /// What fits in one line beside the words at the head of a slot. There are so many that a
    /// process that waits for nobody can be far ahead of those that take turns on cores.
    Tiny,
    /// Many, of which many may be in use.
    #[default]
    Small,
    /// So many that together they are larger than a core's own cache.
    Medium,
    /// A few.
    Large,
}

/// The words with which each slot begins, in bytes.
pub const SLOT_HEAD_BYTES: usize = 16;

impl SlotSize {
    /// All of them, from the smallest on.
    pub const ALL: [Self; 4] = [Self::Tiny, Self::Small, Self::Medium, Self::Large];

    /// How many bytes one of them holds besides its head.
    #[inline]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Tiny => CACHE_LINE - SLOT_HEAD_BYTES,
            // Round numbers, and a table of lengths.
            Self::Small => (1 << 10) + 2 * CACHE_LINE,
            Self::Medium => (64 << 10) + 2 * CACHE_LINE,
            Self::Large => 1536 << 10,
        }
    }
}
