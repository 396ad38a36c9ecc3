//! Simulated worlds: several engines, a network in memory, a virtual clock, and faults that follow
//! from a seed.
//!
//! [`run`] lets one to five processes perform random operations over rails that delay packets,
//! overtake each other, have little room and fail to fetch. A second, naive matcher implements the
//! text of the MPI standard. It sees the same arrivals and determines which receive must get which
//! message. Each outcome, each byte of each buffer, and what is left at the end is compared with
//! this reference. A failure reports its seed, and recurs whenever that seed is run.
//!
//! [`copies`] is another world: two processes of one machine that copy large messages.

#![forbid(unsafe_code)]

mod actions;
pub mod copies;
mod ending;
mod inputs;
mod losses;
mod network;
mod outcomes;
mod reference;
mod region;
mod setting;
pub mod timed;
pub mod waits;
pub mod workloads;
mod world;

pub use world::{Report, run};
