//! Memory barriers on all processes, or on all threads of one, at once (membarrier(2)): the rare
//! side pays, so that the frequent side needs no fence of its own.

use std::io;

const REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;
const GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;

/// Registers this process for the barriers of others.
///
/// # Errors
/// If the kernel or a container's filter does not allow it: then each side needs a fence.
pub fn register() -> io::Result<()> {
    call(REGISTER_GLOBAL_EXPEDITED)
}

/// Executes a full memory barrier on every running thread of every registered process.
pub fn global() -> io::Result<()> {
    call(GLOBAL_EXPEDITED)
}

/// Registers the threads of this process for its own barriers.
///
/// # Errors
/// If the kernel or a container's filter does not allow it.
pub fn register_threads() -> io::Result<()> {
    call(REGISTER_PRIVATE_EXPEDITED)
}

/// Executes a full memory barrier on every running thread of this process, once it is registered.
pub fn threads() -> io::Result<()> {
    call(PRIVATE_EXPEDITED)
}

fn call(command: libc::c_int) -> io::Result<()> {
    // SAFETY: membarrier takes plain integers and accesses no memory of this process.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    crate::check(result).map(drop)
}
