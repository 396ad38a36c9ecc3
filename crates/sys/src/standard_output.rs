//! The standard output of the C library, which belongs to the program.

use std::ptr;

unsafe extern "C" {
    /// From stdio.h, a variable in every C library for Linux.
    static stdout: *mut libc::FILE;
}

/// Makes the C library write each line when it is complete, as it does on a terminal. Otherwise it
/// would buffer some KiB, which are lost if the process is killed. A later choice of the program
/// takes precedence.
///
/// To be called only while no other thread uses standard output.
pub fn write_whole_lines() {
    // SAFETY: the variable is set before any constructor runs. Without a buffer argument the call
    // only changes when the stream is flushed; it fails, without effect, for an invalid mode.
    unsafe { libc::setvbuf(stdout, ptr::null_mut(), libc::_IOLBF, 0) };
}
