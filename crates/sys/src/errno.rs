//! The number of the last error of the C library, which each kernel thread has one of.

pub use libc::{EAGAIN, EBUSY, ECANCELED, EDEADLK, EINVAL, EPERM, ESRCH};

/// What it is.
#[inline]
pub fn last() -> i32 {
    // SAFETY: the address is that of the calling thread's word.
    unsafe { *libc::__errno_location() }
}

/// Sets it.
#[inline]
pub fn set_last(number: i32) {
    // SAFETY: as above; nobody else writes it meanwhile.
    unsafe { *libc::__errno_location() = number };
}
