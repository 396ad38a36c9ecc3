//! The operations on the board that combine elements. All combine in the order of ranks, and each
//! element in one association, whichever process combines it: each operand first with its upper
//! neighbours.

use super::capacity::{SlotCapacity, fits, goes_by_shares, goes_through_one};
use super::flow::{BlockPieces, Flow, Piece, show, slot, wait_for};
use super::parts::{self, BoardParts};
use crate::member::{InputPlace, Member, Takers};
use crate::operands::Operands;
use crate::schedule::{Area, BlockRange, Operand, Schedule};
use crate::share::share;

/// The number of processes up to which a partial reduction uses the board for operands of any
/// length: the last process combines all of them, but with messages it would wait as long.
const FEW: u32 = 8;
/// The length of operands up to which a partial reduction uses the board for any number of
/// processes.
const SHORT_BYTES_MAX: usize = 1 << 10;

/// `MPI_Reduce` (section 6.9.1): all show their operands to the root, or to all.
pub fn reduce(
    member: Member,
    capacity: SlotCapacity,
    parts: Option<BoardParts>,
    root: u32,
    operands: Operands,
    input: InputPlace,
) -> Option<Schedule> {
    let count = operands.count;
    if goes_by_shares(member, operands, Takers::Root) {
        let input = if member.rank == root { input } else { InputPlace::SendBuffer };
        return by_shares(member, capacity, operands, input, Some(root));
    }
    if !fits(member, operands.bytes(), capacity.slot_bytes) {
        return None;
    }
    if let Some(parts) = parts {
        return Some(parts::reduce(member, parts, root, operands, input));
    }
    let is_root = member.rank == root;
    let last = member.size - 1;
    // In place, the result replaces the own operand. Only the last process may leave its operand
    // there.
    let keeps = is_root && input == InputPlace::InPlace && root != last;
    let mut schedule = Schedule::default();
    if keeps {
        schedule.copy(Area::Receive.blocks(0, count), slot(root, 0, count));
        schedule.end_round();
    }
    let flow = Flow {
        pieces: BlockPieces::new(member, capacity, count, operands.bytes()),
        shows: !is_root,
        reader: Some(root),
        meanwhile: None,
        awaited: member.others().filter(|_| is_root).collect(),
        shown: count,
    };
    let show = |schedule: &mut Schedule, Piece { first, count }| {
        schedule.copy(Area::Send.blocks(first, count), slot(member.rank, first, count));
    };
    let take = |schedule: &mut Schedule, Piece { first, count }| {
        let result = Area::Receive.blocks(first, count);
        fold(schedule, member, input, 0..member.size, (first, count), result);
    };
    flow.add_to(&mut schedule, show, take);
    Some(schedule)
}

/// `MPI_Allreduce` (section 6.9.6).
pub fn allreduce(
    member: Member,
    capacity: SlotCapacity,
    parts: Option<BoardParts>,
    operands: Operands,
    input: InputPlace,
) -> Option<Schedule> {
    if goes_through_one(member, operands) {
        return through_one(member, capacity, operands, input);
    }
    if goes_by_shares(member, operands, Takers::All) {
        return by_shares(member, capacity, operands, input, None);
    }
    if let Some(parts) = parts {
        let is_room = fits(member, 2 * operands.bytes(), capacity.slot_bytes);
        return is_room.then(|| parts::allreduce(member, parts, operands, input));
    }
    show_and_fold(member, capacity, operands, input, (true, member.others()), 0..member.size)
}

/// `MPI_Scan` (section 6.11.1). No process waits for those with higher ranks.
pub fn scan(
    member: Member,
    capacity: SlotCapacity,
    operands: Operands,
    input: InputPlace,
) -> Option<Schedule> {
    partial(member, capacity, operands, input, ScanKind::Inclusive)
}

/// `MPI_Exscan` (section 6.11.2). The receive buffer of rank 0 is not touched.
pub fn exscan(
    member: Member,
    capacity: SlotCapacity,
    operands: Operands,
    input: InputPlace,
) -> Option<Schedule> {
    partial(member, capacity, operands, input, ScanKind::Exclusive)
}

/// Whether a partial reduction includes the own operand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ScanKind {
    Inclusive,
    Exclusive,
}

/// Makes a partial reduction that includes the own operand or not.
fn partial(
    member: Member,
    capacity: SlotCapacity,
    operands: Operands,
    input: InputPlace,
    kind: ScanKind,
) -> Option<Schedule> {
    if member.situation.oversubscribed {
        return in_a_chain(member, capacity, operands, input, kind);
    }
    if !can_be_scanned(member, operands) {
        return None;
    }
    let flags = (member.rank + 1 < member.size, 0..member.rank);
    let behind = member.rank + u32::from(kind == ScanKind::Inclusive);
    show_and_fold(member, capacity, operands, input, flags, 0..behind)
}

