//! The driver between machines, over TCP.
//!
//! Each usable interface of this machine is a rail ([`driver::NetworkSelection`]). A process
//! listens on all of them and publishes their addresses ([`AddressCard`]). A connection to a peer
//! is established when something is first posted to it, one for each pair of interfaces in one
//! network. It is usable after both sides have proven that they have the secret of the job. A
//! connection carries frames: packets, and parts of large messages, which go directly from the
//! sender's memory to the receiver's.
//!
//! Nothing blocks: a rail accepts one packet or part per gate between two polls, if everything
//! before it is written. What is submitted meanwhile stays in the engine's outbox.

#![forbid(unsafe_code)]

mod attempt;
mod card;
mod connection;
#[cfg(any(test, fuzzing))]
mod faulty;
mod frame;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod handshake;
mod interfaces;
mod peers;
mod poller;
mod stream;
mod tcp;

pub use card::{AddressCard, Endpoint};
pub use driver::NetworkSelection;
pub use interfaces::{Interface, survey, usable};
pub use tcp::{Options, Tcp, open};
