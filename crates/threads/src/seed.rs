//! Seeds: closures that their joiner runs itself, unless another worker takes them first.
//!
//! A seed has two owners: the thread that joins it, and either the deque of the worker that created
//! it or the worker that took it from the deque. Mostly the joiner takes the seed back from the
//! deque: then the joiner is both owners, and no other processor has seen the seed. The seed of
//! [`fork_join`] lies on the stack of its joiner, which returns only when it is both owners.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;

use crate::seed_cell::{SeedCell, SeedHeader, finish, finish_and_release, release};
use crate::worker;

/// Creates a seed: a closure that another worker runs on a thread of its own if it takes the seed
/// before its joiner does. Otherwise the joiner runs the closure itself.
///
/// # Panics
/// The caller is not a thread of [`Workers`](crate::Workers).
#[inline]
pub fn seed<F, T>(body: F) -> SeedJoin<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let cell = Box::new(cell_of(body, finish_and_release::<F, T>));
    let join = SeedJoin { cell: NonNull::from(Box::leak(cell)) };
    worker::with(|local| local.sow(join.header()));
    join
}

/// Runs both functions. The first runs here; the second runs here afterwards, unless another worker
/// has taken it in the meantime. Returns when both have ended. Both may use data that the caller
/// has borrowed.
///
/// On a kernel thread that is no worker, the functions run one after the other.
///
/// # Panics
/// One of the functions panicked. If both did, the panic of the first is propagated.
#[inline]
pub fn fork_join<A, B>(first: impl FnOnce() -> A, second: impl FnOnce() -> B + Send) -> (A, B)
where
    B: Send,
{
    if worker::local().is_none() {
        return (first(), second());
    }
    let mut cell = cell_of(second, finish);
    let cell = NonNull::from(&mut cell);
    worker::with(|local| local.sow(cell.cast()));
    // Do not unwind out of this frame, or wait during a panic, before the seed is back.
    let first = catch_unwind(AssertUnwindSafe(first));
    if worker::local().is_some_and(|local| local.take_back(cell.cast())) {
        // SAFETY: the seed was still in the deque, so no other thread has it.
        let body = unsafe { (*cell.as_ref().body.get()).take() }.expect("no worker has begun it");
        let first = first.unwrap_or_else(|panic| resume_unwind(panic));
        return (first, body());
    }
    // SAFETY: the seed lies in this frame.
    let cell = unsafe { cell.as_ref() };
    cell.header.wait();
    // SAFETY: the worker that took the seed has released it, and this is its only joiner.
    let second = unsafe { (*cell.result.get()).take() }.expect("what is over has a result");
    let first = first.unwrap_or_else(|panic| resume_unwind(panic));
    (first, second.unwrap_or_else(|panic| resume_unwind(panic)))
}

/// A handle to a seed, which yields its result.
pub struct SeedJoin<F: FnOnce() -> T, T> {
    cell: NonNull<SeedCell<F, T>>,
}

// SAFETY: any thread may join a seed: its closure and its result are Send.
unsafe impl<F: FnOnce() -> T + Send, T: Send> Send for SeedJoin<F, T> {}
// SAFETY: a shared reference to a handle allows no operation.
unsafe impl<F: FnOnce() -> T + Send, T: Send> Sync for SeedJoin<F, T> {}

impl<F: FnOnce() -> T, T> SeedJoin<F, T> {
    #[inline]
    fn header(&self) -> NonNull<SeedHeader> {
        self.cell.cast()
    }

    /// Returns the result of the seed. Runs the closure here if no worker has begun it, otherwise
    /// waits for the result.
    ///
    /// # Panics
    /// The seed panicked.
    #[inline]
    pub fn join(self) -> T {
        let header = self.header();
        if worker::local().is_some_and(|local| local.take_back(header)) {
            let cell = self.cell.as_ptr();
            std::mem::forget(self);
            // SAFETY: the seed was still in the deque, so the caller is now both of its owners.
            let mut cell = unsafe { Box::from_raw(cell) };
            let body = cell.body.get_mut().take();
            drop(cell);
            return body.expect("no worker has begun it")();
        }
        // SAFETY: the caller is one of the seed's owners.
        let cell = unsafe { self.cell.as_ref() };
        if let Some(body) = cell.claim() {
            drop(self);
            return body();
        }
        cell.header.wait();
        // SAFETY: the seed has completed, and this is its only joiner.
        let result = unsafe { (*cell.result.get()).take() };
        drop(self);
        let result = result.expect("what is done has a result");
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl<F: FnOnce() -> T, T> Drop for SeedJoin<F, T> {
    fn drop(&mut self) {
        // SAFETY: the handle was one of the seed's owners.
        unsafe { release::<F, T>(self.header()) };
    }
}

#[inline]
fn cell_of<F: FnOnce() -> T, T>(
    body: F,
    release: unsafe fn(NonNull<SeedHeader>),
) -> SeedCell<F, T> {
    SeedCell::new(body, run::<F, T>, release)
}

/// Runs a seed, if no thread has begun it.
unsafe fn run<F: FnOnce() -> T, T>(seed: NonNull<SeedHeader>) {
    // SAFETY: the header is that of a cell of these types, which the caller owns together with the
    // joiner.
    let cell = unsafe { seed.cast::<SeedCell<F, T>>().as_ref() };
    let Some(body) = cell.claim() else { return };
    let result = catch_unwind(AssertUnwindSafe(body));
    worker::end_values();
    // SAFETY: this caller has claimed the seed, so no thread reads the result before the release.
    unsafe { *cell.result.get() = Some(result) };
}