/// Makes a partial reduction in a chain: each process takes the data that the process below shows,
/// and shows it combined with its own operand. If processes take turns on cores, the lower ones are
/// several operations ahead, and each process reads one slot instead of all lower ones.
fn in_a_chain(
    member: Member,
    capacity: SlotCapacity,
    operands: Operands,
    input: InputPlace,
    scan: ScanKind,
) -> Option<Schedule> {
    let count = operands.count;
    if !fits(member, operands.bytes(), capacity.slot_bytes) {
        return None;
    }
    let (result, own) = (Area::Receive.blocks(0, count), input.area().blocks(0, count));
    let below = member.rank.checked_sub(1).map(|rank| (rank, slot(rank, 0, count)));
    let above = Some(member.rank + 1).filter(|above| *above < member.size);
    let mut schedule = Schedule::default();
    let Some((rank, partial)) = below else {
        show(&mut schedule, member, own, above);
        if scan == ScanKind::Inclusive && own != result {
            schedule.copy(own, result);
        }
        schedule.end_round();
        return Some(schedule);
    };
    schedule.wait(rank, 1, Some(count));
    if scan == ScanKind::Inclusive || above.is_some() {
        if own != result {
            schedule.copy(own, result);
        }
        schedule.reduce(partial, result, Operand::From);
    }
    if above.is_some() {
        show(&mut schedule, member, result, above);
    }
    if scan == ScanKind::Exclusive {
        schedule.copy(partial, result);
    }
    schedule.end_round();
    Some(schedule)
}

/// `MPI_Reduce_scatter_block` (section 6.10.1): `operands.count` elements for each process.
pub fn reduce_scatter_block(
    member: Member,
    capacity: SlotCapacity,
    operands: Operands,
    input: InputPlace,
) -> Option<Schedule> {
    let Operands { count: length, element_bytes, .. } = operands;
    let all = length * member.size as usize;
    if !fits(member, all * element_bytes, capacity.slot_bytes) {
        return None;
    }
    let flow = Flow {
        pieces: BlockPieces::new(member, capacity, length, (all - length) * element_bytes),
        shows: true,
        reader: None,
        meanwhile: None,
        awaited: member.others().collect(),
        shown: all,
    };
    let own = member.rank as usize * length;
    let show = |schedule: &mut Schedule, piece| show_shares(schedule, member, input, length, piece);
    let take = |schedule: &mut Schedule, Piece { first, count }| {
        let result = Area::Receive.blocks(first, count);
        fold(schedule, member, input, 0..member.size, (own + first, count), result);
    };
    let mut schedule = Schedule::default();
    flow.add_to(&mut schedule, show, take);
    Some(schedule)
}

/// Shows a piece of the share of each other member; in place also of the own share, which the
/// result overwrites. All shares have `length` elements.
fn show_shares(
    schedule: &mut Schedule,
    member: Member,
    input: InputPlace,
    length: usize,
    piece: Piece,
) {
    let Piece { first, count } = piece;
    let (rank, size) = (member.rank as usize, member.size as usize);
    let mut show = |first: usize, count: usize| {
        if count > 0 {
            schedule.copy(input.area().blocks(first, count), slot(member.rank, first, count));
        }
    };
    if count < length {
        let shown = (0..size).filter(|share| *share != rank || input == InputPlace::InPlace);
        shown.for_each(|share| show(share * length + first, count));
    } else if input == InputPlace::InPlace {
        show(0, size * length);
    } else {
        show(0, rank * length);
        show((rank + 1) * length, (size - rank - 1) * length);
    }
}

/// `MPI_Reduce_scatter` (section 6.10.2): `counts[i]` elements for rank `i`. The count in
/// `operands` is not used.
pub fn reduce_scatter(
    member: Member,
    capacity: SlotCapacity,
    counts: &[usize],
    operands: Operands,
    input: InputPlace,
) -> Option<Schedule> {
    let rank = member.rank as usize;
    let (first, count) = (counts[..rank].iter().sum(), counts[rank]);
    let all = counts.iter().sum();
    if !fits(member, all * operands.element_bytes, capacity.slot_bytes) {
        return None;
    }
    let mut schedule = Schedule::default();
    show(&mut schedule, member, input.area().blocks(0, all), None);
    // A process that gets no elements waits for no other.
    wait_for(&mut schedule, member.others().filter(|_| count > 0), 1, Some(all));
    let result = Area::Receive.blocks(0, count);
    fold(&mut schedule, member, input, 0..member.size, (first, count), result);
    schedule.end_round();
    Some(schedule)
}

/// Whether combining all operands in the last process takes no longer than messages.
fn can_be_scanned(member: Member, operands: Operands) -> bool {
    member.size <= FEW || operands.bytes() <= SHORT_BYTES_MAX
}

