//! Strategies: what a rail carries next.
//!
//! A strategy is asked when a rail has room. It sees the whole outbox of one gate and all rails
//! that lead there, and returns a plan: a packet of some of the chunks, or a part of a large
//! message. It changes nothing, so that plans can be tested and replayed without a network.

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

/// How many chunks of an outbox a strategy compares with each other, from the oldest on. What
/// waits behind them waits for its turn; a packet of small ones may hold more.
pub const LOOKAHEAD: usize = 64;

/// The table of strategies: each with its name.
macro_rules! strategies {
    ($($strategy:ident: $name:literal,)*) => {
        /// The names of the strategies; the first is the default.
        pub const NAMES: &[&str] = &[$($name),*];

        /// The strategy with one of [`NAMES`].
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

/// Decides what a rail carries next.
pub trait Strategy: fmt::Debug + std::marker::Send + Sync {
    /// The name by which people choose it.
    fn name(&self) -> &'static str;

    /// Fills `plan`, which is empty, with what the rail `rails[rail]`, which has room, shall carry
    /// next. An empty plan sends nothing there now.
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
    /// Which rail it is.
    pub id: RailId,
    /// What the driver declares of it.
    pub profile: &'a RailProfile,
    /// What is known of its speed.
    pub model: &'a RailModel,
    /// The longest packet that it takes to this gate, in bytes.
    pub packet_bytes_max: usize,
    /// Bytes that were posted on it to this gate and are still underway.
    pub backlog_bytes: u64,
}

/// The chunks that wait for one gate, oldest first.
pub trait ChunkWindow {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the chunk at `index` would add to a packet.
    fn offer(&self, index: usize) -> ChunkView;
}

/// What one chunk would add to a packet, and what must be known to choose its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkView {
    /// Bytes of its record's header.
    pub header: usize,
    /// Bytes of its data that wait.
    pub payload: usize,
    /// Whether it is the data of a granted message: a part of it may go alone, and on a rail with
    /// a bulk track it goes there.
    pub divisible: bool,
    /// How urgent it is; 0 if nobody said anything.
    pub priority: i32,
    /// The rails that may carry it, of which at least one leads to the gate.
    pub rails: RailSet,
    /// The flow whose order it keeps. The receiver can make no use of a message before the older
    /// ones of its flow, so that overtaking these would be in vain. Control records and granted
    /// data belong to none.
    pub flow: Option<u64>,
    /// How many packets with younger chunks have gone since it was submitted, as far as 255.
    pub overtaken: u8,
}

impl ChunkView {
    /// A chunk of which nothing special is known.
    pub fn new(header: usize, payload: usize) -> Self {
        let (divisible, priority, rails, flow, overtaken) = (false, 0, RailSet::ALL, None, 0);
        Self { header, payload, divisible, priority, rails, flow, overtaken }
    }

    /// Bytes that it would add to a packet if it went whole.
    pub fn bytes(&self) -> usize {
        wire::padded(self.header, self.payload)
    }

    /// How much of a chunk's data fits when `space` bytes are left; none if the chunk does not go.
    /// A divisible chunk goes in part, by multiples of 8 bytes.
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
    /// All rails, also those beyond the 64th.
    pub const ALL: Self = Self(u64::MAX);

    /// The set of one rail; rails beyond the 64th cannot be named.
    pub fn only(rail: RailId) -> Self {
        if u32::from(rail.0) < u64::BITS { Self(1 << rail.0) } else { Self::ALL }
    }

    /// Whether a rail belongs to it.
    #[inline]
    pub fn contains(self, rail: RailId) -> bool {
        self == Self::ALL || u32::from(rail.0) < u64::BITS && self.0 >> rail.0 & 1 == 1
    }
}

/// What a rail shall carry: chunks in one packet, by their place in the window, in rising order; or
/// a part of one chunk on the bulk track.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketPlan {
    /// The entries of the packet.
    pub entries: Vec<PlannedChunk>,
    /// Bytes of the whole packet.
    pub bytes: usize,
    /// The part; the packet is empty then.
    pub part: Option<PlannedChunk>,
}

/// One chunk's share of a packet, or the part of one that goes on the bulk track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedChunk {
    /// The chunk's place in the window.
    pub index: usize,
    /// Bytes of its data that go; less than what waits only if it is divisible.
    pub payload: usize,
}

impl PacketPlan {
    /// Empties the plan.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
        self.part = None;
    }

    /// Adds as much of a chunk as `space` bytes in all let in; returns whether anything was added.
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
