//! Predicts what messages cost by each way of copying, before one has been timed, from measurements
//! of this machine's memory.
//!
//! Why: docs/internals/decisions/0070-the-first-choice-of-a-way-is-predicted.md

use driver::{Copying, MiddleWay};
use memory_costs::{CostTable, MemoryOperation, MessageMove, MessageWay, Passage, SentBytes};
use queues::exchange::PIECES;
use queues::lane::LINES_AHEAD_MAX;
use queues::ring::LINE_BYTES;

use crate::protocol::{PIECE_BYTES, piece_bytes};
use crate::sizes::{
    CELL_BYTES, EAGER_BYTES_MAX, FRAGMENTATION, LANE_LINES, LANE_MESSAGE_BYTES_MAX, cell_lengths,
};

/// A way by which a message inside a machine can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalWay {
    /// In one packet.
    InPacket,
    /// For messages of middle length.
    Middle(MiddleWay),
    /// For longer messages.
    Long(Copying),
}

/// The time that the library takes, on both sides together, for a message that is sent at once, in
/// nanoseconds: 8 bytes take 175 where a cache line crosses in 90.
const AT_ONCE_NS: f64 = 85.0;

/// The library's time, in nanoseconds, for a message that is announced and looked up among the
/// regions: it takes five times as many instructions, 3,000 on each side.
const ANNOUNCED_NS: f64 = 5.0 * AT_ONCE_NS;

/// The lane as a passage for the data.
const LANE: Passage = Passage {
    bytes: (LANE_LINES * LINE_BYTES) as u64,
    piece_bytes: FRAGMENTATION.lengths.packet_bytes as u64,
    store: MemoryOperation::Store,
    taken_ahead_bytes: LINES_AHEAD_MAX * LINE_BYTES as u64,
    is_cleared: true,
};

/// Returns a cell as a passage for a message of so many bytes. All its lines are in the sender's
/// cache, as it has read them last.
fn cell(bytes: u64) -> Passage {
    Passage {
        bytes: CELL_BYTES as u64,
        piece_bytes: cell_lengths(bytes as usize).packet_bytes as u64,
        store: MemoryOperation::Store,
        taken_ahead_bytes: CELL_BYTES as u64,
        is_cleared: false,
    }
}

impl LocalWay {
    /// Returns all ways that a message of `bytes` bytes can go.
    pub fn all_of(bytes: u64) -> Vec<Self> {
        let is_in = |most: usize| bytes <= most as u64;
        match bytes {
            _ if is_in(FRAGMENTATION.whole_bytes_max) => vec![Self::InPacket],
            _ if is_in(LANE_MESSAGE_BYTES_MAX) => MiddleWay::ALL.map(Self::Middle).into(),
            _ => {
                let in_cell = is_in(FRAGMENTATION.message_bytes_max);
                let in_cell = in_cell.then_some(Self::Middle(MiddleWay::InCell));
                in_cell.into_iter().chain(Copying::ALL.map(Self::Long)).collect()
            }
        }
    }

    /// Returns its name in `COMBRAY_COPYING`, where it can be configured.
    pub fn name(self) -> &'static str {
        match self {
            Self::InPacket => "auto",
            Self::Middle(MiddleWay::InFragments) => "fragments",
            Self::Middle(MiddleWay::ByReceiver) => "receiver",
            Self::Middle(MiddleWay::InCell) => "cells",
            Self::Long(Copying::Once) => "once",
            Self::Long(Copying::Piped) => "piped",
            Self::Long(Copying::PipedPastCaches) => "past-caches",
            Self::Long(Copying::Packets) => "packets",
            Self::Long(Copying::Jointly) => "jointly",
        }
    }

    /// Describes the memory accesses of a message of `bytes` bytes that goes this way, to a
    /// receiver that waits for it.
    pub fn message(self, bytes: u64, sent: SentBytes) -> MessageMove {
        let pool = |store| {
            MessageWay::Through(Passage {
                bytes: (PIECES * PIECE_BYTES) as u64,
                piece_bytes: piece_bytes(0, bytes as usize) as u64,
                store,
                taken_ahead_bytes: 0,
                is_cleared: false,
            })
        };
        // The number of notifications: one announces the message, a second one requests its data.
        let (way, signals, library_ns) = match self {
            Self::InPacket => {
                let whole = Passage { piece_bytes: bytes, ..LANE };
                (MessageWay::Through(whole), 0, AT_ONCE_NS)
            }
            Self::Middle(MiddleWay::InFragments) => (MessageWay::Through(LANE), 0, AT_ONCE_NS),
            Self::Middle(MiddleWay::InCell) => (MessageWay::Through(cell(bytes)), 0, AT_ONCE_NS),
            Self::Middle(MiddleWay::ByReceiver) | Self::Long(Copying::Once) => {
                (MessageWay::Once, 1, ANNOUNCED_NS)
            }
            Self::Long(Copying::Piped) => (pool(MemoryOperation::Store), 2, ANNOUNCED_NS),
            Self::Long(Copying::PipedPastCaches) => {
                (pool(MemoryOperation::StorePast), 2, ANNOUNCED_NS)
            }
            Self::Long(Copying::Packets) => {
                let packets = Passage { piece_bytes: EAGER_BYTES_MAX as u64, ..LANE };
                (MessageWay::Through(packets), 2, ANNOUNCED_NS)
            }
            Self::Long(Copying::Jointly) => (MessageWay::Jointly, 2, ANNOUNCED_NS),
        };
        MessageMove { way, bytes, sent, signals, library_ns }
    }
}

/// Returns the cost of messages of middle length, in picoseconds per byte, in the order of
/// [`MiddleWay::ALL`].
pub(crate) fn middle_costs(table: &CostTable, bytes: usize) -> Option<[u64; MiddleWay::ALL.len()]> {
    if bytes <= LANE_MESSAGE_BYTES_MAX {
        return costs(table, bytes, MiddleWay::ALL.map(LocalWay::Middle));
    }
    // It goes in a cell, or it is announced and copied in the fastest way for long messages.
    let [in_cell] = costs(table, bytes, [LocalWay::Middle(MiddleWay::InCell)])?;
    let announced = long_costs(table, bytes)?.into_iter().min()?;
    Some([u64::MAX, announced, in_cell])
}

/// Whether a message of `bytes` bytes that is announced, and copied when its sender waits, takes no
/// longer if the receiver copies it than through the pool; none if the table lacks a figure.
pub(crate) fn receiver_beats_pool(table: &CostTable, bytes: usize) -> Option<bool> {
    let ways = [LocalWay::Middle(MiddleWay::ByReceiver), LocalWay::Long(Copying::Piped)];
    costs(table, bytes, ways).map(|[receiver, pool]| receiver <= pool)
}

/// Returns the cost of longer messages, in picoseconds per byte, in the order of [`Copying::ALL`].
pub(crate) fn long_costs(table: &CostTable, bytes: usize) -> Option<[u64; Copying::ALL.len()]> {
    costs(table, bytes, Copying::ALL.map(LocalWay::Long))
}

/// Returns the costs for data that the sender has just written, as programs do.
fn costs<const WAYS: usize>(
    table: &CostTable,
    bytes: usize,
    ways: [LocalWay; WAYS],
) -> Option<[u64; WAYS]> {
    let mut costs = [0; WAYS];
    for (cost, way) in costs.iter_mut().zip(ways) {
        let time = way.message(bytes as u64, SentBytes::Fresh).expect(table)?;
        *cost = (time * 1000.0 / bytes as f64) as u64;
    }
    Some(costs)
}
