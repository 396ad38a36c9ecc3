//! Mutual exclusion between the program and its helper thread, for MPI thread levels below
//! `MPI_THREAD_MULTIPLE`.
//!
//! The program enters and leaves the library with every call, and pays two plain stores and one
//! load for that. While the program is outside, its helper thread may enter and make progress for
//! it. The helper pays for the memory barriers of both sides: between its own store and its load it
//! makes every thread of the process pass a barrier. The program waits for the helper only while
//! the helper is inside, or checks whether it may enter. The program sleeps while it waits, so that
//! the helper gets the core.
//!
//! A helper that sleeps until something happens rests: it keeps its admission. When it
//! wakes it continues without another barrier, unless the program entered meanwhile, which revokes
//! the admission by one exchange.
//!
//! The program can record the time when it leaves the library. At its next entry it then
//! measures how long it was outside.
//!
//! Why: docs/internals/decisions/0020-a-helper-comes-through-the-door.md

use std::fmt;

use crate::primitive::{AtomicU32, AtomicU64, Ordering};

/// Admits one of two at a time to the library: the program or its helper thread.
#[derive(Default)]
pub struct EntryLock {
    /// The number of entries and exits of the program: odd while it is inside. Only the program
    /// writes it.
    steps: ProgramLine<AtomicU32>,
    /// The state of the helper, one of the constants below. Written by the helper, and by a program
    /// that waits for the helper or records its exit.
    helper: ProgramLine<AtomicU32>,
    /// The time of the last recorded exit of the program, in nanoseconds; and the number of
    /// recorded exits after which it stayed outside for more than [`ABSENCE`].
    exit_time: AtomicU64,
    absences: AtomicU32,
}

/// Puts a word on a cache line of its own, so that the program's stores in each call do not share a
/// line with the word that it only loads.
#[derive(Default)]
#[repr(align(64))]
struct ProgramLine<T>(T);

/// The operations of the system that entry locks and other locks need.
pub trait Threads {
    /// Makes every running thread of the process pass a full memory barrier.
    fn pass_barrier(&self);

    /// Sleeps while the word is `expected`; may return early.
    fn sleep(&self, word: &AtomicU32, expected: u32);

    /// Wakes all threads that sleep on the word.
    fn wake(&self, word: &AtomicU32);

    /// Wakes one thread that sleeps on the word.
    fn wake_one(&self, word: &AtomicU32);

    /// Yields the core to other threads.
    fn pass_core(&self);

    /// Returns the nanoseconds since a fixed moment; 0 if there is no clock.
    fn now(&self) -> u64 {
        0
    }
}

/// The helper is outside.
const AWAY: u32 = 0;
/// The helper is inside, or checks whether it may enter.
const HERE: u32 = 1;
/// The helper is inside, and the program sleeps until the helper has left.
const AWAITED: u32 = 2;
/// The helper sleeps and keeps its admission. No work of it is half done, so the program may revoke
/// the admission.
const RESTING: u32 = 3;
/// There is no helper; the program has recorded the time of its exit.
const EXIT_RECORDED: u32 = 4;

/// An absence of the program after a recorded exit counts as long if it exceeds this number of
/// nanoseconds.
const ABSENCE: u64 = 20_000;

/// The number of times that the program checks whether the helper has left before it sleeps.
const SPINS: u32 = if cfg!(loom) { 1 } else { 200 };

/// A guard: the program is inside as long as it exists.
pub struct ProgramInside<'a> {
    entry_lock: &'a EntryLock,
    /// The value of `steps` after the exit, which is even. An odd value marks an inner entry, whose
    /// exit changes nothing.
    after: u32,
}

/// A guard: the helper is inside as long as it exists.
pub struct HelperInside<'a, T: Threads> {
    entry_lock: &'a EntryLock,
    threads: &'a T,
}

/// A guard: the helper rests as long as it exists, unless the program revokes the
/// admission.
pub struct RestingAdmission<'a, T: Threads> {
    entry_lock: &'a EntryLock,
    threads: &'a T,
}

