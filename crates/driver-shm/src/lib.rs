//! The driver between processes of one machine.
//!
//! Each process has one shared segment, with a ring into which all other processes put their
//! packets (`queues::ring`), and a doorbell to wake it. Large data is fetched with a single copy by
//! process_vm_readv, if a test with that peer worked.
//!
//! The segment is an anonymous memory file. It has no name that could be guessed or left behind, it
//! cannot shrink under its users, and its size does not depend on /dev/shm. Peers open it through
//! /proc, which the kernel allows only to processes of the same user, at the place given in the
//! card. Where a peer cannot open /proc, the process passes it the descriptor over a Unix socket
//! (`passing`).

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
