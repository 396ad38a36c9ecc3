//! The door of the library, below the level at which threads call all at once.
//!
//! The program goes in and out with every call, and pays two plain stores and a look for it. While
//! it is outside, its helper may come in, which makes progress for it. The helper pays for
//! the barriers of both sides, by making all threads of the process pass one between what it says
//! and what it looks at. The program waits for a helper only while that is inside, or just looks
//! whether it may be; and it sleeps meanwhile, so that the helper gets the core.
//!
//! A helper that sleeps until something happens rests at the door: it goes on without another
//! barrier, unless the program has been inside meanwhile, which puts it out by one exchange.
//!
//! The program can leave a note for itself when it goes: then it sees how long it has been away.

use std::fmt;

use crate::primitive::{AtomicU32, AtomicU64, Ordering};

/// Who is inside: the program, or its helper, or nobody.
#[derive(Default)]
pub struct Door {
    /// Counts the program's steps over the threshold: odd while it is inside. Written by it alone.
    steps: ProgramLine<AtomicU32>,
    /// What the helper does. Written by the helper, and by a program that waits for it or leaves a
    /// note.
    helper: ProgramLine<AtomicU32>,
    /// The time at which the program left the last note, and how often it was away for long after
    /// one.
    noted: AtomicU64,
    absences: AtomicU32,
}

/// Keeps what the program writes with each call apart from what it only looks at.
#[derive(Default)]
#[repr(align(64))]
struct ProgramLine<T>(T);

/// What doors and locks need of the system.
pub trait Threads {
    /// Makes every thread of the process that runs pass a full memory barrier.
    fn pass_barrier(&self);

    /// Sleeps while the word is `expected`, or shorter.
    fn sleep(&self, word: &AtomicU32, expected: u32);

    /// Wakes all who sleep on the word.
    fn wake(&self, word: &AtomicU32);

    /// Wakes one of them.
    fn wake_one(&self, word: &AtomicU32);

    /// Lets others have the core.
    fn pass_core(&self);

    /// Nanoseconds since some moment; 0 where there is no clock.
    fn now(&self) -> u64 {
        0
    }
}

/// The helper is outside.
const AWAY: u32 = 0;
/// The helper is inside, or looks whether it may be.
const HERE: u32 = 1;
/// The same, and the program sleeps until it has left.
const AWAITED: u32 = 2;
/// The helper sleeps at the door, and has left nothing half done: the program may put it out.
const RESTING: u32 = 3;
/// There is no helper; the program has left itself a note.
const NOTED: u32 = 4;

/// A program that comes back after so many nanoseconds was away for long.
const ABSENCE: u64 = 20_000;

/// How often the program looks whether the helper has left before it sleeps.
const LOOKS: u32 = if cfg!(loom) { 1 } else { 200 };

/// The program is inside as long as this is there.
pub struct ProgramInside<'a> {
    door: &'a Door,
    /// The count of steps once it is over, which is even; else nothing happens then.
    after: u32,
}

/// The helper is inside as long as this is there.
pub struct HelperInside<'a, T: Threads> {
    door: &'a Door,
    threads: &'a T,
}

/// The helper rests at the door as long as this is there, unless the program puts it out.
pub struct HelperAtDoor<'a, T: Threads> {
    door: &'a Door,
    threads: &'a T,
}

