//! The system calls that doors, locks and waits need.

use std::cell::Cell;
use std::hint;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sys::{cores, futex, membarrier, teams};
use threads::words;

use crate::entry_lock::Threads;

/// The operations of the system that waits need, besides those of entry locks and other locks.
pub trait WaitingSystem: Threads + Default {
    /// Lets the time of one poll pass.
    fn spin(&self);

    /// Sleeps while the word is `expected`, and for `limit` at most; may return early.
    fn sleep_at_most(&self, word: &AtomicU32, expected: u32, limit: Duration);

    /// Sleeps for `duration`.
    fn pause(&self, duration: Duration);

    /// Whether the calling thread shares its kernel thread with other threads, which run while it
    /// waits but cannot run while it spins.
    fn shares_kernel_thread(&self) -> bool {
        false
    }

    /// Returns the number of kernel threads on which the caller may run, if it shares its kernel
    /// thread; otherwise none.
    fn workers(&self) -> Option<u32> {
        None
    }

    /// Whether another thread is ready to run on the kernel thread that the caller shares.
    fn has_others_ready(&self) -> bool {
        false
    }

    /// Returns a number that identifies the calling thread, never 0.
    fn thread_number(&self) -> u64;
}

/// The operating system, for the threads of this process. Threads of the crate `threads` are not
/// put to sleep by the system: they let other threads run on their kernel threads.
#[derive(Debug, Default)]
pub struct System;

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

impl System {
    /// Prepares the process for helpers; returns whether the system supports them. Must be called
    /// before the first helper starts.
    pub fn supports_helper() -> bool {
        membarrier::register_threads().is_ok()
    }

    /// A wait of the calling thread begins. Returns whether other threads of a team of OpenMP need
    /// its core meanwhile.
    #[inline]
    pub fn begin_wait(&self) -> bool {
        teams::begin_wait()
    }
}

impl Threads for System {
    fn pass_barrier(&self) {
        let passed = membarrier::threads();
        debug_assert!(passed.is_ok(), "registered before the first helper: {passed:?}");
    }

    fn sleep(&self, word: &AtomicU32, expected: u32) {
        match words::is_current() {
            true => words::sleep_on(word, expected, None),
            false => futex::wait(word, expected, None),
        }
    }

    fn wake(&self, word: &AtomicU32) {
        words::wake_on(word, usize::MAX);
        // A futex wake fails only for an invalid address; this one is valid.
        let _ = futex::wake(word, i32::MAX);
    }

    fn wake_one(&self, word: &AtomicU32) {
        if words::wake_on(word, 1) == 0 {
            // A futex wake fails only for an invalid address; this one is valid.
            let _ = futex::wake(word, 1);
        }
    }

    fn pass_core(&self) {
        match words::has_others_ready() {
            true => threads::yield_now(),
            false => cores::yield_now(),
        }
    }

    fn now(&self) -> u64 {
        ORIGIN.elapsed().as_nanos() as u64
    }
}

impl WaitingSystem for System {
    #[inline(always)]
    fn spin(&self) {
        hint::spin_loop();
    }

    fn sleep_at_most(&self, word: &AtomicU32, expected: u32, limit: Duration) {
        match words::is_current() {
            true => words::sleep_on(word, expected, Some(limit)),
            false => futex::wait(word, expected, Some(limit)),
        }
    }

    fn pause(&self, duration: Duration) {
        match words::is_current() {
            true => threads::sleep(duration),
            false => thread::sleep(duration),
        }
    }

    #[inline]
    fn shares_kernel_thread(&self) -> bool {
        words::is_current()
    }

    #[inline]
    fn workers(&self) -> Option<u32> {
        words::workers()
    }

    #[inline]
    fn has_others_ready(&self) -> bool {
        words::has_others_ready()
    }

    #[inline]
    fn thread_number(&self) -> u64 {
        if let Some(number) = words::number() {
            return number.get();
        }
        static NEXT: AtomicU64 = AtomicU64::new(1);
        thread_local! {
            static NUMBER: Cell<u64> = const { Cell::new(0) };
        }
        NUMBER.with(|number| {
            if number.get() == 0 {
                number.set(NEXT.fetch_add(1, Ordering::Relaxed));
            }
            number.get()
        })
    }
}
