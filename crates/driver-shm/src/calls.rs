//! The queue in a segment in which peers request service for regions from the owner.

use std::sync::atomic::{AtomicU32, Ordering};

/// The maximal number of calls that wait for the owner.
pub(crate) const CALLS: usize = 1024;

/// Slots of regions for which peers request service. All zero in a new segment.
#[repr(C, align(64))]
pub(crate) struct WantedSlots {
    tail: AtomicU32,
    _keep_apart: [u32; 15],
    /// The number of a slot plus one; 0: none.
    slots: [AtomicU32; CALLS],
}

impl WantedSlots {
    /// Requests the owner's service for a slot.
    pub(crate) fn call(&self, slot: u32) {
        let turn = self.tail.fetch_add(1, Ordering::Relaxed) as usize;
        self.slots[turn % CALLS].store(slot + 1, Ordering::Release);
    }

    /// Whether the call with this number has arrived.
    #[inline]
    pub(crate) fn has(&self, number: u32) -> bool {
        self.slots[number as usize % CALLS].load(Ordering::Relaxed) != 0
    }

    /// Called by the owner: returns the slot of the call with this number, if it has arrived.
    #[inline]
    pub(crate) fn take(&self, number: u32) -> Option<u32> {
        let call = &self.slots[number as usize % CALLS];
        let slot = call.load(Ordering::Acquire).checked_sub(1)?;
        call.store(0, Ordering::Relaxed);
        Some(slot)
    }
}
