//! How threads wait: a short spin if each thread has a core, then letting others run for a few
//! turns, then sleep.

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use sys::{cores, futex};

use crate::borrowing;
use crate::crews;
use crate::environment::{self, WaitPolicy};

/// How often a waiting thread looks between two turns, and after how many turns it sleeps:
/// together more than it takes to wake a thread, or threads that meet often would sleep each time.
/// After each turn it lets other threads have its core. Threads of a team that have the same core
/// meet so without sleeping, and the system sees that both want to run and gives them two; what
/// else wants to run gets the core.
const LOOKS_IN_TURN: u32 = 50;
pub const WAIT_TURNS_MAX: u32 = 100;

/// If threads outnumber cores, the awaited thread may need this core.
pub const CROWDED_TURNS_MAX: u32 = 40;

/// With `OMP_WAIT_POLICY=active`: some milliseconds.
const ACTIVE_TURNS_MAX: u32 = 10_000;

/// The threads of all open regions.
static BUSY: AtomicUsize = AtomicUsize::new(1);

/// Whether they outnumber the cores: apart from their number, which changes with each region.
static IS_CROWDED: AtomicBool = AtomicBool::new(false);

/// The threads of all open regions are so many, or the cores that this process may use have
/// changed.
fn note_crowd(threads: usize) {
    let is_crowded = threads > borrowing::usable_cores();
    if IS_CROWDED.load(Ordering::Relaxed) != is_crowded {
        IS_CROWDED.store(is_crowded, Ordering::Relaxed);
    }
}

/// Whether the threads of all open regions outnumber the cores.
pub fn is_crowded() -> bool {
    IS_CROWDED.load(Ordering::Relaxed)
}

/// This process may use more or fewer cores than before.
pub fn note_cores() {
    note_crowd(busy());
}

/// Counts threads that begin to work.
pub fn more_busy(count: usize) {
    let before = BUSY.fetch_add(count, Ordering::Relaxed);
    note_crowd(before + count);
    borrowing::note_busy(before + count);
}

/// Counts threads that have finished their work.
pub fn fewer_busy(count: usize) {
    let before = BUSY.fetch_sub(count, Ordering::Relaxed);
    note_crowd(before - count);
    borrowing::note_busy(before - count);
}

/// How many threads work now.
pub fn busy() -> usize {
    BUSY.load(Ordering::Relaxed)
}

/// Whether a condition comes to hold within a short time. A thread that is idle does not look any
/// more once the threads of open regions need all cores.
fn soon(mut condition: impl FnMut() -> bool, is_idle: impl Fn() -> bool) -> bool {
    let settings = environment::settings();
    let is_crowded = is_crowded();
    let (looks, turns) = match settings.wait_policy {
        WaitPolicy::Passive => (1, 1),
        WaitPolicy::Unset | WaitPolicy::Active if is_crowded => (1, CROWDED_TURNS_MAX),
        WaitPolicy::Unset => (LOOKS_IN_TURN, WAIT_TURNS_MAX),
        WaitPolicy::Active => (LOOKS_IN_TURN, ACTIVE_TURNS_MAX),
    };
    for turn in 0..turns {
        if turn > 0 {
            if busy() >= borrowing::usable_cores() && is_idle() {
                return condition();
            }
            cores::yield_now();
        }
        for _ in 0..looks {
            if condition() {
                return true;
            }
            hint::spin_loop();
        }
    }
    false
}

/// Something that threads wait for: any condition that other threads make true and then report.
#[derive(Default)]
pub struct WaitEvent {
    count: AtomicU32,
    sleepers: AtomicU32,
}

impl WaitEvent {
    /// Waits until the condition holds.
    pub fn wait_until(&self, condition: impl FnMut() -> bool) {
        self.wait_while_needed(condition, || false);
    }

    /// Waits until the condition holds; `is_idle` is whether the thread is in no open region.
    pub fn wait_while_needed(
        &self,
        mut condition: impl FnMut() -> bool,
        is_idle: impl Fn() -> bool,
    ) {
        if crews::wait(&mut condition) || soon(&mut condition, is_idle) {
            return;
        }
        loop {
            let seen = self.fall_asleep();
            let is_over = condition();
            if !is_over {
                borrowing::while_asleep(|| futex::wait(&self.count, seen, None));
            }
            self.wake_up();
            if is_over || condition() {
                return;
            }
        }
    }

    /// Announces that the caller sleeps unless it finds that what it waits for has happened.
    /// Returns the present count. [`WaitEvent::wake_up`] takes that back.
    pub fn fall_asleep(&self) -> u32 {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        self.count.load(Ordering::SeqCst)
    }

    /// Sleeps until a notice after [`WaitEvent::fall_asleep`], or for a time.
    pub fn sleep(&self, seen: u32, most: Duration) {
        futex::wait(&self.count, seen, Some(most));
    }

    pub fn wake_up(&self) {
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether a thread sleeps. A thread that is about to sleep sees what was stored (sequentially
    /// consistent) before this call, or is counted.
    pub fn has_sleepers(&self) -> bool {
        self.sleepers.load(Ordering::SeqCst) > 0
    }

    /// Reports that a condition may have become true, to so many sleepers.
    pub fn notify(&self, count: i32) {
        if self.has_sleepers() {
            self.count.fetch_add(1, Ordering::SeqCst);
            // It fails only for words that are not mapped.
            let _ = futex::wake(&self.count, count);
        }
    }

    pub fn notify_all(&self) {
        self.notify(i32::MAX);
    }
}

/// States of a lock.
const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

/// Takes a lock that is a word of the program's memory, zero at first.
pub fn lock(word: &AtomicU32) {
    let take = || word.load(Ordering::Relaxed) == FREE && try_lock(word);
    if !try_lock(word) && !crews::wait(take) {
        lock_on_kernel_thread(word);
    }
}

/// Takes a lock that is held for some instructions only. The thread does not give its turn to
/// others, which may want what it holds.
pub fn lock_briefly(word: &AtomicU32) {
    if !try_lock(word) {
        lock_on_kernel_thread(word);
    }
}

fn lock_on_kernel_thread(word: &AtomicU32) {
    let take = || word.load(Ordering::Relaxed) == FREE && try_lock(word);
    if soon(take, || false) {
        return;
    }
    while word.swap(AWAITED, Ordering::Acquire) != FREE {
        borrowing::while_asleep(|| futex::wait(word, AWAITED, None));
    }
}

/// Takes a lock if it is free.
pub fn try_lock(word: &AtomicU32) -> bool {
    word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// Takes a lock if it is free, for a program that tries again; otherwise lets the threads run that
/// take turns with the calling one.
pub fn try_lock_in_turn(word: &AtomicU32) -> bool {
    try_lock(word) || {
        crews::give_way();
        false
    }
}

/// Releases a lock.
pub fn unlock(word: &AtomicU32) {
    if word.swap(FREE, Ordering::Release) == AWAITED {
        // It fails only for words that are not mapped.
        let _ = futex::wake(word, 1);
    }
}
