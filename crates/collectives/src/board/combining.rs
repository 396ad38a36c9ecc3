//! The operations on the board that combine elements. All of them combine in the order of ranks, and
//! each element in one association, wherever it is combined.

use super::{Room, fits, others, show, slot, wait_for};
use crate::fold::Operands;
use crate::member::{Input, Member};
use crate::schedule::{Area, Operand, Place, Schedule};

/// `MPI_Reduce` (section 6.9.1): all show their operands to the root.
pub fn reduce(
    member: Member,
    room: Room,
    root: u32,
    operands: Operands,
    input: Input,
) -> Option<Schedule> {
    let count = operands.count;
    if !fits(member, operands.bytes(), room.slot_bytes) {
        return None;
    }
    let mut schedule = Schedule::default();
    if member.rank != root {
        show(&mut schedule, member, Area::Send.blocks(0, count));
        schedule.end_round();
        return Some(schedule);
    }
    if input == Input::InPlace {
        // The result comes to where they lie.
        schedule.copy(Area::Receive.blocks(0, count), slot(root, 0, count));
        schedule.end_round();
    }
    wait_for(&mut schedule, &others(member), Some(count));
    fold(&mut schedule, member, input, 0..member.size, (0, count));
    schedule.end_round();
    Some(schedule)
}

/// `MPI_Allreduce` (section 6.9.6).
pub fn allreduce(member: Member, room: Room, operands: Operands, input: Input) -> Option<Schedule> {
    let part = (0, operands.count);
    show_and_fold(member, room, operands, input, &others(member), 0..member.size, part)
}

/// `MPI_Scan` (section 6.11.1).
pub fn scan(member: Member, room: Room, operands: Operands, input: Input) -> Option<Schedule> {
    let part = (0, operands.count);
    show_and_fold(member, room, operands, input, &below(member), 0..member.rank + 1, part)
}

/// `MPI_Exscan` (section 6.11.2). The receive buffer of rank 0 is not touched.
pub fn exscan(member: Member, room: Room, operands: Operands, input: Input) -> Option<Schedule> {
    let part = (0, operands.count);
    show_and_fold(member, room, operands, input, &below(member), 0..member.rank, part)
}

/// `MPI_Reduce_scatter_block` (section 6.10.1): `operands.count` elements for each process.
pub fn reduce_scatter_block(
    member: Member,
    room: Room,
    operands: Operands,
    input: Input,
) -> Option<Schedule> {
    let part = (member.rank as usize * operands.count, operands.count);
    let all = Operands { count: member.size as usize * operands.count, ..operands };
    show_and_fold(member, room, all, input, &others(member), 0..member.size, part)
}

/// `MPI_Reduce_scatter` (section 6.10.2): `counts[i]` elements for rank `i`. The count in
/// `operands` is not used.
pub fn reduce_scatter(
    member: Member,
    room: Room,
    counts: &[usize],
    operands: Operands,
    input: Input,
) -> Option<Schedule> {
    let rank = member.rank as usize;
    let part = (counts[..rank].iter().sum(), counts[rank]);
    let all = Operands { count: counts.iter().sum(), ..operands };
    show_and_fold(member, room, all, input, &others(member), 0..member.size, part)
}

/// Those whose operands a partial reduction needs: nobody waits for those above.
fn below(member: Member) -> Vec<u32> {
    (0..member.rank).collect()
}

/// All show all their operands, and fold a part of those of `ranks` when those of `awaited` are
/// there.
fn show_and_fold(
    member: Member,
    room: Room,
    operands: Operands,
    input: Input,
    awaited: &[u32],
    ranks: std::ops::Range<u32>,
    part: (usize, usize),
) -> Option<Schedule> {
    let count = operands.count;
    if !fits(member, operands.bytes(), room.slot_bytes) {
        return None;
    }
    let mut schedule = Schedule::default();
    show(&mut schedule, member, input.area().blocks(0, count));
    wait_for(&mut schedule, awaited, Some(count));
    fold(&mut schedule, member, input, ranks, part);
    schedule.end_round();
    Some(schedule)
}

/// Combines the `count` elements from `first` on of the operands of `ranks` into the result, in the
/// order of ranks. It begins with the last one, so that each operand is the left one.
fn fold(
    schedule: &mut Schedule,
    member: Member,
    input: Input,
    ranks: std::ops::Range<u32>,
    (first, count): (usize, usize),
) {
    let result = Area::Receive.blocks(0, count);
    let operand = |rank: u32| -> Place {
        // In place the own operands are written over.
        match rank == member.rank && input == Input::SendBuffer {
            true => Area::Send.blocks(first, count),
            false => slot(rank, first, count),
        }
    };
    let mut operands = ranks.rev().map(operand).filter(|_| count > 0);
    if let Some(last) = operands.next() {
        schedule.copy(last, result);
    }
    for operand in operands {
        schedule.reduce(operand, result, Operand::From);
    }
}
