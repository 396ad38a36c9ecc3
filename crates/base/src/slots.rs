//! The sizes of the slots in which members of a communicator show each other data.

use crate::limits::CACHE_LINE;

/// The size of the slots of an operation on a board. There are more slots of smaller sizes. The
/// schedules of collective operations are made for these sizes, and the memory of boards is divided
/// into them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SlotSize {
    /// One cache line, including the words at the head of a slot. There are so many that a process
    /// that waits for no other can be far ahead of processes that take turns on cores.
    Tiny,
    /// Many slots, of which many may be in use.
    #[default]
    Small,
    /// So many slots that together they are larger than a core's private cache.
    Medium,
    /// A few slots.
    Large,
}

/// The length of the words with which each slot begins, in bytes.
pub const SLOT_HEAD_BYTES: usize = 16;

impl SlotSize {
    /// All sizes, from the smallest on.
    pub const ALL: [Self; 4] = [Self::Tiny, Self::Small, Self::Medium, Self::Large];

    /// Returns the capacity of a slot without its head, in bytes.
    #[inline]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Tiny => CACHE_LINE - SLOT_HEAD_BYTES,
            // Round numbers, plus a table of lengths.
            Self::Small => (1 << 10) + 2 * CACHE_LINE,
            Self::Medium => (64 << 10) + 2 * CACHE_LINE,
            Self::Large => 1536 << 10,
        }
    }
}
