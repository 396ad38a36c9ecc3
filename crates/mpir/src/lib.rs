//! The MPIR interface, through which debuggers and tools find the processes of a job and their
//! hosts.
//!
//! It consists of variables and a function with fixed names. A tool finds them in the symbol table
//! of the launcher, reads them through the kernel's debugging interface, and sets a breakpoint on
//! the function. The names, types and values are those of "The MPIR Process Acquisition Interface",
//! version 1.0 (MPI Forum, 2010).

#![allow(non_upper_case_globals, non_snake_case)]

use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

/// A process of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobProcess {
    /// The host on which it runs.
    pub host: String,
    /// The path of its executable.
    pub executable: String,
    /// Its process number on that host.
    pub process: i32,
}

/// An entry of the table (MPIR_PROCDESC).
#[repr(C)]
pub struct ProcessDescription {
    host_name: *const c_char,
    executable_name: *const c_char,
    process: c_int,
}

/// The value of `MPIR_debug_state` that reports that the processes were spawned, whether or not a
/// tool started the launcher.
const SPAWNED: c_int = 1;

// The names that tools look for. Each of them is one variable of the program.

/// The processes of the job, indexed by rank.
// SAFETY: no other symbol has this name, which only a launcher of MPI programs has.
#[unsafe(no_mangle)]
pub static MPIR_proctable: AtomicPtr<ProcessDescription> = AtomicPtr::new(ptr::null_mut());

/// The number of processes; 0 before they are started.
// SAFETY: no other symbol has this name, which only a launcher of MPI programs has.
#[unsafe(no_mangle)]
pub static MPIR_proctable_size: AtomicI32 = AtomicI32::new(0);

/// The state that a tool reads at [`MPIR_Breakpoint`].
// SAFETY: no other symbol has this name, which only a launcher of MPI programs has.
#[unsafe(no_mangle)]
pub static MPIR_debug_state: AtomicI32 = AtomicI32::new(0);

/// Set by a tool that has started the launcher.
// SAFETY: no other symbol has this name, which only a launcher of MPI programs has.
#[unsafe(no_mangle)]
pub static MPIR_being_debugged: AtomicI32 = AtomicI32::new(0);

/// The presence of this symbol means that the launcher is not itself a process of the job.
// SAFETY: no other symbol has this name, which only a launcher of MPI programs has.
#[unsafe(no_mangle)]
pub static MPIR_i_am_starter: AtomicI32 = AtomicI32::new(1);

/// The presence of this symbol means that a tool need not attach to all processes: the launcher
/// itself lets all processes continue.
// SAFETY: no other symbol has this name, which only a launcher of MPI programs has.
#[unsafe(no_mangle)]
pub static MPIR_partial_attach_ok: AtomicI32 = AtomicI32::new(1);

/// The function at which a tool stops the launcher. It does nothing.
// SAFETY: no other symbol has this name, which only a launcher of MPI programs has.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn MPIR_Breakpoint() {
    std::hint::black_box(MPIR_debug_state.load(Ordering::Relaxed));
}

/// Whether a tool has started this launcher.
pub fn is_being_debugged() -> bool {
    MPIR_being_debugged.load(Ordering::Relaxed) != 0
}

/// Publishes the processes to tools, once all are started. If a tool stops the launcher here, this
/// returns when the tool lets it continue.
///
/// The table stays valid until the process ends.
pub fn publish(processes: &[JobProcess]) {
    // Names of files and hosts contain no zero byte. A name that does is published as an empty
    // string.
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
