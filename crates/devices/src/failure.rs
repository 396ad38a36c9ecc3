//! Failures of copies, which happen inside communication and are reported by the call that finds
//! them.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

static HAS_FAILED: AtomicBool = AtomicBool::new(false);
static FIRST: Mutex<Option<String>> = Mutex::new(None);

/// Remembers a failure, unless one is waiting to be reported.
#[cold]
pub fn note_failure(failure: String) {
    FIRST.lock().get_or_insert(failure);
    HAS_FAILED.store(true, Ordering::Release);
}

/// Returns the first failure since the last call of this function.
pub fn take_failure() -> Option<String> {
    if !HAS_FAILED.load(Ordering::Acquire) {
        return None;
    }
    HAS_FAILED.store(false, Ordering::Relaxed);
    FIRST.lock().take()
}
