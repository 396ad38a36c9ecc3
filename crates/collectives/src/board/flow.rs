//! The steps of which operations on the board are made.

use super::capacity::{SlotCapacity, piece_count};
use crate::member::Member;
use crate::schedule::{Area, BlockRange, Schedule};

/// Waits for what `peers` show at a stage, each `expected` blocks.
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

/// Shows what lies at `own` to the others, and begins the round after.
pub(super) fn show(schedule: &mut Schedule, member: Member, own: BlockRange) {
    schedule.copy(own, slot(member.rank, 0, own.count));
    schedule.end_round();
    schedule.raise(1);
}

/// The parts of a block that are shown one after the other, each under a stage of its own.
#[derive(Clone, Copy)]
pub(super) struct BlockPieces {
    pub count: usize,
    /// How long the block is, and how long each piece but the last.
    total: usize,
    length: usize,
}

impl BlockPieces {
    /// A block that has `total` units, where each member shows `shown_bytes` bytes for all of it.
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

/// Some units of a block.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub first: usize,
    pub count: usize,
}

/// Pieces are shown one after the other, if this member shows something, and those of the members
/// `awaited` are taken one later, so that nobody waits for a flag that was raised just now. What is
/// to be done `meanwhile` comes before the first waiting.
pub(super) struct Flow {
    pub pieces: BlockPieces,
    pub shows: bool,
    pub meanwhile: Option<(BlockRange, BlockRange)>,
    pub awaited: Vec<u32>,
    /// How many units who shows something shows in the end.
    pub shown: usize,
}

impl Flow {
    /// Adds the rounds, in which `show` shows a piece and `take` takes it from all that are
    /// awaited.
    pub fn add_to(
        &self,
        schedule: &mut Schedule,
        show: impl Fn(&mut Schedule, Piece),
        take: impl Fn(&mut Schedule, Piece),
    ) {
        let Self { pieces, shows, meanwhile, ref awaited, shown } = *self;
        let last = pieces.count - 1;
        if shows && last > 0 {
            schedule.promise(shown);
        }
        for step in 0..=pieces.count {
            if shows && step <= last {
                show(schedule, pieces.get(step));
                schedule.end_round();
                schedule.raise(step as u16 + 1);
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
