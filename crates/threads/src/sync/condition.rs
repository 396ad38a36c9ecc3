//! Threads wait until others tell them that something has changed.

use parking_lot::Mutex as Lock;

use super::{Line, MutexGuard};
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
