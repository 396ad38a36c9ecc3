//! Strategies decide what a rail sends next.
//!
//! The engine calls a strategy when a rail has room. The strategy sees the whole outbox of one gate
//! and all rails that lead there, and returns a plan: a packet of some of the chunks, or a part of
//! a large message. It changes nothing, so that plans can be tested and replayed without a network.

mod aggregate;
mod auto;
mod direct;
mod packing;
mod prediction;
mod priority;
mod split;

use std::fmt;

use base::{RailId, RailProfile};

use crate::model::RailModel;

pub use aggregate::Aggregate;
pub use auto::Auto;
pub use direct::Direct;
pub use priority::Priority;
pub use split::Split;

/// How many chunks of an outbox a strategy compares with each other, from the oldest on. Chunks
/// behind them wait for their turn; a packet of small ones may hold more.
pub const LOOKAHEAD: usize = 64;

/// Makes the table of strategies: each with its name.
macro_rules! strategies {
    ($($strategy:ident: $name:literal,)*) => {
        /// The names of the strategies; the first is the default.
        pub const NAMES: &[&str] = &[$($name),*];

        /// Returns the strategy with one of [`NAMES`].
        pub fn by_name(name: &str) -> Option<&'static dyn Strategy> {
            match name {
                $($name => Some(&$strategy),)*
                _ => None,
            }
        }
    };
}

strategies! {
    Auto: "auto",
    Direct: "direct",
    Aggregate: "aggregate",
    Split: "split",
    Priority: "priority",
}

/// Decides what a rail sends next.
pub trait Strategy: fmt::Debug + std::marker::Send + Sync {
    /// The name by which users choose it.
    fn name(&self) -> &'static str;

    /// Whether short messages of a flow that wait are to share a packet. If not, each one is
    /// planned singly.
    fn gathers(&self) -> bool {
        true
    }

    /// Fills `plan`, which is empty, with what the rail `rails[rail]`, which has room, sends next.
    /// An empty plan sends nothing there now.
    fn plan(
        &self,
        window: &dyn ChunkWindow,
        rails: &[RailView<'_>],
        rail: usize,
        plan: &mut PacketPlan,
    );
}

impl Strategy for &'static dyn Strategy {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn gathers(&self) -> bool {
        (**self).gathers()
    }

    fn plan(
        &self,
        window: &dyn ChunkWindow,
        rails: &[RailView<'_>],
        rail: usize,
        plan: &mut PacketPlan,
    ) {
        (**self).plan(window, rails, rail, plan);
    }
}

/// One of the rails that lead to a gate.
#[derive(Clone, Copy, Debug)]
pub struct RailView<'a> {
    /// The rail's number.
    pub id: RailId,
    /// The profile that its driver declares.
    pub profile: &'a RailProfile,
    /// Its performance model.
    pub model: &'a RailModel,
    /// The longest packet that the rail accepts to this gate, in bytes.
    pub packet_bytes_max: usize,
    /// Bytes that were posted on it to this gate and are still underway.
    pub backlog_bytes: u64,
}

/// The chunks that wait for one gate, oldest first.
pub trait ChunkWindow {
    /// Returns the number of chunks.
    fn len(&self) -> usize;

    /// Whether there are no chunks.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns what the chunk at `index` would add to a packet.
    fn offer(&self, index: usize) -> ChunkView;
}

/// The properties of one chunk by which a strategy plans it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkView {
    /// The length of its record's header, in bytes.
    pub header: usize,
    /// The length of its waiting data, in bytes.
    pub payload: usize,
    /// Whether it is the data of a granted message: a part of it may be sent alone, and goes on the
    /// bulk track if the rail has one.
    pub divisible: bool,
    /// Its priority; 0 if the program has set none.
    pub priority: i32,
    /// The rails that may carry it, of which at least one leads to the gate.
    pub rails: RailSet,
    /// The flow whose order it keeps. The receiver cannot use a message before the older messages
    /// of its flow, so overtaking them would gain nothing. Control records and granted data belong
    /// to no flow.
    pub flow: Option<u64>,
    /// How many packets with younger chunks were sent since it was submitted, at most 255.
    pub overtaken: u8,
}

impl ChunkView {
    /// Makes a chunk without special properties.
    pub fn new(header: usize, payload: usize) -> Self {
        let (divisible, priority, rails, flow, overtaken) = (false, 0, RailSet::ALL, None, 0);
        Self { header, payload, divisible, priority, rails, flow, overtaken }
    }

    /// Returns the bytes that it would add to a packet if all of it went.
    pub fn bytes(&self) -> usize {
        wire::padded(self.header, self.payload)
    }

    /// Returns how much of a chunk's data fits into `space` bytes; `None` if the chunk does not
    /// fit. A divisible chunk may go in part, in multiples of 8 bytes.
    pub fn fitting_payload(&self, space: usize) -> Option<usize> {
        let payload = self.payload.min(wire::PAYLOAD_BYTES_MAX);
        if wire::padded(self.header, payload) <= space && payload == self.payload {
            return Some(payload);
        }
        if !self.divisible {
            return None;
        }
        let room = space.checked_sub(self.header)?.min(payload) / 8 * 8;
        (room > 0).then_some(room)
    }
}

/// A set of rails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RailSet(u64);

impl RailSet {
    /// All rails, including those beyond the 64th.
    pub const ALL: Self = Self(u64::MAX);

    /// Returns the set of one rail. For a rail beyond the 64th, returns [`ALL`](Self::ALL).
    pub fn only(rail: RailId) -> Self {
        if u32::from(rail.0) < u64::BITS { Self(1 << rail.0) } else { Self::ALL }
    }

    /// Whether the set contains a rail.
    #[inline]
    pub fn contains(self, rail: RailId) -> bool {
        self == Self::ALL || u32::from(rail.0) < u64::BITS && self.0 >> rail.0 & 1 == 1
    }
}

/// What a rail sends next: chunks in one packet, by their index in the window, in rising order; or
/// a part of one chunk on the bulk track.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketPlan {
    /// The entries of the packet.
    pub entries: Vec<PlannedChunk>,
    /// The length of the whole packet, in bytes.
    pub bytes: usize,
    /// The part; the packet is then empty.
    pub part: Option<PlannedChunk>,
}

/// One chunk's share of a packet, or its part for the bulk track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedChunk {
    /// The chunk's index in the window.
    pub index: usize,
    /// Bytes of its data to send; less than the waiting data only if the chunk is divisible.
    pub payload: usize,
}

impl PacketPlan {
    /// Empties the plan.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
        self.part = None;
    }

    /// Adds as much of a chunk as a packet of `space` bytes has room for. Returns whether anything
    /// was added.
    pub fn add(&mut self, index: usize, offer: ChunkView, space: usize) -> bool {
        let Some(payload) = offer.fitting_payload(space - self.bytes) else {
            return false;
        };
        self.entries.push(PlannedChunk { index, payload });
        self.bytes += wire::padded(offer.header, payload);
        true
    }
}

#[cfg(test)]
pub(crate) mod tests;
