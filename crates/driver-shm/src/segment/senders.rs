//! The table of the senders to a process's ring, by which it finds out whose lines are missing, and
//! which processes write its regions.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use queues::ring::{Consumer, LINE_BYTES, SenderSlot};
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
    /// Slot `n` is at `n / LINES` of line `n % LINES`: the first senders share no line.
    lines: [SlotLine; LINES],
    /// The region of the owner that each sender is writing, as its slot plus one; 0: none.
    writing: [AtomicU32; SENDERS],
}

/// How long a revocation waits for a writer before it checks whether its process has ended.
const WRITER_MAX: Duration = Duration::from_millis(1);

/// The slots of a cache line.
#[derive(Debug)]
#[repr(C, align(64))]
struct SlotLine([SenderSlot; SLOTS_PER_LINE]);

const SLOTS_PER_LINE: usize = LINE_BYTES / size_of::<SenderSlot>();

const LINES: usize = SENDERS / SLOTS_PER_LINE;

impl Senders {
    /// Claims a slot for a sender in the process `own`, and returns its index. If there is none,
    /// not even of an ended process, that is recorded. `head` returns how many lines the owner has
    /// surely passed.
    pub(crate) fn claim(&self, own: i32, head: impl FnOnce() -> u64) -> Option<usize> {
        let own = own.cast_unsigned();
        let is_claimed = |slot: &SenderSlot| slot.process() == 0 && slot.claim(own);
        let found = self.slots().position(is_claimed);
        let found = found.or_else(|| {
            let head = head();
            let is_freed = |slot: &SenderSlot| {
                let owner = slot.process();
                process::has_ended(owner as i32) && slot.free(owner, head)
            };
            self.slots().position(|slot| is_freed(slot) && slot.claim(own))
        });
        match found {
            Some(place) => {
                // An owner that sees a moved tail sees this, too. An owner that does not see this
                // when it has revoked a region revoked it before this sender looks for it.
                let used = self.used.fetch_max(place as u32 + 1, Ordering::SeqCst);
                // The last sender with this slot may have been killed while it wrote a region. For
                // the first one, the page is left alone: most processes write no regions.
                if (place as u32) < used {
                    self.writing[place].store(0, Ordering::Relaxed);
                }
            }
            None => self.overflowed.store(1, Ordering::Release),
        }
        found
    }

    /// Called by the sender with this slot, before it looks for a region to write: the owner
    /// completes no revocation of the region until [`end_writing`](Self::end_writing), or until the
    /// sender's process has ended.
    pub(crate) fn begin_writing(&self, place: usize, region: usize) {
        self.writing[place].store(region as u32 + 1, Ordering::SeqCst);
    }

    pub(crate) fn end_writing(&self, place: usize) {
        self.writing[place].store(0, Ordering::Release);
    }

    /// Called by the owner, which has marked a region as revoked: waits until no process writes it
    /// that has found it before.
    pub(crate) fn await_writers(&self, region: usize) {
        let region = region as u32 + 1;
        for (slot, writing) in self.used().zip(&self.writing) {
            if writing.load(Ordering::SeqCst) == region {
                await_writer(slot, writing, region);
            }
        }
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

    fn used(&self) -> impl Iterator<Item = &SenderSlot> + Clone {
        self.slots().take(self.used.load(Ordering::Acquire) as usize)
    }

    fn slots(&self) -> impl Iterator<Item = &SenderSlot> + Clone {
        (0..SENDERS).map(|number| self.slot(number))
    }

    /// Returns the slot with this index.
    pub(crate) fn slot(&self, number: usize) -> &SenderSlot {
        &self.lines[number % LINES].0[number / LINES]
    }
}

#[cold]
fn await_writer(slot: &SenderSlot, writing: &AtomicU32, region: u32) {
    let mut since = Instant::now();
    while writing.load(Ordering::SeqCst) == region {
        thread::yield_now();
        if since.elapsed() > WRITER_MAX {
            // A free slot was that of a process that was killed while it wrote.
            let writer = slot.process();
            if writer == 0 || process::has_ended(writer as i32) {
                return;
            }
            since = Instant::now();
        }
    }
}