impl Door {
    /// The program goes in. Functions of the program that the library calls may go in again.
    #[inline(always)]
    pub fn enter(&self, threads: &impl Threads) -> ProgramInside<'_> {
        self.enter_if(true, threads)
    }

    /// The same, if this is the door for it; otherwise nothing happens, now and when it leaves.
    #[inline(always)]
    pub fn enter_if(&self, condition: bool, threads: &impl Threads) -> ProgramInside<'_> {
        let steps = self.steps.0.load(Ordering::Relaxed);
        let is_outermost = condition && steps.is_multiple_of(2);
        if is_outermost {
            self.steps.0.store(steps.wrapping_add(1), Ordering::Relaxed);
            light_barrier();
            if self.helper.0.load(Ordering::Acquire) != AWAY {
                self.wait_for_guest(threads);
            }
        }
        ProgramInside { door: self, after: if is_outermost { steps.wrapping_add(2) } else { 1 } }
    }

    #[cold]
    fn wait_for_guest(&self, threads: &impl Threads) {
        for look in 0_u32.. {
            match self.helper.0.load(Ordering::Acquire) {
                AWAY => return,
                state @ (RESTING | NOTED) => {
                    let (taken, seen) = (Ordering::Acquire, Ordering::Relaxed);
                    let emptied = self.helper.0.compare_exchange(state, AWAY, taken, seen).is_ok();
                    if emptied && state == NOTED {
                        self.read_note(threads);
                    }
                }
                HERE if look < LOOKS => std::hint::spin_loop(),
                HERE => {
                    let order = Ordering::Relaxed;
                    let _ = self.helper.0.compare_exchange(HERE, AWAITED, order, order);
                }
                _ => threads.sleep(&self.helper.0, AWAITED),
            }
        }
    }

    /// The program, which is inside and has no helper, wants to know when it comes back.
    pub fn leave_note(&self, threads: &impl Threads) {
        self.noted.store(threads.now(), Ordering::Relaxed);
        let order = Ordering::Relaxed;
        // If there is a helper just now, that sees for itself that the program stays away.
        let _ = self.helper.0.compare_exchange(AWAY, NOTED, order, order);
    }

    fn read_note(&self, threads: &impl Threads) {
        if threads.now().saturating_sub(self.noted.load(Ordering::Relaxed)) > ABSENCE {
            self.absences.store(self.absences().wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// How often the program was away for more than 20 µs after it left a note.
    pub fn absences(&self) -> u32 {
        self.absences.load(Ordering::Relaxed)
    }

    /// How many steps over the threshold the program has made: odd while it is inside.
    pub fn steps(&self) -> u32 {
        self.steps.0.load(Ordering::Relaxed)
    }

    /// The helper goes in, unless the program is inside. There is one helper.
    pub fn try_enter_as_helper<'a, T: Threads>(
        &'a self,
        threads: &'a T,
    ) -> Option<HelperInside<'a, T>> {
        if !self.steps().is_multiple_of(2) {
            return None;
        }
        self.helper.0.swap(HERE, Ordering::Relaxed);
        threads.pass_barrier();
        let helper = HelperInside { door: self, threads };
        // Either the program saw the helper, and waits, or it is seen here.
        self.steps.0.load(Ordering::Acquire).is_multiple_of(2).then_some(helper)
    }
}

/// What the program did before comes before what it does next, for its own processor, and for a
/// helper's that makes it pass a barrier.
#[inline(always)]
fn light_barrier() {
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    // The checker knows no barrier that one thread makes another pass; so here each has its own.
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

impl ProgramInside<'_> {
    /// Whether the program was outside before, and passed this door.
    #[inline(always)]
    pub fn is_outermost(&self) -> bool {
        self.after.is_multiple_of(2)
    }
}

impl Drop for ProgramInside<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_outermost() {
            self.door.steps.0.store(self.after, Ordering::Release);
        }
    }
}

impl<'a, T: Threads> HelperInside<'a, T> {
    /// Whether the program waits outside for the helper to leave.
    pub fn is_awaited(&self) -> bool {
        !self.door.steps().is_multiple_of(2)
    }

    /// Rests at the door; none if the program waits outside.
    pub fn rest(self) -> Option<HelperAtDoor<'a, T>> {
        let HelperInside { door, threads } = self;
        let (given, seen) = (Ordering::Release, Ordering::Relaxed);
        door.helper.0.compare_exchange(HERE, RESTING, given, seen).ok()?;
        std::mem::forget(self);
        Some(HelperAtDoor { door, threads })
    }
}

impl<'a, T: Threads> HelperAtDoor<'a, T> {
    /// Goes on, unless the program has been inside meanwhile.
    pub fn resume(self) -> Option<HelperInside<'a, T>> {
        let HelperAtDoor { door, threads } = self;
        std::mem::forget(self);
        let (taken, seen) = (Ordering::Acquire, Ordering::Relaxed);
        door.helper.0.compare_exchange(RESTING, HERE, taken, seen).ok()?;
        // Since the barrier of its entry the program has found the helper there each time.
        Some(HelperInside { door, threads })
    }
}

