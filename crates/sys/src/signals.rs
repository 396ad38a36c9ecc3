//! Signals: which threads get them.

use std::mem::MaybeUninit;
use std::ptr;

/// Runs `start` with all signals blocked: threads that it starts leave the program's signals to the
/// program's threads.
pub fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY:
    // - `sigfillset` writes a whole set, which the next call reads.
    // - Changing the mask of the calling thread touches no other memory, and cannot fail with
    //   SIG_SETMASK.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let result = start();
    // SAFETY: `before` was written by the call above, with the same mask function.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    result
}
