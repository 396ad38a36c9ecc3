//! Memory files that the launcher creates for a process, which inherits their descriptors.

use std::ffi::CStr;
use std::fs::{self, File};
use std::os::fd::AsRawFd;

use sys::environment;

/// Returns the memory file whose descriptor the variable `name` has, if its label is `label`. A
/// program between launcher and process may have closed the descriptor and opened another file.
pub fn memory_file(name: &str, label: &CStr) -> Option<File> {
    let descriptor: i32 = environment::text(name)?.parse().ok()?;
    if !is_memory_file(descriptor, label) {
        return None;
    }
    sys::descriptor::adopt(descriptor).ok()
}

/// Whether a descriptor still refers to a memory file with this label: the program may have closed
/// all descriptors that it did not open.
pub(crate) fn is_sound(file: &File, label: &CStr) -> bool {
    is_memory_file(file.as_raw_fd(), label)
}

fn is_memory_file(descriptor: i32, label: &CStr) -> bool {
    let link = fs::read_link(format!("/proc/self/fd/{descriptor}"));
    link.is_ok_and(|link| {
        let name = link.as_os_str().as_encoded_bytes().strip_prefix(b"/memfd:");
        name.is_some_and(|name| name.starts_with(label.to_bytes()))
    })
}
