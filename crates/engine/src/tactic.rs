//! Tactics: the small pure questions that strategies share.

use base::RailProfile;

use crate::strategy::{Offer, RailView};

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

/// The rail on which a small packet arrives first.
pub fn first_to_deliver(rails: &[RailView<'_>]) -> usize {
    let arrival =
        |view: &RailView<'_>| view.model.latency_ns + view.model.transfer_ns(view.backlog_bytes);
    let first = rails.iter().enumerate().min_by_key(|(_, view)| arrival(view));
    first.map_or(0, |(index, _)| index)
}

/// How many bytes of a large message the bulk track of `rails[rail]` shall carry next, so that all
/// rails finish at the same time; 0: its share is too small to be worth it. `None`: the chunk does
/// not go by bulk tracks.
pub fn next_part(offer: Offer, rails: &[RailView<'_>], rail: usize) -> Option<usize> {
    let view = &rails[rail];
    if !offer.divisible || !view.profile.bulk {
        return None;
    }
    let bulk = || rails.iter().filter(|other| other.profile.bulk);
    let speed: u64 = bulk().map(|other| other.model.bandwidth_bytes_per_us).sum();
    let underway: u64 = bulk().map(|other| other.backlog_bytes).sum();
    let whole = u128::from(offer.payload as u64 + underway);
    let share = whole * u128::from(view.model.bandwidth_bytes_per_us) / u128::from(speed.max(1));
    let share = (share as u64).saturating_sub(view.backlog_bytes) as usize;
    let single = bulk().count() == 1;
    let least = PART_BULK_BYTES_MIN.min(offer.payload);
    if !single && share < least {
        // The fastest takes what is left when nobody's share is worth a part.
        let most = bulk().map(|other| other.model.bandwidth_bytes_per_us).max();
        let fastest = most == Some(view.model.bandwidth_bytes_per_us);
        return Some(if fastest && view.backlog_bytes == 0 { least } else { 0 });
    }
    let longest = (view.model.bandwidth_bytes_per_us * PART_US).max(PART_BULK_BYTES_MIN as u64);
    let share = if single { offer.payload } else { share };
    Some(share.min(longest as usize).min(offer.payload))
}

/// A part on a bulk track, in bytes, is not smaller unless it is the last.
const PART_BULK_BYTES_MIN: usize = 64 << 10;

/// A part on a bulk track takes about so many microseconds: for so long a small message may have to
/// wait behind it.
const PART_US: u64 = 500;

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
