//! Sleeping on a word of shared memory (futex(2)).

use std::io;
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` holds `expected`, until woken, interrupted, or `timeout` has passed.
///
/// It may return early and does not report the reason: the caller must check its condition again.
/// The word may be in memory that several processes share.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    let limit = timeout.map(|t| libc::timespec {
        tv_sec: t.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(t.subsec_nanos() as i32),
    });
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY:
    // - `word` is a valid, aligned 32-bit word for the whole call (it is borrowed).
    // - `limit` is null or points to a timespec that outlives the call.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, limit, 0, 0);
    }
}

/// Wakes at most `count` threads that sleep on `word`. Returns how many were woken.
pub fn wake(word: &AtomicU32, count: i32) -> io::Result<usize> {
    // SAFETY: `word` is a valid, aligned 32-bit word for the whole call (it is borrowed).
    let woken = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, count) };
    crate::check(woken).map(|n| n as usize)
}
