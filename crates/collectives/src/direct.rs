//! Operations that copy once: members on one machine expose their buffers, and others read or write
//! them directly.
//!
//! The board carries the flags. A member exposes its buffers and raises the first stage. A member
//! that needs them waits for that flag, copies, and raises a flag when it has finished. The buffers
//! of a member are not used after its part is over. Each function returns `None` if the operation
//! cannot be carried out so.

use crate::board::{RegionSupport, SlotCapacity};
use crate::cost::Cost;
use crate::estimate::TimeEstimate;
use crate::member::{InputPlace, Member, Takers};
use crate::operands::Operands;
use crate::operation::CollectiveOperation;
use crate::schedule::{Area, BlockRange, ExposureRole, Operand, Schedule};
use crate::share::share;

/// The number of bytes that a reduction combines at once, which stay in the inner caches meanwhile.
const PIECE_BYTES: usize = 32 << 10;

/// The data that an operation moves: the number of processes, and the bytes that each copies from
/// or into others' buffers; the number of copies of each; and the bytes that each combines.
struct Transport {
    moved: (u64, usize),
    copies: u64,
    combine: usize,
}

/// Returns the predicted time with single copies, where each process contributes or gets so many
/// bytes; `None` if the members cannot access each other's memory.
pub(crate) fn cost(
    operation: CollectiveOperation,
    member: Member,
    capacity: SlotCapacity,
    bytes: usize,
) -> Option<Cost> {
    if capacity.regions == RegionSupport::Impossible || member.size < 2 || bytes == 0 {
        return None;
    }
    let Transport { moved, copies, combine } = transport(operation, member, bytes)?;
    let size = u64::from(member.size);
    let mut estimate = TimeEstimate::new(member.situation);
    // Each process copies its own block locally.
    if operation == CollectiveOperation::Alltoall {
        estimate.copy(size, bytes);
    }
    estimate.fetch(moved.0, moved.1, copies);
    estimate.take_across(member, moved.0, moved.1, Takers::of(moved.0 < size));
    let steps = combine.div_ceil(PIECE_BYTES) as u64;
    estimate.repeat(steps, |one| one.reduce(size, combine.min(PIECE_BYTES)));
    let lookers = if moved.0 < size { 1 } else { size };
    estimate.repeat(2, |one| one.look(lookers, size - 1));
    estimate.repeat(2, TimeEstimate::flag);
    Some(estimate.cost())
}

fn transport(operation: CollectiveOperation, member: Member, bytes: usize) -> Option<Transport> {
    let (size, others) = (u64::from(member.size), u64::from(member.size - 1));
    let times = |count: u64| bytes.saturating_mul(count as usize);
    let share = bytes.div_ceil(member.size as usize);
    // A combined share is read from each process in pieces, and written to some processes in
    // pieces.
    let pieces = |bytes: usize| bytes.div_ceil(PIECE_BYTES) as u64;
    Some(match operation {
        CollectiveOperation::Barrier => return None,
        CollectiveOperation::Bcast | CollectiveOperation::Gather | CollectiveOperation::Scatter => {
            Transport { moved: (others, bytes), copies: 1, combine: 0 }
        }
        CollectiveOperation::Allgather
        | CollectiveOperation::Allgatherv
        | CollectiveOperation::Alltoall => {
            Transport { moved: (size, times(others)), copies: others, combine: 0 }
        }
        CollectiveOperation::ReduceScatter => Transport {
            moved: (size, times(others)),
            copies: pieces(bytes).saturating_mul(others),
            combine: times(others),
        },
        CollectiveOperation::Reduce | CollectiveOperation::Allreduce => {
            let targets = if operation == CollectiveOperation::Reduce { 1 } else { others };
            Transport {
                moved: (size, share.saturating_mul((others + targets) as usize)),
                copies: pieces(share).saturating_mul(others + targets),
                combine: share.saturating_mul(others as usize),
            }
        }
    })
}

/// `MPI_Bcast` (section 6.4) of `bytes` bytes: all read the root's buffer.
pub fn bcast(member: Member, capacity: SlotCapacity, root: u32, bytes: usize) -> Option<Schedule> {
    let schedule = begin(member, capacity, bytes)?;
    let (from, into) = (Area::InputOf(root).blocks(0, bytes), Area::Receive.blocks(0, bytes));
    Some(around_root(schedule, member, root, (Some(Area::Receive), None), None, (from, into)))
}

/// `MPI_Scatter` (section 6.6): each reads its block from the root's buffer.
pub fn scatter(
    member: Member,
    capacity: SlotCapacity,
    root: u32,
    block_bytes: usize,
    input: InputPlace,
) -> Option<Schedule> {
    let schedule = begin(member, capacity, block_bytes)?;
    let (own, into) = (member.rank as usize, Area::Receive.block(0));
    let at_root = (input == InputPlace::SendBuffer).then(|| (Area::Send.block(own), into));
    let elsewhere = (Area::InputOf(root).block(own), into);
    Some(around_root(schedule, member, root, (Some(Area::Send), None), at_root, elsewhere))
}

