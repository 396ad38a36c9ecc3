//! The operations on the board that combine nothing.

use super::{Room, fits, show, slot, wait_for};
use crate::member::{Input, Member};
use crate::schedule::{Area, Place, Schedule, Slots};

/// `MPI_Barrier` (section 6.3): all raise, and all wait for all.
pub fn barrier(member: Member) -> Option<Schedule> {
    if !fits(member, 1, 1) {
        return None;
    }
    let mut schedule = Schedule::default();
    schedule.raise(1);
    wait_for(&mut schedule, member.others(), Some(0));
    schedule.end_round();
    Some(schedule)
}

/// `MPI_Bcast` (section 6.4): the root shows its data.
pub fn bcast(member: Member, room: Room, root: u32, bytes: usize) -> Option<Schedule> {
    if !fits(member, bytes, room.slot_bytes) {
        return None;
    }
    let mut schedule = Schedule::of_bytes();
    let whole = Area::Receive.blocks(0, bytes);
    if member.rank == root {
        show(&mut schedule, member, whole);
    } else {
        schedule.wait(root, 1, Some(bytes));
        schedule.copy(slot(root, 0, bytes), whole);
    }
    schedule.end_round();
    Some(schedule)
}

/// `MPI_Gather` (section 6.5): all show their block to the root.
pub fn gather(
    member: Member,
    room: Room,
    root: u32,
    block_bytes: usize,
    input: Input,
) -> Option<Schedule> {
    if !fits(member, block_bytes, room.slot_bytes) {
        return None;
    }
    let mut schedule = Schedule::of_bytes();
    let own = Area::Send.blocks(0, block_bytes);
    if member.rank != root {
        show(&mut schedule, member, own);
        schedule.end_round();
        return Some(schedule);
    }
    let block = |rank: u32| Area::Receive.blocks(rank as usize * block_bytes, block_bytes);
    if input == Input::SendBuffer {
        schedule.copy(own, block(root));
        schedule.end_round();
    }
    take_from_others(&mut schedule, member, Some(block_bytes), |schedule, peer| {
        schedule.copy(slot(peer, 0, block_bytes), block(peer));
    });
    Some(schedule)
}

/// `MPI_Gatherv` (section 6.5): all hand their block to the root.
pub fn gatherv(member: Member, root: u32, input: Input) -> Option<Schedule> {
    if !fits(member, 1, 1) {
        return None;
    }
    let mut schedule = Schedule::default();
    let own = Area::Send.block(0);
    if member.rank != root {
        schedule.hand(root, own);
        schedule.end_round();
        schedule.raise(1);
        schedule.end_round();
        return Some(schedule.for_slots(Slots::Small));
    }
    if input == Input::SendBuffer {
        schedule.copy(own, Area::Receive.block(root as usize));
        schedule.end_round();
    }
    take_from_others(&mut schedule, member, None, |schedule, peer| {
        schedule.take(peer, Area::Receive.block(peer as usize));
    });
    Some(schedule.for_slots(Slots::Small))
}

/// `MPI_Scatter` (section 6.6): the root shows the blocks of all others.
pub fn scatter(
    member: Member,
    room: Room,
    root: u32,
    block_bytes: usize,
    input: Input,
) -> Option<Schedule> {
    let shown = (member.size as usize - 1) * block_bytes;
    if !fits(member, shown, room.slot_bytes) {
        return None;
    }
    let mut schedule = Schedule::of_bytes();
    let into = Area::Receive.blocks(0, block_bytes);
    if member.rank != root {
        schedule.wait(root, 1, Some(shown));
        schedule.copy(slot(root, place_in(root, member.rank) * block_bytes, block_bytes), into);
        schedule.end_round();
        return Some(schedule);
    }
    show_to_others(&mut schedule, member, Area::Send, block_bytes);
    if input == Input::SendBuffer {
        schedule.copy(Area::Send.blocks(root as usize * block_bytes, block_bytes), into);
    }
    schedule.end_round();
    Some(schedule)
}

/// Shows the blocks of all others, one after the other, and begins the round after.
fn show_to_others(schedule: &mut Schedule, member: Member, from: Area, block_bytes: usize) {
    let (rank, size) = (member.rank as usize, member.size as usize);
    for (first, behind) in [(0, rank), (rank + 1, size)] {
        let from = from.blocks(first * block_bytes, (behind - first) * block_bytes);
        if from.count > 0 {
            let at = place_in(member.rank, first as u32) * block_bytes;
            schedule.copy(from, slot(member.rank, at, from.count));
        }
    }
    schedule.end_round();
    schedule.raise(1);
}

/// How many blocks lie before that of `rank` in the slot of `owner`, who shows all but its own.
fn place_in(owner: u32, rank: u32) -> usize {
    rank as usize - usize::from(rank > owner)
}

