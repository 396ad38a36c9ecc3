//! The cost of memory accesses, by the state of the cache lines that they meet. From these costs it
//! predicts the time of code that is described only by its accesses, without running it.
//!
//! [`CostTable`] contains the measurements of a machine. [`Kernel`] is a piece of code: which
//! threads read and write which blocks, at the same time or one after the other. [`predict`]
//! simulates it with the state of each block and adds up the costs. [`MessageMove`] is a message,
//! with each of the methods of transfer inside a machine. [`NodeCosts`] predicts whether memory
//! should move to the NUMA node of a thread that is going to use it, or the thread to the memory's
//! node. [`SharingCosts`] has how much slower threads become that use memory at the same time.
//!
//! After B. Putigny, "Benchmark-driven approaches to performance modeling of multi-core
//! architectures" (PhD thesis, Université de Bordeaux, 2014). Prefetching, out-of-order execution
//! and undocumented properties of the processor are covered by the measurements; only the coherence
//! of the caches is modelled. Pure functions: no clock, no threads, no files.
//!
//! Why: docs/internals/decisions/0061-what-accesses-cost-is-measured-by-state.md

#![forbid(unsafe_code)]

mod access;
mod curve;
mod kernel;
mod nodes;
mod prediction;
mod sharing;
mod table;
mod ways;

pub use access::{
    AccessCondition, CONDITIONS, LineState, MemoryOperation, Met, SYSTEM_COPIES, SystemCopy,
};
pub use curve::Curve;
pub use kernel::{Access, BlockNumber, CopyBySystem, Kernel, KernelPhase, Loop, ThreadNumber};
pub use nodes::{
    CopyForecast, Migration, MigrationForecast, NODE_CONDITIONS, NodeCosts, NodeDistance,
    PlannedUse, UsePlaces,
};
pub use prediction::{BlockStates, predict};
pub use sharing::{Circumstance, CrowdCosts, SharingCosts};
pub use table::{CostTable, Distance, SystemCosts};
pub use ways::{MessageMove, MessageWay, Passage, SentBytes};
