//! The queue of ready threads of a processor, or of a part of the machine, oldest first.
//!
//! It is a lock around a ring. The length is stored beside it, written under the lock. Other
//! threads read the length without the lock: as a hint, or after the fences of `sleepers.rs`.

use std::collections::VecDeque;

use crate::lock::ShortLock;
use crate::primitive::{AtomicUsize, Ordering};

pub(crate) struct ReadyQueue<T> {
    entries: ShortLock<VecDeque<T>>,
    length: AtomicUsize,
}

impl<T> ReadyQueue<T> {
    pub fn new() -> Self {
        Self { entries: ShortLock::new(VecDeque::new()), length: AtomicUsize::new(0) }
    }

    /// The number of entries. The answer may be out of date.
    #[inline]
    pub fn len(&self) -> usize {
        self.length.load(Ordering::Relaxed)
    }

    /// Adds an entry at the end. Returns the new length.
    #[inline]
    pub fn push(&self, entry: T) -> usize {
        self.entries.with(|entries| {
            entries.push_back(entry);
            self.length.store(entries.len(), Ordering::Relaxed);
            entries.len()
        })
    }

    /// Takes the oldest entry.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        if self.len() == 0 {
            return None;
        }
        self.entries.with(|entries| {
            let entry = entries.pop_front();
            self.length.store(entries.len(), Ordering::Relaxed);
            entry
        })
    }

    /// Adds an entry at the end, and takes the oldest.
    #[inline]
    pub fn exchange(&self, entry: T) -> T {
        if self.length.load(Ordering::Relaxed) == 0 {
            return entry;
        }
        self.entries.with(|entries| match entries.pop_front() {
            Some(oldest) => {
                entries.push_back(entry);
                oldest
            }
            None => entry,
        })
    }

    /// Takes the entries for which `is_meant` holds out of the queue.
    pub fn take(&self, is_meant: impl Fn(&T) -> bool) -> Vec<T> {
        self.entries.with(|entries| {
            let (taken, left) = entries.drain(..).partition::<Vec<T>, _>(is_meant);
            entries.extend(left);
            self.length.store(entries.len(), Ordering::Relaxed);
            taken
        })
    }

    /// Calls `inspect` with each of the `count` oldest entries.
    pub fn inspect(&self, count: usize, mut inspect: impl FnMut(&T)) {
        self.entries.with(|entries| entries.iter().take(count).for_each(&mut inspect));
    }
}