/// Shows all operands of this member, if others wait for them. Folds the operands of `ranks` when
/// the members `awaited` have shown theirs.
fn show_and_fold(
    member: Member,
    capacity: SlotCapacity,
    operands: Operands,
    input: InputPlace,
    (shows, awaited): (bool, impl Iterator<Item = u32>),
    ranks: std::ops::Range<u32>,
) -> Option<Schedule> {
    let Operands { count: all, .. } = operands;
    if !fits(member, operands.bytes(), capacity.slot_bytes) {
        return None;
    }
    let awaited: Vec<u32> = awaited.collect();
    let result = Area::Receive.blocks(0, all);
    // A process that waits for no other folds at most its own operand.
    let is_alone = awaited.is_empty() && !ranks.is_empty() && input == InputPlace::SendBuffer;
    let meanwhile = is_alone.then_some((Area::Send.blocks(0, all), result));
    let flow = Flow {
        pieces: BlockPieces::new(member, capacity, all, operands.bytes()),
        shows,
        reader: None,
        meanwhile,
        awaited,
        shown: all,
    };
    let show = |schedule: &mut Schedule, Piece { first, count }| {
        schedule.copy(input.area().blocks(first, count), slot(member.rank, first, count));
    };
    let take = |schedule: &mut Schedule, Piece { first, count }| {
        let result = Area::Receive.blocks(first, count);
        fold(schedule, member, input, ranks.clone(), (first, count), result);
    };
    let mut schedule = Schedule::default();
    flow.add_to(&mut schedule, show, take);
    Some(schedule)
}

/// Makes the reduction through one process: the last process, whose operand is the first to be
/// combined, combines all operands that the others show, and shows them the result.
fn through_one(
    member: Member,
    capacity: SlotCapacity,
    operands: Operands,
    input: InputPlace,
) -> Option<Schedule> {
    let count = operands.count;
    if !fits(member, operands.bytes(), capacity.slot_bytes) {
        return None;
    }
    let last = member.size - 1;
    let result = Area::Receive.blocks(0, count);
    let mut schedule = Schedule::default();
    if member.rank == last {
        wait_for(&mut schedule, member.others(), 1, Some(count));
        fold(&mut schedule, member, input, 0..member.size, (0, count), result);
        show(&mut schedule, member, result, None);
    } else {
        show(&mut schedule, member, input.area().blocks(0, count), Some(last));
        schedule.wait(last, 1, Some(count));
        schedule.copy(slot(last, 0, count), result);
    }
    schedule.end_round();
    Some(schedule)
}

/// Makes the reduction by shares: each process combines one share of the operands that all show,
/// and shows its result: to the root, or to all if none is given. Results follow the operands in
/// the slots.
fn by_shares(
    member: Member,
    capacity: SlotCapacity,
    operands: Operands,
    input: InputPlace,
    root: Option<u32>,
) -> Option<Schedule> {
    let Operands { count, element_bytes, .. } = operands;
    let share_of = |rank| share(Area::Receive, count, member.size, rank);
    let longest = count.div_ceil(member.size as usize) * element_bytes;
    let shown = operands.bytes().checked_add(longest)?;
    if !fits(member, shown, capacity.slot_bytes) {
        return None;
    }
    let takes = root.is_none_or(|root| root == member.rank);
    let mine = share_of(member.rank);
    let mut schedule = Schedule::default();
    // No other process reads the own share. In place, however, its result overwrites it.
    let own = |first: usize, count: usize| input.area().blocks(first, count);
    let mut parts = vec![(0, mine.first), (mine.first + mine.count, count)];
    if input == InputPlace::InPlace {
        parts = vec![(0, count)];
    }
    for (first, end) in parts.into_iter().filter(|(first, end)| first < end) {
        schedule.copy(own(first, end - first), slot(member.rank, first, end - first));
    }
    schedule.end_round();
    schedule.raise(1);
    wait_for(&mut schedule, member.others(), 1, None);
    let reduced = if takes { mine } else { Area::Scratch.blocks(0, mine.count) };
    fold(&mut schedule, member, input, 0..member.size, (mine.first, mine.count), reduced);
    if root != Some(member.rank) {
        schedule.copy(reduced, slot(member.rank, count, mine.count));
    }
    schedule.end_round();
    // Nobody reads the root's slot.
    if root != Some(member.rank) {
        schedule.raise_for(root, 2);
    }
    if takes {
        for peer in member.others() {
            let share = share_of(peer);
            schedule.wait(peer, 2, None);
            schedule.copy(slot(peer, count, share.count), share);
        }
    }
    schedule.end_round();
    Some(schedule)
}

/// Combines the `count` elements from `first` on of the operands of `ranks` into `result`, in the
/// order of ranks. It begins with the last operand, so that each further operand is the left one.
fn fold(
    schedule: &mut Schedule,
    member: Member,
    input: InputPlace,
    ranks: std::ops::Range<u32>,
    (first, count): (usize, usize),
    result: BlockRange,
) {
    let operand = |rank: u32| -> BlockRange {
        let is_last = rank + 1 == ranks.end;
        match (rank == member.rank, input) {
            (true, InputPlace::SendBuffer) => Area::Send.blocks(first, count),
            (true, InputPlace::InPlace)
                if is_last && result == Area::Receive.blocks(first, count) =>
            {
                result
            }
            // In place, the result overwrites the own operands.
            _ => slot(rank, first, count),
        }
    };
    let mut operands = ranks.clone().rev().map(operand).filter(|_| count > 0);
    if let Some(last) = operands.next().filter(|last| *last != result) {
        schedule.copy(last, result);
    }
    for operand in operands {
        schedule.reduce(operand, result, Operand::From);
    }
}
