//! Strategies: what the next packet is.
//!
//! A strategy is asked when a rail has room. It sees the whole outbox of one gate and the rail's
//! profile, and returns a plan: which chunks, and how much of each. It changes nothing, so that
//! plans can be tested and replayed without a network.

mod aggregate;
mod direct;

use std::fmt;

use base::RailProfile;

pub use aggregate::Aggregate;
pub use direct::Direct;

/// Decides what the next packet holds.
pub trait Strategy: fmt::Debug + std::marker::Send {
    /// The name by which people choose it.
    fn name(&self) -> &'static str;

    /// Fills `plan`, which is empty, with what the next packet on a rail with this profile shall
    /// hold. An empty plan sends nothing.
    fn plan(&self, window: &dyn Window, rail: &RailProfile, plan: &mut Plan);
}

/// The chunks that wait for one gate, oldest first.
pub trait Window {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the chunk at `index` would add to a packet.
    fn offer(&self, index: usize) -> Offer;
}

/// What one chunk would add to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Bytes of its record's header.
    pub header: usize,
    /// Bytes of its data that wait.
    pub payload: usize,
    /// Whether a part of the data may go alone.
    pub divisible: bool,
}

/// The content of a packet: chunks by their place in the window, in rising order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The entries.
    pub entries: Vec<Entry>,
    /// Bytes of the whole packet.
    pub bytes: usize,
}

/// One chunk's share of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The chunk's place in the window.
    pub index: usize,
    /// Bytes of its data that go; less than what waits only if it is divisible.
    pub payload: usize,
}

impl Plan {
    /// Empties the plan.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    /// Adds as much of a chunk as `space` bytes in all let in; returns whether anything was added.
    pub fn add(&mut self, index: usize, offer: Offer, space: usize) -> bool {
        let Some(payload) = crate::tactic::fitting_payload(offer, space - self.bytes) else {
            return false;
        };
        self.entries.push(Entry { index, payload });
        self.bytes += wire::padded(offer.header, payload);
        true
    }
}
