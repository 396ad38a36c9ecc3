//! Where the engine, the drivers, the clock and the threads meet: progress, waiting, wire-up,
//! configuration.
//!
//! [`Runtime`] is the way of a message: commands go down to the engine, its packets to the rails,
//! and what arrives goes up again, all inside [`Runtime::progress`] and the commands themselves.
//! What a message means is not known here.

#![forbid(unsafe_code)]

pub mod configuration;
pub mod door;
mod gathering;
mod guidance;
pub mod helper;
pub mod instruments;
pub mod lock;
pub mod machine;
pub mod nearness;
pub mod parts;
mod receiver;
mod recording;
mod regions;
mod runtime;
pub mod samples;
pub mod waiting;
mod wire_up;

pub use driver::{Doorbell, ProgramState, RegionAccess, RegionError, Regions};
pub use drivers::{Invitation, PeerBell, open_memory, share_memory};
pub use gathering::Aim;
pub use guidance::{JobSettings, preferences};
pub use launch::Job;
pub use recording::SentTotals;
pub use runtime::Runtime;
pub use wire_up::{JoinedRuntime, StartError, start};
