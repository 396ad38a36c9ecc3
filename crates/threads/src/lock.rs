//! A spinlock that is held for a few instructions: one atomic operation to take it, a plain store
//! to release it.

use crate::primitive::{AtomicU8, Ordering, UnsafeCell, give_way};

pub(crate) struct ShortLock<T> {
    is_taken: AtomicU8,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time uses the value, see `with`.
unsafe impl<T: Send> Sync for ShortLock<T> {}

impl<T> ShortLock<T> {
    pub fn new(value: T) -> Self {
        Self { is_taken: AtomicU8::new(0), value: UnsafeCell::new(value) }
    }

    /// Calls `action` with exclusive access to the value. `action` must neither wait nor panic.
    #[inline]
    pub fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> R {
        if !self.try_take() {
            self.take();
        }
        // SAFETY: the thread that changed `is_taken` from 0 has exclusive access until it is 0
        // again.
        let result = self.value.with_mut(|value| action(unsafe { &mut *value }));
        self.is_taken.store(0, Ordering::Release);
        result
    }

    #[inline]
    fn try_take(&self) -> bool {
        self.is_taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn take(&self) {
        for poll in 1_u32.. {
            // Read first: a failing exchange would take the cache line away from the holder. The
            // model checker skips the read, because it may return the same old value forever.
            let seems_free = cfg!(loom) || self.is_taken.load(Ordering::Relaxed) == 0;
            if seems_free && self.try_take() {
                return;
            }
            // The holder may have been preempted.
            if poll.is_multiple_of(POLLS) { give_way() } else { std::hint::spin_loop() }
        }
    }
}

/// The number of polls before the thread yields its core to another kernel thread.
const POLLS: u32 = if cfg!(loom) { 1 } else { 100 };

/// Explores all interleavings: `RUSTFLAGS='--cfg loom' cargo test -p threads --lib --release
/// models`.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn one_at_a_time_uses_the_value() {
        loom::model(|| {
            let lock = Arc::new(ShortLock::new(0));
            let other = {
                let lock = lock.clone();
                thread::spawn(move || lock.with(|value| *value += 1))
            };
            lock.with(|value| *value += 1);
            other.join().unwrap();
            assert_eq!(lock.with(|value| *value), 2);
        });
    }
}
