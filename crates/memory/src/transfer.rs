//! What the engine and the drivers hand each other about the memory of large messages.
//!
//! Both know a transfer by a number of the engine's, its token, which means nothing to drivers.

use base::{GateId, RailId, RegionToken};

use crate::Buffer;

/// Bytes by which the two engines know a part; they mean nothing to drivers.
pub type Label = [u8; 24];

/// A part of a large message on its way from here.
#[derive(Debug)]
pub struct Part {
    /// What the receiver knows it by.
    pub label: Label,
    /// The whole message.
    pub buffer: Buffer,
    /// Where in it the part begins, in bytes of data.
    pub offset: usize,
    /// How many bytes it has, at least one.
    pub length: usize,
    /// Names it when its memory is not read any more.
    pub token: u64,
}

/// Where the bytes of a part belong that begins to arrive.
#[derive(Debug)]
pub enum PartPlace {
    /// Into this buffer.
    At {
        /// The whole message's.
        buffer: Buffer,
        /// Where the part begins in it, in bytes of data.
        offset: usize,
        /// The rail on which the same part was arriving: it is given up before anything is
        /// written.
        instead_of: Option<RailId>,
    },
    /// They are here already, by another way: they are to be read and dropped.
    Nowhere,
}

/// A transfer of a peer's memory to here.
#[derive(Debug)]
pub struct Fetch {
    /// The peer.
    pub gate: GateId,
    /// The region that holds the data.
    pub region: RegionToken,
    /// How many bytes, from the first.
    pub length: usize,
    /// Where they go.
    pub into: Buffer,
    /// Names it when it has ended.
    pub token: u64,
}

/// How a fetch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchEnd {
    /// All bytes are where they belong.
    Complete,
    /// Some of the data could not be read, or it is better sent in packets.
    Incomplete,
}

impl FetchEnd {
    /// Complete or not.
    #[inline]
    pub fn of(is_complete: bool) -> Self {
        if is_complete { Self::Complete } else { Self::Incomplete }
    }
}
