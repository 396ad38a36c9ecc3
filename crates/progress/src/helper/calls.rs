//! What the program says to its helper, and how it wakes it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use super::Core;
use crate::waiting::WaitingSystem;

/// What the program and its helper share besides the door.
#[derive(Debug)]
pub struct HelperCalls {
    /// How the helper rests, and what it sleeps on while it pauses: whether, and how, a call wakes
    /// it.
    rest: AtomicU32,
    /// So many calls are ignored, unless the program stays away after one.
    ignored: AtomicU32,
    /// How often it had stayed away when it called last.
    absences: AtomicU32,
    /// The helper works on a core of its own.
    has_core: AtomicBool,
    /// The helper shall end.
    ends: AtomicBool,
}

/// Who needs what the helper is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Others may wait for it.
    OfOthers,
    /// The program alone, which has it in any case when it waits: worth a core that is free.
    OfProgram,
}

/// What a program that calls does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Nothing: the helper looks by itself.
    Nothing,
    /// [`HelperCalls::wake`].
    Wake,
    /// It leaves itself a note at the door, to see whether it is away for long.
    LeaveNote,
}

/// The helper is at work, or looks soon by itself.
const ATTENTIVE: u32 = 0;
/// The helper sleeps until its next look, or a call.
const PAUSING: u32 = 1;
/// The helper sleeps until something arrives, or a call: the program may have come and gone
/// meanwhile.
const LISTENING: u32 = 2;

impl Default for HelperCalls {
    fn default() -> Self {
        Self::new()
    }
}

impl HelperCalls {
    /// Before there is a helper.
    pub const fn new() -> Self {
        Self {
            rest: AtomicU32::new(ATTENTIVE),
            ignored: AtomicU32::new(0),
            absences: AtomicU32::new(0),
            has_core: AtomicBool::new(false),
            ends: AtomicBool::new(false),
        }
    }

    /// A helper on such a core begins.
    pub(super) fn begin(&self, core: Core) {
        self.has_core.store(core == Core::Own, Ordering::Relaxed);
    }

    /// There may be a helper, until [`end`](Self::end) is called.
    pub fn allow(&self) {
        self.ends.store(false, Ordering::Relaxed);
    }

    /// The helper shall end; `ring` rings the bell that it may listen to.
    pub fn end(&self, kernel: &impl WaitingSystem, ring: impl FnOnce()) {
        self.ends.store(true, Ordering::SeqCst);
        self.wake(kernel, ring);
    }

    /// Whether the helper shall end.
    pub fn has_ended(&self) -> bool {
        self.ends.load(Ordering::SeqCst)
    }

    /// The program has begun something large, and perhaps goes away now; so often it was away for
    /// long after it had left a note.
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
                Reaction::LeaveNote
            }
        }
    }

    /// Wakes the helper; `ring` rings the bell that it may listen to.
    pub fn wake(&self, kernel: &impl WaitingSystem, ring: impl FnOnce()) {
        match self.rest.swap(ATTENTIVE, Ordering::SeqCst) {
            PAUSING => kernel.wake_one(&self.rest),
            LISTENING => ring(),
            _ => {}
        }
    }

    pub(super) fn ignore(&self, calls: u32) {
        self.ignored.store(calls, Ordering::Relaxed);
    }

    /// Sleeps for so long at most; whether the program called.
    pub(super) fn pause(&self, kernel: &impl WaitingSystem, longest: Duration) -> bool {
        self.rest(PAUSING, || kernel.sleep_at_most(&self.rest, PAUSING, longest))
    }

    /// Sleeps until the bell rings; whether the program called.
    pub(super) fn listen(&self, sleep: impl FnOnce()) -> bool {
        self.rest(LISTENING, sleep)
    }

    /// Sleeps in a way that a call knows how to end.
    fn rest(&self, how: u32, sleep: impl FnOnce()) -> bool {
        self.rest.store(how, Ordering::SeqCst);
        if !self.has_ended() {
            sleep();
        }
        self.rest.swap(ATTENTIVE, Ordering::SeqCst) == ATTENTIVE
    }
}
