//! How a thread waits: a thread of a worker yields the worker; a plain kernel thread parks.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::cancel::{Cancelled, wait_or_cancel};
use crate::thread::Pause;
use crate::thread::wait::{Blocked, Wait};
use crate::usage::MemoryUse;
use crate::worker;

impl Wait {
    /// Creates a wait of the caller.
    pub fn new() -> Arc<Self> {
        let waiter = match worker::current_shared() {
            Some(thread) => Blocked::Thread(thread, worker::with(|local| local.shared.clone())),
            None => Blocked::Kernel(std::thread::current()),
        };
        Arc::new(Self { is_over: AtomicBool::new(false), waiter })
    }

    /// Blocks until another thread has ended the wait.
    pub fn wait(&self) {
        while !self.is_over.load(Ordering::Acquire) {
            park();
        }
    }
}

/// Waits for the caller's token. It may return without one, so callers check their condition again.
fn park() {
    let Some(thread) = worker::current() else { return std::thread::park() };
    if !thread.token.take() {
        worker::pause(Pause::Park);
        if let Some(thread) = worker::current() {
            thread.token.take();
        }
    }
}

/// Lets other threads run. On a kernel thread that is no worker, yields to other kernel threads.
#[inline]
pub fn yield_now() {
    let Some(local) = worker::local() else { return std::thread::yield_now() };
    if let Some(thread) = local.current()
        && !local.may_go_on(thread)
    {
        // SAFETY: the caller is this thread.
        unsafe { thread.pause(Pause::Yield) };
    }
}

/// Sleeps for at least this time. The worker runs other threads meanwhile.
pub fn sleep(time: Duration) {
    match timed_wait(time) {
        Some(wait) => wait.wait(),
        None => std::thread::sleep(time),
    }
}

/// Sleeps for at least this time, or until the caller is cancelled.
///
/// # Errors
/// The caller was cancelled ([`Join::cancel`](crate::Join::cancel)).
pub fn sleep_or_cancel(time: Duration) -> Result<(), Cancelled> {
    match timed_wait(time) {
        // The timer will end the wait a second time, which is harmless.
        Some(wait) => wait_or_cancel(&wait, || true),
        None => {
            std::thread::sleep(time);
            Ok(())
        }
    }
}

/// Creates a wait that ends after a time. Returns `None` on a kernel thread that is no worker.
fn timed_wait(time: Duration) -> Option<Arc<Wait>> {
    let shared = worker::local().map(|local| local.shared.clone())?;
    let wait = Wait::new();
    shared.timers.add(Instant::now() + time, wait.clone());
    Some(wait)
}

/// Declares that the calling thread of [`Workers`](crate::Workers) uses this memory, as
/// [`Bubble::uses`](crate::Bubble::uses) does for bubbles. Returns false if the caller is a plain
/// kernel thread.
pub fn uses(addresses: Range<usize>, access: MemoryUse) -> bool {
    let Some(thread) = worker::current() else { return false };
    let machine = worker::with(|local| local.shared.machine.clone());
    thread.memory.add(addresses, access, Some(&machine));
    true
}

/// The name of the calling thread, if it is a thread of [`Workers`](crate::Workers) and has a name.
pub fn name() -> Option<String> {
    worker::current()?.name.as_deref().map(str::to_owned)
}
