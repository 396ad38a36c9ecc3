//! What accesses to memory cost, by the state of the cache lines that they meet, and what follows
//! from that for code that is described by its accesses alone: a prediction, without running it.
//!
//! [`CostTable`] holds what was measured on a machine. [`Kernel`] is a piece of code: who reads and
//! writes which blocks, at the same time or one after the other. [`predict`] walks through it with
//! the state of each block and adds. [`MessageMove`] is a message, by each of the ways in which one
//! moves inside a machine. [`NodeCosts`] says whether memory should go to the NUMA node of a thread
//! that is going to use it, or the thread to the memory's.
//!
//! After B. Putigny, "Benchmark-driven approaches to performance modeling of multi-core
//! architectures" (PhD thesis, Université de Bordeaux, 2014). Prefetching, execution out of order
//! and what the processor's maker does not tell stay inside the measurements; only the coherence of
//! the caches is modelled. Pure: no clock, no threads, no files.

#![forbid(unsafe_code)]

mod curve;
mod kernel;
mod nodes;
mod prediction;
mod table;
mod ways;

pub use curve::Curve;
pub use kernel::{Access, BlockNumber, CopyBySystem, Kernel, KernelPhase, Loop, ThreadNumber};
pub use nodes::{
    CopyForecast, Migration, MigrationForecast, NODE_CONDITIONS, NodeCosts, NodeDistance,
    PlannedUse, UsePlaces,
};
pub use prediction::{BlockStates, predict};
pub use table::{
    AccessCondition, CONDITIONS, CostTable, Distance, LineState, MemoryOperation, Met,
    SYSTEM_COPIES, SystemCopy, SystemCosts,
};
pub use ways::{MessageMove, MessageWay, Passage, SentBytes};
