//! The driver between machines, over TCP.
//!
//! Each usable interface of this machine is a rail ([`driver::NetworkSelection`]). A process
//! listens on all of them and publishes where ([`AddressCard`]); a connection to a peer is made
//! when something is first posted to it, one for each pair of interfaces that are in the same
//! network, and stands after both sides have proven that they know the secret of the job. A
//! connection carries frames: packets, and parts of large messages, which go straight from the
//! sender's memory to the receiver's.
//!
//! Nothing blocks: a rail takes one packet or part per gate between two polls, as long as all
//! before it is written. What is submitted meanwhile gathers above.

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
