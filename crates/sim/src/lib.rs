//! Worlds in a box: several engines, a network that exists in memory only, a virtual clock, and
//! faults that follow from a seed.
//!
//! [`run`] makes one to five processes do random things to each other over rails that delay
//! packets, overtake each other, have little room and fail to fetch. A second, naive matching by
//! the letter of the MPI standard sees the same arrivals, and says which receive must get which
//! message; each outcome, each byte of each buffer, and what is left at the end is compared with
//! it. A seed that fails says so, and fails again whenever it is run.
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
