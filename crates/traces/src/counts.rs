//! Counts by key, in bounded memory.

use std::hash::Hash;

use base::hashing::QuickMap;

/// How often each key was counted. Keys that rest while many others are counted are forgotten, and
/// begin at 0 again.
#[derive(Debug)]
pub(crate) struct RecentCounts<K> {
    recent: QuickMap<K, u32>,
    older: QuickMap<K, u32>,
}

/// The number of keys after which those that have rested since the last time are forgotten.
const RECENT_MAX: usize = 1 << 15;

impl<K> Default for RecentCounts<K> {
    fn default() -> Self {
        Self { recent: QuickMap::default(), older: QuickMap::default() }
    }
}

impl<K: Eq + Hash> RecentCounts<K> {
    /// Counts a key. Returns how often it was counted before.
    pub(crate) fn count(&mut self, key: K) -> u32 {
        if let Some(next) = self.recent.get_mut(&key) {
            let number = *next;
            *next = number.wrapping_add(1);
            return number;
        }
        let number = self.older.remove(&key).unwrap_or(0);
        self.set(key, number.wrapping_add(1));
        number
    }

    /// Removes a key, and returns how often it was counted.
    pub(crate) fn take(&mut self, key: &K) -> u32 {
        self.recent.remove(key).or_else(|| self.older.remove(key)).unwrap_or(0)
    }

    /// Sets how often a key was counted.
    pub(crate) fn set(&mut self, key: K, count: u32) {
        if self.recent.len() >= RECENT_MAX {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(key, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_keys_in_use_are_not_forgotten() {
        let mut counts = RecentCounts::default();
        for turn in 0..10 * RECENT_MAX as u64 {
            assert_eq!(counts.count(0), turn as u32);
            assert_eq!(counts.count(turn + 1), 0);
            assert!(counts.recent.len() <= RECENT_MAX && counts.older.len() <= RECENT_MAX);
        }
        let counted = counts.take(&0);
        assert_eq!((counted, counts.take(&0)), (10 * RECENT_MAX as u32, 0));
        counts.set(0, counted);
        assert_eq!(counts.count(0), counted);
    }
}
