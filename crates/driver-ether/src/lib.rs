//! The driver between machines over plain Ethernet: frames of their own EtherType, beside IP on one
//! interface, without TCP/IP.
//!
//! Each usable Ethernet interface is a rail. Two processes find each other by their cards, which
//! contain MAC addresses and endpoints. They communicate over each pair of interfaces in one
//! network through a `link::Link`: the protocol, which uses neither sockets nor clock, and is
//! simulated with all faults of networks. `port` sends and receives through sockets; `ether` is the
//! driver. docs/internals/ethernet.md describes the protocol.
//!
//! Why: docs/internals/decisions/0046-plain-ethernet.md

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

pub use ahead::open_ahead;
pub use ether::{Ether, open, survey};
