//! Predicted times of operations on the board.

use base::SlotSize;

use super::capacity::{SlotCapacities, TURNS_MAX, goes_by_shares, goes_through_one, piece_count};
use super::parts::{self, BoardParts};
use crate::cost::Cost;
use crate::estimate::TimeEstimate;
use crate::hierarchy;
use crate::member::{Member, Takers};
use crate::operands::Operands;
use crate::operation::CollectiveOperation;

/// The data that processes move over the board: pairs of a number of processes, and the bytes of
/// each.
#[derive(Default)]
struct Movement {
    /// Written into the own slot.
    put: (u64, usize),
    /// Copied from the slots of others.
    take: (u64, usize),
    /// Combined from the slots of others.
    combine: (u64, usize),
    /// Whether only the root waits.
    to_root: bool,
    /// The share of a reduction that each process writes into its slot after all operands were
    /// shown.
    share: usize,
    /// How often processes wait for others.
    stages: u64,
    /// The largest number of bytes that a slot must hold.
    capacity: usize,
}

/// The predicted form and time of an operation on the board.
#[derive(Clone, Copy, Debug)]
pub struct Prediction {
    /// The predicted time.
    pub cost: Cost,
    /// The parts whose members use a leader, if that is faster.
    pub parts: Option<BoardParts>,
}

/// Predicts an operation on the board, with two copies, where each process contributes or gets
/// `data`; `None` if that is too large.
pub fn predict(
    operation: CollectiveOperation,
    member: Member,
    capacities: SlotCapacities,
    data: Operands,
) -> Option<Prediction> {
    let flat = Prediction { cost: flat(operation, member, capacities, data)?, parts: None };
    let others = [
        by_level(operation, member, capacities, data),
        by_groups(operation, member, capacities, data),
    ];
    let best = others.into_iter().flatten().min().filter(|(cost, _)| *cost < flat.cost);
    Some(best.map_or(flat, |(cost, parts)| Prediction { cost, parts: Some(parts) }))
}

/// The maximum length for operations by parts, in bytes. Longer data goes in pieces or by shares.
const BY_PARTS_BYTES_MAX: usize = 4 << 10;

/// Returns the shortest predicted time by parts, where the members of each part of a level use a
/// leader, and that level. `None` if there are no such parts, or the operation has no such form.
fn by_level(
    operation: CollectiveOperation,
    member: Member,
    capacities: SlotCapacities,
    data: Operands,
) -> Option<(Cost, BoardParts)> {
    let situation = member.situation;
    if situation.layout.nodes() > 1 || situation.oversubscribed || data.bytes() > BY_PARTS_BYTES_MAX
    {
        return None;
    }
    let can_be = |level: &usize| {
        let layout = &situation.levels[*level].layout;
        layout.largest() > 1 && (data.commutative || layout.is_consecutive())
    };
    let levels = (0..situation.levels.len()).filter(can_be);
    let costs = levels.filter_map(|level| {
        let cost = by_parts_of(operation, member, capacities, level, data.bytes())?;
        Some((cost, BoardParts::Level(level)))
    });
    costs.min()
}

/// Returns whether data or flags go to leaders in an operation, and whether they come from leaders;
/// `None` if the operation has no form by parts.
fn directions(operation: CollectiveOperation) -> Option<(bool, bool)> {
    match operation {
        CollectiveOperation::Barrier | CollectiveOperation::Allreduce => Some((true, true)),
        CollectiveOperation::Reduce => Some((true, false)),
        CollectiveOperation::Bcast => Some((false, true)),
        _ => None,
    }
}

