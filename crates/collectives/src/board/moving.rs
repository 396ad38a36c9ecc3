//! The operations on the board that only move data.

use base::SlotSize;

use super::capacity::{SlotCapacity, fits};
use super::flow::{BlockPieces, Flow, Piece, show, slot, wait_for};
use super::parts::{self, BoardParts};
use crate::member::{InputPlace, Member};
use crate::schedule::{Area, Schedule};

/// The maximum length of blocks handed over in a slot, in bytes. Longer blocks are faster as
/// messages, since a slot moves each line from core to core twice.
const HANDED_BYTES_MAX: usize = 4 << 10;

/// That maximum if processes share cores: no process then waits for messages, which would take more
/// turns.
const HANDED_IN_TURNS_MAX: usize = 128 << 10;

fn handed_bytes_max(member: Member) -> usize {
    if member.situation.oversubscribed { HANDED_IN_TURNS_MAX } else { HANDED_BYTES_MAX }
}

/// `MPI_Barrier` (section 6.3): all raise their flags, and all wait for all; or by `parts`, as in
/// all operations with such a parameter.
pub fn barrier(member: Member, parts: Option<BoardParts>) -> Option<Schedule> {
    if !fits(member, 1, 1) {
        return None;
    }
    if let Some(parts) = parts {
        return Some(parts::barrier(member, parts));
    }
    let mut schedule = Schedule::default();
    schedule.raise(1);
    wait_for(&mut schedule, member.others(), 1, Some(0));
    schedule.end_round();
    Some(schedule)
}

/// `MPI_Bcast` (section 6.4): the root shows its data.
pub fn bcast(
    member: Member,
    capacity: SlotCapacity,
    parts: Option<BoardParts>,
    root: u32,
    bytes: usize,
) -> Option<Schedule> {
    if !fits(member, bytes, capacity.slot_bytes) {
        return None;
    }
    if let Some(parts) = parts {
        return Some(parts::bcast(member, parts, root, bytes));
    }
    let whole = |piece: Piece| Area::Receive.blocks(piece.first, piece.count);
    let shown = |piece: Piece| slot(root, piece.first, piece.count);
    let is_root = member.rank == root;
    let flow = Flow {
        pieces: BlockPieces::new(member, capacity, bytes, bytes),
        shows: is_root,
        reader: None,
        meanwhile: None,
        awaited: if is_root { Vec::new() } else { vec![root] },
        shown: bytes,
    };
    let show = |schedule: &mut Schedule, piece: Piece| schedule.copy(whole(piece), shown(piece));
    let take = |schedule: &mut Schedule, piece: Piece| schedule.copy(shown(piece), whole(piece));
    let mut schedule = Schedule::of_bytes();
    flow.add_to(&mut schedule, show, take);
    Some(schedule)
}

/// `MPI_Gather` (section 6.5): all show their block to the root.
pub fn gather(
    member: Member,
    capacity: SlotCapacity,
    root: u32,
    block_bytes: usize,
    input: InputPlace,
) -> Option<Schedule> {
    let is_root = member.rank == root;
    // Only the root may have its block in place.
    let input = if is_root { input } else { InputPlace::SendBuffer };
    blocks_of_all(
        member,
        capacity,
        block_bytes,
        input,
        BlockWork { shows: !is_root, takes: is_root, reader: Some(root) },
    )
}

/// `MPI_Gatherv` (section 6.5): all hand their block to the root.
pub fn gatherv(member: Member, root: u32, input: InputPlace) -> Option<Schedule> {
    if !fits(member, 1, 1) {
        return None;
    }
    let mut schedule = Schedule::default();
    let own = Area::Send.block(0);
    if member.rank != root {
        schedule.hand(root, own);
        schedule.end_round();
        schedule.raise_for(Some(root), 1);
        schedule.end_round();
        return Some(schedule.for_handed_blocks(SlotSize::Medium, handed_bytes_max(member)));
    }
    if input == InputPlace::SendBuffer {
        schedule.copy(own, Area::Receive.block(root as usize));
        schedule.end_round();
    }
    take_from_others(&mut schedule, member, |schedule, peer| {
        schedule.take(peer, Area::Receive.block(peer as usize));
    });
    Some(schedule.for_handed_blocks(SlotSize::Medium, handed_bytes_max(member)))
}

