//! The operations on the board that combine elements. All of them combine in the order of ranks, and
//! each element in one association, wherever it is combined.

use super::{Piece, Pieces, Room, exchange, is_small, others, show, slot, stage, take, wait_for};
use crate::fold::Operands;
use crate::member::{Input, Member};
use crate::schedule::{Area, Operand, Place, Schedule};
use crate::share::share;

/// Up to this many bytes each process that needs the result combines all operands by itself.
const FLAT_BYTES_MAX: usize = 4 * 1024;

/// `MPI_Reduce` (section 6.9.1).
pub fn reduce(
    member: Member,
    room: Room,
    root: u32,
    operands: Operands,
    input: Input,
) -> Option<Schedule> {
    let count = operands.count;
    let input = if member.rank == root { input } else { Input::SendBuffer };
    let own = input.area().blocks(0, count);
    if operands.bytes() > FLAT_BYTES_MAX.min(room.slot_bytes) {
        return by_shares(member, room, operands, own, Some(root));
    }
    if !is_small(member) || count == 0 {
        return None;
    }
    let mut schedule = Schedule::default();
    let once = Pieces { total: count, length: count, parts: 1 };
    if member.rank != root {
        show(&mut schedule, once, &[root], |schedule, _| {
            schedule.copy(own, slot(member.rank, 0, count));
        });
        return Some(schedule);
    }
    schedule.copy(own, slot(root, 0, count));
    schedule.end_round();
    take(&mut schedule, once, (&others(member), Some(count)), |schedule, _| {
        fold(schedule, 0..member.size, (0, count), Area::Receive.blocks(0, count));
    });
    Some(schedule)
}

/// `MPI_Allreduce` (section 6.9.6).
pub fn allreduce(member: Member, room: Room, operands: Operands, input: Input) -> Option<Schedule> {
    let count = operands.count;
    let own = input.area().blocks(0, count);
    if operands.bytes() > FLAT_BYTES_MAX.min(room.slot_bytes) {
        return by_shares(member, room, operands, own, None);
    }
    show_and_fold(member, operands, own, &others(member), |schedule| {
        fold(schedule, 0..member.size, (0, count), Area::Receive.blocks(0, count));
    })
}

/// `MPI_Scan` (section 6.11.1).
pub fn scan(member: Member, room: Room, operands: Operands, input: Input) -> Option<Schedule> {
    partial(member, room, operands, input, member.rank + 1)
}

/// `MPI_Exscan` (section 6.11.2). The receive buffer of rank 0 is not touched.
pub fn exscan(member: Member, room: Room, operands: Operands, input: Input) -> Option<Schedule> {
    partial(member, room, operands, input, member.rank)
}

/// The operands of the first `ranks` processes together.
fn partial(
    member: Member,
    room: Room,
    operands: Operands,
    input: Input,
    ranks: u32,
) -> Option<Schedule> {
    let count = operands.count;
    if operands.bytes() > FLAT_BYTES_MAX.min(room.slot_bytes) {
        return None;
    }
    // Nobody waits for those above.
    let below: Vec<u32> = (0..member.rank).collect();
    show_and_fold(member, operands, input.area().blocks(0, count), &below, |schedule| {
        fold(schedule, 0..ranks, (0, count), Area::Receive.blocks(0, count));
    })
}

/// All show all their operands, and fold what they want of them when those of `awaited` are there.
fn show_and_fold(
    member: Member,
    operands: Operands,
    own: Place,
    awaited: &[u32],
    fold: impl Fn(&mut Schedule),
) -> Option<Schedule> {
    let count = operands.count;
    if !is_small(member) || count == 0 {
        return None;
    }
    let mut schedule = Schedule::default();
    exchange(
        &mut schedule,
        Pieces { total: count, length: count, parts: 1 },
        (awaited, Some(count)),
        |schedule, _| schedule.copy(own, slot(member.rank, 0, count)),
        |schedule, _| fold(schedule),
    );
    Some(schedule)
}

