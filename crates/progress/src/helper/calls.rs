//! The calls by which the program wakes its helper.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use super::Core;
use crate::system::WaitingSystem;

/// The state that the program and its helper share, besides the entry lock.
#[derive(Debug)]
pub struct HelperCalls {
    /// The word on which the helper sleeps while it pauses: how the helper rests, and so whether
    /// and how a call wakes it.
    rest: AtomicU32,
    /// The number of calls to ignore, unless the program stays away after one of them.
    ignored: AtomicU32,
    /// The program's count of long absences at its last call.
    absences: AtomicU32,
    /// Whether the helper works on a core of its own.
    has_core: AtomicBool,
    /// Whether the helper must end.
    ends: AtomicBool,
    /// The number of the program's threads that sleep in a wait.
    sleepers: AtomicU32,
}

/// The process that needs the progress for which the helper is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Other processes may wait for it.
    OfOthers,
    /// The program alone needs it, and makes it itself when it waits. It is worth waking a helper
    /// that has a free core.
    OfProgram,
}

/// What a program that calls its helper must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Nothing: the helper checks by itself, or is not needed.
    Nothing,
    /// Wake the helper by [`HelperCalls::wake`].
    Wake,
    /// Record the time of its exit, to measure whether it then stays away for long.
    RecordExitTime,
}

/// The helper is at work, or checks soon by itself.
const ATTENTIVE: u32 = 0;
/// The helper sleeps until its next check, or until a call.
const PAUSING: u32 = 1;
/// The helper sleeps until something arrives, or until a call. The program may have entered and
/// left meanwhile.
const LISTENING: u32 = 2;
/// The helper sleeps as long as a thread of the program sleeps in a wait, or until a call.
const RESTING: u32 = 3;

impl Default for HelperCalls {
    fn default() -> Self {
        Self::new()
    }
}

impl HelperCalls {
    /// Creates the state before there is a helper.
    pub const fn new() -> Self {
        Self {
            rest: AtomicU32::new(ATTENTIVE),
            ignored: AtomicU32::new(0),
            absences: AtomicU32::new(0),
            has_core: AtomicBool::new(false),
            ends: AtomicBool::new(false),
            sleepers: AtomicU32::new(0),
        }
    }

    /// Records that a helper on core `core` begins.
    pub(super) fn begin(&self, core: Core) {
        self.has_core.store(core == Core::Own, Ordering::Relaxed);
    }

    /// Allows a helper to run, until [`end`](Self::end) is called.
    pub fn allow(&self) {
        self.ends.store(false, Ordering::Relaxed);
    }

    /// Ends the helper; `ring` rings the doorbell on which it may sleep.
    pub fn end(&self, kernel: &impl WaitingSystem, ring: impl FnOnce()) {
        self.ends.store(true, Ordering::SeqCst);
        self.wake(kernel, ring);
    }

    /// Whether the helper must end.
    pub fn has_ended(&self) -> bool {
        self.ends.load(Ordering::SeqCst)
    }

    /// Returns what the program must do after it has begun something large and may leave the
    /// library for long. `absences` counts its long absences after recorded exits so far.
    pub fn call(&self, need: Need, absences: u32) -> Reaction {
        let is_spared = need == Need::OfProgram && !self.has_core.load(Ordering::Relaxed);
        if is_spared || self.rest.load(Ordering::Relaxed) == ATTENTIVE {
            return Reaction::Nothing;
        }
        if self.absences.swap(absences, Ordering::Relaxed) != absences {
            self.ignore(0);
        }
        match self.ignored.load(Ordering::Relaxed) {
            0 => Reaction::Wake,
            left => {
                self.ignore(left - 1);
                Reaction::RecordExitTime
            }
        }
    }

    /// Wakes the helper; `ring` rings the doorbell on which it may sleep.
    pub fn wake(&self, kernel: &impl WaitingSystem, ring: impl FnOnce()) {
        match self.rest.swap(ATTENTIVE, Ordering::SeqCst) {
            PAUSING | RESTING => kernel.wake_one(&self.rest),
            LISTENING => ring(),
            _ => {}
        }
    }

    /// Records that a thread of the program sleeps in a wait, which makes all progress until it
    /// ends.
    pub fn begin_sleeps(&self) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
    }

    /// Records that the wait of such a thread has ended, and ends the rest of the helper.
    pub fn end_sleeps(&self, kernel: &impl WaitingSystem) {
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        let (order, failure) = (Ordering::SeqCst, Ordering::SeqCst);
        if self.rest.compare_exchange(RESTING, PAUSING, order, failure).is_ok() {
            kernel.wake_one(&self.rest);
        }
    }

    pub(super) fn ignore(&self, calls: u32) {
        self.ignored.store(calls, Ordering::Relaxed);
    }

    /// Sleeps for `longest` at most, or as long as a thread of the program sleeps in a wait;
    /// returns whether the program called.
    pub(super) fn pause(&self, kernel: &impl WaitingSystem, longest: Duration) -> bool {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            return self.rest(RESTING, || {
                // Of this load and that of `rest` at the end of a wait, the later one sees the
                // other side's store.
                if self.sleepers.load(Ordering::SeqCst) > 0 {
                    kernel.sleep(&self.rest, RESTING);
                }
            });
        }
        self.rest(PAUSING, || kernel.sleep_at_most(&self.rest, PAUSING, longest))
    }

    /// Sleeps by `sleep`, which waits for the doorbell; returns whether the program called.
    pub(super) fn listen(&self, sleep: impl FnOnce()) -> bool {
        self.rest(LISTENING, sleep)
    }

    /// Sleeps in state `how`, so that a call can end the sleep; returns whether the program called.
    fn rest(&self, how: u32, sleep: impl FnOnce()) -> bool {
        self.rest.store(how, Ordering::SeqCst);
        if !self.has_ended() {
            sleep();
        }
        self.rest.swap(ATTENTIVE, Ordering::SeqCst) == ATTENTIVE
    }
}
