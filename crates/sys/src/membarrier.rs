//! Memory barriers on all processes at once (membarrier(2)): the rare side pays, so that the
//! frequent side needs no fence of its own.

use std::io;

const REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;
const GLOBAL_EXPEDITED: libc::c_int = 1 << 1;

/// Asks that this process takes part in the barriers of others.
///
/// # Errors
/// The kernel or a container's filter does not allow it: then a fence is needed on each side.
pub fn register() -> io::Result<()> {
    call(REGISTER_GLOBAL_EXPEDITED)
}

/// A full memory barrier on every running thread of every registered process.
pub fn global() -> io::Result<()> {
    call(GLOBAL_EXPEDITED)
}

fn call(command: libc::c_int) -> io::Result<()> {
    // SAFETY: membarrier takes plain integers and touches no memory of ours.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    crate::check(result).map(drop)
}
