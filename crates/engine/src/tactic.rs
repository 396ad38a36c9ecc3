//! Tactics: the small pure questions that strategies share.

use base::RailProfile;

use crate::strategy::Offer;

/// How much of a chunk's data fits when `space` bytes are left; none if the chunk does not go.
/// A divisible chunk goes in part, by multiples of 8 bytes.
pub fn fitting_payload(offer: Offer, space: usize) -> Option<usize> {
    let payload = offer.payload.min(wire::PAYLOAD_BYTES_MAX);
    if wire::padded(offer.header, payload) <= space && payload == offer.payload {
        return Some(payload);
    }
    if !offer.divisible {
        return None;
    }
    let room = space.checked_sub(offer.header)?.min(payload) / 8 * 8;
    (room > 0).then_some(room)
}

/// Whether sending a chunk along with others costs less than a packet of its own: the packet's
/// fixed cost saved, against the time for which its bytes hold up those before it.
pub fn joins_with_profit(offer: Offer, rail: &RailProfile) -> bool {
    let transfer_ns = offer.payload as u64 * 1000 / rail.bandwidth_bytes_per_us.max(1);
    offer.divisible || transfer_ns <= JOIN_LATENCIES_MAX * rail.latency_ns
}

/// A chunk joins a packet when its bytes take no longer than this many packets' latencies.
const JOIN_LATENCIES_MAX: u64 = 8;
