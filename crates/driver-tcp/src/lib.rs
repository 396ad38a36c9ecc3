#![doc = include_str!("../README.md")]
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
mod pacing;
mod peers;
mod poller;
mod sealed;
mod stream;
mod tcp;

pub use card::{AddressCard, Endpoint};
pub use driver::NetworkSelection;
pub use interfaces::{Interface, survey, usable};
pub use tcp::{Options, Tcp, open};
