//! Threads are made, and their results awaited.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;

use crate::bubble::Bubble;
use crate::cancel::wait_or_cancel;
use crate::parking::Wait;
use crate::shared::Shared;
use crate::thread::{Body, Thread};
use crate::worker;

/// Makes a thread.
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

/// What a thread is given before it begins.
#[derive(Default)]
pub struct ThreadBuilder {
    name: Option<Box<str>>,
    bubble: Option<Bubble>,
}

impl ThreadBuilder {
    /// No name, no bubble.
    pub fn new() -> Self {
        Self::default()
    }

    /// The name that messages call it by.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The bubble in which it is.
    pub fn bubble(mut self, bubble: &Bubble) -> Self {
        self.bubble = Some(bubble.clone());
        self
    }

    /// Makes the thread. In a bubble that was not submitted it waits until that is.
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

    /// The thread, which is not ready yet.
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

/// A thread begins, unless its bubble keeps it.
pub(crate) fn make_ready(shared: &Shared, thread: Arc<Thread>, slot: usize) {
    if !thread.bubble.as_ref().is_some_and(|bubble| bubble.keep(&thread)) {
        shared.make_ready(thread, slot);
    }
}

/// The end of a thread can be awaited with it.
pub struct Join<T> {
    cell: Arc<dyn SpawnOutcome<T>>,
    thread: Arc<Thread>,
}

impl<T> Join<T> {
    /// Waits until the thread ends; its result, or what it panicked with.
    ///
    /// # Errors
    /// The thread panicked.
    pub fn join(self) -> std::thread::Result<T> {
        if let Some(wait) = self.cell.wait_for_end() {
            wait.wait();
        }
        self.cell.take()
    }

    /// The same; shorter if the caller is asked to end.
    ///
    /// # Errors
    /// It was (by [`cancel`](Self::cancel)); this can be used again.
    pub fn join_or_cancel(self) -> Result<std::thread::Result<T>, Self> {
        if let Some(wait) = self.cell.wait_for_end()
            && wait_or_cancel(&wait, || self.cell.wait_no_longer()).is_err()
        {
            return Err(self);
        }
        Ok(self.cell.take())
    }

    /// Asks the thread to end: if it is in a wait whose name ends with `_or_cancel`, that returns
    /// with [`Cancelled`](crate::Cancelled) instead of what it waits for, else the next one that
    /// would wait does. It is for the thread to end then; one wait tells it for each time that it
    /// is asked, or for several of them.
    pub fn cancel(&self) {
        self.thread.cancellation.ask();
    }
}

/// A closure, and what comes of it.
struct Cell<F, T> {
    state: AtomicU8,
    body: UnsafeCell<Option<F>>,
    result: UnsafeCell<Option<std::thread::Result<T>>>,
    waiter: Mutex<Option<Arc<Wait>>>,
}

const WAITING: u8 = 0;
const CLAIMED: u8 = 1;
const DONE: u8 = 2;

// SAFETY: `body` is taken by the one who changed the state from WAITING, `result` is written by
// that one before the state is DONE and taken once afterwards by the joiner, of whom there is one.
// Both are Send.
unsafe impl<F: Send, T: Send> Sync for Cell<F, T> {}
// SAFETY: as above.
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

    /// The closure, for the one who comes first.
    #[inline]
    fn claim(&self) -> Option<F> {
        let claimed =
            self.state.compare_exchange(WAITING, CLAIMED, Ordering::AcqRel, Ordering::Relaxed);
        claimed.ok()?;
        // SAFETY: only one changes the state from WAITING.
        unsafe { (*self.body.get()).take() }
    }
}

impl<F: FnOnce() -> T + Send, T: Send> Body for Cell<F, T> {
    fn run(&self) {
        let Some(body) = self.claim() else { return };
        let result = catch_unwind(AssertUnwindSafe(body));
        worker::end_values();
        // SAFETY: the state is CLAIMED by this caller, so nobody reads the result.
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
    /// The wait that the thread will end; none if it has ended.
    fn wait_for_end(&self) -> Option<Arc<Wait>>;
    /// Takes that wait back; false: the thread has taken it.
    fn wait_no_longer(&self) -> bool;
    /// What the thread has returned, which has ended. Once.
    fn take(&self) -> std::thread::Result<T>;
}

impl<F: Send, T: Send> SpawnOutcome<T> for Cell<F, T> {
    fn wait_for_end(&self) -> Option<Arc<Wait>> {
        if self.state.load(Ordering::Acquire) == DONE {
            return None;
        }
        let wait = Wait::new();
        let mut waiter = self.waiter.lock();
        // Whoever completes it locks this afterwards.
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
        // SAFETY: the state is DONE, and the one joiner is here.
        let result = unsafe { (*self.result.get()).take() };
        result.expect("what is done has a result")
    }
}
