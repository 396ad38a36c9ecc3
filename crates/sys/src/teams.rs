//! The threads of Combray's library of OpenMP, if this process has loaded it.

use std::ffi::{CStr, c_int, c_void};
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::library::LoadedLibrary;

/// Takes what a thread has done until now: its kind, the number of the thread, the function of a
/// region, and the duration in nanoseconds.
pub type TeamSink = extern "C" fn(what: u32, thread: u32, function: usize, lasted_ns: u64);

/// Lets the library report to `sink`, or to none. Returns whether it is loaded.
pub fn observe(sink: Option<TeamSink>) -> bool {
    let Some(set) = function(c"combray_openmp_trace") else { return false };
    // SAFETY: this name is in no other library, and its function has this type.
    let set =
        unsafe { std::mem::transmute::<NonNull<c_void>, extern "C" fn(Option<TeamSink>)>(set) };
    set(sink);
    true
}

/// What the library does when a thread waits, if it was loaded when [`find`] looked.
static BEGIN_WAIT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Looks whether the library is loaded, for [`begin_wait`].
pub fn find() {
    let found = function(c"combray_openmp_begin_wait").map_or(ptr::null_mut(), NonNull::as_ptr);
    BEGIN_WAIT.store(found, Ordering::Release);
}

/// Reports that the calling thread begins to wait. Returns whether it takes turns with other
/// threads of a team: another kernel thread runs these meanwhile, and needs the core.
#[inline]
pub fn begin_wait() -> bool {
    let found = BEGIN_WAIT.load(Ordering::Acquire);
    if found.is_null() {
        return false;
    }
    // SAFETY: this name is in no other library, and its function has this type. The library stays
    // loaded.
    let begin_wait = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(found) };
    begin_wait() != 0
}

/// Declares that the calling thread of a team uses memory; access 1: it only reads it, 2: it also
/// writes it. Returns 0 or a number of `errno.h`: `EPERM` if the library is not loaded.
pub fn uses(address: *const c_void, bytes: usize, access: c_int) -> c_int {
    let Some(uses) = function(c"combray_openmp_uses") else { return libc::EPERM };
    // SAFETY: this name is in no other library, and its function has this type.
    let uses = unsafe {
        std::mem::transmute::<NonNull<c_void>, extern "C" fn(*const c_void, usize, c_int) -> c_int>(
            uses,
        )
    };
    uses(address, bytes, access)
}

fn function(name: &CStr) -> Option<NonNull<c_void>> {
    LoadedLibrary::already(Path::new("libgomp.so.1"))?.symbol(name)
}
