//! A process whose launcher is gone ends: where all that watched over it was killed, nobody else
//! would end it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use sys::process::Interest;
use sys::signals::{without_pipe_signal, without_signals};

/// This process has taken leave of its launcher, or has asked it to end the job.
static HAS_LEFT: AtomicBool = AtomicBool::new(false);

/// All that it does is to wait.
const STACK_BYTES: usize = 64 << 10;

/// The launcher may go now.
pub(crate) fn leave() {
    HAS_LEFT.store(true, Ordering::Release);
}

/// Ends this process, unless it has taken leave. The program may be anywhere, so that nothing of it
/// is run.
pub(crate) fn end_without_launcher() {
    if HAS_LEFT.load(Ordering::Acquire) {
        return;
    }
    let line = format!("combray: process {} ends, as its launcher is gone\n", std::process::id());
    without_pipe_signal(|| {
        // There may be nobody to tell.
        let _ = io::stderr().write_all(line.as_bytes());
    });
    sys::process::end_at_once(1)
}

/// Calls `gone` when the other end of this connection is closed. Where the system has no thread for
/// that, the process learns of it when it asks the launcher next.
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
    fn the_end_of_a_launcher_is_told() {
        static TOLD: AtomicBool = AtomicBool::new(false);
        let (ours, theirs) = UnixStream::pair().unwrap();
        (&theirs).write_all(b"an answer that nobody has read").unwrap();
        when_closed(File::from(OwnedFd::from(ours)), || TOLD.store(true, Ordering::Release));
        thread::sleep(Duration::from_millis(20));
        assert!(!TOLD.load(Ordering::Acquire));
        drop(theirs);
        let begun = Instant::now();
        while !TOLD.load(Ordering::Acquire) {
            assert!(begun.elapsed() < Duration::from_secs(10));
            thread::sleep(Duration::from_millis(1));
        }
    }
}
