//! Checks loads and stores of the program itself, if the program is compiled to report them.
//!
//! `mpicc --check-accesses` makes the compiler add a call before each load and store, as for
//! ThreadSanitizer. Instead of ThreadSanitizer's run-time library an object file is linked
//! (`accesses/accesses.c`), which passes the accesses to [`combray_note_access`]. Only two kinds of
//! memory are checked: the buffers of operations, and memory that other processes access through
//! windows.

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use checks::{AccessAction, MemoryRanges};

use super::Checks;
use super::requests::refuse_overlap;
use super::uses::{BufferUse, LocalUse};
use super::watched::is_watched;
use crate::phase;

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

/// Checks a load or store of `bytes` bytes by the program.
#[unsafe(no_mangle)]
extern "C" fn combray_note_access(address: *const c_void, bytes: usize, stores: c_int) {
    let (address, stores) = (address.addr(), stores != 0);
    let usage = if stores { BufferUse::Stores } else { BufferUse::Loads };
    if is_watched(address) || is_watched(address.saturating_add(bytes.saturating_sub(1))) {
        check_access(address, bytes, usage);
        // This makes the compiler emit a call and not a jump, because this function's frame is
        // searched for on the stack.
        std::hint::black_box(());
    }
}

#[cold]
#[inline(never)]
fn check_access(address: usize, bytes: usize, usage: BufferUse) {
    if bytes == 0 || CALLS.get() > 0 {
        return;
    }
    let _in_call = InCall::begin();
    phase::if_free(|library| {
        let checks = super::checks_of(library).filter(|_| !phase::is_finalized())?;
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
