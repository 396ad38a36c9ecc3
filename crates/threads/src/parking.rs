//! How a thread waits: on a worker by giving it back, elsewhere as kernel threads do.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::cancel::{Cancelled, wait_or_cancel};
use crate::shared::Shared;
use crate::thread::{Pause, Thread};
use crate::usage::MemoryUse;
use crate::worker;

/// One wait of one thread, for those who will end it. Tokens alone do not tell which wait they were
/// for.
pub(crate) struct Wait {
    is_over: AtomicBool,
    who: Who,
}

enum Who {
    Thread(Arc<Thread>, Arc<Shared>),
    Kernel(std::thread::Thread),
}

impl Wait {
    /// A wait of the caller.
    pub fn new() -> Arc<Self> {
        let who = match worker::current_shared() {
            Some(thread) => Who::Thread(thread, worker::with(|local| local.shared.clone())),
            None => Who::Kernel(std::thread::current()),
        };
        Arc::new(Self { is_over: AtomicBool::new(false), who })
    }

    /// Waits until somebody has ended it.
    pub fn wait(&self) {
        while !self.is_over.load(Ordering::Acquire) {
            park();
        }
    }

    /// Ends it.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        match &self.who {
            Who::Thread(thread, shared) => {
                if !thread.token.give() {
                    return;
                }
                let own = |local: &&worker::WorkerLocal| Arc::ptr_eq(&local.shared, shared);
                match worker::local().filter(own) {
                    Some(local) if local.is_owner() => {
                        shared.make_ready_here(thread.clone(), local.slot());
                    }
                    Some(local) => shared.make_ready(thread.clone(), local.slot()),
                    None => shared.make_ready(thread.clone(), shared.slot_here()),
                }
            }
            Who::Kernel(thread) => thread.unpark(),
        }
    }
}

/// Waits for the token of the caller. It may return without one, so callers look at what they wait
/// for again.
fn park() {
    let Some(thread) = worker::current() else { return std::thread::park() };
    if !thread.token.take() {
        worker::pause(Pause::Park);
        if let Some(thread) = worker::current() {
            thread.token.take();
        }
    }
}

/// Lets other threads run; on a kernel thread that is no worker, others of the system.
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

/// Waits for a time, at least. The worker runs others meanwhile.
pub fn sleep(time: Duration) {
    match timed_wait(time) {
        Some(wait) => wait.wait(),
        None => std::thread::sleep(time),
    }
}

/// The same, but shorter if the caller is asked to end.
///
/// # Errors
/// It was ([`Join::cancel`](crate::Join::cancel)).
pub fn sleep_or_cancel(time: Duration) -> Result<(), Cancelled> {
    match timed_wait(time) {
        // The timer ends it once more, which does no harm.
        Some(wait) => wait_or_cancel(&wait, || true),
        None => {
            std::thread::sleep(time);
            Ok(())
        }
    }
}

/// A wait that ends after a time; none on a kernel thread that is no worker.
fn timed_wait(time: Duration) -> Option<Arc<Wait>> {
    let shared = worker::local().map(|local| local.shared.clone())?;
    let wait = Wait::new();
    shared.timers.add(Instant::now() + time, wait.clone());
    Some(wait)
}

/// Says that the caller, a thread of [`Workers`](crate::Workers), uses this memory, as
/// [`Bubble::uses`](crate::Bubble::uses) does of bubbles. False: the caller is a kernel thread.
pub fn uses(addresses: Range<usize>, access: MemoryUse) -> bool {
    let Some(thread) = worker::current() else { return false };
    let machine = worker::with(|local| local.shared.machine.clone());
    thread.memory.add(addresses, access, Some(&machine));
    true
}

/// The name of the thread that the caller is, if it is one of [`Workers`](crate::Workers) and has
/// one.
pub fn name() -> Option<String> {
    worker::current()?.name.as_deref().map(str::to_owned)
}
