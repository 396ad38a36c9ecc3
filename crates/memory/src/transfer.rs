//! The types by which the engine and the drivers refer to the memory of large messages.
//!
//! Both identify a transfer by a number of the engine, its token, which drivers do not interpret.

use base::{GateId, RailId, RegionToken};

use crate::Buffer;

/// Bytes by which the engines of both peers identify a part; drivers do not interpret them.
pub type Label = [u8; 24];

/// A part of a large message that is sent.
#[derive(Debug)]
pub struct Part {
    /// The label by which the receiver identifies it.
    pub label: Label,
    /// The buffer of the whole message.
    pub buffer: Buffer,
    /// Where the part begins in the message, in bytes of data.
    pub offset: usize,
    /// The number of its bytes, at least one.
    pub length: usize,
    /// Reported to the engine when the part's memory is not read any more.
    pub token: u64,
}

/// Where the bytes of an arriving part belong.
#[derive(Debug)]
pub enum PartPlace {
    /// Into this buffer.
    At {
        /// The buffer of the whole message.
        buffer: Buffer,
        /// Where the part begins in it, in bytes of data.
        offset: usize,
        /// The rail on which this part was arriving before: that transfer is given up before
        /// anything is written.
        instead_of: Option<RailId>,
    },
    /// The bytes have arrived by another way: they must be read and dropped.
    Nowhere,
}

/// A transfer from a peer's memory to this process.
#[derive(Debug)]
pub struct Fetch {
    /// The peer.
    pub gate: GateId,
    /// The peer's region that holds the data.
    pub region: RegionToken,
    /// The number of bytes, from the first one of the region.
    pub length: usize,
    /// The destination.
    pub into: Buffer,
    /// Reported to the engine when the transfer has ended.
    pub token: u64,
}

/// The outcome of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchEnd {
    /// All bytes have been fetched.
    Complete,
    /// Some of the data could not be read, or it is better sent in packets.
    Incomplete,
}

impl FetchEnd {
    /// Returns `Complete` if `is_complete` is true, otherwise `Incomplete`.
    #[inline]
    pub fn of(is_complete: bool) -> Self {
        if is_complete { Self::Complete } else { Self::Incomplete }
    }
}
