//! The operations on the board that combine nothing.

use super::{Piece, Pieces, Room, exchange, is_small, others, show, slot, take, wait_for};
use crate::member::{Input, Member};
use crate::schedule::{Area, Schedule};

/// A root shows more than this in pieces: who reads the first ones need not wait for the last.
const ROOT_PIECE_BYTES: usize = 8 * 1024;

/// `MPI_Barrier` (section 6.3): all raise, and all wait for all.
pub fn barrier(member: Member) -> Option<Schedule> {
    if !is_small(member) {
        return None;
    }
    let mut schedule = Schedule::default();
    schedule.raise(1);
    wait_for(&mut schedule, &others(member), 1, Some(0));
    schedule.end_round();
    Some(schedule)
}

/// `MPI_Bcast` (section 6.4): the root shows its data.
pub fn bcast(member: Member, room: Room, root: u32, bytes: usize) -> Option<Schedule> {
    let pieces = Pieces::of_length(bytes, ROOT_PIECE_BYTES.min(room.slot_bytes), room.slot_bytes)?;
    if !is_small(member) || bytes == 0 {
        return None;
    }
    let mut schedule = Schedule::of_bytes();
    let at = |piece: Piece| Area::Receive.blocks(piece.first, piece.length);
    if member.rank == root {
        show(&mut schedule, pieces, &others(member), |schedule, piece| {
            schedule.copy(at(piece), slot(root, piece.at, piece.length));
        });
    } else {
        let from = (&[root][..], pieces.expected(bytes));
        take(&mut schedule, pieces, from, |schedule, piece| {
            schedule.copy(slot(root, piece.at, piece.length), at(piece));
        });
    }
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
    let pieces = Pieces::halves(block_bytes, room.slot_bytes)?;
    if !is_small(member) || block_bytes == 0 {
        return None;
    }
    let mut schedule = Schedule::of_bytes();
    if member.rank != root {
        show(&mut schedule, pieces, &[root], |schedule, piece| {
            let from = Area::Send.blocks(piece.first, piece.length);
            schedule.copy(from, slot(member.rank, piece.at, piece.length));
        });
        return Some(schedule);
    }
    if input == Input::SendBuffer {
        let into = Area::Receive.blocks(root as usize * block_bytes, block_bytes);
        schedule.copy(Area::Send.blocks(0, block_bytes), into);
        schedule.end_round();
    }
    let all = others(member);
    take(&mut schedule, pieces, (&all, pieces.expected(block_bytes)), |schedule, piece| {
        for peer in &all {
            let into = *peer as usize * block_bytes + piece.first;
            let into = Area::Receive.blocks(into, piece.length);
            schedule.copy(slot(*peer, piece.at, piece.length), into);
        }
    });
    Some(schedule)
}

/// `MPI_Gatherv` (section 6.5): those whose block fits in a small slot show it to the root, others
/// send it. Each process knows whether its own does (`fits`), and the root knows it of all.
pub fn gatherv(
    member: Member,
    root: u32,
    input: Input,
    fits: impl Fn(u32) -> bool,
) -> Option<Schedule> {
    if !is_small(member) {
        return None;
    }
    let mut schedule = Schedule::of_board();
    let own = Area::Send.block(0);
    if member.rank != root && fits(member.rank) {
        let once = Pieces { total: 1, length: 1, parts: 1 };
        show(&mut schedule, once, &[root], |schedule, _| {
            schedule.copy(own, slot(member.rank, 0, 1));
        });
        return Some(schedule.for_small_slots());
    }
    if member.rank != root {
        schedule.send(root, own);
        schedule.end_round();
        return Some(schedule.for_small_slots());
    }
    if input == Input::SendBuffer {
        schedule.copy(own, Area::Receive.block(root as usize));
        schedule.end_round();
    }
    for peer in others(member) {
        let into = Area::Receive.block(peer as usize);
        if fits(peer) {
            schedule.wait(peer, 1, None);
            schedule.copy(slot(peer, 0, 1), into);
        } else {
            schedule.receive(peer, into);
        }
    }
    schedule.end_round();
    Some(schedule.for_small_slots())
}

/// `MPI_Scatter` (section 6.6): the root shows all blocks, or a piece of each at once.
pub fn scatter(
    member: Member,
    room: Room,
    root: u32,
    block_bytes: usize,
    input: Input,
) -> Option<Schedule> {
    let size = member.size as usize;
    let pieces = Pieces::halves(block_bytes, room.slot_bytes / size)?;
    if !is_small(member) || block_bytes == 0 {
        return None;
    }
    let mut schedule = Schedule::of_bytes();
    let receives = member.rank != root || input == Input::SendBuffer;
    if member.rank != root {
        let from = (&[root][..], pieces.expected(size * block_bytes));
        take(&mut schedule, pieces, from, |schedule, piece| {
            let at = size * piece.at + member.rank as usize * piece.length;
            let into = Area::Receive.blocks(piece.first, piece.length);
            schedule.copy(slot(root, at, piece.length), into);
        });
        return Some(schedule);
    }
    show(&mut schedule, pieces, &others(member), |schedule, piece| {
        show_all_blocks(schedule, member, Area::Send, block_bytes, piece);
    });
    if receives {
        let own = Area::Send.blocks(root as usize * block_bytes, block_bytes);
        schedule.copy(own, Area::Receive.blocks(0, block_bytes));
        schedule.end_round();
    }
    Some(schedule)
}