impl EntryLock {
    /// Enters as the program. A callback of the program, called by the library, may enter again.
    #[inline(always)]
    pub fn enter(&self, threads: &impl Threads) -> ProgramInside<'_> {
        self.enter_if(true, threads)
    }

    /// Enters as the program if `condition` is true. If it is false, entry and exit change nothing.
    #[inline(always)]
    pub fn enter_if(&self, condition: bool, threads: &impl Threads) -> ProgramInside<'_> {
        let steps = self.steps.0.load(Ordering::Relaxed);
        let is_outermost = condition && steps.is_multiple_of(2);
        if is_outermost {
            self.steps.0.store(steps.wrapping_add(1), Ordering::Relaxed);
            light_barrier();
            if self.helper.0.load(Ordering::Acquire) != AWAY {
                self.wait_for_helper(threads);
            }
        }
        ProgramInside {
            entry_lock: self,
            after: if is_outermost { steps.wrapping_add(2) } else { 1 },
        }
    }

    #[cold]
    fn wait_for_helper(&self, threads: &impl Threads) {
        for spins in 0_u32.. {
            match self.helper.0.load(Ordering::Acquire) {
                AWAY => return,
                state @ (RESTING | EXIT_RECORDED) => {
                    let (taken, seen) = (Ordering::Acquire, Ordering::Relaxed);
                    let emptied = self.helper.0.compare_exchange(state, AWAY, taken, seen).is_ok();
                    if emptied && state == EXIT_RECORDED {
                        self.count_if_long(threads);
                    }
                }
                HERE if spins < SPINS => std::hint::spin_loop(),
                HERE => {
                    let order = Ordering::Relaxed;
                    let _ = self.helper.0.compare_exchange(HERE, AWAITED, order, order);
                }
                _ => threads.sleep(&self.helper.0, AWAITED),
            }
        }
    }

    /// Records the current time as that of the exit. The program calls this while it is inside and
    /// no helper is active; its next entry measures how long it was outside.
    pub fn record_exit_time(&self, threads: &impl Threads) {
        self.exit_time.store(threads.now(), Ordering::Relaxed);
        let order = Ordering::Relaxed;
        // The exchange fails if a helper is active. Such a helper detects the program's absence
        // itself.
        let _ = self.helper.0.compare_exchange(AWAY, EXIT_RECORDED, order, order);
    }

    fn count_if_long(&self, threads: &impl Threads) {
        if threads.now().saturating_sub(self.exit_time.load(Ordering::Relaxed)) > ABSENCE {
            self.absences.store(self.absences().wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Returns how many times the program stayed outside for more than 20 µs after a recorded exit.
    pub fn absences(&self) -> u32 {
        self.absences.load(Ordering::Relaxed)
    }

    /// Returns the number of entries and exits of the program: odd while it is inside.
    pub fn steps(&self) -> u32 {
        self.steps.0.load(Ordering::Relaxed)
    }

    /// Enters as the helper; returns none if the program is inside. There is at most one helper.
    pub fn try_enter_as_helper<'a, T: Threads>(
        &'a self,
        threads: &'a T,
    ) -> Option<HelperInside<'a, T>> {
        if !self.steps().is_multiple_of(2) {
            return None;
        }
        self.helper.0.swap(HERE, Ordering::Relaxed);
        threads.pass_barrier();
        let helper = HelperInside { entry_lock: self, threads };
        // Either the program sees the helper's state and waits, or this load sees the program
        // inside.
        self.steps.0.load(Ordering::Acquire).is_multiple_of(2).then_some(helper)
    }
}

/// Orders the program's earlier accesses before its later ones: for its own processor, and for a
/// helper on another one, which makes every thread pass a barrier.
#[inline(always)]
fn light_barrier() {
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    // Loom does not model a barrier that one thread imposes on another, so here each thread passes
    // its own.
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

impl ProgramInside<'_> {
    /// Whether this is an outermost entry: the program was outside before, and `condition` was
    /// true.
    #[inline(always)]
    pub fn is_outermost(&self) -> bool {
        self.after.is_multiple_of(2)
    }
}

impl Drop for ProgramInside<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_outermost() {
            self.entry_lock.steps.0.store(self.after, Ordering::Release);
        }
    }
}

impl<'a, T: Threads> HelperInside<'a, T> {
    /// Whether the program waits for the helper to leave.
    pub fn is_awaited(&self) -> bool {
        !self.entry_lock.steps().is_multiple_of(2)
    }

    /// Lets the helper rest; returns none if the program waits for it to leave.
    pub fn rest(self) -> Option<RestingAdmission<'a, T>> {
        let HelperInside { entry_lock, threads } = self;
        let (given, seen) = (Ordering::Release, Ordering::Relaxed);
        entry_lock.helper.0.compare_exchange(HERE, RESTING, given, seen).ok()?;
        std::mem::forget(self);
        Some(RestingAdmission { entry_lock, threads })
    }
}

impl<'a, T: Threads> RestingAdmission<'a, T> {
    /// Continues as the helper inside; returns none if the program has entered meanwhile.
    pub fn resume(self) -> Option<HelperInside<'a, T>> {
        let RestingAdmission { entry_lock, threads } = self;
        std::mem::forget(self);
        let (taken, seen) = (Ordering::Acquire, Ordering::Relaxed);
        entry_lock.helper.0.compare_exchange(RESTING, HERE, taken, seen).ok()?;
        // No new barrier is needed: since the barrier of this helper's entry, each entry of the
        // program has seen the helper's state.
        Some(HelperInside { entry_lock, threads })
    }
}

impl<T: Threads> Drop for RestingAdmission<'_, T> {
    fn drop(&mut self) {
        let (given, seen) = (Ordering::Release, Ordering::Relaxed);
        let _ = self.entry_lock.helper.0.compare_exchange(RESTING, AWAY, given, seen);
    }
}

impl<T: Threads> Drop for HelperInside<'_, T> {
    fn drop(&mut self) {
        if self.entry_lock.helper.0.swap(AWAY, Ordering::Release) == AWAITED {
            self.threads.wake(&self.entry_lock.helper.0);
        }
    }
}

