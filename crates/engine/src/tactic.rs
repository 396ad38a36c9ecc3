//! Tactics: small pure functions that strategies share. docs/internals/strategies.md explains the
//! reasons.

use crate::model::RailModel;
use crate::strategy::{ChunkView, RailView};

mod share;

pub use share::next_part;

/// Whether a chunk is so small that another packet would cost both ends more than its bytes cost
/// the chunks that share a packet with it.
#[inline]
pub fn is_small(offer: &ChunkView, model: &RailModel) -> bool {
    offer.payload == 0
        || !offer.divisible
            && model.transfer_ns(offer.payload as u64) <= SMALL_PACKETS * model.packet_ns()
}

/// A chunk is small if its bytes take no longer than so many packets cost: one at each end.
const SMALL_PACKETS: u64 = 2;

/// Whether a packet of `bytes` bytes is so long that the cost of another packet is negligible
/// against the time that its bytes take.
#[inline]
pub fn is_full(bytes: usize, model: &RailModel) -> bool {
    bytes >= FULL_BYTES_MIN && model.transfer_ns(bytes as u64) >= FULL_PACKETS * model.packet_ns()
}

/// A packet is full if its bytes take as long as so many packets cost, ...
const FULL_PACKETS: u64 = 16;
/// ... but not below so many bytes.
const FULL_BYTES_MIN: usize = 16 << 10;

/// Returns when `bytes` bytes that a rail is given now will be usable at the receiver, in
/// nanoseconds from now.
#[inline]
pub fn arrival_ns(view: &RailView<'_>, bytes: u64) -> u64 {
    let model = view.model;
    model.drain_ns(view.backlog_bytes) + model.transfer_ns(bytes) + model.latency_ns()
}

/// Whether `rails[rail]` delivers a chunk first, of the rails that may carry it.
#[inline]
pub fn delivers_first(offer: &ChunkView, rails: &[RailView<'_>], rail: usize) -> bool {
    if rails.len() == 1 {
        return true;
    }
    let able = |view: &RailView<'_>| {
        offer.rails.contains(view.id) && (offer.divisible || offer.bytes() <= view.packet_bytes_max)
    };
    if !able(&rails[rail]) {
        return false;
    }
    let bytes = offer.bytes() as u64;
    let own = arrival_ns(&rails[rail], bytes);
    rails.iter().enumerate().filter(|(_, view)| able(view)).all(|(index, view)| {
        let other = arrival_ns(view, bytes);
        index == rail || own < other || own == other && rail < index
    })
}

/// Whether `rails[rail]` is the fastest for large messages, of the rails that may carry a chunk.
/// Unlike [`delivers_first`] this does not depend on the backlogs: a message that is not split
/// stays on one rail.
pub fn is_fastest(offer: &ChunkView, rails: &[RailView<'_>], rail: usize) -> bool {
    let speed = |view: &RailView<'_>| view.model.bytes_per_us();
    let own = speed(&rails[rail]);
    offer.rails.contains(rails[rail].id)
        && rails
            .iter()
            .enumerate()
            .filter(|(_, view)| offer.rails.contains(view.id))
            .all(|(index, view)| own > speed(view) || own == speed(view) && rail <= index)
}

/// Returns the longest part of a large message that a rail is given at once, in bytes. A small
/// message may have to wait behind the part, and the part cannot be moved to another rail.
pub fn part_bytes_max(model: &RailModel) -> usize {
    let bytes = usize::try_from(model.bytes_per_us() * PART_US).unwrap_or(PART_BYTES.1);
    bytes.clamp(PART_BYTES.0, PART_BYTES.1) / 4096 * 4096
}

/// A part takes about so many microseconds, ...
const PART_US: u64 = 500;
/// ... but has at least and at most so many bytes.
const PART_BYTES: (usize, usize) = (64 << 10, 4 << 20);

/// Returns the length of the next part of a stream, in bytes, when `done` of `whole` bytes are sent
/// and a packet has room for `room`. Sender and receiver copy at the same time, each a different
/// part. Parts are therefore small at the beginning, where the receiver waits for the first, and at
/// the end, where the sender has nothing left to copy. They are large in between, as each costs a
/// fixed time.
#[inline]
pub fn part_of_stream(done: u64, whole: u64, room: usize) -> usize {
    let left = whole - done;
    let ramp = (done.min(left) / 2).max(STREAM_PART_BYTES_MIN);
    let part = ramp.min(room as u64) / 8 * 8;
    part.min(left) as usize
}

/// The smallest part of a stream that is worth a packet, in bytes.
const STREAM_PART_BYTES_MIN: u64 = 4096;

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
