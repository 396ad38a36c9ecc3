//! The memory of tasks: blocks of one size. Each thread keeps some, and gives others to those that
//! create more tasks than they run.

use std::alloc::{self, Layout};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use crate::own::Own;

/// The size of a block: a task with an argument of usual size.
pub const BYTES: usize = 320;

const LAYOUT: Layout = match Layout::from_size_align(BYTES, 64) {
    Ok(layout) => layout,
    Err(_) => panic!("a block has a valid layout"),
};

/// A block.
pub struct Block(NonNull<u8>);

// SAFETY: a block is memory that belongs to one owner.
unsafe impl Send for Block {}

impl Block {
    pub fn allocate() -> Self {
        // SAFETY: the size is not zero.
        let made = unsafe { alloc::alloc(LAYOUT) };
        Self(NonNull::new(made).unwrap_or_else(|| alloc::handle_alloc_error(LAYOUT)))
    }

    pub fn free(self) {
        // SAFETY: it was allocated with this layout.
        unsafe { alloc::dealloc(self.0.as_ptr(), LAYOUT) };
    }

    pub fn memory(&self) -> NonNull<u8> {
        self.0
    }

    /// Its memory, which now belongs to the caller.
    pub fn into_memory(self) -> NonNull<u8> {
        self.0
    }

    /// # Safety
    /// The memory is that of a block, and nothing uses it.
    pub unsafe fn from_memory(memory: NonNull<u8>) -> Self {
        Self(memory)
    }
}

/// How many blocks go from one thread to another at a time; a thread keeps up to twice as many.
const BATCH: usize = 32;

/// Blocks that no thread keeps, in batches.
static SPARE: Mutex<Vec<Vec<Block>>> = Mutex::new(Vec::new());

/// The blocks that a thread keeps.
#[derive(Default)]
pub struct TaskBlocks(Own<Vec<Block>>);

impl TaskBlocks {
    /// A block: one that was used before, or a new one.
    pub fn take(&self) -> Block {
        self.0.with(|kept| {
            if let Some(block) = kept.pop() {
                return block;
            }
            if let Some(batch) = SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop() {
                *kept = batch;
            }
            kept.pop().unwrap_or_else(Block::allocate)
        })
    }

    pub fn give_back(&self, block: Block) {
        self.0.with(|kept| {
            kept.push(block);
            if kept.len() == 2 * BATCH {
                let batch = kept.split_off(BATCH);
                SPARE.lock().unwrap_or_else(PoisonError::into_inner).push(batch);
            }
        });
    }
}

/// What a thread keeps when it ends goes to others.
impl Drop for TaskBlocks {
    fn drop(&mut self) {
        let kept = self.0.replace(Vec::new());
        if !kept.is_empty() {
            SPARE.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_travel_from_threads_that_free_them_to_those_that_need_them() {
        let (needs, frees) = (TaskBlocks::default(), TaskBlocks::default());
        let mut seen = std::collections::HashSet::new();
        for _ in 0..10_000 {
            let block = needs.take();
            seen.insert(block.0);
            frees.give_back(block);
        }
        // Other tests take from the same list.
        assert!(seen.len() < 5_000, "{} blocks", seen.len());
    }
}