/// `MPI_Allgather` (section 6.7): all show their block to all.
pub fn allgather(member: Member, room: Room, block_bytes: usize, input: Input) -> Option<Schedule> {
    if !fits(member, block_bytes, room.slot_bytes) {
        return None;
    }
    let block = |rank: u32| Area::Receive.blocks(rank as usize * block_bytes, block_bytes);
    let (sent, expected) = (Area::Send.blocks(0, block_bytes), Some(block_bytes));
    Some(show_to_all(Schedule::of_bytes(), member, input, sent, block, expected))
}

/// `MPI_Allgatherv` (section 6.7), where the blocks have `total_bytes` bytes together.
pub fn allgatherv(
    member: Member,
    room: Room,
    total_bytes: usize,
    input: Input,
) -> Option<Schedule> {
    if !fits(member, total_bytes, room.slot_bytes) {
        return None;
    }
    let block = |rank: u32| Area::Receive.block(rank as usize);
    Some(show_to_all(Schedule::default(), member, input, Area::Send.block(0), block, None))
}

/// All show their block, which lies at `sent` unless it is in place, and take those of all others to
/// where `block` says.
fn show_to_all(
    mut schedule: Schedule,
    member: Member,
    input: Input,
    sent: Place,
    block: impl Fn(u32) -> Place,
    expected: Option<usize>,
) -> Schedule {
    let own = match input {
        Input::SendBuffer => sent,
        Input::InPlace => block(member.rank),
    };
    show(&mut schedule, member, own);
    if input == Input::SendBuffer {
        schedule.copy(own, block(member.rank));
        schedule.end_round();
    }
    take_from_others(&mut schedule, member, expected, |schedule, peer| {
        schedule.copy(slot(peer, 0, sent.count), block(peer));
    });
    schedule
}

/// Waits until all others have shown `expected` blocks, if that is known, and takes what is for this
/// member out of the slot of each.
fn take_from_others(
    schedule: &mut Schedule,
    member: Member,
    expected: Option<usize>,
    take: impl Fn(&mut Schedule, u32),
) {
    wait_for(schedule, member.others(), expected);
    for peer in member.others() {
        take(schedule, peer);
    }
    schedule.end_round();
}

/// `MPI_Alltoall` (section 6.8): all show their blocks for all others.
pub fn alltoall(member: Member, room: Room, block_bytes: usize, input: Input) -> Option<Schedule> {
    let shown = (member.size as usize - 1) * block_bytes;
    if !fits(member, shown, room.slot_bytes) {
        return None;
    }
    let mut schedule = Schedule::of_bytes();
    show_to_others(&mut schedule, member, input.area(), block_bytes);
    let block = |area: Area, rank: u32| area.blocks(rank as usize * block_bytes, block_bytes);
    if input == Input::SendBuffer {
        schedule.copy(block(Area::Send, member.rank), block(Area::Receive, member.rank));
        schedule.end_round();
    }
    take_from_others(&mut schedule, member, Some(shown), |schedule, peer| {
        let from = place_in(peer, member.rank) * block_bytes;
        schedule.copy(slot(peer, from, block_bytes), block(Area::Receive, peer));
    });
    Some(schedule)
}

/// `MPI_Scatterv` (section 6.6): the root hands each its block, as only it knows how long all are.
pub fn scatterv(member: Member, root: u32, input: Input) -> Option<Schedule> {
    if !fits(member, 1, 1) {
        return None;
    }
    let mut schedule = Schedule::default();
    let into = Area::Receive.block(0);
    if member.rank != root {
        schedule.wait(root, 1, None);
        schedule.take(root, into);
        schedule.end_round();
        return Some(schedule.for_slots(Slots::Middle));
    }
    hand_to_others(&mut schedule, member);
    if input == Input::SendBuffer {
        schedule.copy(Area::Send.block(root as usize), into);
    }
    schedule.end_round();
    Some(schedule.for_slots(Slots::Middle))
}

/// `MPI_Alltoallv` and `MPI_Alltoallw` (section 6.8), not in place: each hands all others their
/// blocks, whose sizes are known to two processes each.
pub fn alltoallv(member: Member, input: Input) -> Option<Schedule> {
    if !fits(member, 1, 1) || input == Input::InPlace {
        return None;
    }
    let mut schedule = Schedule::default();
    hand_to_others(&mut schedule, member);
    let own = member.rank as usize;
    schedule.copy(Area::Send.block(own), Area::Receive.block(own));
    schedule.end_round();
    take_from_others(&mut schedule, member, None, |schedule, peer| {
        schedule.take(peer, Area::Receive.block(peer as usize));
    });
    // Where they take turns on cores, longer blocks are handed over as well: nobody then waits for
    // messages, which would be more turns.
    let slots = if member.situation.crowded { Slots::Large } else { Slots::Middle };
    Some(schedule.for_slots(slots))
}

/// Hands a block to each of the others, and begins the round after.
fn hand_to_others(schedule: &mut Schedule, member: Member) {
    for peer in (0..member.size).filter(|peer| *peer != member.rank) {
        schedule.hand(peer, Area::Send.block(peer as usize));
    }
    schedule.end_round();
    schedule.raise(1);
}
