//! A lock whose waiters give their workers to others.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex as Lock;

use super::Line;
use crate::parking::Wait;

/// A value that one thread at a time uses.
pub struct Mutex<T> {
    /// FREE, HELD, or CONTENDED: held, and somebody may stand in line.
    state: AtomicU8,
    line: Lock<Line>,
    value: UnsafeCell<T>,
}

const FREE: u8 = 0;
const HELD: u8 = 1;
const CONTENDED: u8 = 2;

// SAFETY: the value is reached through guards, of which there is one at a time.
unsafe impl<T: Send> Sync for Mutex<T> {}
// SAFETY: as above; it owns the value.
unsafe impl<T: Send> Send for Mutex<T> {}

impl<T> Mutex<T> {
    /// Holds a value.
    pub const fn new(value: T) -> Self {
        Self {
            state: AtomicU8::new(FREE),
            line: Lock::new(Line::new()),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until nobody else uses the value.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        if !self.take(HELD) {
            self.wait();
        }
        MutexGuard { mutex: self }
    }

    /// The value, if nobody else uses it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.take(HELD).then(|| MutexGuard { mutex: self })
    }

    /// The guard of one who has forgotten it, for interfaces without guards.
    ///
    /// # Safety
    /// The caller holds the lock, and its guard was forgotten.
    pub unsafe fn make_guard(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self }
    }

    #[inline]
    fn take(&self, as_what: u8) -> bool {
        self.state.compare_exchange(FREE, as_what, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wait(&self) {
        loop {
            let mut line = self.line.lock();
            // Whoever was in line takes it as contended: there may be more.
            if self.state.swap(CONTENDED, Ordering::Acquire) == FREE {
                return;
            }
            let wait = Wait::new();
            line.push_back(wait.clone());
            drop(line);
            wait.wait();
        }
    }

    #[inline]
    fn release(&self) {
        if self.state.swap(FREE, Ordering::Release) == CONTENDED {
            let first = self.line.lock().pop_front();
            if let Some(first) = first {
                first.end();
            }
        }
    }
}

/// The use of a value, until it is dropped.
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
}

impl<'a, T> MutexGuard<'a, T> {
    pub(super) fn mutex(&self) -> &'a Mutex<T> {
        self.mutex
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: a guard exists only while nobody else has one.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.release();
    }
}
