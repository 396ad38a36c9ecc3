//! Code, described by its accesses to memory.

use crate::table::MemoryOperation;

/// The number of a block of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockNumber(pub u32);

/// The number of a thread, which stays on a core of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadNumber(pub u32);

/// All bytes of a block, once, from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// What is done with it.
    pub operation: MemoryOperation,
    /// To which block.
    pub block: BlockNumber,
    /// How many bytes are loaded or stored: as many as the block has, or fewer, if the block is
    /// used again and again.
    pub bytes: u64,
    /// The block is a part of an area of so many bytes all of which is used in turn, so that it is
    /// where the others of that area are; 0: it is not.
    pub area_bytes: u64,
}

/// What one thread does in a loop whose every round makes each of these accesses for its part of
/// the blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// Who.
    pub thread: ThreadNumber,
    /// To which blocks, in any order.
    pub accesses: Vec<Access>,
    /// What all rounds compute, as far as it takes processor time that accesses do not: they are
    /// made meanwhile. In nanoseconds.
    pub computing_ns: f64,
}

/// A copy from one process to another, by the call of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyBySystem {
    /// Who calls.
    pub thread: ThreadNumber,
    /// From which block.
    pub from: BlockNumber,
    /// To which block.
    pub into: BlockNumber,
    /// How many bytes.
    pub bytes: u64,
}

impl CopyBySystem {
    /// Its accesses, as a loop of the thread.
    pub fn accesses(&self) -> Loop {
        let (load, store) =
            (Access::load(self.from, self.bytes), Access::store(self.into, self.bytes));
        Loop::new(self.thread, [load, store])
    }
}

/// Loops, and what happens after them.
#[derive(Clone, Debug, PartialEq)]
pub enum KernelPhase {
    /// Loops of different threads that run at the same time, until all have ended.
    Together(Vec<Loop>),
    /// Loops of two threads, of which the second follows the first, piece by piece: the blocks of
    /// both are cut into so many equal pieces. Each piece is told to the other thread.
    Following(Loop, Loop, u32),
    /// The system copies at the order of different threads at the same time.
    BySystem(Vec<CopyBySystem>),
    /// One thread tells another something: a line crosses.
    Told,
    /// Something else takes so long, in nanoseconds: a call of the system, or what is computed
    /// before the next access.
    Elapsing(f64),
}

/// A piece of code.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kernel {
    /// One after the other.
    pub phases: Vec<KernelPhase>,
}

impl Loop {
    /// One that only accesses memory.
    pub fn new(thread: ThreadNumber, accesses: impl IntoIterator<Item = Access>) -> Self {
        Self { thread, accesses: accesses.into_iter().collect(), computing_ns: 0.0 }
    }
}

impl Access {
    /// All bytes of a block are read.
    pub fn load(block: BlockNumber, bytes: u64) -> Self {
        Self { operation: MemoryOperation::Load, block, bytes, area_bytes: 0 }
    }

    /// All bytes of a block are written.
    pub fn store(block: BlockNumber, bytes: u64) -> Self {
        Self { operation: MemoryOperation::Store, block, bytes, area_bytes: 0 }
    }

    /// The same past the caches.
    pub fn store_past(block: BlockNumber, bytes: u64) -> Self {
        Self { operation: MemoryOperation::StorePast, block, bytes, area_bytes: 0 }
    }
}