/// `MPI_Gather` (section 6.5): each writes its block into the root's buffer.
pub fn gather(
    member: Member,
    capacity: SlotCapacity,
    root: u32,
    block_bytes: usize,
    input: InputPlace,
) -> Option<Schedule> {
    let schedule = begin(member, capacity, block_bytes)?;
    let (own, from) = (member.rank as usize, Area::Send.block(0));
    let at_root = (input == InputPlace::SendBuffer).then(|| (from, Area::Receive.block(own)));
    let elsewhere = (from, Area::ResultOf(root).block(own));
    Some(around_root(schedule, member, root, (None, Some(Area::Receive)), at_root, elsewhere))
}

/// The root exposes the areas `shown` (input and result), as [`show`] does, and makes the copy
/// `at_root`. Each of the others copies from `from` to `into`, one of which is at the root.
fn around_root(
    mut schedule: Schedule,
    member: Member,
    root: u32,
    shown: (Option<Area>, Option<Area>),
    at_root: Option<(BlockRange, BlockRange)>,
    (from, into): (BlockRange, BlockRange),
) -> Schedule {
    if member.rank == root {
        show(&mut schedule, shown.0, shown.1);
        if let Some((from, into)) = at_root {
            schedule.copy(from, into);
        }
        schedule.end_round();
        wait_for_others(&mut schedule, member, 1);
    } else {
        schedule.wait(root, 1, None);
        schedule.copy(from, into);
        schedule.end_round();
        schedule.raise_for(Some(root), 1);
    }
    schedule.end_round();
    schedule
}

/// `MPI_Allgather` (section 6.7): each reads the blocks of all.
pub fn allgather(
    member: Member,
    capacity: SlotCapacity,
    block_bytes: usize,
    input: InputPlace,
) -> Option<Schedule> {
    let mut schedule = begin(member, capacity, block_bytes)?;
    let place = |rank: u32| Area::Receive.block(rank as usize);
    show(&mut schedule, Some(input.area()), None);
    if input == InputPlace::SendBuffer {
        schedule.copy(Area::Send.block(0), place(member.rank));
    }
    schedule.end_round();
    for peer in member.others() {
        schedule.wait(peer, 1, None);
        let from = match input {
            InputPlace::SendBuffer => Area::InputOf(peer).block(0),
            InputPlace::InPlace => Area::InputOf(peer).block(peer as usize),
        };
        schedule.copy(from, place(peer));
        schedule.end_round();
    }
    meet(&mut schedule, member, 2);
    Some(schedule)
}

/// `MPI_Allgatherv` (section 6.7), not in place, for blocks with `total_bytes` bytes in total: each
/// reads the blocks of all. In place, only its owner knows where a block lies.
pub fn allgatherv(
    member: Member,
    capacity: SlotCapacity,
    total_bytes: usize,
    input: InputPlace,
) -> Option<Schedule> {
    if input == InputPlace::InPlace {
        return None;
    }
    allgather(member, capacity, total_bytes, input)
}

/// `MPI_Alltoall` (section 6.8), not in place: each reads its blocks from the buffers of all.
pub fn alltoall(
    member: Member,
    capacity: SlotCapacity,
    block_bytes: usize,
    input: InputPlace,
) -> Option<Schedule> {
    if input == InputPlace::InPlace {
        return None;
    }
    let mut schedule = begin(member, capacity, block_bytes)?;
    let own = member.rank as usize;
    show(&mut schedule, Some(Area::Send), None);
    schedule.copy(Area::Send.block(own), Area::Receive.block(own));
    schedule.end_round();
    for peer in member.others() {
        schedule.wait(peer, 1, None);
        schedule.copy(Area::InputOf(peer).block(own), Area::Receive.block(peer as usize));
        schedule.end_round();
    }
    meet(&mut schedule, member, 2);
    Some(schedule)
}

/// `MPI_Reduce` (section 6.9.1): each combines its share of all operands, and writes the result
/// into the root's buffer.
pub fn reduce(
    member: Member,
    capacity: SlotCapacity,
    root: u32,
    operands: Operands,
    input: InputPlace,
) -> Option<Schedule> {
    let mut schedule = begin(member, capacity, operands.bytes())?;
    let is_root = member.rank == root;
    // Only the root can use the in-place form.
    let area = if is_root { input.area() } else { Area::Send };
    show(&mut schedule, Some(area), is_root.then_some(Area::Receive));
    wait_for_others(&mut schedule, member, 1);
    let mine = share(area, operands.count, member.size, member.rank);
    for piece in pieces(mine, operands) {
        let partial = Area::Scratch.blocks(0, piece.count);
        fold(&mut schedule, member, piece, partial, Area::InputOf);
        let into = if is_root { Area::Receive } else { Area::ResultOf(root) };
        schedule.copy(partial, into.blocks(piece.first, piece.count));
    }
    schedule.end_round();
    meet(&mut schedule, member, 2);
    Some(schedule)
}

