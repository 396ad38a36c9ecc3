//! Heartbeats, by which each end of a connection detects that the other one is alive.
//!
//! A thread of its own sends those of all connections of this process, so that they are not delayed
//! by other work: starting processes, or writing much output to a slow disk.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

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

/// A process that handles a silence so long after it was due was itself stopped.
const STOPPED_MIN: Duration = Duration::from_millis(250);

/// Whether this process handles a silence, which was due at a time before `now`, so late that it
/// was itself stopped, as all processes of a container are that is frozen. Then the other end may
/// have been stopped, too, and gets the whole time once more.
pub(super) fn was_stopped(due: Instant, now: Instant) -> bool {
    now.saturating_duration_since(due) >= STOPPED_MIN
}

/// The heartbeats of all connections of this process.
#[derive(Default)]
pub(super) struct Heartbeats {
    /// The connections; none before the first one.
    connections: Option<Arc<Mutex<Vec<Heartbeat>>>>,
}

/// A connection, until its owner drops it, and the frame that is sent there.
struct Heartbeat {
    output_queue: Weak<Mutex<OutputQueue>>,
    frame: Vec<u8>,
}

impl Heartbeats {
    /// Sends this heartbeat periodically, until the connection ends or its owner drops it. The
    /// first connection determines the period, a fraction of `timeout`.
    ///
    /// # Errors
    /// The system provides no thread.
    pub(super) fn begin(
        &mut self,
        output_queue: &SharedOutputQueue,
        frame: Vec<u8>,
        timeout: Duration,
    ) -> io::Result<()> {
        let connections = match &self.connections {
            Some(connections) => connections,
            None => {
                let connections: Arc<Mutex<Vec<Heartbeat>>> = Arc::default();
                let all = Arc::clone(&connections);
                let send = move || {
                    loop {
                        thread::sleep(timeout / HEARTBEATS_PER_TIMEOUT);
                        lock(&all).retain(Heartbeat::send);
                    }
                };
                thread::Builder::new().stack_size(STACK_BYTES).spawn(send)?;
                self.connections.insert(connections)
            }
        };
        let output_queue = Arc::downgrade(output_queue);
        lock(connections).push(Heartbeat { output_queue, frame });
        Ok(())
    }
}

impl Heartbeat {
    /// Sends the heartbeat; returns whether the connection still exists.
    fn send(&self) -> bool {
        let Some(output_queue) = self.output_queue.upgrade() else { return false };
        let mut output_queue = lock(&output_queue);
        if output_queue.waiting() < QUEUE_BYTES_MAX {
            output_queue.queue.extend_from_slice(&self.frame);
        }
        output_queue.write().is_ok()
    }
}

/// Locks what the thread uses, too.
pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
