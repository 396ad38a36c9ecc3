//! The lock of a process's part of a window: words in shared memory, which origins change
//! themselves, or a queue that the owner keeps. Both serve requests in their order.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};

use memory::{ProcessLock, SharedMemory};

use super::LockKind;

/// The number of words per part of a window in shared memory: a cache line.
pub(super) const WORDS: usize = 16;

/// The number of these words that belong to the lock.
pub(super) const WORDS_OF_LOCK: usize = 6;

/// The words of the lock of one part.
///
/// A process that needs the lock takes a ticket, and waits until the ticket is served. A shared
/// holder lets the next ticket be served at once. An exclusive holder also waits until there is no
/// shared holder, and lets the next ticket be served when it unlocks.
#[derive(Clone, Copy)]
pub(super) struct SharedLock<'a> {
    next_ticket: &'a AtomicU32,
    served: &'a AtomicU32,
    sharing: &'a AtomicU32,
    /// 1 once the owner has called the library after it got the window.
    opened: &'a AtomicU32,
    /// The rank of the exclusive holder plus one; 0 if there is none.
    excluding: &'a AtomicU32,
}

/// A snapshot of the words that change when locks are taken and released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LockTurn {
    /// The rank of the exclusive holder.
    pub(super) excluding: Option<u32>,
    served: u32,
    sharing: u32,
}

/// Returns the lock that a process holds while it accumulates to the part of the process with this
/// rank. Other accumulating processes see the change entirely or not at all, unless the holder ends
/// meanwhile.
#[inline(always)]
pub(super) fn accumulating(memory: &SharedMemory, rank: u32) -> ProcessLock<'_> {
    ProcessLock::new(memory.word(rank as usize * WORDS))
}

impl<'a> SharedLock<'a> {
    /// Returns the lock of the process with this rank.
    pub(super) fn of(memory: &'a SharedMemory, rank: u32) -> Self {
        let word = |index| memory.word(rank as usize * WORDS + index);
        Self {
            next_ticket: word(1),
            served: word(2),
            sharing: word(3),
            opened: word(4),
            excluding: word(5),
        }
    }

    /// Resets the words to those of an unused lock.
    pub(super) fn reset(&self) {
        for word in [self.next_ticket, self.served, self.sharing, self.opened, self.excluding] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Records that the owner had time to initialize the part.
    pub(super) fn open(&self) {
        self.opened.store(1, Ordering::Release);
    }

    /// Whether the owner had time to initialize the part.
    pub(super) fn is_open(&self) -> bool {
        self.opened.load(Ordering::Acquire) != 0
    }

    /// Takes a ticket for the lock.
    pub(super) fn take_ticket(&self) -> u32 {
        self.next_ticket.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns a snapshot, by which a long wait detects a lock that does not move.
    pub(super) fn turn(&self) -> LockTurn {
        LockTurn {
            excluding: self.excluding.load(Ordering::Relaxed).checked_sub(1),
            served: self.served.load(Ordering::Relaxed),
            sharing: self.sharing.load(Ordering::Relaxed),
        }
    }

    /// Takes the lock for the process with rank `own`, if this ticket is served; returns whether it
    /// did.
    pub(super) fn try_lock(&self, own: u32, ticket: u32, kind: LockKind) -> bool {
        if self.served.load(Ordering::Acquire) != ticket {
            return false;
        }
        match kind {
            LockKind::Exclusive => {
                let is_free = self.sharing.load(Ordering::Acquire) == 0;
                if is_free {
                    self.excluding.store(own + 1, Ordering::Relaxed);
                }
                is_free
            }
            LockKind::Shared => {
                self.sharing.fetch_add(1, Ordering::Relaxed);
                self.served.store(ticket.wrapping_add(1), Ordering::Release);
                true
            }
        }
    }

    /// Releases the lock.
    pub(super) fn unlock(&self, kind: LockKind) {
        match kind {
            LockKind::Exclusive => {
                self.excluding.store(0, Ordering::Relaxed);
                self.served.fetch_add(1, Ordering::Release)
            }
            LockKind::Shared => self.sharing.fetch_sub(1, Ordering::Release),
        };
    }
}

/// The lock of a part that is requested by messages.
#[derive(Debug, Default)]
pub(super) struct LockQueue {
    holders: Vec<(u32, LockKind)>,
    waiting: VecDeque<LockRequest>,
}

/// A request for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LockRequest {
    /// The rank of the origin.
    pub(super) origin: u32,
    /// The kind of lock.
    pub(super) kind: LockKind,
    /// The tag of the answer.
    pub(super) reply: i32,
}

impl LockQueue {
    /// Appends a request; [`LockQueue::grant`] returns it when it is its turn.
    pub(super) fn ask(&mut self, asking: LockRequest) {
        self.waiting.push_back(asking);
    }

