//! The lock of a process whose threads may all call MPI at the same time (`MPI_THREAD_MULTIPLE`).
//!
//! Without contention, taking the lock costs one exchange, and releasing it another. A thread that
//! finds the lock taken first checks a few times, as calls are short. It then yields the core, as
//! the holder may have none. It then sleeps; a release wakes one sleeper. A thread that arrives
//! while a sleeper is being woken may take the lock first, so that the lock is not idle until the
//! sleeper has a core.
//!
//! Why: docs/internals/decisions/0024-threads-look-in-turn-and-sleep-each-for-itself.md

use crate::entry_lock::Threads;
use crate::primitive::{AtomicU32, Ordering};

/// A lock without data and without a guard: the thread that takes it must release it by
/// [`give`](Self::give).
#[derive(Default, Debug)]
pub struct Lock {
    state: AtomicU32,
    /// The number of threads that want the lock and did not get it immediately.
    wanting: AtomicU32,
}

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and other threads may be asleep.
const AWAITED: u32 = 2;

/// The number of checks whether the lock is free before a thread yields the core; and the number of
/// yields, with a check after each, before it sleeps.
const SPINS: u32 = if cfg!(loom) { 1 } else { 100 };
const YIELDS: u32 = if cfg!(loom) { 0 } else { 16 };

impl Lock {
    /// Takes the lock if it is free; returns whether it did.
    #[inline(always)]
    pub fn try_take(&self) -> bool {
        // A plain load first: a failing exchange would take the cache line away from the holder.
        self.state.load(Ordering::Relaxed) == FREE
            && self
                .state
                .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// Takes the lock, and waits until it is free.
    #[inline(always)]
    pub fn take(&self, threads: &impl Threads) {
        if !self.try_take() {
            self.take_later(threads);
        }
    }

    #[cold]
    #[inline(never)]
    fn take_later(&self, threads: &impl Threads) {
        self.wanting.fetch_add(1, Ordering::Relaxed);
        self.await_turn(threads);
        self.wanting.fetch_sub(1, Ordering::Relaxed);
    }

    fn await_turn(&self, threads: &impl Threads) {
        for spins in 0..SPINS + YIELDS {
            if spins < SPINS {
                std::hint::spin_loop();
            } else {
                threads.pass_core();
            }
            if self.try_take() {
                return;
            }
        }
        // A thread cannot know whether others still sleep on the lock, so from here on it takes the
        // lock as AWAITED.
        while self.state.swap(AWAITED, Ordering::Acquire) != FREE {
            threads.sleep(&self.state, AWAITED);
        }
    }

    /// Releases the lock, and wakes one sleeper if there may be any.
    #[inline(always)]
    pub fn give(&self, threads: &impl Threads) {
        if self.state.swap(FREE, Ordering::Release) == AWAITED {
            threads.wake_one(&self.state);
        }
    }

    /// Whether at least one thread wants the lock and did not get it immediately.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.wanting.load(Ordering::Relaxed) > 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::thread;

    /// A system in which a sleeper checks again immediately.
    struct Here;

    impl Threads for Here {
        fn pass_barrier(&self) {}

        fn sleep(&self, _: &AtomicU32, _: u32) {
            thread::yield_now();
        }

        fn wake(&self, _: &AtomicU32) {}

        fn wake_one(&self, _: &AtomicU32) {}

        fn pass_core(&self) {
            thread::yield_now();
        }
    }

    const TAKEN_EACH: u32 = if cfg!(miri) { 50 } else { 10_000 };

    struct Counted {
        lock: Lock,
        count: Cell<u32>,
    }

    // SAFETY: the tests access the count only while they hold the lock.
    unsafe impl Sync for Counted {}

    #[test]
    fn one_thread_at_a_time_has_it() {
        let counted = Counted { lock: Lock::default(), count: Cell::new(0) };
        thread::scope(|scope| {
            for _ in 0..4 {
                let counted = &counted;
                scope.spawn(move || {
                    for _ in 0..TAKEN_EACH {
                        counted.lock.take(&Here);
                        counted.count.set(counted.count.get() + 1);
                        counted.lock.give(&Here);
                    }
                });
            }
        });
        assert_eq!(counted.count.get(), 4 * TAKEN_EACH);
        assert!(!counted.lock.is_wanted());
    }

    #[test]
    fn a_process_that_has_it_keeps_others_out() {
        let lock = Lock::default();
        assert!(lock.try_take() && !lock.try_take());
        lock.give(&Here);
        assert!(lock.try_take());
    }
}

/// All interleavings: `RUSTFLAGS='--cfg loom' cargo test -p progress --lib --release models`.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    /// Sleeps like the system: a thread that finds the word as expected sleeps until a wake-up,
    /// never shorter. So a lost wake-up is a deadlock, which loom reports.
    #[derive(Default)]
    struct Model {
        beds: Mutex<Beds>,
        woken: Condvar,
    }

    #[derive(Default)]
    struct Beds {
        asleep: u32,
        called: u32,
    }

    impl Threads for Model {
        fn pass_barrier(&self) {}

        fn sleep(&self, word: &AtomicU32, expected: u32) {
            let mut beds = self.beds.lock().unwrap();
            if word.load(Ordering::SeqCst) != expected {
                return;
            }
            beds.asleep += 1;
            while beds.called == 0 {
                beds = self.woken.wait(beds).unwrap();
            }
            beds.called -= 1;
            beds.asleep -= 1;
        }

        fn wake(&self, word: &AtomicU32) {
            self.wake_one(word);
        }

        fn wake_one(&self, _: &AtomicU32) {
            let mut beds = self.beds.lock().unwrap();
            if beds.asleep > beds.called {
                beds.called += 1;
                self.woken.notify_all();
            }
        }

        fn pass_core(&self) {
            thread::yield_now();
        }
    }

    struct House {
        lock: Lock,
        threads: Model,
        inside: UnsafeCell<u32>,
    }

    fn visit(house: &House) {
        house.lock.take(&house.threads);
        // SAFETY: loom reports two threads that are inside at the same time.
        house.inside.with_mut(|inside| unsafe { *inside += 1 });
        house.lock.give(&house.threads);
    }

    #[test]
    fn nobody_is_left_asleep() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let lock = Lock { state: AtomicU32::new(FREE), wanting: AtomicU32::new(0) };
            let inside = UnsafeCell::new(0);
            let house = Arc::new(House { lock, threads: Model::default(), inside });
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let house = Arc::clone(&house);
                    thread::spawn(move || visit(&house))
                })
                .collect();
            visit(&house);
            others.into_iter().for_each(|other| other.join().unwrap());
            // SAFETY: all others have ended.
            house.inside.with(|inside| assert_eq!(unsafe { *inside }, 3));
        });
    }
}
