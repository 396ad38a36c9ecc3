//! Values that one thread at a time uses, without a lock.

use std::cell::UnsafeCell;
use std::ops::Deref;

/// A value that is used by one thread at a time: by the thread that owns the structure around it,
/// or, before a region starts and after it has ended, by the thread that opened the region.
#[derive(Default)]
pub struct Own<T>(UnsafeCell<T>);

// SAFETY: the rule above. A value changes hands only by an atomic store and load with release and
// acquire ordering: of the generation of a team, of its count of arrivals, or of a slot.
unsafe impl<T> Sync for Own<T> {}

// SAFETY: as above.
unsafe impl<T> Send for Own<T> {}

impl<T> Own<T> {
    pub const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Uses the value. The closure must not reach the same value again.
    pub fn with<R>(&self, with: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: one thread uses the value at a time, and the closures of this crate reach it
        // once.
        with(unsafe { &mut *self.0.get() })
    }

    /// Reads the value, which several threads may do while it does not change.
    pub fn see<R>(&self, see: impl FnOnce(&T) -> R) -> R {
        // SAFETY: no thread changes the value now.
        see(unsafe { &*self.0.get() })
    }

    pub fn set(&self, value: T) {
        self.with(|own| *own = value);
    }

    pub fn replace(&self, value: T) -> T {
        self.with(|own| std::mem::replace(own, value))
    }
}

/// A value in cache lines of its own (processors fetch them in pairs), as other threads than those
/// of its neighbours write to it, or wait for it.
#[repr(align(128))]
#[derive(Default)]
pub struct OwnLine<T>(pub T);

impl<T> Deref for OwnLine<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> Own<T> {
    pub fn get(&self) -> T {
        self.see(T::clone)
    }
}
