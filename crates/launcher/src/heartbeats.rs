//! Heartbeats, by which each end of a connection detects that the other one is alive.
//!
//! A thread of its own sends them, so that they are not delayed by other work of this process:
//! starting processes, or writing much output to a slow disk.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::output_queues::OutputQueue;

/// One end of a connection, to which its owner and the thread write.
pub(super) type SharedOutputQueue = Arc<Mutex<OutputQueue>>;

/// How many heartbeats are sent in the time after which a silent connection counts as lost.
const HEARTBEATS_PER_TIMEOUT: u32 = 5;

/// If more bytes than this wait for the other end, it has enough to receive, and no heartbeat is
/// added.
const QUEUE_BYTES_MAX: usize = 64 << 10;

/// The stack of the thread in bytes.
const STACK_BYTES: usize = 64 << 10;

/// Sends this heartbeat periodically, until the connection ends or its owner drops it.
///
/// # Errors
/// The system provides no thread.
pub(super) fn begin(
    output_queue: &SharedOutputQueue,
    frame: Vec<u8>,
    timeout: Duration,
) -> io::Result<()> {
    let output_queue = Arc::downgrade(output_queue);
    let send = move || {
        loop {
            thread::sleep(timeout / HEARTBEATS_PER_TIMEOUT);
            let Some(output_queue) = output_queue.upgrade() else { return };
            let mut output_queue = lock(&output_queue);
            if output_queue.waiting() < QUEUE_BYTES_MAX {
                output_queue.queue.extend_from_slice(&frame);
            }
            if output_queue.write().is_err() {
                return;
            }
        }
    };
    thread::Builder::new().stack_size(STACK_BYTES).spawn(send).map(drop)
}

/// Locks the output queue.
pub(super) fn lock(output_queue: &SharedOutputQueue) -> MutexGuard<'_, OutputQueue> {
    output_queue.lock().unwrap_or_else(PoisonError::into_inner)
}
