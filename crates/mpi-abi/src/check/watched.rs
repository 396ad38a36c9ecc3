//! The memory for which loads and stores of the program are checked.

use std::sync::atomic::{AtomicU32, Ordering};

use checks::MemoryRanges;

/// How many watched pieces of memory each page has, by the last bits of the page number.
static WATCHED: [AtomicU32; PLACES] = [const { AtomicU32::new(0) }; PLACES];

const PLACES: usize = 1 << 14;
const PAGE_SHIFT: u32 = 12;

fn each_place(memory: &MemoryRanges, change: impl Fn(&AtomicU32)) {
    for (address, length) in memory.iter() {
        let (first, last) = (address >> PAGE_SHIFT, (address + length - 1) >> PAGE_SHIFT);
        (first..=last).take(PLACES).for_each(|page| change(&WATCHED[page % PLACES]));
    }
}

/// Enables the checks of loads and stores for this memory.
pub fn watch(memory: &MemoryRanges) {
    each_place(memory, |place| {
        place.fetch_add(1, Ordering::Relaxed);
    });
}

/// Disables the checks of loads and stores for this memory, unless it is watched for another
/// reason.
pub fn unwatch(memory: &MemoryRanges) {
    each_place(memory, |place| {
        place.fetch_sub(1, Ordering::Relaxed);
    });
}

/// Whether loads and stores at an address are checked. True also for some other addresses.
#[inline]
pub fn is_watched(address: usize) -> bool {
    WATCHED[(address >> PAGE_SHIFT) % PLACES].load(Ordering::Relaxed) != 0
}