impl fmt::Debug for EntryLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EntryLock({} steps)", self.steps())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, fence};
    use std::thread;

    /// Behaves like the system, except that the program passes its barrier itself (see `enter`).
    struct Here;

    static TIME: AtomicU64 = AtomicU64::new(0);

    impl Threads for Here {
        fn pass_barrier(&self) {
            fence(Ordering::SeqCst);
        }

        fn sleep(&self, _: &AtomicU32, _: u32) {
            thread::yield_now();
        }

        fn wake(&self, _: &AtomicU32) {}

        fn wake_one(&self, _: &AtomicU32) {}

        fn pass_core(&self) {}

        fn now(&self) -> u64 {
            TIME.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn calls_inside_calls_are_one_visit() {
        let entry_lock = EntryLock::default();
        let outer = entry_lock.enter(&Here);
        drop(entry_lock.enter(&Here));
        assert!(entry_lock.try_enter_as_helper(&Here).is_none());
        drop(outer);
        assert_eq!(entry_lock.steps(), 2);
        assert!(entry_lock.try_enter_as_helper(&Here).is_some());
    }

    #[test]
    fn the_program_waits_for_a_helper_that_is_inside() {
        let (entry_lock, left) = (EntryLock::default(), AtomicBool::new(false));
        let helper = entry_lock.try_enter_as_helper(&Here).expect("no thread is inside");
        thread::scope(|scope| {
            scope.spawn(|| {
                let _visit = entry_lock.enter(&Here);
                assert!(left.load(Ordering::Acquire));
            });
            while !helper.is_awaited() {
                thread::yield_now();
            }
            left.store(true, Ordering::Release);
            drop(helper);
        });
    }

    #[test]
    fn the_program_revokes_the_admission_of_a_resting_helper() {
        let entry_lock = EntryLock::default();
        let rest = || {
            entry_lock
                .try_enter_as_helper(&Here)
                .and_then(HelperInside::rest)
                .expect("no thread is inside")
        };
        assert!(rest().resume().is_some());
        let resting = rest();
        drop(entry_lock.enter(&Here));
        assert!(resting.resume().is_none());
        drop(rest());
        assert_eq!(entry_lock.helper.0.load(Ordering::Relaxed), AWAY);
    }

    #[test]
    fn the_program_sees_how_long_it_was_away() {
        let entry_lock = EntryLock::default();
        for (time, absences) in [(ABSENCE, 0), (ABSENCE + 1, 1)] {
            TIME.store(0, Ordering::Relaxed);
            let visit = entry_lock.enter(&Here);
            entry_lock.record_exit_time(&Here);
            drop(visit);
            TIME.store(time, Ordering::Relaxed);
            drop(entry_lock.enter(&Here));
            drop(entry_lock.enter(&Here));
            assert_eq!(entry_lock.absences(), absences);
        }
    }
}

/// All interleavings: `RUSTFLAGS='--cfg loom' cargo test -p progress --lib --release models`.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    struct Model;

    impl Threads for Model {
        fn pass_barrier(&self) {
            loom::sync::atomic::fence(Ordering::SeqCst);
        }

        fn sleep(&self, _: &AtomicU32, _: u32) {
            thread::yield_now();
        }

        fn wake(&self, _: &AtomicU32) {}

        fn wake_one(&self, _: &AtomicU32) {}

        fn pass_core(&self) {}
    }

    struct House {
        entry_lock: EntryLock,
        inside: UnsafeCell<u32>,
    }

    impl House {
        fn new() -> Self {
            let (steps, helper) =
                (ProgramLine(AtomicU32::new(0)), ProgramLine(AtomicU32::new(AWAY)));
            let (exit_time, absences) = (AtomicU64::new(0), AtomicU32::new(0));
            Self {
                entry_lock: EntryLock { steps, helper, exit_time, absences },
                inside: UnsafeCell::new(0),
            }
        }

        /// Called by the program or the helper while it is inside.
        fn change(&self) {
            // SAFETY: loom reports two threads that are inside at the same time.
            self.inside.with_mut(|inside| unsafe { *inside += 1 });
        }
    }

    #[test]
    fn program_and_helper_exclude_each_other() {
        loom::model(|| {
            let house = Arc::new(House::new());
            let other = Arc::clone(&house);
            let helper = thread::spawn(move || {
                if let Some(_helper) = other.entry_lock.try_enter_as_helper(&Model) {
                    other.change();
                }
            });
            for _ in 0..2 {
                let _visit = house.entry_lock.enter(&Model);
                house.change();
            }
            helper.join().unwrap();
        });
    }

    #[test]
    fn program_and_resumed_helper_exclude_each_other() {
        loom::model(|| {
            let house = Arc::new(House::new());
            let other = Arc::clone(&house);
            let helper = thread::spawn(move || {
                let Some(helper) = other.entry_lock.try_enter_as_helper(&Model) else { return };
                other.change();
                if let Some(_helper) = helper.rest().and_then(RestingAdmission::resume) {
                    other.change();
                }
            });
            for note in [true, false] {
                let _visit = house.entry_lock.enter(&Model);
                house.change();
                if note {
                    house.entry_lock.record_exit_time(&Model);
                }
            }
            helper.join().unwrap();
        });
    }
}
