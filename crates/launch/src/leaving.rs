//! Ends a process whose launcher is gone. If the launcher and its agents were killed, no other
//! process would end it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use sys::process::Interest;
use sys::signals::{without_pipe_signal, without_signals};

/// Whether this process has finalized, or has asked the launcher to end the job.
static HAS_LEFT: AtomicBool = AtomicBool::new(false);

/// The stack of the thread that waits for the end of the connection, in bytes.
const STACK_BYTES: usize = 64 << 10;

/// Lets this process survive its launcher from now on.
pub(crate) fn leave() {
    HAS_LEFT.store(true, Ordering::Release);
}

/// Makes this process end with its launcher again.
pub(crate) fn rejoin() {
    HAS_LEFT.store(false, Ordering::Release);
}

/// Ends this process at once, unless [`leave`] was called last. The program may be anywhere in its
/// code, so its exit handlers do not run.
pub(crate) fn end_without_launcher() {
    if HAS_LEFT.load(Ordering::Acquire) {
        return;
    }
    let line =
        format!("combray: process {} ends, because its launcher has ended\n", std::process::id());
    without_pipe_signal(|| {
        // The standard error may have no reader.
        let _ = io::stderr().write_all(line.as_bytes());
    });
    sys::process::end_at_once(1)
}

/// Starts a thread that calls `gone` when the other end of this connection is closed. If no thread
/// can be started, the process finds out at its next request to the launcher.
pub(crate) fn when_closed(connection: File, gone: fn()) {
    let builder = thread::Builder::new().name("combray-launcher".into()).stack_size(STACK_BYTES);
    let wait = move || {
        let watched = [(connection.as_raw_fd(), Interest::End)];
        while let Ok(ended) = sys::process::poll(&watched, None) {
            if ended[0] {
                return gone();
            }
        }
    };
    let _ = without_signals(|| builder.spawn(wait));
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    #[test]
    fn the_end_of_a_launcher_is_reported() {
        static REPORTED: AtomicBool = AtomicBool::new(false);
        let (ours, theirs) = UnixStream::pair().unwrap();
        (&theirs).write_all(b"an answer that nobody has read").unwrap();
        when_closed(File::from(OwnedFd::from(ours)), || REPORTED.store(true, Ordering::Release));
        thread::sleep(Duration::from_millis(20));
        assert!(!REPORTED.load(Ordering::Acquire));
        drop(theirs);
        let begun = Instant::now();
        while !REPORTED.load(Ordering::Acquire) {
            assert!(begun.elapsed() < Duration::from_secs(10));
            thread::sleep(Duration::from_millis(1));
        }
    }
}