/// `MPI_Allreduce` (section 6.9.6): each combines its share of all operands, and writes the result
/// into the buffers of all.
pub fn allreduce(
    member: Member,
    capacity: SlotCapacity,
    operands: Operands,
    input: InputPlace,
) -> Option<Schedule> {
    let mut schedule = begin(member, capacity, operands.bytes())?;
    show(&mut schedule, Some(input.area()), Some(Area::Receive));
    wait_for_others(&mut schedule, member, 1);
    let mine = share(input.area(), operands.count, member.size, member.rank);
    for piece in pieces(mine, operands) {
        let partial = Area::Scratch.blocks(0, piece.count);
        fold(&mut schedule, member, piece, partial, Area::InputOf);
        // No other process reads this share of any operands, so the result may overwrite them.
        schedule.copy(partial, Area::Receive.blocks(piece.first, piece.count));
        for peer in member.others() {
            schedule.copy(partial, Area::ResultOf(peer).blocks(piece.first, piece.count));
        }
    }
    schedule.end_round();
    meet(&mut schedule, member, 2);
    Some(schedule)
}

/// `MPI_Reduce_scatter_block` (section 6.10.1): each combines its elements of all operands.
pub fn reduce_scatter_block(
    member: Member,
    capacity: SlotCapacity,
    operands: Operands,
    input: InputPlace,
) -> Option<Schedule> {
    let mut schedule = begin(member, capacity, operands.bytes())?;
    let count = operands.count;
    show(&mut schedule, Some(input.area()), None);
    wait_for_others(&mut schedule, member, 1);
    let mine = input.area().blocks(member.rank as usize * count, count);
    // In place, the result must not overwrite the data before others have read it.
    let in_place = input == InputPlace::InPlace;
    let behind = operands.per_piece().min(count);
    for piece in pieces(mine, operands) {
        let done = piece.first - mine.first;
        let result = match in_place {
            true => Area::Scratch.blocks(behind + done, piece.count),
            false => Area::Receive.blocks(done, piece.count),
        };
        fold(&mut schedule, member, piece, result, Area::InputOf);
    }
    schedule.end_round();
    meet(&mut schedule, member, 2);
    if in_place {
        schedule.copy(Area::Scratch.blocks(behind, count), Area::Receive.blocks(0, count));
        schedule.end_round();
    }
    Some(schedule)
}

/// Returns an empty schedule, if members can access each other's buffers and there is data.
fn begin(member: Member, capacity: SlotCapacity, bytes: usize) -> Option<Schedule> {
    (capacity.regions == RegionSupport::Possible && member.size > 1 && bytes > 0)
        .then(Schedule::default)
}

/// Exposes this member's input and result buffers, and begins the round that raises the flag.
fn show(schedule: &mut Schedule, input: Option<Area>, result: Option<Area>) {
    input.iter().for_each(|area| schedule.expose(*area, ExposureRole::Input));
    result.iter().for_each(|area| schedule.expose(*area, ExposureRole::Result));
    schedule.end_round();
    schedule.raise(1);
}

fn wait_for_others(schedule: &mut Schedule, member: Member, stage: u16) {
    member.others().for_each(|peer| schedule.wait(peer, stage, None));
}

/// All report that they use no buffer of others any more, and wait until all have.
fn meet(schedule: &mut Schedule, member: Member, stage: u16) {
    schedule.raise(stage);
    wait_for_others(schedule, member, stage);
    schedule.end_round();
}

/// Divides a share into pieces that stay in the caches.
fn pieces(share: BlockRange, operands: Operands) -> impl Iterator<Item = BlockRange> {
    let length = operands.per_piece();
    (0..share.count.div_ceil(length)).map(move |number| {
        let first = number * length;
        share.part(first, length.min(share.count - first))
    })
}

/// Combines the elements at `own` with those of all others, in the order of ranks, into `result`,
/// which must not overlap them. The operands are read into scratch memory behind `result`, or at
/// its beginning.
fn fold(
    schedule: &mut Schedule,
    member: Member,
    own: BlockRange,
    result: BlockRange,
    of: impl Fn(u32) -> Area,
) {
    let operand = |rank: u32| match rank == member.rank {
        true => own,
        false => of(rank).blocks(own.first, own.count),
    };
    schedule.copy(operand(member.size - 1), result);
    let staged = match result.area {
        Area::Scratch if result.first == 0 => Area::Scratch.blocks(own.count, own.count),
        _ => Area::Scratch.blocks(0, own.count),
    };
    for rank in (0..member.size - 1).rev() {
        if rank == member.rank {
            schedule.reduce(own, result, Operand::From);
        } else {
            schedule.copy(operand(rank), staged);
            schedule.reduce(staged, result, Operand::From);
        }
    }
}

impl Operands {
    /// Returns the number of elements that one step combines.
    fn per_piece(self) -> usize {
        (PIECE_BYTES / self.element_bytes.max(1)).max(1)
    }
}
