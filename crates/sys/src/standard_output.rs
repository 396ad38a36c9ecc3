//! The standard output of the C library, which belongs to the program.

use std::ptr;

unsafe extern "C" {
    /// Of stdio.h, a variable in every C library for Linux.
    static stdout: *mut libc::FILE;
}

/// Lets the C library write each line when it is whole, as it does on a terminal, instead of
/// keeping some KiB that are lost when the process is killed. What the program chooses later holds.
///
/// Only for a moment in which no other thread uses standard output.
pub fn write_whole_lines() {
    // SAFETY: the variable is set before any constructor runs. Without a buffer of its own the call
    // changes only when the stream is written out; it fails, without effect, for a mode that does
    // not exist.
    unsafe { libc::setvbuf(stdout, ptr::null_mut(), libc::_IOLBF, 0) };
}
