//! The protocol that moves the data of announced messages between processes, independent of memory,
//! clock and system.
//!
//! A [`Sender`] does all the copying of its process for others. A [`PipedReceive`], a
//! [`JointReceive`] or an [`OfferedReceive`] is one transfer at its receiver. Both sides
//! communicate through words in shared memory (`queues::exchange`, `queues::offer`). They do
//! everything that takes time, or can fail, through [`SenderWorld`] and [`ReceiverWorld`]. They
//! read no clock: time is an argument, and none where the caller has not read the clock. So they
//! also run in the simulator (the crate `sim`), where peers stop, are slow, and cannot be read or
//! written.
//!
//! Why: docs/internals/decisions/0033-the-protocol-of-large-messages-has-no-world.md

mod pieces;
mod receiver;
mod sender;

use std::time::Duration;

pub use pieces::{PIECE_BYTES, PIECES_AT_ONCE, piece_bytes, pieces_of, range_of};
pub use receiver::{JointReceive, OfferedReceive, PipedReceive, ReceiverWorld, TransferProgress};
pub use sender::{AHEAD_BYTES_MAX, AHEAD_MAX, Caches, Sender, SenderWorld};

/// If no piece arrives for this long, the receiver copies the data itself: the sender seems to
/// compute.
pub const SENDER_TIME: Duration = Duration::from_micros(50);

/// If data is sent ahead and the sender has not begun to copy it after this time, the receiver
/// copies it itself.
pub const SENDER_TIME_AHEAD: Duration = Duration::from_nanos(500);

/// How long a receiver has to request the data of a long message before the sender acts on its own.
pub const RECEIVER_TIME: Duration = Duration::from_micros(2);
