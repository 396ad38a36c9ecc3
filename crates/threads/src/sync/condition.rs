//! Threads wait until others tell them that something has changed.

use parking_lot::Mutex as Lock;

use super::{Line, MutexGuard, leave};
use crate::cancel::{Cancelled, wait_or_cancel};
use crate::parking::Wait;

/// A condition variable.
pub struct Condition {
    line: Lock<Line>,
}

impl Condition {
    /// Nobody waits.
    pub const fn new() -> Self {
        Self { line: Lock::new(Line::new()) }
    }

    /// Gives the mutex back and waits; holds it again afterwards. Others may hold
    /// the mutex in between, so the caller looks again.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let mutex = guard.mutex();
        let wait = Wait::new();
        self.line.lock().push_back(wait.clone());
        drop(guard);
        wait.wait();
        mutex.lock()
    }

    /// The same; shorter if the caller is asked to end, who holds the mutex again then, too.
    ///
    /// # Errors
    /// It was ([`Join::cancel`](crate::Join::cancel)).
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

    /// Wakes the one that waits longest.
    pub fn notify_one(&self) {
        let first = self.line.lock().pop_front();
        if let Some(first) = first {
            first.end();
        }
    }

    /// Wakes all that wait.
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
