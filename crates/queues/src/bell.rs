//! The doorbell: the words by which a process that sleeps is woken.
//!
//! A thread that publishes something for the process reads one word, which is zero while the
//! process is awake: this read is the whole cost for a packet. Before the process sleeps, it sets
//! that word, makes all other threads pass a memory barrier, and checks once more for what it waits
//! for. Therefore, either the check finds what was published, or the publishing thread sees that
//! the bell is armed. Each arming is rung once. Threads that sleep with equal tickets are woken by
//! one ring.

use crate::primitive::{AtomicU32, Ordering};

/// Wakes the process for which something was published elsewhere than in a queue.
pub trait Wake {
    /// Wakes the process if it may be asleep. To be called after something was published.
    fn wake(&self);

    /// Wakes the process if it may be asleep and `is_meant` then returns true.
    fn wake_if(&self, is_meant: impl FnOnce() -> bool) {
        if is_meant() {
            self.wake();
        }
    }
}

/// The two words of the doorbell, in memory that the ringing processes share with the owner. All
/// zero in the beginning.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Bell {
    /// How the owner sleeps; not 0 while it may be asleep. Set by the owner, cleared by the thread
    /// that rings.
    armed: AtomicU32,
    /// Counts the rings.
    rung: AtomicU32,
}

impl Bell {
    /// Arms the bell, and returns the ticket with which to sleep. The owner may sleep as soon as it
    /// has checked again for what it waits for. `how` says how the owner sleeps; it is not 0, and
    /// [`ring`](Self::ring) returns it. Where several threads arm, the greatest value counts, with
    /// which all of them must be woken. `pass_barrier` makes all threads that ring pass a barrier,
    /// unless each of them passes one itself before it rings.
    pub fn arm(&self, how: u32, pass_barrier: impl FnOnce()) -> u32 {
        let ticket = self.rung.load(Ordering::SeqCst);
        self.armed.fetch_max(how, Ordering::SeqCst);
        pass_barrier();
        ticket
    }

    /// Rings if the bell is armed, after something was published. Returns how the owner sleeps; the
    /// caller must then wake it accordingly.
    #[inline]
    pub fn ring(&self) -> Option<u32> {
        if self.armed.load(Ordering::Relaxed) == 0 { None } else { self.ring_armed() }
    }

    /// Rings as [`ring`](Self::ring) does if the bell is armed and `is_meant`, which is called
    /// after the bell was found armed, returns true.
    #[inline]
    pub fn ring_if(&self, is_meant: impl FnOnce() -> bool) -> Option<u32> {
        if self.armed.load(Ordering::Acquire) == 0 || !is_meant() {
            return None;
        }
        self.ring_armed()
    }

    #[cold]
    fn ring_armed(&self) -> Option<u32> {
        let how = self.armed.swap(0, Ordering::SeqCst);
        (how != 0).then(|| {
            self.rung.fetch_add(1, Ordering::SeqCst);
            how
        })
    }

    /// Whether the bell is armed so.
    pub fn is_armed(&self, how: u32) -> bool {
        self.armed.load(Ordering::SeqCst) == how
    }

    /// Whether the bell has not rung since the ticket was given.
    pub fn is_still(&self, ticket: u32) -> bool {
        self.rung.load(Ordering::SeqCst) == ticket
    }

    /// The word on which an owner can sleep, as long as the word equals the ticket.
    pub fn word(&self) -> &AtomicU32 {
        &self.rung
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_arming_is_rung_once() {
        let bell = Bell::default();
        assert_eq!(bell.ring(), None);
        let ticket = bell.arm(7, || ());
        assert!(bell.is_still(ticket) && bell.is_armed(7) && !bell.is_armed(6));
        assert_eq!(bell.ring(), Some(7));
        assert!(!bell.is_armed(7));
        assert_eq!(bell.ring(), None);
        assert!(!bell.is_still(ticket));
    }

    #[test]
    fn whoever_arms_last_takes_no_ring_from_the_others() {
        let bell = Bell::default();
        let tickets = [2, 3, 1].map(|how| bell.arm(how, || ()));
        assert!(bell.is_armed(3) && tickets.iter().all(|ticket| bell.is_still(*ticket)));
        assert_eq!([bell.ring(), bell.ring()], [Some(3), None]);
        bell.arm(1, || ());
        assert_eq!(bell.ring(), Some(1));
    }
}

/// All interleavings: `RUSTFLAGS='--cfg loom' cargo test -p queues --lib --release models`.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::fence;
    use loom::thread;

    /// The data that the owner waits for, and the bell.
    struct Room {
        bell: Bell,
        published: [AtomicU32; 2],
    }

    impl Room {
        fn new() -> Arc<Self> {
            let word = || AtomicU32::new(0);
            let bell = Bell { armed: word(), rung: word() };
            Arc::new(Self { bell, published: [word(), word()] })
        }

        /// The model checker has no barrier that one thread imposes on another, so each thread
        /// passes its own.
        fn publish(&self, place: usize) {
            self.published[place].store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            self.bell.ring();
        }

        /// The checker finds a sleep that never ends.
        fn wait(&self, place: usize) {
            while self.published[place].load(Ordering::Relaxed) == 0 {
                let ticket = self.bell.arm(1, || fence(Ordering::SeqCst));
                if self.published[place].load(Ordering::Relaxed) != 0 {
                    return;
                }
                while self.bell.is_still(ticket) {
                    thread::yield_now();
                }
            }
        }
    }

    #[test]
    fn nobody_sleeps_on_what_is_there() {
        loom::model(|| {
            let room = Room::new();
            let other = Arc::clone(&room);
            let publisher = thread::spawn(move || {
                other.publish(0);
                other.publish(1);
            });
            room.wait(0);
            room.wait(1);
            publisher.join().unwrap();
        });
    }
}
