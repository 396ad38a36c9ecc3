//! The objects that handles of packed messages name.

use std::rc::Rc;

use mpi::{PackedReceive, PackedSend};

use crate::c::Comm;

/// A packed message that a handle names.
#[derive(Clone, Debug)]
pub enum PackedMessage {
    /// A message that is being sent, and its communicator.
    Packing(Rc<PackedSend>, Comm),
    /// A message that is being received, and its communicator.
    Unpacking(Rc<PackedReceive>, Comm),
}
