//! Lock-free queues in shared memory.
//!
//! Processes of one machine send packets through them: all peers of a process through its [`ring`],
//! those that send it much each through a [`lane`] of its own. Both are handed memory, and know
//! neither how that is shared nor what the packets mean. The [`bell`] wakes a process that sleeps,
//! and an [`offer`] tells a sender where its data belongs. Inside a process, the [`door`] lets
//! either the program or its helper in, and the [`lock`] one of its threads.

pub mod bell;
pub mod door;
pub mod lane;
pub mod lock;
pub mod offer;
mod primitive;
pub mod ring;
