//! Creating threads, and waiting for their results.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;

use crate::cancel::wait_or_cancel;
use crate::shared::Shared;
use crate::thread::bubble::Bubble;
use crate::thread::wait::Wait;
use crate::thread::{Body, Thread};
use crate::worker;

/// Creates a thread.
///
/// # Panics
/// The caller is not a thread of [`Workers`](crate::Workers).
pub fn spawn<F, T>(body: F) -> Join<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    ThreadBuilder::new().spawn(body)
}

/// The attributes of a thread that is to be created.
#[derive(Default)]
pub struct ThreadBuilder {
    name: Option<Box<str>>,
    bubble: Option<Bubble>,
}

impl ThreadBuilder {
    /// A builder without name and bubble.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name that messages use for the thread.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the bubble of the thread.
    pub fn bubble(mut self, bubble: &Bubble) -> Self {
        self.bubble = Some(bubble.clone());
        self
    }

    /// Creates the thread. In a bubble that is not submitted yet, it waits for the submission.
    ///
    /// # Panics
    /// The caller is not a thread of [`Workers`](crate::Workers).
    pub fn spawn<F, T>(self, body: F) -> Join<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (thread, join) = self.made(body);
        worker::with(|local| {
            local.shared.slots[local.slot()].begun.fetch_add(1, Ordering::Relaxed);
            make_ready(&local.shared, thread, local.slot());
        });
        join
    }

    /// Creates the thread without making it ready.
    pub(crate) fn made<F, T>(self, body: F) -> (Arc<Thread>, Join<T>)
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let cell = Cell::new(body);
        let thread = Thread::new(cell.clone(), self.name, self.bubble);
        (thread.clone(), Join { cell, thread })
    }
}

/// Makes a new thread ready, unless its bubble keeps it.
pub(crate) fn make_ready(shared: &Shared, thread: Arc<Thread>, slot: usize) {
    if !thread.bubble.as_ref().is_some_and(|bubble| bubble.keep(&thread)) {
        shared.make_ready(thread, slot);
    }
}

/// A handle to a thread, with which its end can be awaited.
pub struct Join<T> {
    cell: Arc<dyn SpawnOutcome<T>>,
    thread: Arc<Thread>,
}

impl<T> Join<T> {
    /// Waits until the thread ends. Returns its result, or its panic.
    ///
    /// # Errors
    /// The thread panicked.
    pub fn join(self) -> std::thread::Result<T> {
        if let Some(wait) = self.cell.wait_for_end() {
            wait.wait();
        }
        self.cell.take()
    }

    /// Waits until the thread ends or the caller is cancelled.
    ///
    /// # Errors
    /// The caller was cancelled (by [`cancel`](Self::cancel)). The returned handle can be joined
    /// again.
    pub fn join_or_cancel(self) -> Result<std::thread::Result<T>, Self> {
        if let Some(wait) = self.cell.wait_for_end()
            && wait_or_cancel(&wait, || self.cell.wait_no_longer()).is_err()
        {
            return Err(self);
        }
        Ok(self.cell.take())
    }

    /// Requests that the thread end. If the thread is in a wait whose name ends with `_or_cancel`,
    /// that wait returns [`Cancelled`](crate::Cancelled); otherwise the thread's next such wait
    /// that would block returns it. The thread itself must then end. One wait reports each request;
    /// requests that come together may be reported once.
    pub fn cancel(&self) {
        self.thread.cancellation.ask();
    }
}

/// The closure of a thread, and its result.
struct Cell<F, T> {
    state: AtomicU8,
    body: UnsafeCell<Option<F>>,
    result: UnsafeCell<Option<std::thread::Result<T>>>,
    waiter: Mutex<Option<Arc<Wait>>>,
}

const WAITING: u8 = 0;
const CLAIMED: u8 = 1;
const DONE: u8 = 2;

// SAFETY: only the thread that changed the state from WAITING takes `body`. That thread writes
// `result` before the state is DONE; the only joiner takes it once afterwards. Both are Send.
unsafe impl<F: Send, T: Send> Sync for Cell<F, T> {}
// SAFETY: as for `Sync`: each field is used by one thread at a time, and both are Send.
unsafe impl<F: Send, T: Send> Send for Cell<F, T> {}

impl<F, T> Cell<F, T> {
    #[inline]
    fn new(body: F) -> Arc<Self> {
        Arc::new(Self {
            state: AtomicU8::new(WAITING),
            body: UnsafeCell::new(Some(body)),
            result: UnsafeCell::new(None),
            waiter: Mutex::new(None),
        })
    }

    /// Returns the closure to the first caller, `None` to all others.
    #[inline]
    fn claim(&self) -> Option<F> {
        let claimed =
            self.state.compare_exchange(WAITING, CLAIMED, Ordering::AcqRel, Ordering::Relaxed);
        claimed.ok()?;
        // SAFETY: only one thread changes the state from WAITING.
        unsafe { (*self.body.get()).take() }
    }
}

impl<F: FnOnce() -> T + Send, T: Send> Body for Cell<F, T> {
    fn run(&self) {
        let Some(body) = self.claim() else { return };
        let result = catch_unwind(AssertUnwindSafe(body));
        worker::end_values();
        // SAFETY: this caller has set the state to CLAIMED, so no thread reads the result.
        unsafe { *self.result.get() = Some(result) };
        self.state.store(DONE, Ordering::Release);
        let waiter = self.waiter.lock().take();
        if let Some(waiter) = waiter {
            waiter.end();
        }
    }

    fn is_claimed(&self) -> bool {
        self.state.load(Ordering::Relaxed) != WAITING
    }
}

trait SpawnOutcome<T>: Send + Sync {
    /// Returns a wait that the thread will end, or `None` if the thread has ended.
    fn wait_for_end(&self) -> Option<Arc<Wait>>;
    /// Removes that wait. Returns false if the thread has taken it.
    fn wait_no_longer(&self) -> bool;
    /// Takes the result of a thread that has ended. It may be called once.
    fn take(&self) -> std::thread::Result<T>;
}

impl<F: Send, T: Send> SpawnOutcome<T> for Cell<F, T> {
    fn wait_for_end(&self) -> Option<Arc<Wait>> {
        if self.state.load(Ordering::Acquire) == DONE {
            return None;
        }
        let wait = Wait::new();
        let mut waiter = self.waiter.lock();
        // The thread that completes the cell locks `waiter` after it has set the state.
        if self.state.load(Ordering::Acquire) == DONE {
            return None;
        }
        *waiter = Some(wait.clone());
        Some(wait)
    }

    fn wait_no_longer(&self) -> bool {
        self.waiter.lock().take().is_some()
    }

    fn take(&self) -> std::thread::Result<T> {
        // SAFETY: the state is DONE, and this is the only joiner.
        let result = unsafe { (*self.result.get()).take() };
        result.expect("what is done has a result")
    }
}
