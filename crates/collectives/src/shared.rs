//! What operations on the board cost, and those that copy once.

use crate::board::{Room, Rooms};
use crate::estimate::{Cost, Estimate};
use crate::member::Member;
use crate::selection::Operation;

/// Who moves how much, of `n` processes that contribute or get `b` bytes each.
struct Movement {
    /// Bytes that each of so many processes puts into its slot.
    put: (u64, usize),
    /// Bytes that each of so many processes takes out of others' slots or buffers, by so many copies.
    take: (u64, usize),
    copies: u64,
    /// Bytes that each process combines.
    combine: usize,
    /// How often all wait for flags.
    waits: u64,
    /// Whether only the root waits.
    to_root: bool,
}

/// Up to this many bytes all processes that want the result of a reduction combine all operands.
const FLAT_BYTES_MAX: usize = 4096;

/// The predicted time on the board, with two copies; none if it is too large for that.
pub(crate) fn on_board(
    operation: Operation,
    member: Member,
    rooms: Rooms,
    bytes: usize,
) -> Option<Cost> {
    let movement = movement(operation, member, bytes, false)?;
    let fits = movement.put.1 <= rooms.small.slot_bytes
        || operation.all_read_all()
            && member.situation.crowded
            && movement.put.1 <= rooms.large.slot_bytes;
    if !fits || member.size < 2 {
        return None;
    }
    let mut estimate = Estimate::new(member.situation);
    estimate.copy(movement.put.0, movement.put.1);
    estimate.copy(movement.take.0, movement.take.1);
    estimate.reduce(u64::from(member.size), movement.combine);
    estimate.repeat(movement.waits, |one| match movement.to_root {
        true => one.flag_to_root(),
        false => one.flag(),
    });
    Some(estimate.cost())
}

/// The predicted time with single copies; none if the members cannot use each other's memory.
pub(crate) fn directly(
    operation: Operation,
    member: Member,
    room: Room,
    bytes: usize,
) -> Option<Cost> {
    if !room.regions || member.size < 2 || bytes == 0 {
        return None;
    }
    let movement = movement(operation, member, bytes, true)?;
    let mut estimate = Estimate::new(member.situation);
    // Its own block each process copies by itself.
    if operation == Operation::Alltoall {
        estimate.copy(u64::from(member.size), bytes);
    }
    estimate.fetch(movement.take.0, movement.take.1, movement.copies);
    estimate.reduce(u64::from(member.size), movement.combine);
    estimate.repeat(2, Estimate::flag);
    Some(estimate.cost())
}

fn movement(
    operation: Operation,
    member: Member,
    bytes: usize,
    is_direct: bool,
) -> Option<Movement> {
    let (size, others) = (u64::from(member.size), u64::from(member.size - 1));
    let times = |count: u64| bytes.saturating_mul(count as usize);
    let of =
        |put, take, copies| Movement { put, take, copies, combine: 0, waits: 1, to_root: false };
    let share = bytes.div_ceil(member.size as usize);
    // Shares are combined in pieces, each of which is read from all and written to some.
    let pieces = share.div_ceil(crate::direct::PIECE_BYTES) as u64;
    Some(match operation {
        Operation::Barrier if is_direct => return None,
        Operation::Barrier => of((0, 0), (0, 0), 0),
        Operation::Bcast => of((1, bytes), (others, bytes), 1),
        Operation::Gather if is_direct => of((0, 0), (others, bytes), 1),
        Operation::Gather => {
            Movement { to_root: true, ..of((others, bytes), (1, times(others)), 1) }
        }
        Operation::Scatter => of((1, times(size)), (others, bytes), 1),
        Operation::Allgather | Operation::Allgatherv => {
            of((size, bytes), (size, times(others)), others)
        }
        Operation::Alltoall => of((size, times(size)), (size, times(others)), others),
        Operation::ReduceScatter => Movement {
            combine: times(others),
            ..of(
                (size, times(size)),
                (size, times(others)),
                pieces.saturating_mul(size).saturating_mul(others),
            )
        },
        Operation::Reduce | Operation::Allreduce if !is_direct && bytes <= FLAT_BYTES_MAX => {
            let to_root = operation == Operation::Reduce;
            let readers = if to_root { 1 } else { size };
            Movement { combine: times(others), to_root, ..of((size, bytes), (readers, 0), 0) }
        }
        // What is read of others, and what is written to them.
        Operation::Reduce | Operation::Allreduce => {
            let targets = if operation == Operation::Reduce { 1 } else { others };
            let moved = share.saturating_mul((others + targets) as usize);
            let combine = share.saturating_mul(others as usize);
            let taken = if is_direct { moved } else { share.saturating_mul(targets as usize) };
            let copies = pieces.saturating_mul(others + targets);
            Movement {
                combine,
                waits: 2,
                ..of((size, bytes.saturating_add(share)), (size, taken), copies)
            }
        }
    })
}