/// Returns the predicted time by groups of neighbouring ranks, where all members are equally near
/// to each other, or share cores.
fn by_groups(
    operation: CollectiveOperation,
    member: Member,
    capacities: SlotCapacities,
    data: Operands,
) -> Option<(Cost, BoardParts)> {
    let (situation, bytes) = (member.situation, data.bytes());
    let (has_up, has_down) = directions(operation)?;
    let is_even = situation.levels.is_empty() || situation.oversubscribed;
    let has_other_form =
        operation == CollectiveOperation::Allreduce && goes_through_one(member, data);
    let shown = if has_up && has_down { bytes.saturating_mul(2) } else { bytes };
    let is_room = shown <= capacities.of(SlotSize::Large).slot_bytes;
    if situation.layout.nodes() > 1
        || !is_even
        || has_other_form
        || !is_room
        || bytes > BY_PARTS_BYTES_MAX
    {
        return None;
    }
    let size = parts::group_size(member)?;
    let (near, groups) = (u64::from(size - 1), u64::from(member.size.div_ceil(size)));
    let mut estimate = TimeEstimate::new(situation);
    // Groups have so few members, and there are so few groups, that the time of a flag includes
    // looking at all of them.
    let mut combine = |takers: u64, others: u64| {
        estimate.reduce_streaming(takers, bytes.saturating_mul(others as usize));
        estimate.flag();
    };
    if has_up {
        combine(groups, near);
        combine(if has_down { groups } else { 1 }, groups - 1);
    }
    let mut take = |takers: u64| {
        estimate.slot(1, bytes);
        estimate.slot(takers, bytes);
        estimate.flag();
    };
    if has_down && !has_up {
        take(groups);
    }
    if has_down {
        take(u64::from(member.size));
    }
    Some((estimate.cost(), BoardParts::Groups))
}

/// Returns the predicted time by the parts of a level.
fn by_parts_of(
    operation: CollectiveOperation,
    member: Member,
    capacities: SlotCapacities,
    level: usize,
    bytes: usize,
) -> Option<Cost> {
    let (has_up, has_down) = directions(operation)?;
    // In an allreduce, a slot holds the data of a part, and the result.
    let shown = if has_up && has_down { bytes.saturating_mul(2) } else { bytes };
    let is_small = shown <= capacities.of(SlotSize::Small).slot_bytes;
    let collect = |one: &mut TimeEstimate, member: Member, takers: u64| {
        let all = bytes.saturating_mul(member.size as usize - 1);
        one.slot(u64::from(member.size), bytes);
        one.reduce_streaming(takers, all);
        one.take_across(member, takers, all, Takers::of(takers == 1));
        if !is_small {
            one.find_slots(takers, u64::from(member.size - 1));
        }
        one.flag();
    };
    let spread = |one: &mut TimeEstimate, member: Member| {
        let takers = u64::from(member.size - 1);
        one.slot(1, bytes);
        one.slot(takers, bytes);
        one.take_across(member, takers, bytes, Takers::Root);
        if !is_small {
            one.find_slots(takers, 1);
        }
        one.flag();
    };
    let inside = |near: Member| {
        let mut estimate = TimeEstimate::new(near.situation);
        if has_up {
            collect(&mut estimate, near, 1);
        }
        if has_down {
            spread(&mut estimate, near);
        }
        Some(estimate.cost())
    };
    hierarchy::cost_over(member, level, inside, |far| {
        let mut estimate = TimeEstimate::new(far.situation);
        match (has_up, has_down) {
            (true, true) => collect(&mut estimate, far, u64::from(far.size)),
            (true, false) => collect(&mut estimate, far, 1),
            _ => spread(&mut estimate, far),
        }
        Some(estimate.cost())
    })
}

/// Returns the predicted time if each process reads the slots of all others.
fn flat(
    operation: CollectiveOperation,
    member: Member,
    capacities: SlotCapacities,
    data: Operands,
) -> Option<Cost> {
    if member.size < 2 {
        return None;
    }
    // Blocks with individual sizes are not divided.
    let turns_max = if operation == CollectiveOperation::Allgatherv { 1 } else { TURNS_MAX };
    let mut parts = (1..=turns_max).map(|turns| {
        let turn = Operands { count: data.count.div_ceil(turns), ..data };
        (turns, turn.bytes(), movement(operation, member, turn))
    });
    let (turns, bytes, movement) =
        parts.find(|(.., part)| part.capacity <= capacities.of(SlotSize::Large).slot_bytes)?;
    let mut estimate = TimeEstimate::new(member.situation);
    estimate
        .repeat(turns as u64, |one| add_turn(one, operation, member, capacities, bytes, &movement));
    Some(estimate.cost())
}

