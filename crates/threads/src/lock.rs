//! A lock that is held for a few instructions: one atomic step to take, none to give back.

use crate::primitive::{AtomicU8, Ordering, UnsafeCell, give_way};

pub(crate) struct ShortLock<T> {
    is_taken: AtomicU8,
    value: UnsafeCell<T>,
}

// SAFETY: the value is used by one thread at a time, see `with`.
unsafe impl<T: Send> Sync for ShortLock<T> {}

impl<T> ShortLock<T> {
    pub fn new(value: T) -> Self {
        Self { is_taken: AtomicU8::new(0), value: UnsafeCell::new(value) }
    }

    /// Uses the value, alone. `action` neither waits nor panics.
    #[inline]
    pub fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> R {
        if !self.try_take() {
            self.take();
        }
        // SAFETY: whoever has changed `is_taken` from 0 is alone until it is 0 again.
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
        for look in 1_u32.. {
            // The look first: a failing exchange takes the line away from the holder. To the
            // checker it may tell the same old thing forever.
            let seems_free = cfg!(loom) || self.is_taken.load(Ordering::Relaxed) == 0;
            if seems_free && self.try_take() {
                return;
            }
            // The holder may have lost its core.
            if look.is_multiple_of(LOOKS) { give_way() } else { std::hint::spin_loop() }
        }
    }
}

/// So often one looks before another kernel thread has the core.
const LOOKS: u32 = if cfg!(loom) { 1 } else { 100 };

/// All interleavings: `RUSTFLAGS='--cfg loom' cargo test -p threads --lib --release models`.
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
