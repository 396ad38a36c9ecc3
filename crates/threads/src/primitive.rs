//! Atomics, cells and yielding: those of the standard library, or those of loom (the model checker
//! of interleavings).

#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::thread::yield_now as give_way;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::thread::yield_now as give_way;

/// A cell with loom's interface, which accesses the value through closures.
#[cfg(not(loom))]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub fn with_mut<R>(&self, action: impl FnOnce(*mut T) -> R) -> R {
        action(self.0.get())
    }
}
