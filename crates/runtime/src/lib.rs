#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod configuration;
mod descriptors;
mod fatal;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod gathering;
mod guidance;
pub mod histories;
pub mod instruments;
pub mod machine;
pub mod migration;
pub mod near_copies;
mod other_jobs;
pub mod parts;
mod pushing;
pub mod rail_localities;
mod receiver;
mod recording;
mod regions;
mod runtime;
pub mod samples;
mod tracing;
mod wire_up;

pub use driver::{Doorbell, ProgramState, RegionAccess, RegionError, Regions};
pub use drivers::machine_name;
pub use drivers::{
    FoundRail, Invitation, LocalWay, OpeningTrial, PeerBell, describe_unfitting, found_rails,
    open_ahead, open_memory, possible_rails, share_memory, try_opening,
};
pub use gathering::TrafficClass;
pub use guidance::{JobSettings, preferences};
pub use launch::Job;
pub use other_jobs::{GateOffer, GlobalProcess, JobId, ProcessContact};
pub use recording::{Recording, SentTotals};
pub use runtime::{GateUses, Runtime};
pub use tracing::Trace;
pub use wire_up::{JoinedRuntime, StartError, is_one_machine, start};
