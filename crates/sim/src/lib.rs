//! Worlds in a box: several engines, a network that exists in memory only, a virtual clock, and
//! faults that follow from a seed.
//!
//! [`run`] makes a random program of sends and receives for two to four processes, runs it over
//! rails that delay packets, overtake each other, have little room and fail to fetch, and checks
//! what MPI promises: each message arrives once, whole, and in order; each operation completes;
//! nothing is left. A seed that fails says so, and fails again whenever it is run.

#![forbid(unsafe_code)]

mod network;
mod oracle;
mod program;
mod world;

pub use world::{Report, run};
