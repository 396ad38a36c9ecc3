//! Checks loads and stores of the program itself, if the program is compiled to report them.
//!
//! `mpicc --check-accesses` makes the compiler add a call before each load and store, as for
//! ThreadSanitizer. Instead of ThreadSanitizer's run-time library an object file is linked
//! (`accesses/accesses.c`), which passes the accesses to [`combray_note_access`]. Only two kinds of
//! memory are checked: the buffers of operations, and memory that other processes access through
//! windows.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use checks::{AccessAction, MemoryRanges};

use super::Checks;
use super::accesses::LocalUse;
use super::requests::{BufferUse, refuse_overlap};
use crate::entry;

/// How many watched pieces of memory each page has, by the last bits of the page number.
static WATCHED: [AtomicU32; PLACES] = [const { AtomicU32::new(0) }; PLACES];

const PLACES: usize = 1 << 14;
const PAGE_SHIFT: u32 = 12;

thread_local! {
    /// The number of MPI calls that this thread is in. Accesses of functions that the library calls
    /// are not checked.
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

/// Marks that this thread is in an MPI call, until it is dropped.
pub struct InCall(());

impl InCall {
    /// Marks the beginning of a call.
    pub fn begin() -> Self {
        CALLS.set(CALLS.get() + 1);
        Self(())
    }
}

impl Drop for InCall {
    fn drop(&mut self) {
        // A thread of combray_threads.h may have moved to another kernel thread meanwhile.
        CALLS.set(CALLS.get().saturating_sub(1));
    }
}

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

/// Checks a load or store of `bytes` bytes by the program.
#[unsafe(no_mangle)]
extern "C" fn combray_note_access(address: *const c_void, bytes: usize, stores: c_int) {
    let (address, stores) = (address.addr(), stores != 0);
    let usage = if stores { BufferUse::Stores } else { BufferUse::Loads };
    let is_watched =
        |address: usize| WATCHED[(address >> PAGE_SHIFT) % PLACES].load(Ordering::Relaxed) != 0;
    if is_watched(address) || is_watched(address.saturating_add(bytes.saturating_sub(1))) {
        look_at(address, bytes, usage);
        // This makes the compiler emit a call and not a jump, because this function's frame is
        // searched for on the stack.
        std::hint::black_box(());
    }
}

#[cold]
#[inline(never)]
fn look_at(address: usize, bytes: usize, usage: BufferUse) {
    if bytes == 0 || CALLS.get() > 0 {
        return;
    }
    let _in_call = InCall::begin();
    entry::if_free(|library| {
        let checks = library.checks.get().filter(|_| !entry::is_finalized())?;
        checks.note_access(&MemoryRanges::new(vec![(address, bytes)]), usage);
        Some(())
    });
}

impl Checks {
    /// Compares a load or store of the program with operations and one-sided accesses.
    fn note_access(&self, memory: &MemoryRanges, usage: BufferUse) {
        let is_used = self.requests.is_used(memory, usage);
        if !is_used && !self.accesses.has_memory(memory) {
            return;
        }
        let site = self.sites.borrow_mut().of_access(usage.of_program());
        refuse_overlap(self, &site, memory, usage);
        let how = match usage.writes() {
            true => (AccessAction::Stores, LocalUse::Now),
            false => (AccessAction::Loads, LocalUse::Later),
        };
        self.accesses.use_memory(self, memory, how, &site);
    }
}
