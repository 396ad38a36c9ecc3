//! Signals: masks of the calling thread.

use std::mem::MaybeUninit;
use std::ptr;

/// Runs `write`, which may write to a pipe or socket whose other end is closed. This is then an
/// error without the signal SIGPIPE, which would kill a program that does not expect it.
pub fn without_pipe_signal<T>(write: impl FnOnce() -> T) -> T {
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    let mut pipe = MaybeUninit::<libc::sigset_t>::uninit();
    let mut pending = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY:
    // - `sigemptyset` and `sigpending` write whole sets, which the calls after them read.
    // - Changing the mask of the calling thread touches no other memory.
    let was_pending = unsafe {
        libc::sigemptyset(pipe.as_mut_ptr());
        libc::sigaddset(pipe.as_mut_ptr(), libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, pipe.as_ptr(), before.as_mut_ptr());
        libc::sigemptyset(pending.as_mut_ptr());
        libc::sigpending(pending.as_mut_ptr());
        libc::sigismember(pending.as_ptr(), libc::SIGPIPE) == 1
    };
    let result = write();
    // SAFETY: the sets were written above; a timeout of zero does not wait.
    unsafe {
        if !was_pending {
            let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            libc::sigtimedwait(pipe.as_ptr(), ptr::null_mut(), &raw const now);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
    }
    result
}

/// Runs `start` with all signals blocked: threads that it starts inherit this mask, and leave the
/// program's signals to the program's threads.
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

/// The signals that a thread blocks.
pub struct SignalMask(libc::sigset_t);

impl SignalMask {
    /// Returns those of the calling thread.
    pub fn current() -> Self {
        let mut mask = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: without a new mask, the call writes the present one only.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, ptr::null(), mask.as_mut_ptr());
            Self(mask.assume_init())
        }
    }

    /// Runs `start` with this mask, which threads that it starts inherit.
    pub fn during<T>(&self, start: impl FnOnce() -> T) -> T {
        let before = Self::current();
        // SAFETY: changing the mask of the calling thread touches no other memory.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
        let result = start();
        // SAFETY: as above.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before.0, ptr::null_mut()) };
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_pipe_without_reader_is_an_error_and_no_signal() {
        // SAFETY: sets the default disposition of programs that are not written in Rust.
        let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let (reader, mut writer) = std::io::pipe().unwrap();
        drop(reader);
        for _ in 0..2 {
            let result = without_pipe_signal(|| writer.write(&[1]));
            assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
        }
        // SAFETY: restores the former disposition.
        unsafe { libc::signal(libc::SIGPIPE, before) };
    }
}
