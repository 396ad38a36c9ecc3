//! What the door of the library needs of the system.

use std::sync::atomic::AtomicU32;

use queues::door::Threads;
pub use queues::door::{Door, Guest, Visit};
use sys::{futex, membarrier};

/// The threads of this process.
#[derive(Debug)]
pub struct Process;

impl Process {
    /// Prepares for guests; whether the system lets them in. To be called before the first comes.
    pub fn opens_to_guests() -> bool {
        membarrier::register_threads().is_ok()
    }
}

impl Threads for Process {
    fn pass_barrier(&self) {
        let passed = membarrier::threads();
        debug_assert!(passed.is_ok(), "registered before the first guest: {passed:?}");
    }

    fn sleep(&self, word: &AtomicU32, expected: u32) {
        futex::wait(word, expected, None);
    }

    fn wake(&self, word: &AtomicU32) {
        // The word is valid; waking can only fail for a word that is not.
        let _ = futex::wake(word, i32::MAX);
    }
}
