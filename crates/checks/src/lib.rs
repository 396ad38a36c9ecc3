//! Mistakes of a program that runs, found from what its calls tell.
//!
//! Whoever sees the calls says here what they were ([`CollectiveEntry`], [`SentMessage`],
//! [`MemoryRanges`]), as it happens in this process and as other processes told it; what is wrong
//! with that comes back, and becomes a [`Mistake`], which says it in words for people. Everything
//! here is data and decisions: no clock, no messages, no memory of the program.

#![forbid(unsafe_code)]

mod accesses;
mod collective;
mod in_use;
mod messages;
mod mistake;
mod ranges;
mod signature;
mod standstill;

pub use accesses::{AccessAction, AccessPeriod, SeenAccess};
pub use collective::{CollectiveEntry, CollectiveOrder};
pub use in_use::MemoryInUse;
pub use messages::{MessageOrder, ReceiveSelection, SentMessage};
pub use mistake::{CallSite, Mistake, MistakeKind, MistakesTold};
pub use ranges::MemoryRanges;
pub use signature::{SIGNATURE_RUNS_MAX, TypeSignature};
pub use standstill::{AwaitedAct, ChainedCall, WaitChain};
