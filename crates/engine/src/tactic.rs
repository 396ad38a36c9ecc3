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

/// How many bytes the next part of a stream has, of which `done` of `whole` bytes are sent, when a
/// packet has room for `room`. Sender and receiver copy at the same time, each another part: parts
/// are small at the beginning, where the receiver waits for the first, and at the end, where the
/// sender has nothing left to copy, and large between, where each costs a fixed time.
#[inline]
pub fn part_of_stream(done: u64, whole: u64, room: usize) -> usize {
    let left = whole - done;
    let ramp = (done.min(left) / 2).max(PART_BYTES_MIN);
    let part = ramp.min(room as u64) / 8 * 8;
    part.min(left) as usize
}

/// The smallest part of a stream, in bytes, that is worth a packet.
const PART_BYTES_MIN: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_rise_and_fall_and_make_the_whole() {
        for whole in [1, 4095, 4096, 65_536, 1_000_003] {
            let (mut done, mut parts) = (0, Vec::new());
            while done < whole {
                parts.push(part_of_stream(done, whole, 16_360));
                done += *parts.last().unwrap() as u64;
            }
            assert_eq!(done, whole);
            assert!(parts.iter().all(|part| (1..=16_360).contains(part)));
            assert!(parts[0] <= 4096 && *parts.last().unwrap() <= 8192, "{parts:?}");
        }
    }
}