/// A piece of each block, one after the other.
fn show_all_blocks(
    schedule: &mut Schedule,
    member: Member,
    from: Area,
    block: usize,
    piece: Piece,
) {
    let size = member.size as usize;
    if piece.length == block {
        // They lie as they shall.
        return schedule.copy(from.blocks(0, size * block), slot(member.rank, 0, size * block));
    }
    for number in 0..size {
        let place = from.blocks(number * block + piece.first, piece.length);
        let at = size * piece.at + number * piece.length;
        schedule.copy(place, slot(member.rank, at, piece.length));
    }
}

/// `MPI_Allgather` (section 6.7): all show their block to all.
pub fn allgather(member: Member, room: Room, block_bytes: usize, input: Input) -> Option<Schedule> {
    let pieces = Pieces::halves(block_bytes, room.slot_bytes)?;
    if !is_small(member) || block_bytes == 0 {
        return None;
    }
    let mut schedule = Schedule::of_bytes();
    let begin = |rank: u32| rank as usize * block_bytes;
    let own = match input {
        Input::SendBuffer => Area::Send.blocks(0, block_bytes),
        Input::InPlace => Area::Receive.blocks(begin(member.rank), block_bytes),
    };
    let all = others(member);
    exchange(
        &mut schedule,
        pieces,
        (&all, pieces.expected(block_bytes)),
        |schedule, piece| {
            let place = own.part(piece.first, piece.length);
            schedule.copy(place, slot(member.rank, piece.at, piece.length));
        },
        |schedule, piece| {
            for peer in &all {
                let into = Area::Receive.blocks(begin(*peer) + piece.first, piece.length);
                schedule.copy(slot(*peer, piece.at, piece.length), into);
            }
        },
    );
    if input == Input::SendBuffer {
        schedule.copy(own, Area::Receive.blocks(begin(member.rank), block_bytes));
        schedule.end_round();
    }
    Some(schedule)
}

/// `MPI_Allgatherv` (section 6.7), where the blocks have `total_bytes` bytes together.
pub fn allgatherv(
    member: Member,
    room: Room,
    total_bytes: usize,
    input: Input,
) -> Option<Schedule> {
    if !is_small(member) || total_bytes == 0 || total_bytes > room.slot_bytes {
        return None;
    }
    let mut schedule = Schedule::default();
    let rank = member.rank as usize;
    let own = match input {
        Input::SendBuffer => Area::Send.block(0),
        Input::InPlace => Area::Receive.block(rank),
    };
    let all = others(member);
    let once = Pieces { total: 1, length: 1, parts: 1 };
    exchange(
        &mut schedule,
        once,
        (&all, None),
        |schedule, _| schedule.copy(own, slot(member.rank, 0, 1)),
        |schedule, _| {
            for peer in &all {
                schedule.copy(slot(*peer, 0, 1), Area::Receive.block(*peer as usize));
            }
        },
    );
    if input == Input::SendBuffer {
        schedule.copy(own, Area::Receive.block(rank));
        schedule.end_round();
    }
    Some(schedule)
}

/// `MPI_Alltoall` (section 6.8): all show all their blocks to all, or a piece of each at once.
pub fn alltoall(member: Member, room: Room, block_bytes: usize, input: Input) -> Option<Schedule> {
    let size = member.size as usize;
    let pieces = Pieces::halves(block_bytes, room.slot_bytes / size)?;
    if !is_small(member) || block_bytes == 0 {
        return None;
    }
    let mut schedule = Schedule::of_bytes();
    let own = member.rank as usize * block_bytes;
    let all = others(member);
    exchange(
        &mut schedule,
        pieces,
        (&all, pieces.expected(size * block_bytes)),
        |schedule, piece| show_all_blocks(schedule, member, input.area(), block_bytes, piece),
        |schedule, piece| {
            for peer in &all {
                let into = *peer as usize * block_bytes + piece.first;
                let at = size * piece.at + member.rank as usize * piece.length;
                let into = Area::Receive.blocks(into, piece.length);
                schedule.copy(slot(*peer, at, piece.length), into);
            }
        },
    );
    if input == Input::SendBuffer {
        schedule.copy(Area::Send.blocks(own, block_bytes), Area::Receive.blocks(own, block_bytes));
        schedule.end_round();
    }
    Some(schedule)
}
