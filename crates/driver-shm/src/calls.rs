//! Calls: by which peers tell the owner of a segment that they want its regions.

use std::sync::atomic::{AtomicU32, Ordering};

/// Calls that may wait for the owner.
pub(crate) const CALLS: usize = 1024;

/// Slots of regions whose owner is wanted. All zero in a new segment.
#[repr(C, align(64))]
pub(crate) struct WantedSlots {
    tail: AtomicU32,
    _keep_apart: [u32; 15],
    /// A slot's number and one; 0: none.
    slots: [AtomicU32; CALLS],
}

impl WantedSlots {
    /// Calls the owner because of a slot.
    pub(crate) fn call(&self, slot: u32) {
        let turn = self.tail.fetch_add(1, Ordering::Relaxed) as usize;
        self.slots[turn % CALLS].store(slot + 1, Ordering::Release);
    }

    /// Whether the call with this number came.
    #[inline]
    pub(crate) fn has(&self, number: u32) -> bool {
        self.slots[number as usize % CALLS].load(Ordering::Relaxed) != 0
    }

    /// The owner's: the slot of the call with this number, if it came.
    #[inline]
    pub(crate) fn take(&self, number: u32) -> Option<u32> {
        let call = &self.slots[number as usize % CALLS];
        let slot = call.load(Ordering::Acquire).checked_sub(1)?;
        call.store(0, Ordering::Relaxed);
        Some(slot)
    }
}
