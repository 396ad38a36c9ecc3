//! The list of all methods of moving a message inside a machine: for which lengths, through what
//! memory and in which portions, who copies, and how often the processes signal each other before.
//! What each costs on a machine follows from the machine's memory costs.
//!
//! Why: docs/internals/decisions/0134-methods-of-copying-are-rows-of-one-table.md

use driver::{Copying, MiddleWay};
use memory_costs::{MemoryOperation, MessageMove, MessageWay, Passage, SentBytes};
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

/// A method of moving a message.
struct CopyMethod {
    way: LocalWay,
    /// Its name in `COMBRAY_COPYING`, where it can be configured.
    name: &'static str,
    /// It moves messages of more than the first and at most the second number of bytes.
    bytes: (usize, usize),
    path: CopyPath,
    /// How many notifications precede the first byte: one announces the message, a second one
    /// requests its data.
    signals: u32,
}

/// How the bytes of a message get to the other process.
#[derive(Clone, Copy)]
enum CopyPath {
    /// Through shared memory, in portions: the sender copies with these stores, and the receiver
    /// follows.
    Through(SharedPlace, Portion, MemoryOperation),
    /// The receiver has the system copy.
    ByReceiver,
    /// Both processes have the system copy one half each.
    Jointly,
}

/// Shared memory through which messages go.
#[derive(Clone, Copy)]
enum SharedPlace {
    /// The sender's lines, which the receiver clears.
    Lane,
    /// The memory out of which the sender has read the last message: it has all lines.
    Cell,
    /// The sender's pieces for data that was announced.
    Pool,
}

/// After how many bytes the sender signals the receiver.
#[derive(Clone, Copy)]
enum Portion {
    Whole,
    Bytes(usize),
    /// A share of the message.
    OfLength(fn(usize) -> usize),
}

use CopyPath::{ByReceiver, Jointly, Through};
use MemoryOperation::{Store, StorePast};
use Portion::{Bytes, OfLength, Whole};
use SharedPlace::{Cell, Lane, Pool};

const IN_PACKET: (usize, usize) = (0, FRAGMENTATION.whole_bytes_max);
const IN_LANE: (usize, usize) = (IN_PACKET.1, LANE_MESSAGE_BYTES_MAX);
const IN_CELL: (usize, usize) = (IN_PACKET.1, FRAGMENTATION.message_bytes_max);
const LONG: (usize, usize) = (LANE_MESSAGE_BYTES_MAX, usize::MAX);

const LANE_PORTION: Portion = Bytes(FRAGMENTATION.lengths.packet_bytes);
const CELL_PORTION: Portion = OfLength(|bytes| cell_lengths(bytes).packet_bytes);
const POOL_PORTION: Portion = OfLength(|bytes| piece_bytes(0, bytes));

/// All methods.
#[rustfmt::skip]
const METHODS: [CopyMethod; 9] = [
    of_packet("auto", IN_PACKET, Through(Lane, Whole, Store)),
    of_middle(MiddleWay::InFragments, "fragments", IN_LANE, Through(Lane, LANE_PORTION, Store), 0),
    of_middle(MiddleWay::ByReceiver, "receiver", IN_LANE, ByReceiver, 1),
    of_middle(MiddleWay::InCell, "cells", IN_CELL, Through(Cell, CELL_PORTION, Store), 0),
    of_long(Copying::Once, "once", ByReceiver, 1),
    of_long(Copying::Piped, "piped", Through(Pool, POOL_PORTION, Store), 2),
    of_long(Copying::PipedPastCaches, "past-caches", Through(Pool, POOL_PORTION, StorePast), 2),
    of_long(Copying::Packets, "packets", Through(Lane, Bytes(EAGER_BYTES_MAX), Store), 2),
    of_long(Copying::Jointly, "jointly", Jointly, 2),
];

const fn of_packet(name: &'static str, bytes: (usize, usize), path: CopyPath) -> CopyMethod {
    CopyMethod { way: LocalWay::InPacket, name, bytes, path, signals: 0 }
}

const fn of_middle(
    way: MiddleWay,
    name: &'static str,
    bytes: (usize, usize),
    path: CopyPath,
    signals: u32,
) -> CopyMethod {
    CopyMethod { way: LocalWay::Middle(way), name, bytes, path, signals }
}

const fn of_long(way: Copying, name: &'static str, path: CopyPath, signals: u32) -> CopyMethod {
    CopyMethod { way: LocalWay::Long(way), name, bytes: LONG, path, signals }
}

