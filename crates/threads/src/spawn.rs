//! Threads are made, and their results awaited.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;

use crate::bubble::Bubble;
use crate::parking::Wait;
use crate::shared::Shared;
use crate::thread::{Body, Thread};
use crate::worker;
use crate::workers::Workers;

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

    /// Makes the thread on these workers, wherever the caller runs.
    pub fn spawn_on<F, T>(self, workers: &Workers, body: F) -> Join<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (thread, join) = self.made(body);
        let shared = workers.shared();
        let here = worker::local().filter(|local| Arc::ptr_eq(&local.shared, shared));
        shared.begun.fetch_add(1, Ordering::Relaxed);
        make_ready(shared, thread, here.map_or_else(|| shared.slot_here(), |local| local.slot()));
        join
    }

    /// The thread, which is not ready yet.
    pub(crate) fn made<F, T>(self, body: F) -> (Arc<Thread>, Join<T>)
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let cell = Cell::new(body);
        (Thread::new(cell.clone(), self.name, self.bubble), Join { cell })
    }
}

/// A thread begins, unless its bubble keeps it.
fn make_ready(shared: &Shared, thread: Arc<Thread>, slot: usize) {
    if !thread.bubble.as_ref().is_some_and(|bubble| bubble.keep(&thread)) {
        shared.make_ready(thread, slot);
    }
}

/// The end of a thread can be awaited with it.
pub struct Join<T> {
    cell: Arc<dyn SpawnOutcome<T>>,
}

impl<T> Join<T> {
    /// Waits until the thread ends; its result, or what it panicked with.
    ///
    /// # Errors
    /// The thread panicked.
    pub fn join(self) -> std::thread::Result<T> {
        self.cell.wait()
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
    fn wait(&self) -> std::thread::Result<T>;
}

impl<F: Send, T: Send> SpawnOutcome<T> for Cell<F, T> {
    fn wait(&self) -> std::thread::Result<T> {
        if self.state.load(Ordering::Acquire) != DONE {
            let wait = Wait::new();
            let mut waiter = self.waiter.lock();
            // Whoever completes it locks this afterwards.
            if self.state.load(Ordering::Acquire) != DONE {
                *waiter = Some(wait.clone());
                drop(waiter);
                wait.wait();
            }
        }
        // SAFETY: the state is DONE, and the one joiner is here.
        let result = unsafe { (*self.result.get()).take() };
        result.expect("what is done has a result")
    }
}
