//! The driver between machines over libfabric, the common interface to fast networks (InfiniBand,
//! Omni-Path, Slingshot, EFA), each of which has a provider in libfabric.
//!
//! The library is loaded only when the user names the driver (`COMBRAY_NET=ofi`). Each interface
//! that is used is a rail: a reliable endpoint (FI_EP_RDM) with buffers of its own (`endpoint`,
//! which contains all unsafe code together with `library` and `declarations`). Messages arrive in
//! buffers that are posted in advance. They bear a token that only processes of the job can make,
//! and a sequence number (`message`), as providers may complete a large message after a later one.
//! Parts of large messages stay in the sender's memory until their receiver reads them (`parts`).
//! `choice` decides which interfaces are used; `ofi` is the driver.
//!
//! Why: docs/internals/decisions/0053-fast-networks-by-libfabric.md

mod card;
mod choice;
mod declarations;
mod endpoint;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
#[cfg(test)]
mod layout;
mod library;
mod link;
mod message;
mod ofi;
mod parts;

pub use choice::survey;
pub use ofi::{Ofi, open};
