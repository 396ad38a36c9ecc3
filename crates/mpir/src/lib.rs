//! What debuggers and tools read in the launcher of a job: which processes it has, and where.
//!
//! These are variables and a function with fixed names, which a tool finds in the symbols of the
//! launcher, reads by the system's interface for debuggers, and stops at. The names, types and
//! values are those of "The MPIR Process Acquisition Interface", version 1.0 (MPI Forum, 2010).

#![allow(non_upper_case_globals, non_snake_case)]

use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

/// A process of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobProcess {
    /// Its machine.
    pub host: String,
    /// The file of its program.
    pub executable: String,
    /// Its number on its machine.
    pub process: i32,
}

/// A line of the table (MPIR_PROCDESC).
#[repr(C)]
pub struct ProcessDescription {
    host_name: *const c_char,
    executable_name: *const c_char,
    process: c_int,
}

/// Tools learn the processes from a launcher that was started by them, or without them.
const SPAWNED: c_int = 1;

// The names that tools look for. Each of them is one variable of the program.

/// By rank: the processes of the job.
// SAFETY: nothing else has this name, which only a launcher of MPI programs has.
#[unsafe(no_mangle)]
pub static MPIR_proctable: AtomicPtr<ProcessDescription> = AtomicPtr::new(ptr::null_mut());

/// How many there are; 0 before they are started.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub static MPIR_proctable_size: AtomicI32 = AtomicI32::new(0);

/// What a tool learns at [`MPIR_Breakpoint`].
// SAFETY: as above.
#[unsafe(no_mangle)]
pub static MPIR_debug_state: AtomicI32 = AtomicI32::new(0);

/// Set by a tool that has started the launcher.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub static MPIR_being_debugged: AtomicI32 = AtomicI32::new(0);

/// That it is there tells that the launcher is no process of the job.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub static MPIR_i_am_starter: AtomicI32 = AtomicI32::new(1);

/// That it is there tells that a tool need not attach to all processes: the launcher lets all go
/// on itself.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub static MPIR_partial_attach_ok: AtomicI32 = AtomicI32::new(1);

/// Where a tool stops the launcher. It does nothing.
// SAFETY: as above.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn MPIR_Breakpoint() {
    std::hint::black_box(MPIR_debug_state.load(Ordering::Relaxed));
}

/// Whether a tool has started this launcher.
pub fn is_being_debugged() -> bool {
    MPIR_being_debugged.load(Ordering::Relaxed) != 0
}

/// Tells tools the processes, once all are started; comes back when a tool lets the launcher go on.
///
/// The table stays until the process ends.
pub fn publish(processes: &[JobProcess]) {
    // No name of a file or host has a zero byte; where one has, nothing is told.
    let text = |text: &str| CString::new(text).unwrap_or_default().into_raw().cast_const();
    let lines: Vec<ProcessDescription> = processes
        .iter()
        .map(|one| ProcessDescription {
            host_name: text(&one.host),
            executable_name: text(&one.executable),
            process: one.process,
        })
        .collect();
    let size = c_int::try_from(lines.len()).unwrap_or(c_int::MAX);
    MPIR_proctable.store(Vec::leak(lines).as_mut_ptr(), Ordering::Release);
    MPIR_proctable_size.store(size, Ordering::Release);
    MPIR_debug_state.store(SPAWNED, Ordering::Release);
    std::hint::black_box(MPIR_Breakpoint as extern "C" fn())();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_laid_out_as_tools_expect() {
        assert_eq!(std::mem::offset_of!(ProcessDescription, host_name), 0);
        assert_eq!(std::mem::offset_of!(ProcessDescription, executable_name), 8);
        assert_eq!(std::mem::offset_of!(ProcessDescription, process), 16);
        assert_eq!(size_of::<ProcessDescription>(), 24);
        assert!(!is_being_debugged());
    }
}
