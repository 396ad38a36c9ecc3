//! Operations whose work is divided into portions, which any waiting process executes for all.
//!
//! A member exposes its input and result buffers, and raises its flag. From then on its own
//! activity is not needed: members that wait copy and combine for members that compute. A portion
//! is claimed on the board. When all were executed, all members have their results, and no member
//! uses the buffers of others.
//!
//! This form suits operations that a program begins and does not wait for at once. If all wait at
//! once the other forms are faster, but here other processes do the work of a process that
//! computes. Each function returns `None` if the operation cannot be carried out so.
//!
//! Why: docs/internals/decisions/0030-whoever-waits-works-for-all.md

use crate::board::{RegionSupport, SlotCapacity};
use crate::member::{InputPlace, Member};
use crate::operands::Operands;
use crate::operation::CollectiveOperation;
use crate::schedule::{Area, BlockRange, ExposureRole, Operand, PORTIONS_MAX, Schedule};

/// The approximate length of a portion in pieces ([`SlotCapacity::piece_bytes`]) if data is only
/// moved, which makes 128 KiB; more if there would be too many portions. Half of that if data is
/// combined.
const PORTION_PIECES: usize = 8;

/// The number of pieces that are combined, or copied from one member to another by a third, at
/// once. This makes 64 KiB, so that the cost of system calls is negligible, and the data that is
/// read stays in the inner caches.
const STEP_PIECES: usize = 4;

/// The minimum number of pieces per process. Less data is moved in about the time that it takes to
/// divide it.
const PIECES_MIN: usize = 8;

/// `MPI_Alltoall` (section 6.8), not in place; blocks are bytes.
pub fn alltoall(
    member: Member,
    capacity: SlotCapacity,
    block_bytes: usize,
    input: InputPlace,
) -> Option<Schedule> {
    if input == InputPlace::InPlace {
        return None;
    }
    let from = |source: u32, target: u32| {
        let area = if source == member.rank { Area::Send } else { Area::InputOf(source) };
        Some(area.blocks(target as usize * block_bytes, block_bytes))
    };
    moving(member, capacity, CollectiveOperation::Alltoall, block_bytes, input, from)
}

/// `MPI_Allgather` (section 6.7); blocks are bytes.
pub fn allgather(
    member: Member,
    capacity: SlotCapacity,
    block_bytes: usize,
    input: InputPlace,
) -> Option<Schedule> {
    let from = |source: u32, target: u32| {
        let own = if source == member.rank { input.area() } else { Area::InputOf(source) };
        match input {
            InputPlace::SendBuffer => Some(own.blocks(0, block_bytes)),
            InputPlace::InPlace if source == target => None,
            InputPlace::InPlace => Some(own.blocks(source as usize * block_bytes, block_bytes)),
        }
    };
    moving(member, capacity, CollectiveOperation::Allgather, block_bytes, input, from)
}

/// Makes the operation that moves blocks: the blocks `from` each member for each other one go to
/// the place of the source's blocks at the target.
fn moving(
    member: Member,
    capacity: SlotCapacity,
    operation: CollectiveOperation,
    block_bytes: usize,
    input: InputPlace,
    from: impl Fn(u32, u32) -> Option<BlockRange>,
) -> Option<Schedule> {
    let bytes = block_bytes.saturating_mul(member.size as usize);
    if !fits(member, capacity, operation, bytes) {
        return None;
    }
    let most = PORTIONS_MAX as usize / (member.size as usize).pow(2);
    let pieces = block_bytes.div_ceil(PORTION_PIECES * capacity.piece_bytes).min(most);
    let length = block_bytes.div_ceil((pieces > 0).then_some(pieces)?);
    let mut portions = Vec::new();
    for (source, target) in
        (0..member.size).flat_map(|one| (0..member.size).map(move |two| (one, two)))
    {
        let Some(from) = from(source, target) else { continue };
        let there = match target == member.rank {
            true => Area::Receive,
            false => Area::ResultOf(target),
        };
        let into = there.blocks(source as usize * block_bytes, block_bytes);
        for first in (0..block_bytes).step_by(length) {
            let count = length.min(block_bytes - first);
            let number = portions.len() as u32;
            portions.push((
                number,
                source,
                target,
                from.part(first, count),
                into.part(first, count),
            ));
        }
    }
    let mut schedule = Schedule::of_bytes();
    begin(&mut schedule, member, input.area());
    let count = portions.len() as u32;
    // First the member's own blocks, then the blocks from or for this member. So two waiting
    // members share the work.
    let ring = |rank: u32| (rank + member.size - member.rank) % member.size;
    portions.sort_by_key(|&(number, source, target, ..)| {
        let foreign = u32::from(source != member.rank) + 2 * u32::from(target != member.rank);
        (foreign, ring(target), ring(source), number)
    });
    for (number, source, target, from, into) in portions {
        schedule.claim(number);
        match source == member.rank || target == member.rank {
            true => schedule.copy(from, into),
            false => {
                for step in steps(from, STEP_PIECES * capacity.piece_bytes) {
                    let here = Area::Scratch.blocks(0, step.count);
                    schedule.copy(step, here);
                    schedule.copy(here, into.part(step.first - from.first, step.count));
                }
            }
        }
        schedule.end_round();
    }
    end(&mut schedule, count);
    Some(schedule)
}

