//! The driver between processes of one machine.
//!
//! Each process has one shared segment with a ring into which all others put their packets
//! (`queues::ring`), and a bell to wake it. Large data is fetched with one copy by
//! process_vm_readv, if a trial with that peer worked.
//!
//! The segment is an anonymous memory file: it has no name anybody could guess or leave behind, it
//! cannot shrink under its users, and its size does not depend on /dev/shm. Peers open it through
//! /proc, which the kernel allows to the same user only, at the place that the card tells; where
//! /proc is closed to them, the process passes them the descriptor over a Unix socket (`passing`).

mod calls;
mod card;
mod copying;
mod costs;
mod ending;
mod expected;
mod incoming;
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
pub use expected::LocalWay;
pub use segment::PeerBell;
pub use shared_memory::{Invitation, OpeningTrial, open_memory, share_memory, try_opening};
pub use shm::Shm;
