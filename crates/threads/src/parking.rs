//! How a thread waits: a thread of a worker yields the worker; a plain kernel thread parks.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::{Duration, Instant};

use crate::cancel::{Cancelled, wait_or_cancel};
use crate::shared::Shared;
use crate::thread::{Pause, Thread};
use crate::usage::MemoryUse;
use crate::worker;

/// One wait of one thread, held by the threads that will end it. A token alone does not show which
/// wait it was given for.
pub(crate) struct Wait {
    is_over: AtomicBool,
    who: Who,
}

enum Who {
    Thread(Arc<Thread>, Arc<Shared>),
    Kernel(std::thread::Thread),
}

impl Wait {
    /// Creates a wait of the caller.
    pub fn new() -> Arc<Self> {
        let who = match worker::current_shared() {
            Some(thread) => Who::Thread(thread, worker::with(|local| local.shared.clone())),
            None => Who::Kernel(std::thread::current()),
        };
        Arc::new(Self { is_over: AtomicBool::new(false), who })
    }

    /// Blocks until another thread has ended the wait.
    pub fn wait(&self) {
        while !self.is_over.load(Ordering::Acquire) {
            park();
        }
    }

    /// Ends the wait.
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

/// A word shared by one waiter and the threads that mark it, once or several times. It is null,
/// [`MARK`], or a pointer to the wait; the pointer owns a reference to the wait.
#[derive(Debug, Default)]
pub(crate) struct WaitWord(AtomicPtr<Wait>);

/// The marked state; no wait has this address.
const MARK: *mut Wait = std::ptr::without_provenance_mut(1);

impl WaitWord {
    /// Marks the word, and ends the wait that it contains.
    ///
    /// # Safety
    /// The word must stay valid until another thread can see the mark; it is not touched after
    /// that.
    pub unsafe fn mark(word: *const Self) {
        // SAFETY: the caller guarantees that the word is valid.
        let wait = unsafe { (*word).0.swap(MARK, Ordering::AcqRel) };
        if !wait.is_null() && wait != MARK {
            // SAFETY: `give` stored this reference, and the exchange took it out.
            unsafe { Arc::from_raw(wait) }.end();
        }
    }

    /// Whether the word is marked. If it is, everything written before the mark is visible.
    pub fn is_marked(&self) -> bool {
        self.0.load(Ordering::Acquire) == MARK
    }

    /// Clears the mark.
    pub fn clear(&self) {
        self.0.store(std::ptr::null_mut(), Ordering::Release);
    }

    /// Stores the wait in the word, so that the thread that marks the word ends the wait. Returns
    /// false if the word is marked already.
    pub fn give(&self, wait: &Arc<Wait>) -> bool {
        let given = Arc::into_raw(wait.clone()).cast_mut();
        let is_given = self.exchange(std::ptr::null_mut(), given);
        if !is_given {
            // SAFETY: the exchange failed, so the reference was not stored.
            drop(unsafe { Arc::from_raw(given) });
        }
        is_given
    }

    /// Takes the stored wait back. Returns false if the word was marked in the meantime.
    pub fn take_back(&self, wait: &Arc<Wait>) -> bool {
        let given = Arc::as_ptr(wait).cast_mut();
        let is_back = self.exchange(given, std::ptr::null_mut());
        if is_back {
            // SAFETY: `give` stored this reference, and the exchange took it out.
            drop(unsafe { Arc::from_raw(given) });
        }
        is_back
    }

    fn exchange(&self, from: *mut Wait, to: *mut Wait) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
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