/// `MPI_Reduce_scatter_block` (section 6.10.1): `operands.count` elements for each process. All
/// show all their operands, or some for each process at once.
pub fn reduce_scatter_block(
    member: Member,
    room: Room,
    operands: Operands,
    input: Input,
) -> Option<Schedule> {
    let (count, size) = (operands.count, member.size as usize);
    let room = room.slot_bytes.checked_div(operands.element_bytes)? / size;
    let pieces = Pieces::halves(count, room)?;
    if !is_small(member) || count == 0 {
        return None;
    }
    let mut schedule = Schedule::default();
    let put = |schedule: &mut Schedule, piece: Piece| {
        if piece.length == count {
            let all = size * count;
            return schedule.copy(input.area().blocks(0, all), slot(member.rank, 0, all));
        }
        for number in 0..size {
            let from = input.area().blocks(number * count + piece.first, piece.length);
            let at = size * piece.at + number * piece.length;
            schedule.copy(from, slot(member.rank, at, piece.length));
        }
    };
    exchange(
        &mut schedule,
        pieces,
        (&others(member), pieces.expected(size * count)),
        put,
        |schedule, piece| {
            let at = size * piece.at + member.rank as usize * piece.length;
            let result = Area::Receive.blocks(piece.first, piece.length);
            fold(schedule, 0..member.size, (at, piece.length), result);
        },
    );
    Some(schedule)
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
    let total: usize = counts.iter().sum();
    let operands = Operands { count: total, ..operands };
    if operands.bytes() > room.slot_bytes {
        return None;
    }
    let rank = member.rank as usize;
    let (first, count) = (counts[..rank].iter().sum(), counts[rank]);
    show_and_fold(member, operands, input.area().blocks(0, total), &others(member), |schedule| {
        fold(schedule, 0..member.size, (first, count), Area::Receive.blocks(0, count));
    })
}

/// Each process combines one share of the elements, and shows the result: to the root, or to all if
/// none is given. What does not fit in a slot goes in pieces.
///
/// The first part of a slot has operands, behind them lie results. Operands are written over when
/// all have shown what they made of them; results when all have shown their next operands, which
/// they do after they have taken the results.
fn by_shares(
    member: Member,
    room: Room,
    operands: Operands,
    own: Place,
    root: Option<u32>,
) -> Option<Schedule> {
    let size = member.size as usize;
    let room = room.slot_bytes.checked_div(operands.element_bytes)?;
    let length = room.checked_sub(size)? * size / (size + 1);
    let pieces = Pieces::of_length(operands.count, length, length)?;
    if !is_small(member) || operands.count == 0 {
        return None;
    }
    let mut schedule = Schedule::default();
    let all = others(member);
    let takes = root.is_none_or(|root| root == member.rank);
    let put = |schedule: &mut Schedule, piece: Piece| {
        let from = own.part(piece.first, piece.length);
        schedule.copy(from, slot(member.rank, 0, piece.length));
    };
    put(&mut schedule, pieces.piece(0));
    schedule.end_round();
    for number in 0..pieces.count() {
        let piece = pieces.piece(number);
        let share_of = |rank| share(Area::Receive, piece.length, member.size, rank);
        let mine = share_of(member.rank);
        let results = pieces.length;
        schedule.raise(stage(2 * number + 1));
        wait_for(&mut schedule, &all, stage(2 * number + 1), None);
        let reduced = match takes {
            true => Area::Receive.blocks(piece.first + mine.first, mine.count),
            false => Area::Scratch.blocks(0, mine.count),
        };
        fold(&mut schedule, 0..member.size, (mine.first, mine.count), reduced);
        if mine.count > 0 {
            schedule.copy(reduced, slot(member.rank, results, mine.count));
        }
        schedule.end_round();
        schedule.raise(stage(2 * number + 2));
        let is_last = number + 1 == pieces.count();
        if takes || !is_last {
            wait_for(&mut schedule, &all, stage(2 * number + 2), None);
        }
        for peer in all.iter().filter(|_| takes) {
            let share = share_of(*peer);
            if share.count > 0 {
                let into = Area::Receive.blocks(piece.first + share.first, share.count);
                schedule.copy(slot(*peer, results, share.count), into);
            }
        }
        if !is_last {
            put(&mut schedule, pieces.piece(number + 1));
        }
        schedule.end_round();
    }
    Some(schedule)
}

/// Combines the `count` blocks from `first` on of the slots of `ranks` into `result`, in the order
/// of ranks. It begins with the last one, so that each slot is the left operand.
fn fold(
    schedule: &mut Schedule,
    ranks: std::ops::Range<u32>,
    (first, count): (usize, usize),
    result: Place,
) {
    let mut slots = ranks.rev().map(|rank| slot(rank, first, count)).filter(|_| count > 0);
    if let Some(last) = slots.next() {
        schedule.copy(last, result);
    }
    for slot in slots {
        schedule.reduce(slot, result, Operand::From);
    }
}
