//! The one lock of a process whose threads may all call MPI at once.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

/// A lock that its holder may take again, and give up wholly for a while.
///
/// Callbacks of the program call MPI from inside MPI, hence the first; whoever waits for a message
/// must let the others work, hence the second.
#[derive(Debug, Default)]
pub struct ReentrantLock {
    /// Whether somebody holds the lock.
    held: Mutex<bool>,
    freed: Condvar,
    /// The holder, by [`thread_number`]; 0: nobody. Written by the holder only, so that a thread
    /// that reads its own number here holds the lock.
    holder: AtomicU64,
    /// How often the holder has taken it. Touched by the holder only.
    depth: AtomicU64,
    /// How often threads have come, and how many are here: those that gave it up for a while too.
    arrivals: AtomicU32,
    present: AtomicU32,
}

impl ReentrantLock {
    /// Takes the lock; every call needs one of [`unlock`](Self::unlock).
    pub fn lock(&self) {
        let own = thread_number();
        if self.holder.load(Ordering::Relaxed) != own {
            self.arrivals.fetch_add(1, Ordering::Relaxed);
            self.present.fetch_add(1, Ordering::Relaxed);
            self.acquire(own);
        }
        self.depth.store(self.depth.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Takes the lock if nobody has it, without having come; [`give_back`](Self::give_back) must follow.
    pub fn try_lock(&self) -> bool {
        let mut held = self.held.lock();
        if *held {
            return false;
        }
        *held = true;
        self.holder.store(thread_number(), Ordering::Relaxed);
        self.depth.store(0, Ordering::Relaxed);
        true
    }

    /// Gives back what [`try_lock`](Self::try_lock) took.
    pub fn give_back(&self) {
        self.release();
    }

    /// Gives one taking back.
    pub fn unlock(&self) {
        let depth = self.depth.load(Ordering::Relaxed) - 1;
        self.depth.store(depth, Ordering::Relaxed);
        if depth == 0 {
            self.present.fetch_sub(1, Ordering::Relaxed);
            self.release();
        }
    }

    /// How many steps threads have made, in and out: odd while one is inside, or waits there.
    pub fn steps(&self) -> u32 {
        let present = self.present.load(Ordering::Relaxed);
        self.arrivals.load(Ordering::Relaxed).wrapping_mul(2) | u32::from(present > 0)
    }

    /// Runs `pause` without the lock, if this thread holds it.
    pub fn without(&self, pause: impl FnOnce()) {
        let own = thread_number();
        if self.holder.load(Ordering::Relaxed) != own {
            return pause();
        }
        // The next holder begins at zero.
        let depth = self.depth.swap(0, Ordering::Relaxed);
        self.release();
        pause();
        self.acquire(own);
        self.depth.store(depth, Ordering::Relaxed);
    }

    fn acquire(&self, own: u64) {
        let mut held = self.held.lock();
        while *held {
            self.freed.wait(&mut held);
        }
        *held = true;
        self.holder.store(own, Ordering::Relaxed);
    }

    fn release(&self) {
        self.holder.store(0, Ordering::Relaxed);
        *self.held.lock() = false;
        self.freed.notify_one();
    }
}

/// A number for the calling thread, never 0.
fn thread_number() -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn excludes_others_and_admits_the_holder_again() {
        let lock = ReentrantLock::default();
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
                            let nap = std::time::Duration::from_micros(10);
                            lock.without(|| std::thread::sleep(nap));
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
