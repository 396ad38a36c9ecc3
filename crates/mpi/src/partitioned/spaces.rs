//! The message spaces of a communicator for partitioned communication.

use std::cell::Cell;

use engine::ContextSlot;

/// The message spaces of a communicator for partitioned communication, opened on first use.
#[derive(Debug)]
pub(crate) struct PartitionedSpaces {
    /// For introductions, with the program's tags.
    pub(super) introductions: ContextSlot,
    /// For data, with tags that the sender reserved.
    pub(super) data: ContextSlot,
    next_tag: Cell<i32>,
}

impl PartitionedSpaces {
    pub(super) fn new(introductions: ContextSlot, data: ContextSlot) -> Self {
        Self { introductions, data, next_tag: Cell::new(0) }
    }

    /// The message spaces that must be closed with the communicator.
    pub(crate) fn slots(&self) -> [ContextSlot; 2] {
        [self.introductions, self.data]
    }

    /// Returns the first of the consecutive tags for the message of all partitions and the
    /// messages of `count` partitions. Tags are used again after 2^31, long after their old
    /// requests were freed.
    pub(super) fn reserve_tags(&self, count: u32) -> i32 {
        let count = i32::try_from(count).unwrap_or(i32::MAX).saturating_add(1);
        let (first, next) = match self.next_tag.get().checked_add(count) {
            Some(next) => (self.next_tag.get(), next),
            None => (0, count),
        };
        self.next_tag.set(next);
        first
    }
}
