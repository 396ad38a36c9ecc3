//! The receiver's side: one state machine for each way in which data arrives with the sender's
//! help.

mod jointly;
mod offered;
mod piped;

pub use jointly::JointReceive;
pub use offered::OfferedReceive;
pub use piped::PipedReceive;

use memory::PendingCopy;
use queues::exchange::Exchange;

/// What one step of a transfer has achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferProgress {
    /// No progress.
    Still,
    /// Some bytes have arrived.
    Moved,
    /// The transfer has ended; whether all bytes have arrived.
    Ended(bool),
    /// All bytes have arrived, and the sender has recorded that.
    Written,
    /// The offer was withdrawn before any byte arrived.
    TakenBack,
}

/// What the receiver of a region's data can do with the region.
pub trait ReceiverWorld {
    /// Returns the words through which sender and receiver synchronize for the region.
    fn exchange(&self) -> &Exchange;

    /// Whether the sender's memory can be read.
    fn is_readable(&self) -> bool;

    /// Reads bytes of the region into the buffer, at the offset that they have in the region.
    /// Returns whether that worked.
    fn read(&mut self, offset: usize, length: usize) -> bool;

    /// Copies the beginning of a filled piece of the sender's pool to offset `at` of the buffer.
    fn take(&mut self, piece: usize, length: usize, at: usize);

    /// Whether the processor addresses the buffer.
    fn is_addressable(&self) -> bool;

    /// Begins to copy bytes of a filled piece of the sender's pool, and of those behind it, to
    /// offset `at` of the buffer, which the processor does not address; none if they are copied.
    fn begin_taking(&mut self, piece: usize, length: usize, at: usize) -> Option<PendingCopy>;

    /// Wakes the sender if it sleeps.
    fn ring(&mut self);
}
