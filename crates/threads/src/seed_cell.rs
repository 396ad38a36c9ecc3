//! The memory of a seed, which its two owners share.

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::thread::wait::{Wait, WaitWord};
use crate::thread::{Body, Ready};

/// The part of a seed that does not depend on the type of its closure and result.
pub(crate) struct SeedHeader {
    /// Runs the seed, if no thread has begun it. The caller must be one of its owners.
    run: unsafe fn(NonNull<SeedHeader>),
    /// Ends the ownership of the worker that took the seed from a deque. If that worker ran the
    /// seed, the result is stored.
    release: unsafe fn(NonNull<SeedHeader>),
    is_claimed: AtomicBool,
    /// The number of owners of a seed on the heap.
    owners: AtomicU8,
    /// Marked when the joiner need not wait any more.
    end: WaitWord,
}

/// The closure of a seed, and its result. The header is the first field, so that it has the address
/// of the whole cell.
#[repr(C)]
pub(crate) struct SeedCell<F, T> {
    pub header: SeedHeader,
    pub body: UnsafeCell<Option<F>>,
    pub result: UnsafeCell<Option<std::thread::Result<T>>>,
}

impl SeedHeader {
    /// Waits until the worker that took the seed has released it.
    #[cold]
    pub fn wait(&self) {
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
    pub fn new(
        body: F,
        run: unsafe fn(NonNull<SeedHeader>),
        release: unsafe fn(NonNull<SeedHeader>),
    ) -> Self {
        let header = SeedHeader {
            run,
            release,
            is_claimed: AtomicBool::new(false),
            owners: AtomicU8::new(2),
            end: WaitWord::default(),
        };
        Self { header, body: UnsafeCell::new(Some(body)), result: UnsafeCell::new(None) }
    }

    /// Returns the closure to the first caller, `None` to all others.
    pub fn claim(&self) -> Option<F> {
        if self.header.is_claimed.swap(true, Ordering::AcqRel) {
            return None;
        }
        // SAFETY: only one thread finds the seed unclaimed.
        unsafe { (*self.body.get()).take() }
    }
}

/// Lets the joiner continue. The joiner may then free the memory.
pub(crate) unsafe fn finish(seed: NonNull<SeedHeader>) {
    // SAFETY: the caller owns the seed together with its joiner, which continues only after the
    // mark.
    unsafe { WaitWord::mark(&raw const (*seed.as_ptr()).end) };
}

/// Lets the joiner of a seed on the heap continue, and gives up the caller's ownership.
pub(crate) unsafe fn finish_and_release<F, T>(seed: NonNull<SeedHeader>) {
    // SAFETY: the caller is one of the owners until the second step.
    unsafe {
        finish(seed);
        release::<F, T>(seed);
    }
}

/// Gives up one ownership of a seed on the heap. The last owner frees the memory.
pub(crate) unsafe fn release<F, T>(seed: NonNull<SeedHeader>) {
    // SAFETY: each owner keeps the seed alive.
    if unsafe { seed.as_ref() }.owners.fetch_sub(1, Ordering::AcqRel) == 1 {
        // SAFETY: the header is that of a box of these types, and the caller is its last owner.
        drop(unsafe { Box::from_raw(seed.cast::<SeedCell<F, T>>().as_ptr()) });
    }
}

/// The ownership of a seed by the worker that took it out of a deque.
pub(crate) struct TakenSeed(NonNull<SeedHeader>);

// SAFETY: closure and result of a seed are Send, and its state says which thread uses them.
unsafe impl Send for TakenSeed {}
// SAFETY: closure and result of a seed are Send, and its state says which thread uses them.
unsafe impl Sync for TakenSeed {}

impl TakenSeed {
    /// # Safety
    /// The caller took the seed out of a deque.
    pub unsafe fn new(seed: *mut SeedHeader) -> Option<Self> {
        NonNull::new(seed).map(Self)
    }

    /// Makes the seed an entry of a queue. Returns `None` if the joiner has already run the seed.
    pub fn into_ready(self) -> Option<Ready> {
        (!self.is_claimed()).then(|| Ready::Seed(Arc::new(self)))
    }
}

impl Body for TakenSeed {
    fn run(&self) {
        // SAFETY: this is one of the seed's owners; the function pointer matches the type of the
        // seed.
        unsafe { (self.0.as_ref().run)(self.0) };
    }

    fn is_claimed(&self) -> bool {
        // SAFETY: this is one of the seed's owners.
        unsafe { self.0.as_ref() }.is_claimed.load(Ordering::Relaxed)
    }
}

impl Drop for TakenSeed {
    fn drop(&mut self) {
        // SAFETY: this was one of the seed's owners; the function pointer matches the type of the
        // seed.
        unsafe { (self.0.as_ref().release)(self.0) };
    }
}
