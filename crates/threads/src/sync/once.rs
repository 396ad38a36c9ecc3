//! Something is done once.

use std::sync::atomic::{AtomicBool, Ordering};

use super::Mutex;

/// Done once, by whoever comes first.
pub struct Once {
    is_done: AtomicBool,
    doing: Mutex<()>,
}

impl Once {
    /// Not done yet.
    pub const fn new() -> Self {
        Self { is_done: AtomicBool::new(false), doing: Mutex::new(()) }
    }

    /// Does it if nobody has; when this returns it is done. If it panics, the next one tries.
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
