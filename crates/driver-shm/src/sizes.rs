//! The sizes of rings, lanes, packets and fragments.

use base::{FragmentLengths, Fragmentation, limits};
use queues::ring::{HEADER_BYTES, LINE_BYTES};

/// The number of lines of the ring, 128 KiB. A peer that sends much has a lane, unless there are
/// more of these than lanes.
pub(crate) const LINES: usize = 2048;

/// The number of lines of a lane.
pub(crate) const LANE_LINES: usize = 4096;

/// Messages shorter than this, in bytes, go in one packet.
pub(crate) const MIDDLE_BYTES_MIN: usize = 12 << 10;

/// The longest message that is sent eagerly without fragments, in bytes. A message of 12 KiB takes
/// 0.9 µs this way, and 1.4 µs when it is announced.
pub(crate) const EAGER_BYTES_MAX: usize = MIDDLE_BYTES_MIN;

/// The fragments of a message take 64 cache lines of a lane at first, then 128 each.
const LANE_LENGTHS: FragmentLengths = FragmentLengths {
    first_packet_bytes: 64 * LINE_BYTES - HEADER_BYTES,
    packet_bytes: 128 * LINE_BYTES - HEADER_BYTES,
};

/// Messages are cut into these fragments, unless they go in a cell.
pub(crate) const FRAGMENTATION: Fragmentation = Fragmentation {
    whole_bytes_max: EAGER_BYTES_MAX,
    aligned_bytes_min: 512,
    message_bytes_max: limits::FRAGMENTED_BYTES_MAX,
    lengths: LANE_LENGTHS,
};

/// The shortest packet that goes in a cell, in bytes. The reference takes a line more than a packet
/// in the lane, and shorter packets are as fast there.
pub(crate) const CELL_PACKET_BYTES_MIN: usize = 1 << 10;

/// So many lines of a packet in a cell are requested at most by its receiver as soon as it has the
/// reference. The others come while these are read, as the processor prefetches.
pub(crate) const CELL_LINES_REQUESTED_MAX: usize = 48;

/// So many lines of a packet in a cell are handed over at most. The receiver reads on while these
/// come, and more hints hold up a sender whose peer sends at the same time.
pub(crate) const CELL_LINES_HANDED_OVER_MAX: usize = 32;

/// The parts of a message in a cell, which are equal. The longer the message is, the less the fixed
/// cost of each counts, and the later the receiver may begin. Up to 32 KiB both processes still
/// find them in the nearest cache. A message of that length is written whole: to divide it costs
/// more than the receiver's earlier begin saves.
pub(crate) fn cell_lengths(message_bytes: usize) -> FragmentLengths {
    let part = (message_bytes / 4).clamp(8 << 10, CELL_PART_BYTES_MAX);
    let is_whole = message_bytes <= CELL_PART_BYTES_MAX;
    let parts = if is_whole { 1 } else { message_bytes.div_ceil(part) };
    let part = message_bytes.div_ceil(parts).next_multiple_of(LINE_BYTES);
    let packet_bytes = part + FragmentLengths::HEADER_BYTES;
    FragmentLengths { first_packet_bytes: packet_bytes, packet_bytes }
}

/// The longest part of a message in a cell, in bytes, without its headers.
pub(crate) const CELL_PART_BYTES_MAX: usize = 32 << 10;

/// Where a packet begins in a cell, in bytes after the beginning of a line: like in a lane, where
/// the header precedes it. So the data of long packets begins on a line.
pub(crate) const CELL_PACKET_OFFSET: usize = HEADER_BYTES;

/// The bytes of a cell: enough for all packets of the longest message that is sent in one.
pub(crate) const CELL_BYTES: usize =
    // Each part has a line for headers besides its data, and there are at most five more.
    (FRAGMENTATION.message_bytes_max / CELL_PART_BYTES_MAX + 5) * LINE_BYTES
            + FRAGMENTATION.message_bytes_max;

/// The longest message that goes in fragments in the lane, in bytes.
pub(crate) const LANE_MESSAGE_BYTES_MAX: usize = 64 << 10;

/// The longest packet, in bytes.
pub(crate) const PACKET_BYTES_MAX: usize = EAGER_BYTES_MAX + 256;

// The data of each part begins on a line.
const _: () = assert!((HEADER_BYTES + FragmentLengths::HEADER_BYTES).is_multiple_of(LINE_BYTES));
const _: () = assert!(PACKET_BYTES_MAX <= queues::ring::packet_bytes_max(LINES));
const _: () = assert!(PACKET_BYTES_MAX <= queues::ring::packet_bytes_max(LANE_LINES));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_in_a_cell_has_equal_parts_that_fit_and_none_that_is_hardly_filled() {
        let lengths = (13..=512).flat_map(|kib| [0, 1, 2].map(|off| (kib << 10) - 1 + off));
        for bytes in lengths.filter(|bytes| *bytes <= FRAGMENTATION.message_bytes_max) {
            let lengths = cell_lengths(bytes);
            let (packets, part) =
                (lengths.packets(bytes), CELL_PACKET_OFFSET + lengths.packet_bytes);
            assert!(part.is_multiple_of(LINE_BYTES) && packets * part <= CELL_BYTES);
            let last =
                bytes - (packets - 1) * (lengths.packet_bytes - FragmentLengths::HEADER_BYTES);
            assert!(2 * last > lengths.packet_bytes, "{bytes}: the last part has {last}");
        }
        assert_eq!(
            [16, 32, 64, 256].map(|kib| cell_lengths(kib << 10).packets(kib << 10)),
            [1, 1, 4, 8]
        );
    }
}
