//! Descriptors that were inherited.

use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;

/// Takes over a descriptor that the process inherited, and keeps it from its own children.
///
/// # Errors
/// The descriptor is not open.
pub fn adopt(descriptor: i32) -> io::Result<File> {
    // SAFETY: F_SETFD takes a number and an integer; a number that is no descriptor is an error.
    let set = unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    crate::check(libc::c_long::from(set))?;
    // SAFETY: the descriptor is open, was inherited for this purpose, and belongs to nobody else
    // in this process.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}