/// The time that the library takes, on both sides together, for a message that is sent at once, in
/// nanoseconds: 8 bytes take 175 where a cache line crosses in 90.
const AT_ONCE_NS: f64 = 85.0;

/// The library's time, in nanoseconds, for a message that is announced and looked up among the
/// regions: it takes five times as many instructions, 3,000 on each side.
const ANNOUNCED_NS: f64 = 5.0 * AT_ONCE_NS;

/// The library's time for each part of a message after the first, in nanoseconds. Between near
/// cores of an AMD EPYC (family 26) 16 KiB in eight parts take 0.28 µs longer than in two.
const PART_NS: f64 = 40.0;

impl CopyMethod {
    fn moves(&self, bytes: u64) -> bool {
        let (more_than, most) = self.bytes;
        // Messages without bytes go in packets, too.
        (bytes > more_than as u64 || more_than == 0) && bytes <= most as u64
    }

    /// Returns the memory through which a message of so many bytes goes, if it does.
    fn passage(&self, bytes: u64) -> Option<Passage> {
        let Through(place, portion, store) = self.path else { return None };
        let (place_bytes, taken_ahead, is_cleared) = match place {
            Lane => (LANE_LINES * LINE_BYTES, LINES_AHEAD_MAX as usize * LINE_BYTES, true),
            Cell => (CELL_BYTES, CELL_BYTES, false),
            Pool => (PIECES * PIECE_BYTES, 0, false),
        };
        let piece_bytes = match portion {
            Whole => bytes,
            Bytes(portion) => portion as u64,
            OfLength(portion) => portion(bytes as usize) as u64,
        };
        let (bytes, taken_ahead_bytes) = (place_bytes as u64, taken_ahead as u64);
        Some(Passage { bytes, piece_bytes, store, taken_ahead_bytes, is_cleared })
    }

    fn message(&self, bytes: u64, sent: SentBytes) -> MessageMove {
        let way = match (self.passage(bytes), self.path) {
            (Some(passage), _) => MessageWay::Through(passage),
            (None, Jointly) => MessageWay::Jointly,
            (None, _) => MessageWay::Once,
        };
        let library_ns = match way {
            MessageWay::Through(passage) if self.signals == 0 => {
                let parts = bytes.div_ceil(passage.piece_bytes.max(1)).max(1);
                AT_ONCE_NS + (parts - 1) as f64 * PART_NS
            }
            _ => ANNOUNCED_NS,
        };
        MessageMove { way, bytes, sent, signals: self.signals, library_ns }
    }
}

impl LocalWay {
    /// Returns all ways that a message of `bytes` bytes can go.
    pub fn all_of(bytes: u64) -> Vec<Self> {
        METHODS.iter().filter(|method| method.moves(bytes)).map(|method| method.way).collect()
    }

    /// Returns its name in `COMBRAY_COPYING`, where it can be configured.
    pub fn name(self) -> &'static str {
        self.method().name
    }

    /// Describes the memory accesses of a message of `bytes` bytes that goes this way, to a
    /// receiver that waits for it.
    pub fn message(self, bytes: u64, sent: SentBytes) -> MessageMove {
        self.method().message(bytes, sent)
    }

    fn method(self) -> &'static CopyMethod {
        let is_this = |method: &&CopyMethod| method.way == self;
        METHODS.iter().find(is_this).expect("each way is a row of the table")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_is_one_row_and_each_length_has_its_ways() {
        let ways = MiddleWay::ALL.map(LocalWay::Middle).into_iter();
        let ways = ways.chain(Copying::ALL.map(LocalWay::Long)).chain([LocalWay::InPacket]);
        for way in ways {
            assert_eq!(METHODS.iter().filter(|method| method.way == way).count(), 1, "{way:?}");
            assert_eq!(METHODS.iter().filter(|method| method.name == way.name()).count(), 1);
        }
        let middle = MiddleWay::ALL.map(LocalWay::Middle);
        assert_eq!(LocalWay::all_of(0), [LocalWay::InPacket]);
        assert_eq!(LocalWay::all_of(12 << 10), [LocalWay::InPacket]);
        assert_eq!(LocalWay::all_of((12 << 10) + 1), middle);
        assert_eq!(LocalWay::all_of(64 << 10), middle);
        let long = Copying::ALL.map(LocalWay::Long);
        let in_cell = [LocalWay::Middle(MiddleWay::InCell)];
        assert_eq!(LocalWay::all_of(512 << 10), [&in_cell[..], &long].concat());
        assert_eq!(LocalWay::all_of((512 << 10) + 1), long);
    }
}
