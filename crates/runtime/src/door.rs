//! What the door and the lock of the library need of the system.

use std::sync::LazyLock;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use queues::door::Threads;
pub use queues::door::{Door, Guest, Resting, Visit};
use sys::{cores, futex, membarrier};

/// The operating system, for the threads of this process.
#[derive(Debug)]
pub struct System;

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

impl System {
    /// Prepares for guests; whether the system lets them in. To be called before the first comes.
    pub fn opens_to_guests() -> bool {
        membarrier::register_threads().is_ok()
    }
}

impl Threads for System {
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

    fn wake_one(&self, word: &AtomicU32) {
        // As above.
        let _ = futex::wake(word, 1);
    }

    fn pass_core(&self) {
        cores::yield_now();
    }

    fn now(&self) -> u64 {
        ORIGIN.elapsed().as_nanos() as u64
    }
}
