//! The only caller of libc: each function wraps one system facility and returns `io::Result`.
//!
//! No policy lives here: who maps what, who sleeps when and who copies is decided above.

pub mod cores;
pub mod cross_memory;
pub mod descriptor;
pub mod files;
pub mod forks;
pub mod futex;
pub mod library;
pub mod mapping;
pub mod membarrier;
pub mod next_touch;
pub mod numa;
pub mod packets;
pub mod process;
pub mod random;
pub mod signals;
pub mod socket;

use std::io;

/// Turns the result of a libc call, where a negative value means "see errno", into `io::Result`.
pub(crate) fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