/// `MPI_Scatter` (section 6.6): the root shows the blocks for all others.
pub fn scatter(
    member: Member,
    capacity: SlotCapacity,
    root: u32,
    block_bytes: usize,
    input: InputPlace,
) -> Option<Schedule> {
    let shown = (member.size as usize - 1) * block_bytes;
    if !fits(member, shown, capacity.slot_bytes) {
        return None;
    }
    let into = |piece: Piece| Area::Receive.blocks(piece.first, piece.count);
    let is_root = member.rank == root;
    let all = Piece { first: 0, count: block_bytes };
    let own = Area::Send.blocks(root as usize * block_bytes, block_bytes);
    let flow = Flow {
        pieces: BlockPieces::new(member, capacity, block_bytes, shown),
        shows: is_root,
        reader: None,
        meanwhile: (is_root && input == InputPlace::SendBuffer).then(|| (own, into(all))),
        awaited: if is_root { Vec::new() } else { vec![root] },
        shown,
    };
    let place = place_in(root, member.rank) * block_bytes;
    let show = |schedule: &mut Schedule, piece: Piece| {
        show_to_others(schedule, member, Area::Send, block_bytes, piece);
    };
    let take = |schedule: &mut Schedule, piece: Piece| {
        schedule.copy(slot(root, place + piece.first, piece.count), into(piece));
    };
    let mut schedule = Schedule::of_bytes();
    flow.add_to(&mut schedule, show, take);
    Some(schedule)
}

/// Shows a piece of the blocks for all others, which are consecutive in the slot.
fn show_to_others(
    schedule: &mut Schedule,
    member: Member,
    from: Area,
    block_bytes: usize,
    piece: Piece,
) {
    if piece.count < block_bytes {
        for peer in member.others() {
            let at = place_in(member.rank, peer) * block_bytes + piece.first;
            let from = from.blocks(peer as usize * block_bytes + piece.first, piece.count);
            schedule.copy(from, slot(member.rank, at, piece.count));
        }
        return;
    }
    let (rank, size) = (member.rank as usize, member.size as usize);
    for (first, behind) in [(0, rank), (rank + 1, size)] {
        let from = from.blocks(first * block_bytes, (behind - first) * block_bytes);
        if from.count > 0 {
            let at = place_in(member.rank, first as u32) * block_bytes;
            schedule.copy(from, slot(member.rank, at, from.count));
        }
    }
}

/// Returns how many blocks precede the block for `rank` in the slot of `owner`, which shows all
/// blocks except its own.
fn place_in(owner: u32, rank: u32) -> usize {
    rank as usize - usize::from(rank > owner)
}

/// `MPI_Allgather` (section 6.7): all show their block to all.
pub fn allgather(
    member: Member,
    capacity: SlotCapacity,
    block_bytes: usize,
    input: InputPlace,
) -> Option<Schedule> {
    let work = BlockWork { shows: true, takes: true, reader: None };
    blocks_of_all(member, capacity, block_bytes, input, work)
}

/// What a member does with the blocks of all members.
#[derive(Clone, Copy)]
struct BlockWork {
    /// It shows its own block to the others.
    shows: bool,
    /// It takes the blocks of all.
    takes: bool,
    /// The only member that takes its block; `None` if several do.
    reader: Option<u32>,
}

/// Members show their block, and take the blocks of all others.
fn blocks_of_all(
    member: Member,
    capacity: SlotCapacity,
    block_bytes: usize,
    input: InputPlace,
    part: BlockWork,
) -> Option<Schedule> {
    if !fits(member, block_bytes, capacity.slot_bytes) {
        return None;
    }
    let block = |rank: u32, Piece { first, count }| {
        Area::Receive.blocks(rank as usize * block_bytes + first, count)
    };
    let own = |piece: Piece| match input {
        InputPlace::SendBuffer => Area::Send.blocks(piece.first, piece.count),
        InputPlace::InPlace => block(member.rank, piece),
    };
    let all = Piece { first: 0, count: block_bytes };
    let flow = Flow {
        pieces: BlockPieces::new(member, capacity, block_bytes, block_bytes),
        shows: part.shows,
        reader: part.reader,
        meanwhile: (part.takes && input == InputPlace::SendBuffer)
            .then(|| (own(all), block(member.rank, all))),
        awaited: member.others().filter(|_| part.takes).collect(),
        shown: block_bytes,
    };
    let show = |schedule: &mut Schedule, piece: Piece| {
        schedule.copy(own(piece), slot(member.rank, piece.first, piece.count));
    };
    let take = |schedule: &mut Schedule, piece: Piece| {
        for peer in member.others() {
            schedule.copy(slot(peer, piece.first, piece.count), block(peer, piece));
        }
    };
    let mut schedule = Schedule::of_bytes();
    flow.add_to(&mut schedule, show, take);
    Some(schedule)
}