impl<T: Threads> Drop for HelperAtDoor<'_, T> {
    fn drop(&mut self) {
        let (given, seen) = (Ordering::Release, Ordering::Relaxed);
        let _ = self.door.helper.0.compare_exchange(RESTING, AWAY, given, seen);
    }
}

impl<T: Threads> Drop for HelperInside<'_, T> {
    fn drop(&mut self) {
        if self.door.helper.0.swap(AWAY, Ordering::Release) == AWAITED {
            self.threads.wake(&self.door.helper.0);
        }
    }
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Door({} steps)", self.steps())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, fence};
    use std::thread;

    /// As the system would, but that the program pays for its barrier itself (see `enter`).
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
        let door = Door::default();
        let outer = door.enter(&Here);
        drop(door.enter(&Here));
        assert!(door.try_enter_as_helper(&Here).is_none());
        drop(outer);
        assert_eq!(door.steps(), 2);
        assert!(door.try_enter_as_helper(&Here).is_some());
    }

    #[test]
    fn the_program_waits_for_a_guest_that_is_inside() {
        let (door, left) = (Door::default(), AtomicBool::new(false));
        let helper = door.try_enter_as_helper(&Here).expect("nobody is inside");
        thread::scope(|scope| {
            scope.spawn(|| {
                let _visit = door.enter(&Here);
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
    fn a_guest_that_rests_is_put_out_by_the_program() {
        let door = Door::default();
        let rest = || {
            door.try_enter_as_helper(&Here).and_then(HelperInside::rest).expect("nobody is inside")
        };
        assert!(rest().resume().is_some());
        let resting = rest();
        drop(door.enter(&Here));
        assert!(resting.resume().is_none());
        drop(rest());
        assert_eq!(door.helper.0.load(Ordering::Relaxed), AWAY);
    }

    #[test]
    fn the_program_sees_how_long_it_was_away() {
        let door = Door::default();
        for (time, absences) in [(ABSENCE, 0), (ABSENCE + 1, 1)] {
            TIME.store(0, Ordering::Relaxed);
            let visit = door.enter(&Here);
            door.leave_note(&Here);
            drop(visit);
            TIME.store(time, Ordering::Relaxed);
            drop(door.enter(&Here));
            drop(door.enter(&Here));
            assert_eq!(door.absences(), absences);
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
        door: Door,
        inside: UnsafeCell<u32>,
    }

    impl House {
        fn new() -> Self {
            let (steps, helper) =
                (ProgramLine(AtomicU32::new(0)), ProgramLine(AtomicU32::new(AWAY)));
            let (noted, absences) = (AtomicU64::new(0), AtomicU32::new(0));
            Self { door: Door { steps, helper, noted, absences }, inside: UnsafeCell::new(0) }
        }

        /// By whoever is inside.
        fn change(&self) {
            // SAFETY: the checker finds whoever is inside at the same time.
            self.inside.with_mut(|inside| unsafe { *inside += 1 });
        }
    }

    #[test]
    fn nobody_meets_a_guest() {
        loom::model(|| {
            let house = Arc::new(House::new());
            let other = Arc::clone(&house);
            let helper = thread::spawn(move || {
                if let Some(_guest) = other.door.try_enter_as_helper(&Model) {
                    other.change();
                }
            });
            for _ in 0..2 {
                let _visit = house.door.enter(&Model);
                house.change();
            }
            helper.join().unwrap();
        });
    }

    #[test]
    fn nobody_meets_a_guest_that_rested() {
        loom::model(|| {
            let house = Arc::new(House::new());
            let other = Arc::clone(&house);
            let helper = thread::spawn(move || {
                let Some(helper) = other.door.try_enter_as_helper(&Model) else { return };
                other.change();
                if let Some(_guest) = helper.rest().and_then(HelperAtDoor::resume) {
                    other.change();
                }
            });
            for note in [true, false] {
                let _visit = house.door.enter(&Model);
                house.change();
                if note {
                    house.door.leave_note(&Model);
                }
            }
            helper.join().unwrap();
        });
    }
}