/// `MPI_Allreduce` (section 6.9.6).
pub fn allreduce(
    member: Member,
    capacity: SlotCapacity,
    operands: Operands,
    input: InputPlace,
) -> Option<Schedule> {
    let Operands { count, element_bytes, .. } = operands;
    if !fits(member, capacity, CollectiveOperation::Allreduce, operands.bytes()) {
        return None;
    }
    let step = (STEP_PIECES * capacity.piece_bytes / element_bytes.max(1)).max(1);
    let length = step.max(count.div_ceil(PORTIONS_MAX as usize));
    let portions = count.div_ceil(length) as u32;
    let mut schedule = Schedule::default();
    begin(&mut schedule, member, input.area());
    let first = portions * member.rank / member.size;
    for number in (0..portions).map(|number| (first + number) % portions) {
        schedule.claim(number);
        let first = number as usize * length;
        let portion = input.area().blocks(first, length.min(count - first));
        for own in steps(portion, step) {
            fold(&mut schedule, member, own, input);
        }
        schedule.end_round();
    }
    end(&mut schedule, portions);
    Some(schedule)
}

/// Combines the elements at `own` with those of all others, in the order of ranks, into the results
/// of all.
fn fold(schedule: &mut Schedule, member: Member, own: BlockRange, input: InputPlace) {
    let place = |area: Area| area.blocks(own.first, own.count);
    let (result, staged) = match input {
        InputPlace::SendBuffer => (place(Area::Receive), Area::Scratch.blocks(0, own.count)),
        InputPlace::InPlace => {
            (Area::Scratch.blocks(0, own.count), Area::Scratch.blocks(own.count, own.count))
        }
    };
    let last = member.size - 1;
    let operand = |rank| if rank == member.rank { own } else { place(Area::InputOf(rank)) };
    schedule.copy(operand(last), result);
    for rank in (0..last).rev() {
        if rank == member.rank {
            schedule.reduce(own, result, Operand::From);
        } else {
            schedule.copy(operand(rank), staged);
            schedule.reduce(staged, result, Operand::From);
        }
    }
    // No other process reads these operands, so the result may overwrite them.
    if input == InputPlace::InPlace {
        schedule.copy(result, place(Area::Receive));
    }
    for peer in member.others() {
        schedule.copy(result, place(Area::ResultOf(peer)));
    }
}

/// Whether to use this form. If the user prefers another one for the operation, that is respected.
fn fits(
    member: Member,
    capacity: SlotCapacity,
    operation: CollectiveOperation,
    bytes: usize,
) -> bool {
    let has_enough = bytes >= PIECES_MIN * capacity.piece_bytes;
    let is_free = member.situation.preferences.wanted(operation).is_none();
    is_free
        && capacity.regions == RegionSupport::Possible
        && member.size > 1
        && !member.situation.oversubscribed
        && has_enough
}

/// Exposes the input and the result, and waits until all have exposed theirs.
fn begin(schedule: &mut Schedule, member: Member, input: Area) {
    schedule.expose(input, ExposureRole::Input);
    schedule.expose(Area::Receive, ExposureRole::Result);
    if member.rank == 0 {
        schedule.divide();
    }
    schedule.end_round();
    schedule.raise(1);
    member.others().for_each(|peer| schedule.wait(peer, 1, None));
    schedule.compare();
    schedule.end_round();
}

fn end(schedule: &mut Schedule, portions: u32) {
    schedule.wait_for_portions(portions);
    schedule.end_round();
}

/// Divides a place into parts of `length` blocks.
fn steps(place: BlockRange, length: usize) -> impl Iterator<Item = BlockRange> {
    let firsts = (0..place.count).step_by(length);
    firsts.map(move |first| place.part(first, length.min(place.count - first)))
}
