//! Code, described by its memory accesses.

use crate::access::MemoryOperation;

/// The number of a block of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockNumber(pub u32);

/// The number of a thread, which stays on one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadNumber(pub u32);

/// One sequential access to all bytes of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The operation.
    pub operation: MemoryOperation,
    /// The block.
    pub block: BlockNumber,
    /// The number of bytes that are loaded or stored: the size of the block, or less if the block
    /// is used repeatedly.
    pub bytes: u64,
    /// The size of an area in bytes, if the block is a part of an area whose parts are used in
    /// turn. The block is then cached where the rest of the area is. 0 if there is no such area.
    pub area_bytes: u64,
}

/// A loop of one thread, in which each iteration makes each of these accesses for its part of the
/// blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// The thread.
    pub thread: ThreadNumber,
    /// The accesses, in any order.
    pub accesses: Vec<Access>,
    /// The computation of all iterations, in nanoseconds of processor time. It overlaps with the
    /// accesses.
    pub computing_ns: f64,
}

/// A copy from one process to another, by a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyBySystem {
    /// The calling thread.
    pub thread: ThreadNumber,
    /// The source block.
    pub from: BlockNumber,
    /// The destination block.
    pub into: BlockNumber,
    /// The number of bytes.
    pub bytes: u64,
}

impl CopyBySystem {
    /// Returns its accesses, as a loop of the thread.
    pub fn accesses(&self) -> Loop {
        let (load, store) =
            (Access::load(self.from, self.bytes), Access::store(self.into, self.bytes));
        Loop::new(self.thread, [load, store])
    }
}

/// A phase of a kernel: loops, or an event between loops.
#[derive(Clone, Debug, PartialEq)]
pub enum KernelPhase {
    /// Loops of different threads that run at the same time, until all have ended.
    Together(Vec<Loop>),
    /// Loops of two threads, of which the second follows the first, piece by piece: the blocks of
    /// both are divided into so many equal pieces. Each piece is signalled to the second thread.
    Following(Loop, Loop, u32),
    /// Copies by system calls of different threads at the same time.
    BySystem(Vec<CopyBySystem>),
    /// One thread signals another: a cache line crosses.
    Signalled,
    /// A fixed time in nanoseconds: a system call, or a computation before the next access.
    Elapsing(f64),
}

/// A piece of code.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kernel {
    /// The phases, one after the other.
    pub phases: Vec<KernelPhase>,
}

impl Loop {
    /// Makes a loop that only accesses memory.
    pub fn new(thread: ThreadNumber, accesses: impl IntoIterator<Item = Access>) -> Self {
        Self { thread, accesses: accesses.into_iter().collect(), computing_ns: 0.0 }
    }
}

impl Access {
    /// Makes a load of all bytes of a block.
    pub fn load(block: BlockNumber, bytes: u64) -> Self {
        Self { operation: MemoryOperation::Load, block, bytes, area_bytes: 0 }
    }

    /// Makes a store of all bytes of a block.
    pub fn store(block: BlockNumber, bytes: u64) -> Self {
        Self { operation: MemoryOperation::Store, block, bytes, area_bytes: 0 }
    }

    /// Makes a non-temporal store of all bytes of a block, past the caches.
    pub fn store_past(block: BlockNumber, bytes: u64) -> Self {
        Self { operation: MemoryOperation::StorePast, block, bytes, area_bytes: 0 }
    }
}
