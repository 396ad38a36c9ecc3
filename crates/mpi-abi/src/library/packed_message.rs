//! Packed messages, as handles name them.

use std::rc::Rc;

use mpi::{PackedReceive, PackedSend};

use crate::c::Comm;

/// What a handle of a packed message names.
#[derive(Clone, Debug)]
pub enum PackedMessage {
    /// One that is being sent, and the communicator that it is sent in.
    Packing(Rc<PackedSend>, Comm),
    /// One that is being received.
    Unpacking(Rc<PackedReceive>, Comm),
}
