//! The only caller of libc: each function wraps one system facility and returns `io::Result`.
//!
//! No policy lives here: who maps what, who sleeps when and who copies is decided above.

pub mod callers;
pub mod clock;
pub mod cores;
pub mod counter;
pub mod cross_memory;
pub mod descriptor;
pub mod environment;
pub mod errno;
pub mod faults;
pub mod files;
pub mod forks;
pub mod futex;
pub mod library;
pub mod mapping;
pub mod membarrier;
pub mod next_touch;
pub mod numa;
pub mod own_functions;
pub mod packets;
pub mod process;
pub mod random;
pub mod signals;
pub mod socket;
pub mod stacks;
pub mod standard_output;
pub mod usage;

use std::io;

/// An error of a system call that systems are set up to refuse, in words for people.
pub fn refused(call: &str, cause: &io::Error) -> io::Error {
    let advice = match cause.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => {
            "; this system, or the container (its filter of system calls), does not allow it, and \
             has to"
        }
        _ if lacks_descriptors(cause) => "; raise the limit of open files (ulimit -n)",
        _ => "",
    };
    io::Error::new(cause.kind(), format!("{call}: {cause}{advice}"))
}

/// As [`refused`], but an error for want of descriptors stays as it is: whoever knows how many are
/// needed says more.
pub(crate) fn refused_or_lacking(call: &str, cause: io::Error) -> io::Error {
    if lacks_descriptors(&cause) { cause } else { refused(call, &cause) }
}

/// Whether there are no descriptors left, of this process or of the machine.
pub fn lacks_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Turns the result of a libc call, where a negative value means "see errno", into `io::Result`.
pub(crate) fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
