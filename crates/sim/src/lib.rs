#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod actions;
pub mod connections;
pub mod copies;
mod ending;
mod inputs;
pub mod jobs;
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
