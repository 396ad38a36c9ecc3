//! Starting processes, and their way into the job: PMI-1, key-value exchange.
//!
//! [`join`] is the side of a process, whatever launcher started it. [`run`] is our own launcher, and
//! [`serve_as_agent`] its helper on another machine. Between process and launcher stands PMI-1,
//! between launcher and agent a protocol of our own; both are state machines without I/O.

#![forbid(unsafe_code)]

pub mod binding;
mod client;
mod launcher;
mod lines;
mod placement;
mod protocol;
pub mod rankfile;
mod server;

pub use client::{Job, JoinError, join};
pub use launcher::{
    Application, LaunchError, Plan, Preview, is_this_machine, preview, run, serve_as_agent,
};
pub use placement::{Host, slots};
