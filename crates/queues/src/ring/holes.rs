//! Holes: lines of a ring that a sender has reserved, and never publishes because its process has
//! ended.
//!
//! Only the sender knows how many lines a reservation has before it is published. For the case that
//! it ends there, three things are recorded, none of which costs an access to a cache line that the
//! sender would not use otherwise:
//!
//! - The tail's word has the length of the last reservation beside the position.
//! - The header of each packet has the length of the reservation before it, which its sender has
//!   found in the tail's word. So the consumer can go back from the tail, from one reservation to
//!   the one before it.
//! - Before a sender replaces the tail's word, it stores the word that it is going to replace in a
//!   [slot](SenderSlot) of its own. So the slots show whose the reservation at a position can be,
//!   and what the missing header would have said: the tail has each position once, and with it one
//!   length.
//!
//! Several slots may have the position of a hole, if their senders tried to reserve it at a time.
//! The hole is skipped as soon as the processes of all of them have ended. A sender that lives and
//! has lost tries again, which changes its slot; if it has won, it publishes.

use super::{Consumer, LAST_BITS, Tail};
use crate::primitive::{AtomicU32, AtomicU64, Ordering};

/// What one sender to a ring has begun, in memory that it shares with the consumer. All zero while
/// it is free. Senders that push often should have slots in different cache lines.
#[derive(Debug)]
#[repr(C, align(16))]
pub struct SenderSlot {
    /// The id of the sender's process; 0: the slot is free.
    process: AtomicU32,
    /// The tail's word that the sender replaces or last tried to replace, and `ATTEMPT`.
    attempt: AtomicU64,
}

/// Distinguishes attempts from the zero of an unused slot. The length of a reservation is below.
const ATTEMPT: u64 = 1 << (LAST_BITS - 1);

impl Default for SenderSlot {
    fn default() -> Self {
        Self { process: AtomicU32::new(0), attempt: AtomicU64::new(0) }
    }
}

impl SenderSlot {
    /// Claims the slot for a sender in the process `process`, if it is free.
    pub fn claim(&self, process: u32) -> bool {
        let (done, seen) = (Ordering::AcqRel, Ordering::Relaxed);
        self.process.compare_exchange(0, process, done, seen).is_ok()
    }

    /// Gives the slot back. Called by its sender, which pushes nothing more.
    pub fn release(&self) {
        self.attempt.store(0, Ordering::Release);
        self.process.store(0, Ordering::Release);
    }

    /// The process of the sender; 0 if the slot is free.
    pub fn process(&self) -> u32 {
        self.process.load(Ordering::Acquire)
    }

    /// Frees the slot of a sender whose process `process` has ended, unless its last attempt may be
    /// at one of the lines from `head` on: then the consumer may still need it. Returns whether the
    /// slot is free now.
    pub fn free(&self, process: u32, head: u64) -> bool {
        let is_passed = self.attempt().is_none_or(|tail| tail.position() < head);
        let (done, seen) = (Ordering::AcqRel, Ordering::Relaxed);
        is_passed && self.process.compare_exchange(process, 0, done, seen).is_ok()
    }

    /// Records that the sender is going to replace the word `tail`. Release: a consumer that sees
    /// this also sees the header that the sender has published before.
    #[inline]
    pub(super) fn begin(&self, tail: Tail) {
        self.attempt.store(tail.0 | ATTEMPT, Ordering::Release);
    }

    /// Records that the sender has reserved nothing and does not try again.
    pub(super) fn end(&self) {
        self.attempt.store(0, Ordering::Release);
    }

    fn attempt(&self) -> Option<Tail> {
        let word = self.attempt.load(Ordering::Acquire);
        (word & ATTEMPT != 0).then_some(Tail(word & !ATTEMPT))
    }
}

impl Consumer {
    /// Lines passed since the beginning.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Whether the next lines are reserved and not published. Reads the tail, which senders modify.
    pub fn awaits_sender(&self) -> bool {
        self.is_empty() && self.tail().position() > self.head
    }

    /// Returns how many of the next lines were reserved by a sender whose process has ended, and
    /// are not published; none if the next lines are published or free, or may still be published.
    ///
    /// `slots` are the slots of all senders that have ever pushed, except for those that were given
    /// back or freed. `has_ended` is called for processes whose senders may have reserved the
    /// lines.
    pub fn find_hole<'a>(
        &self,
        slots: impl Iterator<Item = &'a SenderSlot> + Clone,
        mut has_ended: impl FnMut(u32) -> bool,
    ) -> Option<u64> {
        let tail = self.tail();
        if tail.position() <= self.head || !self.is_empty() {
            return None;
        }
        // The sender of these lines has stored its slot before it moved the tail.
        let at_head = slots.clone().filter(|slot| position_of(slot) == Some(self.head));
        let mut candidates = 0;
        for slot in at_head {
            if !has_ended(slot.process()) {
                return None;
            }
            candidates += 1;
        }
        // A sender that has published them meanwhile may have used its slot again: looked at after
        // the slots.
        if candidates == 0 || !self.is_empty() {
            return None;
        }
        Some(self.reservation_end(tail, slots)? - self.head)
    }

    /// Passes the lines of a hole that [`find_hole`](Self::find_hole) has just found.
    pub fn skip_hole(&mut self, lines: u64) {
        self.pass(lines);
    }

    fn tail(&self) -> Tail {
        // Acquire: the slots of all senders that have moved the tail.
        Tail(self.place.control().tail.load(Ordering::Acquire))
    }

    /// Finds the end of the reservation that begins at the head, going back from the tail. None if
    /// a sender is about to publish one of those in between, or has damaged it.
    fn reservation_end<'a>(
        &self,
        mut tail: Tail,
        slots: impl Iterator<Item = &'a SenderSlot> + Clone,
    ) -> Option<u64> {
        loop {
            let end = tail.position();
            let first = end.checked_sub(tail.last()).filter(|first| *first >= self.head)?;
            if first == self.head {
                return (end > first).then_some(end);
            }
            let before = self.last_before(first, slots.clone()).filter(|before| *before > 0)?;
            tail = Tail(first << LAST_BITS | before);
        }
    }

    /// The length of the reservation before that which begins with the line `first`.
    fn last_before<'a>(
        &self,
        first: u64,
        slots: impl Iterator<Item = &'a SenderSlot> + Clone,
    ) -> Option<u64> {
        let in_header = || self.place.published(first).map(|header| header.before());
        let in_slot = || {
            let attempts = slots.clone().filter_map(SenderSlot::attempt);
            attempts.filter(|tail| tail.position() == first).map(Tail::last).next()
        };
        // A sender publishes its header before it uses its slot again.
        in_header().or_else(in_slot).or_else(in_header)
    }
}

fn position_of(slot: &SenderSlot) -> Option<u64> {
    slot.attempt().map(Tail::position)
}

#[cfg(all(test, not(loom)))]
mod tests;
