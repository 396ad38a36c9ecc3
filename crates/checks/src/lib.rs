//! Mistakes of a program that runs, found from what its calls tell.
//!
//! Whoever sees the calls says here what they were ([`CollectiveEntry`]), as it
//! happens in this process and as other processes told it; what is wrong with that comes back as
//! a [`Mistake`], which says it in words for people. Everything here is data and decisions: no
//! clock, no messages, no memory of the program.

#![forbid(unsafe_code)]

mod collective;
mod mistake;

pub use collective::{CollectiveEntry, CollectiveOrder};
pub use mistake::{CallSite, Mistake, MistakeKind, MistakesTold};
