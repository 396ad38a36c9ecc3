//! Operations on the board by parts. Inside each part of a level, members show their data to their
//! leader. Leaders show each other the combined data, and each shows the result to the members of
//! its part. So a cache line moves from part to part once, instead of to each member; and where
//! there are many members, none of them reads the slots of all others.

use super::capacity::SIZE_MAX;
use super::flow::{slot, wait_for};
use crate::hierarchy::HierarchyView;
use crate::member::{InputPlace, Member};
use crate::operands::Operands;
use crate::schedule::{Area, BlockRange, Operand, Schedule};
use crate::situation::Situation;
use crate::width::Width;

/// The parts by whose leaders an operation goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BoardParts {
    /// The parts of the machine on a level, by its number in [`Situation::levels`].
    Level(usize),
    /// Groups of neighbouring ranks, as many as each has members.
    Groups,
}

/// The minimum number of members for groups. Fewer read the slots of all others sooner than they
/// wait for leaders.
const GROUPED_MEMBERS_MIN: u32 = 33;

/// Returns the number of members of each group except the last, which may have fewer; `None` if
/// operations of so many members do not go by groups.
pub(super) fn group_size(member: Member) -> Option<u32> {
    let is_possible = (GROUPED_MEMBERS_MIN..=SIZE_MAX).contains(&member.size);
    is_possible.then(|| (member.size - 1).isqrt() + 1)
}

impl BoardParts {
    fn view(self, member: Member, root: Option<u32>) -> HierarchyView {
        match self {
            Self::Level(level) => HierarchyView::over(member, root, level),
            Self::Groups => {
                let size = group_size(member).unwrap_or(member.size);
                // The width makes no difference to a schedule.
                let all = Situation::plain(member.size);
                let situation = all.in_parts_by(&[Width::Cache], |_, rank| rank / size);
                HierarchyView::over(Member { situation: &situation, ..member }, root, 0)
            }
        }
    }
}

/// `MPI_Barrier` (section 6.3).
pub(super) fn barrier(member: Member, parts: BoardParts) -> Schedule {
    let view = parts.view(member, None);
    let mut schedule = Schedule::default();
    let leader = view.own_leader();
    if member.rank != leader {
        schedule.raise_for(Some(leader), 1);
        schedule.wait(leader, 2, Some(0));
        schedule.end_round();
        return schedule;
    }
    wait_for(&mut schedule, view.near_others().map(|(_, rank)| rank), 1, Some(0));
    schedule.end_round();
    schedule.raise(1);
    wait_for(&mut schedule, view.other_leaders(), 1, Some(0));
    schedule.end_round();
    schedule.raise(2);
    schedule.end_round();
    schedule
}

/// `MPI_Bcast` (section 6.4) of bytes that fit in a slot.
pub(super) fn bcast(member: Member, parts: BoardParts, root: u32, bytes: usize) -> Schedule {
    let view = parts.view(member, Some(root));
    let mut schedule = Schedule::of_bytes();
    let (leader, data) = (view.own_leader(), Area::Receive.blocks(0, bytes));
    let is_leader = member.rank == leader;
    if member.rank != root {
        let from = if is_leader { root } else { leader };
        schedule.wait(from, 1, Some(bytes));
        schedule.copy(slot(from, 0, bytes), data);
    }
    if is_leader {
        schedule.copy(data, slot(member.rank, 0, bytes));
        schedule.end_round();
        schedule.raise(1);
    }
    schedule.end_round();
    schedule
}

/// `MPI_Reduce` (section 6.9.1). The root leads its part.
pub(super) fn reduce(
    member: Member,
    parts: BoardParts,
    root: u32,
    operands: Operands,
    input: InputPlace,
) -> Schedule {
    let view = parts.view(member, Some(root));
    let mut schedule = Schedule::default();
    let input = if member.rank == root { input } else { InputPlace::SendBuffer };
    let own = input.area().blocks(0, operands.count);
    let leader = view.own_leader();
    if member.rank != leader {
        show(&mut schedule, member, own, 0);
        schedule.raise_for(Some(leader), 1);
    } else {
        let partial = fold_part(&mut schedule, &view, own);
        if member.rank == root {
            schedule.end_round();
            fold_parts(&mut schedule, &view, partial, operands.count);
        } else {
            show(&mut schedule, member, partial, 0);
            schedule.raise_for(Some(root), 1);
        }
    }
    schedule.end_round();
    schedule
}

/// `MPI_Allreduce` (section 6.9.6). All leaders combine the parts in one order.
pub(super) fn allreduce(
    member: Member,
    parts: BoardParts,
    operands: Operands,
    input: InputPlace,
) -> Schedule {
    let view = parts.view(member, None);
    let mut schedule = Schedule::default();
    let count = operands.count;
    let own = input.area().blocks(0, count);
    let result = Area::Receive.blocks(0, count);
    let leader = view.own_leader();
    if member.rank != leader {
        show(&mut schedule, member, own, 0);
        schedule.raise_for(Some(leader), 1);
        // The part's partial result, followed by the final result.
        schedule.wait(leader, 2, Some(2 * count));
        schedule.copy(slot(leader, count, count), result);
    } else {
        let partial = fold_part(&mut schedule, &view, own);
        show(&mut schedule, member, partial, 0);
        schedule.promise(2 * count);
        schedule.raise(1);
        fold_parts(&mut schedule, &view, partial, 2 * count);
        show(&mut schedule, member, result, count);
        schedule.raise(2);
    }
    schedule.end_round();
    schedule
}

/// Shows a block to others, at block `first` of the own slot; the next round may raise the flag.
fn show(schedule: &mut Schedule, member: Member, own: BlockRange, first: usize) {
    schedule.copy(own, slot(member.rank, first, own.count));
    schedule.end_round();
}

/// Adds a leader's combination of its part's operands, in the order of ranks, after they were
/// shown. Returns where the result is.
fn fold_part(schedule: &mut Schedule, view: &HierarchyView, own: BlockRange) -> BlockRange {
    let count = own.count;
    wait_for(schedule, view.near_others().map(|(_, rank)| rank), 1, Some(count));
    let partial = Area::Scratch.blocks(0, count);
    let operands = view.near.iter().map(|rank| match rank == view.rank {
        true => own,
        false => slot(rank, 0, count),
    });
    fold(schedule, operands, partial);
    partial
}

/// Adds a leader's combination of the partial results of all parts, in the order of parts. Each
/// part shows `expected` elements in the end.
fn fold_parts(schedule: &mut Schedule, view: &HierarchyView, partial: BlockRange, expected: usize) {
    let count = partial.count;
    wait_for(schedule, view.other_leaders(), 1, Some(expected));
    let operands = view.leaders().map(|leader| match leader == view.rank {
        true => partial,
        false => slot(leader, 0, count),
    });
    fold(schedule, operands, Area::Receive.blocks(0, count));
}

/// Adds a combination that begins with the last operand, so that each further operand is the left
/// one.
fn fold(
    schedule: &mut Schedule,
    operands: impl DoubleEndedIterator<Item = BlockRange>,
    result: BlockRange,
) {
    let mut operands = operands.rev();
    if let Some(last) = operands.next() {
        schedule.copy(last, result);
    }
    for operand in operands {
        schedule.reduce(operand, result, Operand::From);
    }
}