    /// Releases the lock of an origin; ignored if the origin has none.
    pub(super) fn release(&mut self, origin: u32) {
        if let Some(index) = self.holders.iter().position(|(holder, _)| *holder == origin) {
            self.holders.swap_remove(index);
        }
    }

    /// Removes the locks and the requests of a failed process.
    pub(super) fn forget(&mut self, origin: u32) {
        self.holders.retain(|(holder, _)| *holder != origin);
        self.waiting.retain(|asking| asking.origin != origin);
    }

    /// Grants the lock to the next request, if possible, and returns it.
    pub(super) fn grant(&mut self) -> Option<LockRequest> {
        let next = self.waiting.front()?;
        let free = match next.kind {
            LockKind::Exclusive => self.holders.is_empty(),
            LockKind::Shared => !self.holders.iter().any(|(_, kind)| *kind == LockKind::Exclusive),
        };
        if !free {
            return None;
        }
        self.holders.push((next.origin, next.kind));
        self.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(queue: &mut LockQueue) -> Vec<u32> {
        std::iter::from_fn(|| queue.grant()).map(|asking| asking.origin).collect()
    }

    #[test]
    fn the_queue_is_fair() {
        let mut queue = LockQueue::default();
        let kinds = [LockKind::Shared, LockKind::Exclusive, LockKind::Shared, LockKind::Shared];
        for (origin, kind) in (0..).zip(kinds) {
            queue.ask(LockRequest { origin, kind, reply: 0 });
        }
        assert_eq!(granted(&mut queue), [0]);
        queue.release(7);
        assert!(granted(&mut queue).is_empty());
        queue.release(0);
        assert_eq!(granted(&mut queue), [1], "those who came later do not overtake");
        queue.release(1);
        assert_eq!(granted(&mut queue), [2, 3]);
    }

    #[test]
    fn a_process_that_has_failed_holds_up_nobody() {
        let mut queue = LockQueue::default();
        for origin in 0..4 {
            queue.ask(LockRequest { origin, kind: LockKind::Exclusive, reply: 0 });
        }
        assert_eq!(granted(&mut queue), [0]);
        queue.forget(0);
        queue.forget(1);
        assert_eq!(granted(&mut queue), [2]);
        queue.release(2);
        assert_eq!(granted(&mut queue), [3]);
    }

    #[test]
    fn words_exclude_and_share() {
        let (memory, _file) = SharedMemory::create(2 * WORDS, 0).unwrap();
        let lock = SharedLock::of(&memory, 1);
        let tickets: Vec<u32> = (0..4).map(|_| lock.take_ticket()).collect();
        assert!(!lock.try_lock(7, tickets[1], LockKind::Shared));
        assert!(lock.try_lock(7, tickets[0], LockKind::Shared));
        assert!(lock.try_lock(7, tickets[1], LockKind::Shared));
        assert!(!lock.try_lock(7, tickets[2], LockKind::Exclusive));
        lock.unlock(LockKind::Shared);
        lock.unlock(LockKind::Shared);
        let before = lock.turn();
        assert_eq!((before.excluding, before == lock.turn()), (None, true));
        assert!(lock.try_lock(7, tickets[2], LockKind::Exclusive));
        assert_eq!(lock.turn().excluding, Some(7));
        assert!(!lock.try_lock(7, tickets[3], LockKind::Shared));
        lock.unlock(LockKind::Exclusive);
        assert!(lock.try_lock(7, tickets[3], LockKind::Shared));
    }
}
