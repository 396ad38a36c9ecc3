//! A mutex whose waiting threads let their workers run other threads.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex as Lock;

use super::Line;
use crate::thread::wait::Wait;

/// A mutex around a value.
pub struct Mutex<T> {
    /// FREE, HELD, or CONTENDED. CONTENDED means held, with threads possibly waiting in the line.
    state: AtomicU8,
    line: Lock<Line>,
    value: UnsafeCell<T>,
}

const FREE: u8 = 0;
const HELD: u8 = 1;
const CONTENDED: u8 = 2;

// SAFETY: the value is reached through guards, and one guard exists at a time.
unsafe impl<T: Send> Sync for Mutex<T> {}
// SAFETY: the mutex owns the value, which is Send.
unsafe impl<T: Send> Send for Mutex<T> {}

impl<T> Mutex<T> {
    /// A free mutex around a value.
    pub const fn new(value: T) -> Self {
        Self {
            state: AtomicU8::new(FREE),
            line: Lock::new(Line::new()),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until no other thread holds the mutex, and locks it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        if !self.take(HELD) {
            self.wait();
        }
        MutexGuard { mutex: self }
    }

    /// Locks the mutex if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.take(HELD).then(|| MutexGuard { mutex: self })
    }

    /// Makes a guard again for a caller that has forgotten its guard, for interfaces without
    /// guards.
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
            // A thread that waited takes the mutex as CONTENDED, because more threads may be in the
            // line.
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

/// Exclusive access to the value of a mutex. Dropping it unlocks the mutex.
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
        // SAFETY: only one guard exists at a time.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: only one guard exists at a time.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.release();
    }
}
