//! The threads of Combray's library of OpenMP, if this process has loaded it.

use std::ffi::c_void;
use std::path::Path;
use std::ptr::NonNull;

use crate::library::LoadedLibrary;

/// Takes what a thread has done until now: its kind, the number of the thread, the function of a
/// region, and the duration in nanoseconds.
pub type TeamSink = extern "C" fn(what: u32, thread: u32, function: usize, lasted_ns: u64);

/// Lets the library report to `sink`, or to none. Returns whether it is loaded.
pub fn observe(sink: Option<TeamSink>) -> bool {
    let library = LoadedLibrary::already(Path::new("libgomp.so.1"));
    let found = library.and_then(|library| library.symbol(c"combray_openmp_trace"));
    let Some(set) = found else { return false };
    // SAFETY: this name is in no other library, and its function has this type.
    let set =
        unsafe { std::mem::transmute::<NonNull<c_void>, extern "C" fn(Option<TeamSink>)>(set) };
    set(sink);
    true
}
