//! Starting processes, and their way into the job: PMI-1, key-value exchange.
//!
//! [`join`] is the side of a process, whatever launcher started it. [`run`] is our own launcher.
//! Between them stands PMI-1, whose server is a state machine without I/O.

#![forbid(unsafe_code)]

mod client;
mod launcher;
mod lines;
mod server;

pub use client::{Job, JoinError, join};
pub use launcher::{Application, LaunchError, Plan, run};
