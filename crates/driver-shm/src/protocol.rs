//! How the data of announced messages gets from process to process: the protocol, apart from
//! memory, clock and system.
//!
//! A [`Sender`] has what its process copies for others; a [`PipedReceive`], a [`JointReceive`] or
//! an [`OfferedReceive`] is one transfer at its receiver. They talk through words in shared memory
//! (`queues::exchange`, `queues::offer`), and do what takes time, or can fail, through
//! [`SenderWorld`] and [`ReceiverWorld`]. They read no clock: time is an argument, and none where
//! whoever calls has not looked at the clock. So they also run in the simulator (the crate `sim`),
//! where peers stop, are slow, and cannot be read or written.

mod pieces;
mod receiver;
mod sender;

use std::time::Duration;

pub use pieces::{PIECE_BYTES, piece_bytes, pieces_of, range_of};
pub use receiver::{JointReceive, OfferedReceive, PipedReceive, ReceiverWorld, TransferProgress};
pub use sender::{AHEAD_BYTES_MAX, AHEAD_MAX, Caches, Sender, SenderWorld};

/// After so long without a piece the receiver copies itself: the sender seems to compute.
pub const SENDER_TIME: Duration = Duration::from_micros(50);

/// The same for data that is sent ahead, if the sender has not begun.
pub const SENDER_TIME_AHEAD: Duration = Duration::from_nanos(500);

/// So long a receiver has to say how it wants the data of a long message, if it has not gone away.
pub const RECEIVER_TIME: Duration = Duration::from_micros(2);
