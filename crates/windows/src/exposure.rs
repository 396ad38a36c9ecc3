//! Exposure epochs as words in shared memory: which targets have posted for which origins, and how
//! many origins have completed.

use std::sync::atomic::{AtomicU32, Ordering};

use memory::SharedMemory;

use super::locks;

/// The words of a window, as the process with a rank uses them.
#[derive(Clone, Copy)]
pub(super) struct SharedExposure<'a> {
    memory: &'a SharedMemory,
    rank: u32,
    size: u32,
}

/// Returns how many words a window of this many processes needs: the words of its locks, and then
/// for each process one bit per other process.
pub(super) fn words(size: usize) -> usize {
    size * (locks::WORDS + size.div_ceil(u32::BITS as usize))
}

impl<'a> SharedExposure<'a> {
    /// Creates the view of the process with this rank among `size` processes.
    pub(super) fn of(memory: &'a SharedMemory, rank: u32, size: u32) -> Self {
        Self { memory, rank, size }
    }

    /// Clears all posts for this process and all completions at it.
    pub(super) fn reset(&self) {
        for target in (0..self.size).step_by(u32::BITS as usize) {
            self.posted(target, self.rank).0.store(0, Ordering::Relaxed);
        }
        self.completions(self.rank).store(0, Ordering::Relaxed);
    }

    /// Allows an origin to access this process's part.
    pub(super) fn post(&self, origin: u32) {
        let (word, bit) = self.posted(self.rank, origin);
        word.fetch_or(bit, Ordering::Release);
    }

    /// Whether a target has allowed this process to access its part; consumes that post.
    pub(super) fn take_post(&self, target: u32) -> bool {
        let (word, bit) = self.posted(target, self.rank);
        let is_posted = word.load(Ordering::Acquire) & bit != 0;
        if is_posted {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
        is_posted
    }

    /// Records that this process has completed its epoch at a target.
    pub(super) fn complete(&self, target: u32) {
        self.completions(target).fetch_add(1, Ordering::Release);
    }

    /// Returns how many origins have completed their epochs here and were not waited for.
    pub(super) fn completed(&self) -> usize {
        self.completions(self.rank).load(Ordering::Acquire) as usize
    }

    /// Subtracts completions that were waited for.
    pub(super) fn forget_completed(&self, count: usize) {
        self.completions(self.rank).fetch_sub(count as u32, Ordering::Relaxed);
    }

    fn completions(&self, target: u32) -> &'a AtomicU32 {
        self.memory.word(target as usize * locks::WORDS + locks::WORDS_OF_LOCK)
    }

    /// Returns the word and the bit in which a target records its post for an origin.
    fn posted(&self, target: u32, origin: u32) -> (&'a AtomicU32, u32) {
        let (size, per_origin) = (self.size as usize, self.size.div_ceil(u32::BITS) as usize);
        let first = size * locks::WORDS + origin as usize * per_origin;
        let word = self.memory.word(first + (target / u32::BITS) as usize);
        (word, 1 << (target % u32::BITS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posts_are_for_one_origin_and_completions_for_one_target() {
        let size = 70;
        let (memory, _file) = SharedMemory::create(words(size as usize), 0).unwrap();
        let of = |rank| SharedExposure::of(&memory, rank, size);
        for target in [0, 31, 32, 69] {
            of(target).post(5);
            of(target).post(69);
        }
        assert!(!of(5).take_post(33) && !of(4).take_post(32));
        for target in [0, 31, 32, 69] {
            assert!(of(5).take_post(target) && !of(5).take_post(target));
        }
        assert!(of(69).take_post(69) && of(69).take_post(0));
        of(5).complete(69);
        of(69).complete(69);
        assert_eq!((of(69).completed(), of(68).completed()), (2, 0));
        of(69).forget_completed(2);
        assert_eq!(of(69).completed(), 0);
    }
}
