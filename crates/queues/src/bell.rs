//! The words by which a process that sleeps is woken.
//!
//! Whoever publishes something for it looks at one word, which is zero while it is awake: that is
//! all that a packet pays. Before it sleeps the process sets that word, makes everybody pass a
//! memory barrier, and looks once more at what it waits for. So either the look sees what was
//! published, or whoever published it sees that the bell is armed. Each arming is rung once, and
//! threads that sleep with the same ticket are woken by the same ringing.

use crate::primitive::{AtomicU32, Ordering};

/// Whoever publishes something elsewhere than in a queue wakes by this the process that it is for.
pub trait Wake {
    /// Wakes it if it may be asleep, after something was published.
    fn wake(&self);
}

/// Two words, in memory that those who ring share with the owner. All zero in the beginning.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Bell {
    /// How the owner sleeps, while it may be asleep. Set by the owner, taken back by whoever
    /// rings.
    armed: AtomicU32,
    /// Counts the ringing.
    rung: AtomicU32,
}

impl Bell {
    /// The owner may sleep from now on, in a way that it tells whoever rings, not 0, once it has
    /// looked again at what it waits for. `pass_barrier` makes all who ring pass a barrier,
    /// unless each does so itself before it rings. Gives the ticket with which to sleep.
    pub fn arm(&self, how: u32, pass_barrier: impl FnOnce()) -> u32 {
        let ticket = self.rung.load(Ordering::SeqCst);
        self.armed.store(how, Ordering::SeqCst);
        pass_barrier();
        ticket
    }

    /// Rings if the bell is armed, after something was published: how the owner is to be woken.
    /// That is for the caller to do.
    #[inline]
    pub fn ring(&self) -> Option<u32> {
        if self.armed.load(Ordering::Relaxed) == 0 { None } else { self.ring_armed() }
    }

    #[cold]
    fn ring_armed(&self) -> Option<u32> {
        let how = self.armed.swap(0, Ordering::SeqCst);
        (how != 0).then(|| {
            self.rung.fetch_add(1, Ordering::SeqCst);
            how
        })
    }

    /// Whether the bell has not rung since the ticket was given.
    pub fn is_still(&self, ticket: u32) -> bool {
        self.rung.load(Ordering::SeqCst) == ticket
    }

    /// What an owner sleeps on that sleeps on a word: as long as it is the ticket.
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
        assert!(bell.is_still(ticket));
        assert_eq!(bell.ring(), Some(7));
        assert_eq!(bell.ring(), None);
        assert!(!bell.is_still(ticket));
    }
}

/// All interleavings: `RUSTFLAGS='--cfg loom' cargo test -p queues --lib --release models`.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::fence;
    use loom::thread;

    /// What is waited for, beside the bell.
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

        /// The checker knows no barrier that one thread makes another pass; so here each has its
        /// own.
        fn publish(&self, place: usize) {
            self.published[place].store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            self.bell.ring();
        }

        /// A sleep without an end is found by the checker.
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
