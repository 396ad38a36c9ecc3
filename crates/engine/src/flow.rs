//! Flows: ordered streams of messages from one process to another within one context.
//!
//! A sender names a flow by context and own rank until the receiver has assigned a number to it.
//! From then on a message carries only that number. The number is a direct index in the receiver's
//! table. As the receiver assigns it, no agreement on a free number is needed, and no order of
//! arrival can confuse it.

use base::GateId;

use crate::slab::NONE;

/// Names a context of one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContextSlot(pub(crate) u32);

impl ContextSlot {
    /// Returns a number that no other open context of the engine has.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// By which numbers a process names its peers in a message space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerNames {
    /// By the ranks that they have in the space.
    Ranks,
    /// By their gates.
    Gates,
}

/// The sending end of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutFlow {
    /// The receiver's number for the flow; [`NONE`] until it is known.
    pub number: u32,
    /// The number of the next message.
    pub sequence: u32,
}

impl OutFlow {
    pub(crate) fn starting_at(sequence: u32) -> Self {
        Self { number: NONE, sequence }
    }
}

/// No gate: matches are observed, so no message takes the fast path.
pub(crate) const OBSERVED: GateId = GateId(NONE);

/// The receiving end of a flow.
#[derive(Debug)]
pub(crate) struct InFlow {
    pub gate: GateId,
    /// The gate whose lone messages take the fast path: that of the flow, or [`OBSERVED`].
    pub lone_gate: GateId,
    pub context: ContextSlot,
    /// The sender's rank in the context.
    pub source: u32,
    /// The number of the next message in order.
    pub sequence: u32,
    /// Messages that overtook the next one on another rail, each with its number and record.
    pub early: Vec<(u32, Box<[u8]>)>,
}
