//! Stacks: allocated in slabs, and reused near the worker that used them last.

use std::sync::Arc;

use corosensei::stack::{Stack, StackPointer};
use parking_lot::Mutex;
use sys::stacks::StackSlab;

/// One stack of a slab.
pub(crate) struct GuardedStack {
    slab: Arc<StackSlab>,
    index: usize,
}

impl GuardedStack {
    /// The lowest address, where the guard page begins, and the address above the highest byte.
    pub fn bounds(&self) -> (usize, usize) {
        self.slab.bounds(self.index)
    }
}

// SAFETY:
// - A guard page lies at the low end of each stack (`StackSlab::new`); `limit` includes it.
// - The pool allocates stacks of at least `STACK_BYTES_MIN`, more than corosensei's minimum. Both
//   ends are multiples of a page, so they are aligned.
// - The memory stays mapped as long as this holds the slab, and no other stack has this index.
unsafe impl Stack for GuardedStack {
    #[inline]
    fn base(&self) -> StackPointer {
        StackPointer::new(self.bounds().1).expect("no mapping ends at address zero")
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        StackPointer::new(self.bounds().0).expect("no mapping begins at address zero")
    }
}

/// The free stacks that no worker has cached.
pub(crate) struct StackPool {
    free: Mutex<Vec<GuardedStack>>,
    bytes: usize,
}

impl StackPool {
    pub fn new(bytes: usize) -> Self {
        let pages = bytes.max(STACK_BYTES_MIN).div_ceil(sys::pages::page_bytes());
        Self { free: Mutex::new(Vec::new()), bytes: pages * sys::pages::page_bytes() }
    }

    /// Returns a stack, and moves a batch of free stacks into the worker's cache `near`.
    #[cold]
    pub fn fill(&self, near: &mut Vec<GuardedStack>) -> GuardedStack {
        let mut free = self.free.lock();
        let count = free.len().min(BATCH);
        let first = free.len() - count;
        near.extend(free.drain(first..));
        drop(free);
        if let Some(stack) = near.pop() {
            return stack;
        }
        let slab = StackSlab::new(BATCH, self.bytes).unwrap_or_else(|error| {
            panic!(
                "no memory for the stack of another thread ({} KiB): {error}; before Linux 6.13 \
                 each takes two mappings, of which vm.max_map_count allows a number",
                self.bytes >> 10
            )
        });
        let slab = Arc::new(slab);
        near.extend((0..slab.count()).map(|index| GuardedStack { slab: slab.clone(), index }));
        near.pop().expect("a slab has stacks")
    }

    /// Takes a stack back from a worker that ends.
    pub fn keep(&self, stack: GuardedStack) {
        self.free.lock().push(stack);
    }

    /// Puts a stack into the cache `near` of the worker that used it. A cache that is too large
    /// returns a batch to the pool.
    #[inline]
    pub fn give_back(&self, stack: GuardedStack, near: &mut Vec<GuardedStack>) {
        near.push(stack);
        if near.len() > 2 * BATCH {
            self.free.lock().extend(near.drain(..BATCH));
        }
    }
}

/// The number of stacks that are allocated or moved together.
const BATCH: usize = 64;

/// The minimum size of a stack.
pub(crate) const STACK_BYTES_MIN: usize = 16 << 10;
