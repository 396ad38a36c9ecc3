//! Seeds: closures that their joiner runs itself, unless another worker comes to them before.
//!
//! A seed has two owners: who joins it, and the deque of the worker that made it, or whoever took
//! it from there. Mostly the joiner takes it back, is both, and no other processor has seen it.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;

use crate::parking::Wait;
use crate::thread::{Body, Ready};
use crate::worker;

/// Makes a seed: a closure that another worker runs on a thread of its own if it comes to it before
/// its joiner does, which runs it itself.
///
/// # Panics
/// The caller is not a thread of [`Workers`](crate::Workers).
#[inline]
pub fn seed<F, T>(body: F) -> SeedJoin<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let header = SeedHeader {
        run: run::<F, T>,
        free: free::<F, T>,
        state: AtomicU8::new(WAITING),
        owners: AtomicU8::new(2),
        waiter: Mutex::new(None),
    };
    let cell =
        SeedCell { header, body: UnsafeCell::new(Some(body)), result: UnsafeCell::new(None) };
    let join = SeedJoin { cell: NonNull::from(Box::leak(Box::new(cell))) };
    worker::with(|local| local.sow(join.header()));
    join
}

/// The result of a seed can be had with it.
pub struct SeedJoin<F: FnOnce() -> T, T> {
    cell: NonNull<SeedCell<F, T>>,
}

// SAFETY: a seed may be joined by any thread: its closure and its result are Send.
unsafe impl<F: FnOnce() -> T + Send, T: Send> Send for SeedJoin<F, T> {}
// SAFETY: nothing can be done with a shared one.
unsafe impl<F: FnOnce() -> T + Send, T: Send> Sync for SeedJoin<F, T> {}

impl<F: FnOnce() -> T, T> SeedJoin<F, T> {
    #[inline]
    fn header(&self) -> NonNull<SeedHeader> {
        self.cell.cast()
    }

    /// The result: computed here and now if nobody has begun to, else awaited.
    ///
    /// # Panics
    /// The seed panicked.
    #[inline]
    pub fn join(self) -> T {
        let header = self.header();
        if worker::local().is_some_and(|local| local.take_back(header)) {
            let cell = self.cell.as_ptr();
            std::mem::forget(self);
            // SAFETY: it was in the deque still, so this is both of its owners.
            let mut cell = unsafe { Box::from_raw(cell) };
            let body = cell.body.get_mut().take();
            drop(cell);
            return body.expect("nobody has begun it")();
        }
        // SAFETY: this is one of its owners.
        let cell = unsafe { self.cell.as_ref() };
        if let Some(body) = cell.claim() {
            drop(self);
            return body();
        }
        cell.header.wait();
        // SAFETY: it is done, and the one joiner is here.
        let result = unsafe { (*cell.result.get()).take() };
        drop(self);
        let result = result.expect("what is done has a result");
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl<F: FnOnce() -> T, T> Drop for SeedJoin<F, T> {
    fn drop(&mut self) {
        // SAFETY: this was one of its owners.
        unsafe { release(self.header()) };
    }
}

/// What all seeds have, whatever they compute.
pub(crate) struct SeedHeader {
    /// Runs the seed, if nobody has begun to. The caller is one of its owners.
    run: unsafe fn(NonNull<SeedHeader>),
    /// Gives its memory back. The caller is its last owner.
    free: unsafe fn(NonNull<SeedHeader>),
    state: AtomicU8,
    owners: AtomicU8,
    waiter: Mutex<Option<Arc<Wait>>>,
}

const WAITING: u8 = 0;
const CLAIMED: u8 = 1;
const DONE: u8 = 2;

/// A closure, and what comes of it. The header is first, so that its address is that of the whole.
#[repr(C)]
struct SeedCell<F, T> {
    header: SeedHeader,
    body: UnsafeCell<Option<F>>,
    result: UnsafeCell<Option<std::thread::Result<T>>>,
}

impl SeedHeader {
    #[cold]
    fn wait(&self) {
        if self.state.load(Ordering::Acquire) == DONE {
            return;
        }
        let wait = Wait::new();
        let mut waiter = self.waiter.lock();
        // Whoever completes it locks this afterwards.
        if self.state.load(Ordering::Acquire) != DONE {
            *waiter = Some(wait.clone());
            drop(waiter);
            wait.wait();
        }
    }
}

impl<F: FnOnce() -> T, T> SeedCell<F, T> {
    /// The closure, for the one who comes first.
    fn claim(&self) -> Option<F> {
        let state = &self.header.state;
        state.compare_exchange(WAITING, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        // SAFETY: only one changes the state from WAITING.
        unsafe { (*self.body.get()).take() }
    }
}

unsafe fn run<F: FnOnce() -> T, T>(seed: NonNull<SeedHeader>) {
    // SAFETY: the header is that of such a cell, which the caller owns with its joiner.
    let cell = unsafe { seed.cast::<SeedCell<F, T>>().as_ref() };
    let Some(body) = cell.claim() else { return };
    let result = catch_unwind(AssertUnwindSafe(body));
    worker::end_values();
    // SAFETY: the state is CLAIMED by this caller, so nobody reads the result.
    unsafe { *cell.result.get() = Some(result) };
    cell.header.state.store(DONE, Ordering::Release);
    let waiter = cell.header.waiter.lock().take();
    if let Some(waiter) = waiter {
        waiter.end();
    }
}

unsafe fn free<F, T>(seed: NonNull<SeedHeader>) {
    // SAFETY: the header is that of such a box, whose last owner is the caller.
    drop(unsafe { Box::from_raw(seed.cast::<SeedCell<F, T>>().as_ptr()) });
}

/// # Safety
/// The caller is one of its owners, and is none from then on.
unsafe fn release(seed: NonNull<SeedHeader>) {
    // SAFETY: an owner keeps it alive.
    let header = unsafe { seed.as_ref() };
    if header.owners.fetch_sub(1, Ordering::AcqRel) == 1 {
        // SAFETY: this was the last one.
        unsafe { (header.free)(seed) };
    }
}

/// One owner of a seed: who took it out of a deque.
pub(crate) struct TakenSeed(NonNull<SeedHeader>);

// SAFETY: closure and result of a seed are Send, and its state says who uses them.
unsafe impl Send for TakenSeed {}
// SAFETY: as above.
unsafe impl Sync for TakenSeed {}

impl TakenSeed {
    /// # Safety
    /// The caller took it out of a deque.
    pub unsafe fn new(seed: *mut SeedHeader) -> Option<Self> {
        NonNull::new(seed).map(Self)
    }

    /// For a queue, or to be run on a thread; none if its joiner has run it.
    pub fn into_ready(self) -> Option<Ready> {
        (!self.is_claimed()).then(|| Ready::Seed(Arc::new(self)))
    }
}

impl Body for TakenSeed {
    fn run(&self) {
        // SAFETY: this is one of its owners; the function is that of its type.
        unsafe { (self.0.as_ref().run)(self.0) };
    }

    fn is_claimed(&self) -> bool {
        // SAFETY: this is one of its owners.
        unsafe { self.0.as_ref() }.state.load(Ordering::Relaxed) != WAITING
    }
}

impl Drop for TakenSeed {
    fn drop(&mut self) {
        // SAFETY: this was one of its owners.
        unsafe { release(self.0) };
    }
}
