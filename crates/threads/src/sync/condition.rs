//! Condition variables: threads wait until another thread notifies them of a change.

use parking_lot::Mutex as Lock;

use super::{Line, MutexGuard, leave};
use crate::cancel::{Cancelled, wait_or_cancel};
use crate::thread::wait::Wait;

/// A condition variable.
pub struct Condition {
    line: Lock<Line>,
}

impl Condition {
    /// A condition variable without waiting threads.
    pub const fn new() -> Self {
        Self { line: Lock::new(Line::new()) }
    }

    /// Unlocks the mutex, waits, and locks it again. Other threads may lock the mutex in between,
    /// so the caller must check its condition again.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let mutex = guard.mutex();
        let wait = Wait::new();
        self.line.lock().push_back(wait.clone());
        drop(guard);
        wait.wait();
        mutex.lock()
    }

    /// Waits like [`wait`](Self::wait), but returns early if the caller is cancelled. The caller
    /// holds the mutex again in both cases.
    ///
    /// # Errors
    /// The caller was cancelled ([`Join::cancel`](crate::Join::cancel)).
    pub fn wait_or_cancel<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
    ) -> (MutexGuard<'a, T>, Result<(), Cancelled>) {
        let mutex = guard.mutex();
        let wait = Wait::new();
        self.line.lock().push_back(wait.clone());
        drop(guard);
        let waited = wait_or_cancel(&wait, || leave(&mut self.line.lock(), &wait));
        (mutex.lock(), waited)
    }

    /// Wakes the thread that has waited longest.
    pub fn notify_one(&self) {
        let first = self.line.lock().pop_front();
        if let Some(first) = first {
            first.end();
        }
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        let all = std::mem::take(&mut *self.line.lock());
        all.iter().for_each(|wait| wait.end());
    }
}

impl Default for Condition {
    fn default() -> Self {
        Self::new()
    }
}
