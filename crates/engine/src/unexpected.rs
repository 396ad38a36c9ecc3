//! Messages that arrived before their receive was posted.

use base::{GateId, RegionToken};
use memory::HeldBytes;

use crate::flow::ContextSlot;
use crate::list::{Chain, Links};
use crate::slab::{Slab, SlabKey};

/// A message that has arrived and was not received yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncomingMessage {
    /// The sender.
    pub gate: GateId,
    /// The sender's rank in the context.
    pub source: u32,
    /// The tag.
    pub tag: i32,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Names a message that a matched probe has taken, until it is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageId(pub(crate) SlabKey);

/// The content of an unexpected message.
#[derive(Debug)]
pub(crate) enum UnexpectedContent {
    /// All data of the message. `synchronous` is the sender's request that waits for the match.
    Eager { data: HeldBytes, synchronous: Option<u64> },
    /// The sender keeps the data, under its request `request`.
    Announced { request: u64, region: Option<RegionToken> },
}

#[derive(Debug)]
pub(crate) struct Unexpected {
    pub gate: GateId,
    pub context: ContextSlot,
    pub source: u32,
    pub tag: i32,
    pub length: u64,
    pub content: UnexpectedContent,
    /// Neighbours among all messages of the context, in the order of arrival.
    pub arrival: Links,
    /// Neighbours among the messages of one bin.
    pub bin: Links,
}

/// The list of all unexpected messages of a context.
pub(crate) const BY_ARRIVAL: usize = 0;
/// The list of the unexpected messages whose source and tag fall into one bin.
pub(crate) const BY_BIN: usize = 1;

impl Unexpected {
    /// Returns the bytes of data that this process holds for the message.
    pub(crate) fn held_bytes(&self) -> u64 {
        match &self.content {
            UnexpectedContent::Eager { data, .. } => data.len() as u64,
            UnexpectedContent::Announced { .. } => 0,
        }
    }
}

impl Chain<BY_ARRIVAL> for Unexpected {
    fn links(&mut self) -> &mut Links {
        &mut self.arrival
    }
}

impl Chain<BY_BIN> for Unexpected {
    fn links(&mut self) -> &mut Links {
        &mut self.bin
    }
}

pub(crate) type UnexpectedMessages = Slab<Unexpected>;

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten thousand messages of one byte must cost about their own memory, not a packet each.
    #[test]
    fn an_unexpected_message_costs_little_more_than_its_data() {
        assert!(size_of::<Unexpected>() <= 96, "{}", size_of::<Unexpected>());
    }
}
