//! Operations on the board: memory that the members of a communicator share, in which each of them
//! has a slot to write to and all others read.
//!
//! The flat algorithms have one stage: whoever contributes writes all of it into its slot and
//! raises; whoever needs it waits for those flags and reads. No process waits for more than one
//! turn on a core of each of the others, and no message is sent.

use crate::fold::Operands;
use crate::member::{Input, Member};
use crate::schedule::{Area, Operand, Place, Schedule};

/// What the members of a communicator know of their board; the same for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Room {
    /// How many bytes a slot holds.
    pub slot_bytes: usize,
}

/// Flat algorithms are for communicators of at most this many processes: each reads the slots of
/// all others.
pub const FLAT_SIZE_MAX: u32 = 32;

/// A reduction in which each process combines all operands is for operands up to this many bytes.
pub const FLAT_REDUCTION_BYTES_MAX: usize = 4096;

/// `MPI_Barrier` (section 6.3): all raise, and all wait for all.
pub fn barrier(member: Member) -> Option<Schedule> {
    if !is_flat(member) {
        return None;
    }
    let mut schedule = Schedule::default();
    schedule.raise(1);
    wait_for_all(&mut schedule, member, 0..member.size, Some(0));
    schedule.end_round();
    Some(schedule)
}

/// `MPI_Allreduce` (section 6.9.6): all write their operands, and all combine all of them.
pub fn allreduce(member: Member, room: Room, operands: Operands, input: Input) -> Option<Schedule> {
    let count = operands.count;
    let bytes = operands.bytes();
    if !is_flat(member) || count == 0 || bytes > FLAT_REDUCTION_BYTES_MAX.min(room.slot_bytes) {
        return None;
    }
    let mut schedule = Schedule::default();
    show(&mut schedule, member, input.area().blocks(0, count));
    wait_for_all(&mut schedule, member, 0..member.size, Some(count));
    fold(&mut schedule, 0..member.size, (0, count), Area::Receive.blocks(0, count));
    schedule.end_round();
    Some(schedule)
}

fn is_flat(member: Member) -> bool {
    (2..=FLAT_SIZE_MAX).contains(&member.size)
}

/// Copies `from` into the own slot and raises the first stage. The round stays open.
fn show(schedule: &mut Schedule, member: Member, from: Place) {
    schedule.copy(from, Area::Slot(member.rank).blocks(0, from.count));
    schedule.end_round();
    schedule.raise(1);
}

/// Waits for the first stage of those in `ranks`, this process apart. It begins with the next one
/// above, so that not all look at the same line at once.
fn wait_for_all(
    schedule: &mut Schedule,
    member: Member,
    ranks: std::ops::Range<u32>,
    count: Option<usize>,
) {
    let above = (1..member.size).map(|distance| member.above(distance));
    for peer in above.filter(|peer| ranks.contains(peer)) {
        schedule.wait(peer, 1, count);
    }
}

/// Combines the `count` blocks from `first` on of the slots of `ranks` into `result`, in the order
/// of ranks. It begins with the last one, so that each slot is the left operand.
fn fold(
    schedule: &mut Schedule,
    ranks: std::ops::Range<u32>,
    (first, count): (usize, usize),
    result: Place,
) {
    let mut slots = ranks.rev().map(|rank| Area::Slot(rank).blocks(first, count));
    if let Some(last) = slots.next() {
        schedule.copy(last, result);
    }
    for slot in slots {
        schedule.reduce(slot, result, Operand::From);
    }
}
