//! Loads and stores of the program itself, where it is compiled so that it tells of them.
//!
//! `mpicc --check-accesses` lets the compiler add a call before each load and store, as for
//! ThreadSanitizer. In place of its run-time library an object file is linked
//! (`accesses/accesses.c`), which reports them to [`combray_note_access`]. Only the memory that
//! operations use and that others access through windows is looked at.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use checks::{AccessAction, MemoryRanges};

use super::Checks;
use super::accesses::LocalUse;
use super::requests::{BufferUse, refuse_overlap};
use crate::entry;

/// How often the pages of memory are watched, by the last bits of their numbers.
static WATCHED: [AtomicU32; PLACES] = [const { AtomicU32::new(0) }; PLACES];

const PLACES: usize = 1 << 14;
const PAGE_SHIFT: u32 = 12;

thread_local! {
    /// How many calls of MPI this thread is in: what functions do that the library calls is not
    /// looked at.
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

/// This thread is in a call of MPI as long as this lives.
pub struct InCall(());

impl InCall {
    /// It makes one now.
    pub fn begin() -> Self {
        CALLS.set(CALLS.get() + 1);
        Self(())
    }
}

impl Drop for InCall {
    fn drop(&mut self) {
        // A thread of combray_threads.h may have gone to another kernel thread meanwhile.
        CALLS.set(CALLS.get().saturating_sub(1));
    }
}

fn each_place(memory: &MemoryRanges, change: impl Fn(&AtomicU32)) {
    for (address, length) in memory.iter() {
        let (first, last) = (address >> PAGE_SHIFT, (address + length - 1) >> PAGE_SHIFT);
        (first..=last).take(PLACES).for_each(|page| change(&WATCHED[page % PLACES]));
    }
}

/// Loads and stores of this memory are looked at from now on.
pub fn watch(memory: &MemoryRanges) {
    each_place(memory, |place| {
        place.fetch_add(1, Ordering::Relaxed);
    });
}

/// They are not, unless somebody else watches them.
pub fn unwatch(memory: &MemoryRanges) {
    each_place(memory, |place| {
        place.fetch_sub(1, Ordering::Relaxed);
    });
}

/// The program reads or writes so many bytes.
#[unsafe(no_mangle)]
extern "C" fn combray_note_access(address: *const c_void, bytes: usize, stores: c_int) {
    let (address, stores) = (address.addr(), stores != 0);
    let usage = if stores { BufferUse::Stores } else { BufferUse::Loads };
    let is_watched =
        |address: usize| WATCHED[(address >> PAGE_SHIFT) % PLACES].load(Ordering::Relaxed) != 0;
    if is_watched(address) || is_watched(address.saturating_add(bytes.saturating_sub(1))) {
        look_at(address, bytes, usage);
        // A call and no jump: this function's frame is looked for on the stack.
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
    /// The program uses memory without a call.
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
