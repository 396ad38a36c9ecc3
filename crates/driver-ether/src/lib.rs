#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod ahead;
mod bell;
mod card;
mod ether;
mod fragments;
mod frame;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod interfaces;
mod link;
mod path;
mod port;
mod pulling;
mod seal;
mod sequence;
mod serving;
#[cfg(test)]
mod simulation;
mod timing;
mod transmitter;

pub use ahead::open_ahead;
pub use ether::{Ether, open, survey};
