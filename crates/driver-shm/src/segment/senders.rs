//! The table of the senders to a process's ring, by which it finds out whose lines are missing.

use std::sync::atomic::{AtomicU32, Ordering};

use queues::ring::{Consumer, SenderSlot};
use sys::process;

/// How many senders a ring can have at a time so that the end of each is survived.
pub(crate) const SENDERS: usize = 4096;

/// The senders to a ring. All zero in a new segment.
#[repr(C, align(64))]
pub(crate) struct Senders {
    /// No slot from this index on was ever claimed.
    used: AtomicU32,
    /// 1 if there was a sender without a slot. Then lines that are missing may be its, and none are
    /// skipped.
    overflowed: AtomicU32,
    slots: [SenderSlot; SENDERS],
}

impl Senders {
    /// Claims a slot for a sender in the process `own`. If there is none, not even of an ended
    /// process, that is recorded. `head` returns how many lines the owner has surely passed.
    pub(crate) fn claim(&self, own: i32, head: impl FnOnce() -> u64) -> Option<&SenderSlot> {
        let own = own.cast_unsigned();
        let found = self.slots.iter().position(|slot| slot.process() == 0 && slot.claim(own));
        let found = found.or_else(|| {
            let head = head();
            let is_freed = |slot: &SenderSlot| {
                let owner = slot.process();
                process::has_ended(owner as i32) && slot.free(owner, head)
            };
            self.slots.iter().position(|slot| is_freed(slot) && slot.claim(own))
        });
        match found {
            // Release: an owner that sees a moved tail sees this, too.
            Some(place) => _ = self.used.fetch_max(place as u32 + 1, Ordering::Release),
            None => self.overflowed.store(1, Ordering::Release),
        }
        found.map(|place| &self.slots[place])
    }

    /// Called by the owner: frees the slots of a process that has ended.
    pub(crate) fn free(&self, process: i32, consumer: &Consumer) {
        for slot in self.used() {
            if slot.process() == process.cast_unsigned() {
                slot.free(process.cast_unsigned(), consumer.head());
            }
        }
    }

    /// Called by the owner: skips the next lines of its ring if a process that has ended had
    /// reserved them. Returns whether it had.
    #[cold]
    pub(crate) fn skip_hole(&self, consumer: &mut Consumer) -> bool {
        let hole = self.find_hole(consumer);
        hole.inspect(|lines| consumer.skip_hole(*lines)).is_some()
    }

    /// Called by the owner: whether a process that has ended had reserved the next lines of its
    /// ring. Takes one read, unless lines are reserved; then a system call for each sender that may
    /// have reserved them.
    pub(crate) fn has_hole(&self, consumer: &Consumer) -> bool {
        consumer.awaits_sender() && self.find_hole(consumer).is_some()
    }

    fn find_hole(&self, consumer: &Consumer) -> Option<u64> {
        if !consumer.awaits_sender() || self.overflowed.load(Ordering::Acquire) != 0 {
            return None;
        }
        consumer.find_hole(self.used(), |process| process::has_ended(process as i32))
    }

    fn used(&self) -> &[SenderSlot] {
        &self.slots[..SENDERS.min(self.used.load(Ordering::Acquire) as usize)]
    }
}
