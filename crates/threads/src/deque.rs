//! The work-stealing deque of a worker's seeds. The owner adds and takes at the young end without a
//! lock; other workers take the oldest seed.
//!
//! The algorithm is that of Chase and Lev, with the memory orderings of Lê, Pop, Cohen and Zappa
//! Nardelli ("Correct and efficient work-stealing for weak memory models"), in a ring that does not
//! grow.

use crate::primitive::{AtomicPtr, AtomicUsize, Ordering, fence};

pub(crate) struct SeedDeque<T> {
    /// The index of the oldest entry. It only increases; the worker that takes the oldest entry
    /// increments it.
    top: AtomicUsize,
    /// The index behind the youngest entry. Only the owner writes it, after it has written the
    /// entries below, so that a thread that reads the index sees these entries.
    bottom: AtomicUsize,
    /// Only the owner writes entries. A slot is reused once `top` has passed it.
    entries: Box<[AtomicPtr<T>]>,
}

/// The maximum number of seeds in one deque.
const CAPACITY: usize = if cfg!(loom) { 2 } else { 256 };

impl<T> SeedDeque<T> {
    pub fn new() -> Self {
        let entry = || AtomicPtr::new(std::ptr::null_mut());
        Self {
            top: AtomicUsize::new(0),
            bottom: AtomicUsize::new(0),
            entries: std::iter::repeat_with(entry).take(CAPACITY).collect(),
        }
    }

    /// Whether the deque is empty. The answer may be out of date.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.top.load(Ordering::Relaxed) >= self.bottom.load(Ordering::Relaxed)
    }

    /// Adds an entry. Returns false if the ring is full. Only the owner may call this.
    #[inline]
    #[must_use]
    pub fn push(&self, entry: *mut T) -> bool {
        let bottom = self.bottom.load(Ordering::Relaxed);
        if bottom - self.top.load(Ordering::Acquire) >= CAPACITY {
            return false;
        }
        self.entries[bottom % CAPACITY].store(entry, Ordering::Relaxed);
        self.bottom.store(bottom + 1, Ordering::Release);
        true
    }

    /// Takes the youngest entry. Only the owner may call this.
    #[inline]
    pub fn pop(&self) -> Option<*mut T> {
        let bottom = self.bottom.load(Ordering::Relaxed);
        if self.top.load(Ordering::Relaxed) >= bottom {
            return None;
        }
        let youngest = bottom - 1;
        self.bottom.store(youngest, Ordering::Release);
        // Either other threads see that the entry is taken, or `top` shows that they took it first.
        fence(Ordering::SeqCst);
        let top = self.top.load(Ordering::Relaxed);
        if top < youngest {
            return Some(self.entries[youngest % CAPACITY].load(Ordering::Relaxed));
        }
        // This is the last entry, which another worker may take at this moment.
        let taken = top == youngest && self.advance(top);
        self.bottom.store(bottom, Ordering::Release);
        taken.then(|| self.entries[youngest % CAPACITY].load(Ordering::Relaxed))
    }

    /// Takes the youngest entry if it is `entry`. Returns whether it was. Only the owner may call
    /// this.
    #[inline]
    pub fn pop_this(&self, entry: *mut T) -> bool {
        let bottom = self.bottom.load(Ordering::Relaxed);
        bottom > 0
            && self.entries[(bottom - 1) % CAPACITY].load(Ordering::Relaxed) == entry
            && self.pop().is_some()
    }

    /// Takes the oldest entry. Returns `None` if there is none, or if another thread took it first.
    pub fn steal(&self) -> Option<*mut T> {
        let top = self.top.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        if top >= self.bottom.load(Ordering::Acquire) {
            return None;
        }
        let entry = self.entries[top % CAPACITY].load(Ordering::Relaxed);
        self.advance(top).then_some(entry)
    }

    fn advance(&self, top: usize) -> bool {
        self.top.compare_exchange(top, top + 1, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_owner_takes_the_youngest_and_others_the_oldest() {
        let deque = SeedDeque::new();
        let mut entries = [0_u8; CAPACITY + 1];
        let at: Vec<*mut u8> = entries.iter_mut().map(|entry| &raw mut *entry).collect();
        assert!(deque.is_empty() && deque.pop().is_none() && deque.steal().is_none());
        for round in 0..3 {
            assert!(at[..CAPACITY].iter().all(|&entry| deque.push(entry)), "{round}");
            assert!(!deque.push(at[CAPACITY]));
            assert_eq!(deque.steal(), Some(at[0]));
            assert_eq!(deque.pop(), Some(at[CAPACITY - 1]));
            assert!(!deque.pop_this(at[0]) && deque.pop_this(at[CAPACITY - 2]));
            while deque.pop().is_some() {}
            // The ring still contains the pointer to the last entry.
            assert!(!deque.pop_this(at[1]) && deque.is_empty());
        }
    }
}

/// Explores all interleavings: `RUSTFLAGS='--cfg loom' cargo test -p threads --lib --release
/// models`.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU8;
    use loom::thread;

    fn take(entry: Option<*mut AtomicU8>) -> usize {
        let Some(entry) = entry else { return 0 };
        // SAFETY: entries live until all threads of the model have ended.
        let before = unsafe { &*entry }.fetch_add(1, Ordering::Relaxed);
        assert_eq!(before, 1, "it was written before it was added, and is taken once");
        1
    }

    /// The owner adds three entries, of which two find room, and takes some, while two thieves take
    /// the oldest. Each entry is taken once, by a thread that sees what was written before the
    /// push.
    #[test]
    fn each_seed_is_taken_once() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let deque = Arc::new(SeedDeque::new());
            let entries: Vec<*mut AtomicU8> =
                (0..3).map(|_| Box::into_raw(Box::new(AtomicU8::new(0)))).collect();
            let thieves: Vec<_> = (0..2)
                .map(|_| {
                    let deque = deque.clone();
                    thread::spawn(move || take(deque.steal()))
                })
                .collect();
            let mut own = 0;
            let mut added = 0;
            for &entry in &entries {
                // SAFETY: entries live until all threads of the model have ended.
                unsafe { &*entry }.store(1, Ordering::Relaxed);
                added += usize::from(deque.push(entry));
                if added == 2 {
                    own += take(deque.pop());
                }
            }
            let stolen: usize = thieves.into_iter().map(|thief| thief.join().unwrap()).sum();
            loop {
                match take(deque.pop()) {
                    0 => break,
                    one => own += one,
                }
            }
            assert_eq!(own + stolen, added);
            for entry in entries {
                // SAFETY: all threads have ended.
                drop(unsafe { Box::from_raw(entry) });
            }
        });
    }
}
