//! Heartbeats, by which each end of a connection knows that the other one works.
//!
//! A thread of their own sends them, so that they do not wait for what else this process does: to
//! start processes, or to write much output to a slow disk.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::outlets::Outlet;

/// One end of a connection, which its owner and the thread write to.
pub(super) type SharedOutlet = Arc<Mutex<Outlet>>;

/// So many heartbeats are sent in the time after which a connection is lost.
const HEARTBEATS_PER_TIMEOUT: u32 = 5;

/// When more than this waits for the other end, it has enough to receive.
const QUEUE_BYTES_MAX: usize = 64 << 10;

/// The thread needs little.
const STACK_BYTES: usize = 64 << 10;

/// Sends such a heartbeat again and again, until the connection ends or its owner drops it.
///
/// # Errors
/// The system gives no thread.
pub(super) fn begin(outlet: &SharedOutlet, frame: Vec<u8>, timeout: Duration) -> io::Result<()> {
    let outlet = Arc::downgrade(outlet);
    let send = move || {
        loop {
            thread::sleep(timeout / HEARTBEATS_PER_TIMEOUT);
            let Some(outlet) = outlet.upgrade() else { return };
            let mut outlet = lock(&outlet);
            if outlet.waiting() < QUEUE_BYTES_MAX {
                outlet.queue.extend_from_slice(&frame);
            }
            if outlet.write().is_err() {
                return;
            }
        }
    };
    thread::Builder::new().stack_size(STACK_BYTES).spawn(send).map(drop)
}

/// The outlet, for whoever holds it alone for a moment.
pub(super) fn lock(outlet: &SharedOutlet) -> MutexGuard<'_, Outlet> {
    outlet.lock().unwrap_or_else(PoisonError::into_inner)
}
