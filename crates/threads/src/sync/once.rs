//! One-time initialisation.

use std::sync::atomic::{AtomicBool, Ordering};

use super::Mutex;

/// An action that is done once, by the first caller.
pub struct Once {
    is_done: AtomicBool,
    doing: Mutex<()>,
}

impl Once {
    /// A `Once` whose action is not done yet.
    pub const fn new() -> Self {
        Self { is_done: AtomicBool::new(false), doing: Mutex::new(()) }
    }

    /// Runs the action if no caller has completed it. When this returns, the action is done. If the
    /// action panics, the next caller tries again.
    pub fn call_once(&self, action: impl FnOnce()) {
        if self.is_done.load(Ordering::Acquire) {
            return;
        }
        let _doing = self.doing.lock();
        if !self.is_done.load(Ordering::Relaxed) {
            action();
            self.is_done.store(true, Ordering::Release);
        }
    }
}

impl Default for Once {
    fn default() -> Self {
        Self::new()
    }
}
