//! The driver between machines over libfabric: one interface to what fast networks have
//! (InfiniBand, Omni-Path, Slingshot, EFA), each of which has a provider there.
//!
//! The library is loaded when a person names the driver (`COMBRAY_NET=ofi`): nobody else needs it.
//! Each interface that is used is a rail: a reliable endpoint (FI_EP_RDM) with buffers of its own
//! (`endpoint`, where all that is unsafe is, with `library` and `declarations`). Messages go in
//! buffers that are posted ahead, and bear a token that only processes of the job can make and a
//! number (`message`), as providers may end a large one after the next. Parts of large messages
//! stay where they are until their receiver reads them (`parts`). Which interfaces are used is in
//! `choice`; the driver is in `ofi`.

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
