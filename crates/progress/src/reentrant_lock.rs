//! The single lock of a process whose threads may all call MPI at the same time.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::lock::Lock;

use crate::system::{System, WaitingSystem};

/// A lock that its holder may take again, and may release entirely for a while.
///
/// It is reentrant because callbacks of the program call MPI from inside MPI. It can be released
/// for a while because a thread that waits for a message must let the other threads work.
#[derive(Debug, Default)]
pub struct ReentrantLock<K = System> {
    kernel: K,
    lock: Lock,
    /// The holder's number ([`WaitingSystem::thread_number`]); 0 if the lock is free. Only the
    /// holder writes it, so a thread that reads its own number here holds the lock.
    holder: AtomicU64,
    /// How many times the holder has taken the lock. Only the holder accesses it.
    depth: AtomicU32,
    /// The number of outermost entries of threads so far; and the number of threads inside now,
    /// those included that have released the lock for a while. Only the holder writes them.
    arrivals: AtomicU32,
    present: AtomicU32,
}

impl<K: WaitingSystem> ReentrantLock<K> {
    /// Takes the lock; each call must be paired with one of [`unlock`](Self::unlock).
    #[inline]
    pub fn lock(&self) {
        let own = self.kernel.thread_number();
        if self.holder.load(Ordering::Relaxed) != own {
            self.lock.take(&self.kernel);
            self.holder.store(own, Ordering::Relaxed);
            add(&self.arrivals, 1);
            add(&self.present, 1);
        }
        add(&self.depth, 1);
    }

    /// Takes the lock if it is free, without counting as an arrival; returns whether it did. Then
    /// [`give_back`](Self::give_back) must follow.
    pub fn try_lock(&self) -> bool {
        let taken = self.lock.try_take();
        if taken {
            self.holder.store(self.kernel.thread_number(), Ordering::Relaxed);
        }
        taken
    }

    /// Releases the lock that [`try_lock`](Self::try_lock) took.
    pub fn give_back(&self) {
        self.release();
    }

    /// Undoes one call of `lock`; the last one releases the lock.
    #[inline]
    pub fn unlock(&self) {
        if add(&self.depth, u32::MAX) == 0 {
            add(&self.present, u32::MAX);
            self.release();
        }
    }

    /// Returns the number of entries and exits of threads, like `EntryLock::steps`: odd while any
    /// thread is inside, also if it waits there.
    pub fn steps(&self) -> u32 {
        let present = self.present();
        self.arrivals().wrapping_mul(2) | u32::from(present > 0)
    }

    /// Returns how many times threads have entered.
    pub fn arrivals(&self) -> u32 {
        self.arrivals.load(Ordering::Relaxed)
    }

    /// Returns the number of threads that have entered and not left, those included that have
    /// released the lock for a while.
    #[inline]
    pub fn present(&self) -> u32 {
        self.present.load(Ordering::Relaxed)
    }

    /// Whether at least one thread wants the lock and did not get it immediately.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.lock.is_wanted()
    }

    /// Runs `pause` without the lock, if this thread holds it, and takes the lock again.
    pub fn without(&self, mut pause: impl FnMut()) {
        self.share(|| {
            pause();
            false
        });
    }

    /// Releases the lock, if this thread holds it, and calls `pause` to let time pass: once, and
    /// again as long as `pause` returns true and another thread has the lock. Then takes the lock
    /// again.
    pub fn share(&self, mut pause: impl FnMut() -> bool) {
        let own = self.kernel.thread_number();
        if self.holder.load(Ordering::Relaxed) != own {
            pause();
            return;
        }
        // The next holder must find a depth of zero.
        let depth = self.depth.swap(0, Ordering::Relaxed);
        self.release();
        loop {
            let agrees = pause();
            if self.lock.try_take() {
                break;
            }
            if !agrees {
                self.lock.take(&self.kernel);
                break;
            }
        }
        self.holder.store(own, Ordering::Relaxed);
        self.depth.store(depth, Ordering::Relaxed);
    }

    /// Runs `pause` without the lock, if this thread holds it. Meanwhile the thread does not count
    /// as present.
    pub fn leave(&self, pause: impl FnOnce()) {
        let own = self.kernel.thread_number();
        if self.holder.load(Ordering::Relaxed) != own {
            return pause();
        }
        let depth = self.depth.swap(0, Ordering::Relaxed);
        add(&self.present, u32::MAX);
        self.release();
        pause();
        self.lock.take(&self.kernel);
        self.holder.store(own, Ordering::Relaxed);
        add(&self.arrivals, 1);
        add(&self.present, 1);
        self.depth.store(depth, Ordering::Relaxed);
    }

    #[inline]
    fn release(&self) {
        self.holder.store(0, Ordering::Relaxed);
        self.lock.give(&self.kernel);
    }
}

/// Adds to a counter that only the holder of the lock writes; returns the sum.
#[inline]
fn add(counter: &AtomicU32, number: u32) -> u32 {
    let sum = counter.load(Ordering::Relaxed).wrapping_add(number);
    counter.store(sum, Ordering::Relaxed);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn excludes_others_and_admits_the_holder_again() {
        let lock = ReentrantLock::<System>::default();
        let (inside, total) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for turn in 0..1000 {
                        lock.lock();
                        lock.lock();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        lock.unlock();
                        if turn % 10 == 0 {
                            let short_sleep = std::time::Duration::from_micros(10);
                            lock.without(|| std::thread::sleep(short_sleep));
                        }
                        total.fetch_add(1, Ordering::SeqCst);
                        lock.unlock();
                    }
                });
            }
        });
        assert_eq!(total.load(Ordering::SeqCst), 4000);
    }
}
