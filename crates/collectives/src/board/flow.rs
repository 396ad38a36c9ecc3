//! The building blocks of operations on the board.

use super::capacity::{SlotCapacity, piece_count};
use crate::member::Member;
use crate::schedule::{Area, BlockRange, Schedule};

/// Adds waiting for the data that `peers` show at a stage, `expected` blocks each.
pub(super) fn wait_for(
    schedule: &mut Schedule,
    peers: impl IntoIterator<Item = u32>,
    stage: u16,
    expected: Option<usize>,
) {
    for peer in peers {
        schedule.wait(peer, stage, expected);
    }
}

pub(super) fn slot(rank: u32, first: usize, count: usize) -> BlockRange {
    Area::Slot(rank).blocks(first, count)
}

/// Adds showing the data at `own` to the others, or only to `reader`, and begins the next round.
pub(super) fn show(schedule: &mut Schedule, member: Member, own: BlockRange, reader: Option<u32>) {
    schedule.copy(own, slot(member.rank, 0, own.count));
    schedule.end_round();
    schedule.raise_for(reader, 1);
}

/// The parts of a block that are shown one after the other, each in a stage of its own.
#[derive(Clone, Copy)]
pub(super) struct BlockPieces {
    pub count: usize,
    /// The length of the block, and of each piece except the last.
    total: usize,
    length: usize,
}

impl BlockPieces {
    /// Divides a block of `total` units, for which each member shows `shown_bytes` bytes in total.
    pub fn new(member: Member, capacity: SlotCapacity, total: usize, shown_bytes: usize) -> Self {
        let wanted = piece_count(member, capacity, shown_bytes);
        let length = total.div_ceil(wanted).max(1);
        Self { count: total.div_ceil(length).max(1), total, length }
    }

    pub fn get(self, number: usize) -> Piece {
        let first = number * self.length;
        Piece { first, count: self.length.min(self.total - first) }
    }
}

/// A run of units of a block.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub first: usize,
    pub count: usize,
}

/// A pipeline of pieces. Pieces are shown one after the other, if this member shows data. The
/// pieces of the members `awaited` are taken one step later, so that no process waits for a flag
/// that was raised just now. The copy `meanwhile` comes before the first wait.
pub(super) struct Flow {
    pub pieces: BlockPieces,
    pub shows: bool,
    /// The only member that takes what this member shows; `None` if several do.
    pub reader: Option<u32>,
    pub meanwhile: Option<(BlockRange, BlockRange)>,
    pub awaited: Vec<u32>,
    /// The total number of units that a showing member shows.
    pub shown: usize,
}

impl Flow {
    /// Adds the rounds: `show` shows a piece, and `take` takes it from all awaited members.
    pub fn add_to(
        &self,
        schedule: &mut Schedule,
        show: impl Fn(&mut Schedule, Piece),
        take: impl Fn(&mut Schedule, Piece),
    ) {
        let Self { pieces, shows, reader, meanwhile, ref awaited, shown } = *self;
        let last = pieces.count - 1;
        if shows && last > 0 {
            schedule.promise(shown);
        }
        for step in 0..=pieces.count {
            if shows && step <= last {
                show(schedule, pieces.get(step));
                schedule.end_round();
                schedule.raise_for(reader, step as u16 + 1);
            }
            if let Some((from, into)) = meanwhile.filter(|_| step == last.min(1)) {
                schedule.copy(from, into);
                schedule.end_round();
            }
            if step > 0 && !awaited.is_empty() {
                let expected = (step > last).then_some(shown);
                wait_for(schedule, awaited.iter().copied(), step as u16, expected);
                take(schedule, pieces.get(step - 1));
            }
            if !shows || step >= last && step > 0 {
                schedule.end_round();
            }
        }
    }
}
