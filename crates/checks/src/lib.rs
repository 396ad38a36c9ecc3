//! Finds mistakes of a running MPI program from reports about its calls.
//!
//! The caller reports each call as data ([`CollectiveEntry`], [`SentMessage`], [`MemoryRanges`]):
//! the calls of this process, and the calls that other processes have reported to it. The results
//! are instances of [`Mistake`], which describes a mistake in words for the user. This crate
//! contains data and decisions only: no clock, no messages, no access to the memory of the program.
//!
//! Why: docs/internals/decisions/0058-calls-are-checked-at-the-door.md

#![forbid(unsafe_code)]

mod accesses;
mod collective;
mod deadlock;
mod in_use;
mod messages;
mod mistake;
mod ranges;
mod signature;

pub use accesses::{AccessAction, AccessPeriod, SeenAccess};
pub use collective::{CollectiveEntry, CollectiveOrder};
pub use deadlock::{AwaitedAct, ChainedCall, WaitChain};
pub use in_use::MemoryInUse;
pub use messages::{MessageOrder, ReceiveSelection, SentMessage};
pub use mistake::{CallSite, Mistake, MistakeKind, ReportedMistakes};
pub use ranges::MemoryRanges;
pub use signature::{SIGNATURE_RUNS_MAX, TypeSignature};
