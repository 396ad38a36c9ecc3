//! The lock of a process whose threads may all call MPI at once.
//!
//! Free, it costs one exchange to take and one to give back. Who finds it taken looks a few times,
//! as calls are short; then lets others have the core, as the holder may have none; then sleeps,
//! and is woken alone. Who comes while a sleeper is being woken may be faster: the lock does not
//! lie idle until that one has a core.

use crate::door::Threads;
use crate::primitive::{AtomicU32, Ordering};

/// A lock without data. It has no guard: whoever takes it gives it back.
#[derive(Default, Debug)]
pub struct Lock {
    state: AtomicU32,
    /// How many threads want it and did not get it at once.
    wanting: AtomicU32,
}

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and others may be asleep.
const AWAITED: u32 = 2;

/// How often a thread looks whether the lock is free before it lets others have the core, and how
/// often it does that before it sleeps.
const LOOKS: u32 = if cfg!(loom) { 1 } else { 100 };
const YIELDS: u32 = if cfg!(loom) { 0 } else { 16 };

impl Lock {
    /// Takes the lock, if nobody has it.
    #[inline(always)]
    pub fn try_take(&self) -> bool {
        // The look first: a failing exchange takes the line away from the holder.
        self.state.load(Ordering::Relaxed) == FREE
            && self
                .state
                .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// Takes the lock, as soon as it is to be had.
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
        for look in 0..LOOKS + YIELDS {
            if look < LOOKS {
                std::hint::spin_loop();
            } else {
                threads.pass_core();
            }
            if self.try_take() {
                return;
            }
        }
        // Whoever was asleep does not know whether others are: it says so, to be safe.
        while self.state.swap(AWAITED, Ordering::Acquire) != FREE {
            threads.sleep(&self.state, AWAITED);
        }
    }

    /// Gives the lock back.
    #[inline(always)]
    pub fn give(&self, threads: &impl Threads) {
        if self.state.swap(FREE, Ordering::Release) == AWAITED {
            threads.wake_one(&self.state);
        }
    }

    /// Whether a thread that wants the lock did not get it at once.
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

    /// Whoever sleeps looks again at once.
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

    // SAFETY: the tests touch the count with the lock only.
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
    fn who_has_it_keeps_others_out() {
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

    /// Sleeping as the system has it: a thread that finds the word as expected sleeps until one is
    /// woken, and no sooner, so that a wake-up that is lost is a deadlock.
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
        // SAFETY: the checker finds whoever is inside at the same time.
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
