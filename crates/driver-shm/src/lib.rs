#![doc = include_str!("../README.md")]
mod card;
mod copying;
mod costs;
mod declared;
mod ending;
mod expected;
mod habit;
mod incoming;
#[cfg(test)]
mod machines;
mod methods;
mod middle;
mod passing;
pub mod protocol;
mod regions;
mod segment;
mod shared_memory;
mod shm;
mod sizes;
mod supply;
mod transfer;

pub use card::{DescriptorAccess, SegmentCard, machine_name, machines};
pub use methods::LocalWay;
pub use segment::PeerBell;
pub use shared_memory::{Invitation, OpeningTrial, open_memory, share_memory, try_opening};
pub use shm::Shm;
