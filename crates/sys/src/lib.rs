#![doc = include_str!("../README.md")]
pub mod callers;
pub mod clock;
pub mod cores;
pub mod counter;
pub mod crashes;
pub mod cross_memory;
pub mod descriptor;
pub mod energy;
pub mod environment;
pub mod errno;
pub mod faults;
pub mod files;
pub mod forks;
pub mod futex;
pub mod host_memory;
pub mod library;
pub mod mapping;
pub mod membarrier;
pub mod next_touch;
pub mod numa;
pub mod own_functions;
pub mod packets;
pub mod pages;
pub mod passing;
pub mod pools;
pub mod process;
pub mod processors;
pub mod random;
pub mod signals;
pub mod socket;
pub mod stacks;
pub mod standard_output;
pub mod teams;
pub mod terminal;
pub mod usage;

use std::io;

/// Makes a readable error for a system call that systems can be configured to refuse.
pub fn refused(call: &str, cause: &io::Error) -> io::Error {
    let advice = match cause.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => {
            "; this system, or the container (its filter of system calls), must allow it"
        }
        _ if lacks_descriptors(cause) => "; raise the limit of open files (ulimit -n)",
        _ => "",
    };
    io::Error::new(cause.kind(), format!("{call}: {cause}{advice}"))
}

/// Makes a readable error as [`refused`] does, but leaves an error due to a lack of descriptors
/// unchanged: the caller knows how many are needed, and reports that.
pub(crate) fn refused_or_lacking(call: &str, cause: io::Error) -> io::Error {
    if lacks_descriptors(&cause) { cause } else { refused(call, &cause) }
}

/// Whether an error reports that this process or the machine has no descriptors left.
pub fn lacks_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Converts the result of a libc call, where a negative value means "see errno", to `io::Result`.
pub(crate) fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
