//! The threads of Combray's library of OpenMP, if this process has loaded it.

use std::ffi::{CStr, c_int, c_void};
use std::path::Path;
use std::ptr::NonNull;

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
