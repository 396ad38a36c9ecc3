//! The receiver's side: one state machine for each way in which data comes with the sender's help.

mod jointly;
mod offered;
mod piped;

pub use jointly::JointReceive;
pub use offered::OfferedReceive;
pub use piped::PipedReceive;

use queues::exchange::Exchange;

/// How far a transfer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferProgress {
    /// Nothing has happened.
    Still,
    /// Some bytes have come.
    Moved,
    /// It is over; whether all bytes are here.
    Ended(bool),
    /// All bytes are here, and the sender knows it.
    Written,
    /// The offer is over, without any.
    TakenBack,
}

/// What the receiver of a region's data can do with the region.
pub trait ReceiverWorld {
    /// What the two tell each other about the region.
    fn exchange(&self) -> &Exchange;

    /// Whether the sender's memory can be read.
    fn is_readable(&self) -> bool;

    /// Reads bytes of the region to the same place of the buffer; whether that worked.
    fn read(&mut self, offset: usize, length: usize) -> bool;

    /// Copies the beginning of a filled piece of the sender's pool to a place in the buffer.
    fn take(&mut self, piece: usize, length: usize, at: usize);

    /// Wakes the sender if it sleeps.
    fn ring(&mut self);
}
