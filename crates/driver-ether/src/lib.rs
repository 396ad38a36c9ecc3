//! The driver between machines, over plain Ethernet: frames of an EtherType of their own, beside IP
//! on the same interface, without TCP/IP.
//!
//! Each usable Ethernet interface is a rail. Two processes find each other by their cards, which
//! tell MAC addresses and endpoints, and talk over each pair of interfaces in the same network by a
//! `link::Link`: the protocol, which knows neither sockets nor clock, and is simulated with
//! all that networks do. What goes through sockets is in `port`; the driver is in `ether`.
//! docs/internals/ethernet.md tells the protocol.

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