/// `MPI_Allgatherv` (section 6.7), for blocks with `total_bytes` bytes in total.
pub fn allgatherv(
    member: Member,
    capacity: SlotCapacity,
    total_bytes: usize,
    input: InputPlace,
) -> Option<Schedule> {
    if !fits(member, total_bytes, capacity.slot_bytes) {
        return None;
    }
    let block = |rank: u32| Area::Receive.block(rank as usize);
    let own = match input {
        InputPlace::SendBuffer => Area::Send.block(0),
        InputPlace::InPlace => block(member.rank),
    };
    let mut schedule = Schedule::default();
    show(&mut schedule, member, own, None);
    if input == InputPlace::SendBuffer {
        schedule.copy(own, block(member.rank));
        schedule.end_round();
    }
    take_from_others(&mut schedule, member, |schedule, peer| {
        schedule.copy(slot(peer, 0, 1), block(peer));
    });
    Some(schedule)
}

/// Waits until all others have shown data, and takes this member's data from the slot of each.
fn take_from_others(schedule: &mut Schedule, member: Member, take: impl Fn(&mut Schedule, u32)) {
    wait_for(schedule, member.others(), 1, None);
    for peer in member.others() {
        take(schedule, peer);
    }
    schedule.end_round();
}

/// `MPI_Alltoall` (section 6.8): all show their blocks for all others.
pub fn alltoall(
    member: Member,
    capacity: SlotCapacity,
    block_bytes: usize,
    input: InputPlace,
) -> Option<Schedule> {
    let shown = (member.size as usize - 1) * block_bytes;
    if !fits(member, shown, capacity.slot_bytes) {
        return None;
    }
    let block = |area: Area, rank: u32, Piece { first, count }| {
        area.blocks(rank as usize * block_bytes + first, count)
    };
    let all = Piece { first: 0, count: block_bytes };
    let [own, into] = [Area::Send, Area::Receive].map(|area| block(area, member.rank, all));
    let flow = Flow {
        pieces: BlockPieces::new(member, capacity, block_bytes, shown),
        shows: true,
        reader: None,
        meanwhile: (input == InputPlace::SendBuffer).then_some((own, into)),
        awaited: member.others().collect(),
        shown,
    };
    let show = |schedule: &mut Schedule, piece: Piece| {
        show_to_others(schedule, member, input.area(), block_bytes, piece);
    };
    let take = |schedule: &mut Schedule, piece: Piece| {
        for peer in member.others() {
            let from = place_in(peer, member.rank) * block_bytes + piece.first;
            schedule.copy(slot(peer, from, piece.count), block(Area::Receive, peer, piece));
        }
    };
    let mut schedule = Schedule::of_bytes();
    flow.add_to(&mut schedule, show, take);
    Some(schedule)
}

/// `MPI_Scatterv` (section 6.6): the root hands each process its block, as only the root knows all
/// lengths.
pub fn scatterv(member: Member, root: u32, input: InputPlace) -> Option<Schedule> {
    if !fits(member, 1, 1) {
        return None;
    }
    let mut schedule = Schedule::default();
    let into = Area::Receive.block(0);
    if member.rank != root {
        schedule.wait(root, 1, None);
        schedule.take(root, into);
        schedule.end_round();
        return Some(schedule.for_handed_blocks(SlotSize::Medium, HANDED_BYTES_MAX));
    }
    hand_to_others(&mut schedule, member);
    if input == InputPlace::SendBuffer {
        schedule.copy(Area::Send.block(root as usize), into);
    }
    schedule.end_round();
    Some(schedule.for_handed_blocks(SlotSize::Medium, HANDED_BYTES_MAX))
}

/// `MPI_Alltoallv` and `MPI_Alltoallw` (section 6.8), not in place: each process hands all others
/// their blocks. Only the two processes of a pair know the size of their block.
pub fn alltoallv(member: Member, input: InputPlace) -> Option<Schedule> {
    if !fits(member, 1, 1) || input == InputPlace::InPlace {
        return None;
    }
    let mut schedule = Schedule::default();
    hand_to_others(&mut schedule, member);
    let own = member.rank as usize;
    schedule.copy(Area::Send.block(own), Area::Receive.block(own));
    schedule.end_round();
    take_from_others(&mut schedule, member, |schedule, peer| {
        schedule.take(peer, Area::Receive.block(peer as usize));
    });
    let slots = if member.situation.oversubscribed { SlotSize::Large } else { SlotSize::Medium };
    Some(schedule.for_handed_blocks(slots, handed_bytes_max(member)))
}

/// Hands a block to each of the others, and begins the next round.
fn hand_to_others(schedule: &mut Schedule, member: Member) {
    for peer in (0..member.size).filter(|peer| *peer != member.rank) {
        schedule.hand(peer, Area::Send.block(peer as usize));
    }
    schedule.end_round();
    schedule.raise(1);
}
