//! Starting processes, and their way into the job: PMI-1, key-value exchange.
//!
//! [`join`] is the side of a process, whatever launcher started it.

#![forbid(unsafe_code)]

mod client;

pub use client::{Job, JoinError, join};
