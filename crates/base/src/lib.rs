//! The words that every other crate shares: ids, limits, the error vocabulary, rail profiles.
//!
//! This crate holds plain data. It knows no operating system, no wire format, no MPI constant
//! of the C interface; whatever needs behaviour belongs elsewhere.

#![forbid(unsafe_code)]

pub mod error;
pub mod ids;
pub mod label;
pub mod limits;
pub mod rail;
pub mod region;
pub mod slots;
pub mod variables;

pub use error::{Error, ErrorClass, Result};
pub use ids::{ContextId, GateId, RailId};
pub use label::MessageLabel;
pub use rail::RailProfile;
pub use region::RegionToken;
pub use slots::SlotSize;
