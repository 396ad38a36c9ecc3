//! Descriptors that are closed in children that a program makes by `fork` without `exec`.
//!
//! A socket lives as long as any process has it open. A child that sleeps would hide the end of a
//! connection from the peer, and would make an epoll descriptor report a socket that this process
//! has closed.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// One bit for each descriptor that is closed in children.
static KEPT: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

/// Descriptors with this number or larger ones stay open in children.
const DESCRIPTORS_MAX: usize = 1 << 16;
const WORDS: usize = DESCRIPTORS_MAX / 64;

static REGISTERED: Once = Once::new();

/// Closes this descriptor in children from now on.
pub fn keep_from_children(descriptor: impl AsFd) {
    REGISTERED.call_once(|| {
        // SAFETY: the handler only reads atomic words and closes descriptors, which a child of a
        // process with several threads may do. If it cannot be registered, children keep the
        // descriptors.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(close_kept)) };
    });
    if let Some((word, bit)) = place_of(descriptor) {
        word.fetch_or(bit, Ordering::Relaxed);
    }
}

/// To be called before a descriptor is closed that was [kept from children](keep_from_children).
pub fn release(descriptor: impl AsFd) {
    if let Some((word, bit)) = place_of(descriptor) {
        word.fetch_and(!bit, Ordering::Relaxed);
    }
}

/// Returns the bit of a descriptor, unless its number is too large.
fn place_of(descriptor: impl AsFd) -> Option<(&'static AtomicU64, u64)> {
    let number = descriptor.as_fd().as_raw_fd() as usize;
    Some((KEPT.get(number / 64)?, 1 << (number % 64)))
}

unsafe extern "C" fn close_kept() {
    for (index, word) in KEPT.iter().enumerate() {
        let mut bits = word.swap(0, Ordering::Relaxed);
        while bits != 0 {
            let number = index * 64 + bits.trailing_zeros() as usize;
            // SAFETY: the descriptor belonged to this process before the fork, and no code in the
            // child uses it: the library does not work there.
            unsafe { libc::close(number as libc::c_int) };
            bits &= bits - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_child_does_not_keep_a_socket_open() {
        let (kept, mut other) = UnixStream::pair().unwrap();
        let (released, mut open) = UnixStream::pair().unwrap();
        keep_from_children(&kept);
        keep_from_children(&released);
        release(&released);
        // SAFETY: the child only sleeps, until it is killed.
        let child = unsafe { libc::fork() };
        if child == 0 {
            loop {
                // SAFETY: only sleeps.
                unsafe { libc::pause() };
            }
        }
        release(&kept);
        drop((kept, released));
        assert_eq!(other.read(&mut [0]).unwrap(), 0, "the other end sees the end");
        open.set_nonblocking(true).unwrap();
        assert!(open.read(&mut [0]).is_err(), "the child has what was released");
        // SAFETY: the child belongs to this process, and was not waited for.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
    }
}
