//! The locks of a process's part of a window: as words in shared memory, which those who lock
//! change themselves, or as a queue that the owner keeps. Both serve in the order of asking.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};

use memory::{ProcessLock, SharedMemory};

use super::LockKind;

/// Words that one part of a window takes in shared memory: a cache line.
pub(super) const WORDS: usize = 16;

/// So many of them are the lock's.
pub(super) const WORDS_OF_LOCK: usize = 6;

/// The words of one part.
///
/// Whoever wants the lock takes a ticket, and waits until it is served. Those who share let the
/// next one be served at once; who excludes others also waits until nobody shares, and lets the
/// next one be served at the end.
#[derive(Clone, Copy)]
pub(super) struct SharedLock<'a> {
    next_ticket: &'a AtomicU32,
    served: &'a AtomicU32,
    sharing: &'a AtomicU32,
    /// 1 once the owner has called the library after it got the window.
    opened: &'a AtomicU32,
    /// One more than the rank of who excludes others; 0: nobody does.
    excluding: &'a AtomicU32,
}

/// What moves where locks are taken and given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LockTurn {
    /// The rank of who excludes others.
    pub(super) excluding: Option<u32>,
    served: u32,
    sharing: u32,
}

/// What is held by who accumulates to the part of the process with this rank: others who do see the
/// change whole or not at all, unless the holder ends meanwhile.
#[inline(always)]
pub(super) fn accumulating(memory: &SharedMemory, rank: u32) -> ProcessLock<'_> {
    ProcessLock::new(memory.word(rank as usize * WORDS))
}

impl<'a> SharedLock<'a> {
    /// Those of the process with this rank.
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

    /// As if nobody had used it.
    pub(super) fn reset(&self) {
        for word in [self.next_ticket, self.served, self.sharing, self.opened, self.excluding] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Notes that the owner had its time to fill the part.
    pub(super) fn open(&self) {
        self.opened.store(1, Ordering::Release);
    }

    /// Whether the owner had its time to fill the part.
    pub(super) fn is_open(&self) -> bool {
        self.opened.load(Ordering::Acquire) != 0
    }

    /// Asks for the lock.
    pub(super) fn take_ticket(&self) -> u32 {
        self.next_ticket.fetch_add(1, Ordering::Relaxed)
    }

    /// How far it is, for who waits long.
    pub(super) fn turn(&self) -> LockTurn {
        LockTurn {
            excluding: self.excluding.load(Ordering::Relaxed).checked_sub(1),
            served: self.served.load(Ordering::Relaxed),
            sharing: self.sharing.load(Ordering::Relaxed),
        }
    }

    /// Takes the lock for the process with rank `own`, if it is this ticket's turn.
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

    /// Gives the lock back.
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

/// The lock of a part that messages ask for.
#[derive(Debug, Default)]
pub(super) struct LockQueue {
    holders: Vec<(u32, LockKind)>,
    waiting: VecDeque<LockRequest>,
}

/// Somebody who wants a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LockRequest {
    /// The rank.
    pub(super) origin: u32,
    /// Which lock.
    pub(super) kind: LockKind,
    /// The tag of the answer.
    pub(super) reply: i32,
}

impl LockQueue {
    /// Adds somebody; [`LockQueue::grant`] tells when it is their turn.
    pub(super) fn ask(&mut self, asking: LockRequest) {
        self.waiting.push_back(asking);
    }

    /// Takes a lock back; that of somebody who has none is none.
    pub(super) fn release(&mut self, origin: u32) {
        if let Some(index) = self.holders.iter().position(|(holder, _)| *holder == origin) {
            self.holders.swap_remove(index);
        }
    }

    /// Somebody has failed: it holds and wants no lock any more.
    pub(super) fn forget(&mut self, origin: u32) {
        self.holders.retain(|(holder, _)| *holder != origin);
        self.waiting.retain(|asking| asking.origin != origin);
    }

    /// The next one who has the lock from now on.
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
    fn who_has_failed_holds_up_nobody() {
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
