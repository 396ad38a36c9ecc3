//! Sleeping on a word of shared memory (futex(2)).

use std::io;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::clock::Moment;

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

/// Whether the system can put a thread to sleep on two words ([`wait_for_either`]): Linux 5.16 and
/// later, unless a container's filter forbids it.
pub fn can_wait_for_either() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        // SAFETY: no word is passed, so the kernel reads no memory; it refuses that with EINVAL.
        let result = unsafe { libc::syscall(libc::SYS_futex_waitv, ptr::null::<u8>(), 0, 0, 0, 0) };
        crate::check(result).is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL))
    })
}

/// Sleeps while both words hold the expected values, until a thread that sleeps on one of them is
/// woken, a signal arrives, or `timeout` has passed. Must only be called where
/// [`can_wait_for_either`] is true.
///
/// It may return early and does not report the reason: the caller must check its conditions again.
/// The words may be in memory that several processes share.
pub fn wait_for_either(words: [(&AtomicU32, u32); 2], timeout: Duration) {
    /// `struct futex_waitv` of the kernel.
    #[repr(C)]
    struct WaitedWord {
        value: u64,
        address: u64,
        flags: u32,
        reserved: u32,
    }
    /// The word has 32 bits, and may be shared with other processes.
    const SHARED_WORD: u32 = 2;
    const NANOSECONDS: u64 = 1_000_000_000;
    let end = Moment::now().nanoseconds().saturating_add(timeout.as_nanos() as u64);
    let limit = libc::timespec {
        tv_sec: (end / NANOSECONDS) as libc::time_t,
        tv_nsec: (end % NANOSECONDS) as libc::c_long,
    };
    let words = words.map(|(word, expected)| WaitedWord {
        value: expected.into(),
        address: word.as_ptr().addr() as u64,
        flags: SHARED_WORD,
        reserved: 0,
    });
    // SAFETY:
    // - Both words are valid and aligned for the whole call (they are borrowed).
    // - The array and the limit outlive the call, which reads them only.
    unsafe {
        let (count, clock) = (words.len(), libc::CLOCK_MONOTONIC);
        libc::syscall(libc::SYS_futex_waitv, words.as_ptr(), count, 0, &raw const limit, clock);
    }
}

/// Wakes at most `count` threads that sleep on `word`. Returns how many were woken.
pub fn wake(word: &AtomicU32, count: i32) -> io::Result<usize> {
    // SAFETY: `word` is a valid, aligned 32-bit word for the whole call (it is borrowed).
    let woken = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, count) };
    crate::check(woken).map(|n| n as usize)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::thread;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_thread_sleeps_until_one_of_two_words_changes() {
        if !can_wait_for_either() {
            return;
        }
        let long = Duration::from_secs(60);
        for changed in 0..2 {
            let words = [AtomicU32::new(3), AtomicU32::new(5)];
            let begun = Instant::now();
            thread::scope(|scope| {
                let sleeper = scope.spawn(|| {
                    while words[0].load(Ordering::SeqCst) == 3
                        && words[1].load(Ordering::SeqCst) == 5
                    {
                        wait_for_either([(&words[0], 3), (&words[1], 5)], long);
                    }
                });
                thread::sleep(Duration::from_millis(20));
                words[changed].store(9, Ordering::SeqCst);
                wake(&words[changed], i32::MAX).unwrap();
                sleeper.join().unwrap();
            });
            assert!(begun.elapsed() < long);
        }
        let words = [AtomicU32::new(3), AtomicU32::new(5)];
        let begun = Instant::now();
        wait_for_either([(&words[0], 3), (&words[1], 4)], long);
        assert!(begun.elapsed() < long, "the second word is another one");
        wait_for_either([(&words[0], 3), (&words[1], 5)], Duration::from_millis(5));
        assert!(begun.elapsed() >= Duration::from_millis(5), "nothing wakes it before");
    }
}