/// Adds one turn of the board for blocks of so many bytes.
fn add_turn(
    estimate: &mut TimeEstimate<'_>,
    operation: CollectiveOperation,
    member: Member,
    capacities: SlotCapacities,
    bytes: usize,
    movement: &Movement,
) {
    let Movement { put, take, combine, share, .. } = *movement;
    let size = u64::from(member.size);
    // If processes take turns on cores and only the root waits, the others continue meanwhile: all
    // cores work.
    let goes_on = movement.to_root && member.situation.oversubscribed;
    let spread = |step: (u64, usize)| match goes_on {
        true => (size, (step.1 / member.size as usize).saturating_mul(step.0 as usize)),
        false => step,
    };
    let [put, take, combine] = [put, take, combine].map(spread);
    if operation == CollectiveOperation::Alltoall {
        estimate.copy(size, bytes);
    }
    // The process that shows pieces differs from the process that takes them.
    let is_rooted = movement.put.0 < size || movement.take.0.max(movement.combine.0) < size;
    let pieces = if is_rooted && share == 0 {
        piece_count(member, capacities.of(SlotSize::Large), put.1) as u64
    } else {
        1
    };
    estimate.overlap(
        pieces,
        |one| one.slot(put.0, put.1),
        |one| {
            one.reduce_streaming(combine.0, combine.1);
            one.slot(size, share);
            one.slot(take.0, take.1);
        },
    );
    let takers = (take.0.max(combine.0), take.1.saturating_add(combine.1));
    estimate.take_across(member, takers.0, takers.1, Takers::of(is_rooted));
    let is_small = movement.capacity <= capacities.of(SlotSize::Small).slot_bytes;
    let slots = if movement.put.0 == 1 { 1 } else { size - 1 };
    // On an oversubscribed machine, the data was written long before it is read, or comes from the
    // own core.
    if !is_small && !member.situation.oversubscribed {
        let readers = take.0.max(combine.0).max(1);
        estimate.find_slots(readers, slots);
    }
    let lookers = if movement.to_root { 1 } else { size };
    estimate.repeat(movement.stages, |one| one.look(lookers, slots));
    estimate.repeat(movement.stages, |one| match movement.to_root && is_small || goes_on {
        true => one.flag_to_root(),
        false => one.flag(),
    });
}

fn movement(operation: CollectiveOperation, member: Member, data: Operands) -> Movement {
    let bytes = data.bytes();
    let (size, others) = (u64::from(member.size), u64::from(member.size - 1));
    let times = |count: u64| bytes.saturating_mul(count as usize);
    let one = Movement { capacity: bytes, stages: 1, ..Movement::default() };
    match operation {
        CollectiveOperation::Barrier => one,
        CollectiveOperation::Bcast => Movement { put: (1, bytes), take: (others, bytes), ..one },
        CollectiveOperation::Scatter => {
            let all = times(others);
            Movement { put: (1, all), take: (others, bytes), capacity: all, ..one }
        }
        CollectiveOperation::Gather => {
            Movement { put: (others, bytes), take: (1, times(others)), to_root: true, ..one }
        }
        CollectiveOperation::Allgather => {
            Movement { put: (size, bytes), take: (size, times(others)), ..one }
        }
        // Not all members know the lengths of the single blocks.
        CollectiveOperation::Allgatherv => Movement {
            put: (size, bytes),
            take: (size, times(others)),
            capacity: times(size),
            ..one
        },
        CollectiveOperation::Alltoall => {
            let all = times(others);
            Movement { put: (size, all), take: (size, all), capacity: all, ..one }
        }
        CollectiveOperation::ReduceScatter => {
            let all = times(size);
            Movement { put: (size, all), combine: (size, times(others)), capacity: all, ..one }
        }
        CollectiveOperation::Reduce | CollectiveOperation::Allreduce => {
            let is_rooted = operation == CollectiveOperation::Reduce;
            let takers = if is_rooted { 1 } else { size };
            if !is_rooted && goes_through_one(member, data) {
                // The reading process shows its result in about the time in which another process
                // shows its operands.
                let (put, combine) = ((others, times(2)), (1, times(others)));
                return Movement { put, combine, take: (others, bytes), stages: 2, ..one };
            }
            if !goes_by_shares(member, data, Takers::of(is_rooted)) {
                let putters = if is_rooted { others } else { size };
                let (put, combine) = ((putters, bytes), (takers, times(others)));
                return Movement { put, combine, to_root: is_rooted, ..one };
            }
            let share = bytes.div_ceil(member.size as usize);
            let rest = share.saturating_mul(others as usize);
            Movement {
                put: (size, rest),
                take: (takers, rest),
                combine: (size, rest),
                share,
                stages: 2,
                capacity: bytes.saturating_add(share),
                ..one
            }
        }
    }
}
