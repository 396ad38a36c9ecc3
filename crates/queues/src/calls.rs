//! Calls: requests for a process's service, one bit for each thing that it serves.
//!
//! A caller sets the bit of the thing, then the bit of the word with that bit, then the bit of the
//! group with that word. The owner clears them in the opposite order, and then serves what it has
//! cleared. A bit that is set again after it was cleared makes the owner look once more.
//!
//! No caller needs anything that another caller does: each sets all three bits, even if they seem
//! to be set. So a caller whose process is killed between two of these steps delays nothing but
//! its own call. A call that is repeated before it is served counts once, so calls never exceed
//! the memory.
//!
//! Why: docs/internals/decisions/0128-a-killed-process-leaves-nothing-to-wait-for.md

use crate::primitive::{AtomicU64, Ordering};

/// The number of bits of a word that are used.
const BITS: usize = if cfg!(loom) { 2 } else { 64 };

const GROUPS: usize = if cfg!(loom) { 2 } else { 32 };

/// The number of things that can be served.
pub const PLACES: usize = GROUPS * BITS * BITS;

/// The calls for one process, in memory that it shares with its callers. All zero in the
/// beginning.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Calls {
    /// A bit for each group.
    called: AtomicU64,
    _keep_apart: [u64; 7],
    /// A bit for each word.
    groups: [AtomicU64; GROUPS],
    /// A bit for each place.
    words: [AtomicU64; GROUPS * BITS],
}

impl Calls {
    /// Requests the owner's service for a place. The caller then wakes the owner.
    ///
    /// # Panics
    /// If `place` is not below [`PLACES`].
    #[inline]
    pub fn call(&self, place: usize) {
        self.steps(place).into_iter().for_each(set);
    }

    /// Whether there are calls.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.called.load(Ordering::Relaxed) != 0
    }

    /// The bits that a caller sets, in this order.
    #[inline]
    fn steps(&self, place: usize) -> [(&AtomicU64, u64); 3] {
        let (word, group) = (place / BITS, place / BITS / BITS);
        [
            (&self.words[word], 1 << (place % BITS)),
            (&self.groups[group], 1 << (word % BITS)),
            (&self.called, 1 << group),
        ]
    }
}

/// Both orders: what the caller wrote before is visible to an owner that clears the bit; and a
/// caller that comes after the owner has cleared this bit also comes after it has cleared the next
/// ones, so that they stay set.
#[inline]
fn set((word, bit): (&AtomicU64, u64)) {
    word.fetch_or(bit, Ordering::AcqRel);
}

fn clear(word: &AtomicU64) -> u64 {
    word.swap(0, Ordering::AcqRel)
}

/// What the owner has cleared and not served yet.
#[derive(Debug, Default)]
pub struct TakenCalls {
    groups: Taken,
    words: Taken,
    places: Taken,
    /// Whether groups were taken, and the end of these calls was not reported.
    is_underway: bool,
}

/// Bits of a word, and the number of the first bit.
#[derive(Debug, Default)]
struct Taken {
    bits: u64,
    first: usize,
}

impl Taken {
    fn next(&mut self) -> Option<usize> {
        let bit = self.bits.trailing_zeros() as usize;
        let found = (self.bits != 0).then_some(self.first + bit);
        self.bits &= self.bits.wrapping_sub(1);
        found
    }
}

impl TakenCalls {
    /// Called by the owner: returns a place for which its service was requested. None when all
    /// calls are served that there were when the last call of this function returned none: other
    /// processes that call all the time must not keep the owner here.
    pub fn next(&mut self, calls: &Calls) -> Option<usize> {
        loop {
            if let Some(place) = self.places.next() {
                return Some(place);
            }
            if let Some(word) = self.words.next() {
                self.places = Taken { bits: clear(&calls.words[word]), first: word * BITS };
            } else if let Some(group) = self.groups.next() {
                self.words = Taken { bits: clear(&calls.groups[group]), first: group * BITS };
            } else if std::mem::take(&mut self.is_underway) || !calls.is_any() {
                return None;
            } else {
                self.is_underway = true;
                self.groups = Taken { bits: clear(&calls.called), first: 0 };
                // A process that breaks the protocol may set others.
                self.groups.bits &= u64::MAX >> (u64::BITS as usize - GROUPS);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn calls() -> Calls {
        Calls {
            called: AtomicU64::new(0),
            _keep_apart: [0; 7],
            groups: std::array::from_fn(|_| AtomicU64::new(0)),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Serves all calls.
    fn served(calls: &Calls) -> Vec<usize> {
        let mut taken = TakenCalls::default();
        let all = std::iter::from_fn(|| taken.next(calls)).collect();
        assert!(!calls.is_any());
        all
    }

    proptest! {
        #[test]
        fn calls_of_killed_processes_hold_up_no_others(
            callers in proptest::collection::vec((0..PLACES, 0..=3_usize), 0..200),
        ) {
            let calls = calls();
            let mut expected = BTreeSet::new();
            for (place, steps) in &callers {
                // Some are killed before the first step, or after a later one.
                calls.steps(*place).into_iter().take(*steps).for_each(set);
                expected.extend((*steps == 3).then_some(*place));
            }
            let served = served(&calls);
            let once: BTreeSet<usize> = served.iter().copied().collect();
            prop_assert_eq!(once.len(), served.len(), "each is served once");
            prop_assert!(once.is_superset(&expected));
            let called: BTreeSet<usize> = callers.iter().map(|(place, _)| *place).collect();
            prop_assert!(once.is_subset(&called));
        }
    }

    #[test]
    fn any_number_of_calls_is_served() {
        let calls = calls();
        for _ in 0..3 {
            (0..PLACES).for_each(|place| calls.call(place));
            (0..PLACES).for_each(|place| calls.call(place));
            assert_eq!(served(&calls), (0..PLACES).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_process_that_calls_all_the_time_keeps_the_owner_only_for_a_while() {
        let (calls, mut taken) = (calls(), TakenCalls::default());
        calls.call(7);
        assert_eq!(taken.next(&calls), Some(7));
        calls.call(7);
        assert_eq!(taken.next(&calls), None);
        assert_eq!(taken.next(&calls), Some(7));
        calls.called.fetch_or(u64::MAX, Ordering::Relaxed);
        assert_eq!([taken.next(&calls), taken.next(&calls)], [None; 2]);
    }
}

/// All interleavings: `RUSTFLAGS='--cfg loom' cargo test -p queues --lib --release models`.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    fn calls() -> Arc<Calls> {
        Arc::new(Calls {
            called: AtomicU64::new(0),
            _keep_apart: [0; 7],
            groups: std::array::from_fn(|_| AtomicU64::new(0)),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        })
    }

    /// A process is killed after so many steps of a call; another one calls at the same time.
    fn check(steps: usize, [killed, other]: [usize; 2]) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let calls = calls();
            let shared = Arc::clone(&calls);
            let first = thread::spawn(move || {
                shared.steps(killed).into_iter().take(steps).for_each(set);
            });
            let shared = Arc::clone(&calls);
            let second = thread::spawn(move || shared.call(other));
            let (mut taken, mut is_served) = (TakenCalls::default(), false);
            while !is_served {
                match taken.next(&calls) {
                    Some(place) => is_served = place == other,
                    None => thread::yield_now(),
                }
            }
            first.join().unwrap();
            second.join().unwrap();
        });
    }

    #[test]
    fn a_process_that_is_killed_in_a_call_holds_up_no_other() {
        for steps in 0..=3 {
            // In one word, in one group, and in different groups.
            for places in [[0, 1], [1, 2], [0, 5]] {
                check(steps, places);
            }
        }
    }
}
