//! The C library's error number of the calling kernel thread.

pub use libc::{
    EAGAIN, EBUSY, ECANCELED, ECHILD, EDEADLK, EINPROGRESS, EINVAL, ENOMEM, EPERM, ESRCH,
};

/// Returns the error number.
#[inline]
pub fn last() -> i32 {
    // SAFETY: the address is that of the calling thread's word.
    unsafe { *libc::__errno_location() }
}

/// Sets the error number.
#[inline]
pub fn set_last(number: i32) {
    // SAFETY: the address is that of the calling thread's word, which no other code writes
    // meanwhile.
    unsafe { *libc::__errno_location() = number };
}
