//! The slots of a team for its constructs that share work: loops, sections, and single with
//! copyprivate. Threads may be some constructs ahead of others, so there are several slots.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::loops::Iterations;
use crate::own::{Own, OwnLine};
use crate::reductions::Private;
use crate::waiting::WaitEvent;

/// How many constructs a thread can be ahead of the slowest one of its team.
pub const SLOTS: u32 = 8;

/// What a construct shares among the threads of a team.
#[derive(Default)]
pub struct Slot {
    /// The number of the construct, thrice, plus 0 if the slot is free for it, 1 if the first
    /// thread prepares it, 2 if it is ready.
    state: AtomicU32,
    left: OwnLine<AtomicU32>,
    changed: WaitEvent,
    /// The next iteration that no thread has.
    pub next: OwnLine<AtomicU64>,
    /// The iteration whose ordered region is next.
    pub ordered: AtomicU64,
    pub turns: WaitEvent,
    /// How many numbers an iteration of such a loop has.
    pub depth: AtomicU64,
    pub iterations: Own<Iterations>,
    /// What a loop with `ordered(n)` has finished: for each chunk, the number of its last iteration
    /// that was posted, plus one.
    pub posted: Own<Vec<AtomicU64>>,
    /// Whether the construct is cancelled.
    pub is_cancelled: AtomicBool,
    pub private: Own<Option<Private>>,
    /// Memory that the threads of a construct share, in words.
    pub memory: Own<Vec<u128>>,
}

/// The numbers of constructs wrap around here, a multiple of [`SLOTS`]; their states fit.
const NUMBERS: u32 = 1 << 30;

/// The number of the construct after so many others.
pub fn number_after(number: u32, more: u32) -> u32 {
    (number + more) % NUMBERS
}

impl Slot {
    /// The slot at this place, before any construct.
    pub fn at(place: u32) -> Self {
        Self { state: AtomicU32::new(place * 3), ..Self::default() }
    }

    /// Makes a slot free for construct `number` while no thread is in a construct: those of a
    /// cancelled region are left by some threads only.
    pub fn reset(&self, number: u32) {
        self.left.store(0, Ordering::Relaxed);
        self.next.store(0, Ordering::Relaxed);
        self.ordered.store(0, Ordering::Relaxed);
        self.is_cancelled.store(false, Ordering::Relaxed);
        self.state.store(number * 3, Ordering::SeqCst);
    }

    /// Enters construct `number`. True for the first thread, which must prepare it and then call
    /// [`Slot::ready`].
    pub fn enter(&self, number: u32) -> bool {
        let free = number * 3;
        loop {
            let state = self.state.load(Ordering::Acquire);
            if state == free + 2 {
                return false;
            }
            if state == free {
                let taken = self.state.compare_exchange(
                    free,
                    free + 1,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                );
                if taken.is_ok() {
                    return true;
                }
                continue;
            }
            self.changed.wait_until(|| self.state.load(Ordering::SeqCst) != state);
        }
    }

    /// The construct is prepared: the other threads may enter.
    pub fn ready(&self, number: u32) {
        self.state.store(number * 3 + 2, Ordering::SeqCst);
        self.changed.notify_all();
    }

    /// Leaves construct `number`; the last thread of the team frees the slot.
    pub fn leave(&self, number: u32, threads: u32) {
        if self.left.fetch_add(1, Ordering::AcqRel) + 1 == threads {
            self.left.store(0, Ordering::Relaxed);
            self.ordered.store(0, Ordering::Relaxed);
            self.is_cancelled.store(false, Ordering::Relaxed);
            self.state.store(number_after(number, SLOTS) * 3, Ordering::SeqCst);
            self.changed.notify_all();
        }
    }
}
