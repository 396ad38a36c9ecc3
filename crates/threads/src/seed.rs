//! Seeds: closures that their joiner runs itself, unless another worker comes to them before.
//!
//! A seed has two owners: who joins it, and the deque of the worker that made it, or whoever took
//! it from there. Mostly the joiner takes it back, is both, and no other processor has seen it.
//! That of [`fork_join`] lies on the stack of its joiner, who goes on only when he is both.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::parking::{Wait, WaitWord};
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
    let cell = Box::new(SeedCell::new(body, finish_and_release::<F, T>));
    let join = SeedJoin { cell: NonNull::from(Box::leak(cell)) };
    worker::with(|local| local.sow(join.header()));
    join
}

/// Runs both functions, the first one here, the second one afterwards unless another worker has
/// come to it meanwhile. Returns when both have ended. They may use what the caller has borrowed.
///
/// On a kernel thread that is no worker one runs after the other.
///
/// # Panics
/// One of them panicked (the first one, if both did).
#[inline]
pub fn fork_join<A, B>(first: impl FnOnce() -> A, second: impl FnOnce() -> B + Send) -> (A, B)
where
    B: Send,
{
    if worker::local().is_none() {
        return (first(), second());
    }
    let mut cell = SeedCell::new(second, finish);
    let cell = NonNull::from(&mut cell);
    worker::with(|local| local.sow(cell.cast()));
    // Nobody may leave the frame, or wait while the thread panics, before the seed is back.
    let first = catch_unwind(AssertUnwindSafe(first));
    if worker::local().is_some_and(|local| local.take_back(cell.cast())) {
        // SAFETY: it was in the deque still, so nobody else has it.
        let body = unsafe { (*cell.as_ref().body.get()).take() }.expect("nobody has begun it");
        let first = first.unwrap_or_else(|panic| resume_unwind(panic));
        return (first, body());
    }
    // SAFETY: it lies in this frame.
    let cell = unsafe { cell.as_ref() };
    cell.header.wait();
    // SAFETY: who took it has released it, and the one joiner is here.
    let second = unsafe { (*cell.result.get()).take() }.expect("what is over has a result");
    let first = first.unwrap_or_else(|panic| resume_unwind(panic));
    (first, second.unwrap_or_else(|panic| resume_unwind(panic)))
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
        unsafe { release::<F, T>(self.header()) };
    }
}

/// What all seeds have, whatever they compute.
pub(crate) struct SeedHeader {
    /// Runs the seed, if nobody has begun to. The caller is one of its owners.
    run: unsafe fn(NonNull<SeedHeader>),
    /// Who took it from a deque owns it no longer; what it computed, if it did, is there.
    release: unsafe fn(NonNull<SeedHeader>),
    is_claimed: AtomicBool,
    /// How many owners one has that lies on the heap.
    owners: AtomicU8,
    /// Marked when the joiner need not wait.
    end: WaitWord,
}

/// A closure, and what comes of it. The header is first, so that its address is that of the whole.
#[repr(C)]
struct SeedCell<F, T> {
    header: SeedHeader,
    body: UnsafeCell<Option<F>>,
    result: UnsafeCell<Option<std::thread::Result<T>>>,
}

impl SeedHeader {
    /// Until the one who took it lets the joiner go on.
    #[cold]
    fn wait(&self) {
        if self.end.is_marked() {
            return;
        }
        let wait = Wait::new();
        if self.end.give(&wait) {
            wait.wait();
        }
    }
}

impl<F: FnOnce() -> T, T> SeedCell<F, T> {
    #[inline]
    fn new(body: F, release: unsafe fn(NonNull<SeedHeader>)) -> Self {
        let header = SeedHeader {
            run: run::<F, T>,
            release,
            is_claimed: AtomicBool::new(false),
            owners: AtomicU8::new(2),
            end: WaitWord::default(),
        };
        Self { header, body: UnsafeCell::new(Some(body)), result: UnsafeCell::new(None) }
    }

    /// The closure, for the one who comes first.
    fn claim(&self) -> Option<F> {
        if self.header.is_claimed.swap(true, Ordering::AcqRel) {
            return None;
        }
        // SAFETY: only one finds it unclaimed.
        unsafe { (*self.body.get()).take() }
    }
}

unsafe fn run<F: FnOnce() -> T, T>(seed: NonNull<SeedHeader>) {
    // SAFETY: the header is that of such a cell, which the caller owns with its joiner.
    let cell = unsafe { seed.cast::<SeedCell<F, T>>().as_ref() };
    let Some(body) = cell.claim() else { return };
    let result = catch_unwind(AssertUnwindSafe(body));
    worker::end_values();
    // SAFETY: it was claimed by this caller, so nobody reads the result before it is released.
    unsafe { *cell.result.get() = Some(result) };
}

/// Lets the joiner go on, with whom the memory may go.
unsafe fn finish(seed: NonNull<SeedHeader>) {
    // SAFETY: the caller owns it with its joiner, who goes on only when the mark is seen.
    unsafe { WaitWord::mark(&raw const (*seed.as_ptr()).end) };
}

/// The same for one on the heap.
unsafe fn finish_and_release<F, T>(seed: NonNull<SeedHeader>) {
    // SAFETY: the caller is one of its owners until the second step.
    unsafe {
        finish(seed);
        release::<F, T>(seed);
    }
}

/// The last owner of one on the heap gives the memory back.
unsafe fn release<F, T>(seed: NonNull<SeedHeader>) {
    // SAFETY: an owner keeps it alive.
    if unsafe { seed.as_ref() }.owners.fetch_sub(1, Ordering::AcqRel) == 1 {
        // SAFETY: the header is that of such a box, whose last owner is the caller.
        drop(unsafe { Box::from_raw(seed.cast::<SeedCell<F, T>>().as_ptr()) });
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
        unsafe { self.0.as_ref() }.is_claimed.load(Ordering::Relaxed)
    }
}

impl Drop for TakenSeed {
    fn drop(&mut self) {
        // SAFETY: this was one of its owners; the function is that of its kind.
        unsafe { (self.0.as_ref().release)(self.0) };
    }
}
