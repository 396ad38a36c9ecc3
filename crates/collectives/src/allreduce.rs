//! Allreduce. A block is one element.

use crate::algorithm::Algorithm;
use crate::bcast::{self, down};
use crate::cost::Cost;
use crate::estimate::TimeEstimate;
use crate::fold::exchange_shares;
use crate::fold::fold_children;
use crate::halving::{self, FoldedRole, Participant, Workspace};
use crate::hierarchy::{self, HierarchyView};
use crate::member::{InputPlace, Member};
use crate::operands::Operands;
use crate::operation::CollectiveOperation;
use crate::reduce;
use crate::schedule::{Area, BlockRange, Operand, Schedule};
use crate::share::share;
use crate::tree::{Branching, Tree};

/// The algorithms that send messages. All give all processes identical bits. All combine in the
/// order of ranks except the ring, which is for commutative operations. A star, or groups, go to
/// rank 0 and back.
pub const ALGORITHMS: &[Algorithm] = &[
    Algorithm::RecursiveDoubling,
    Algorithm::HalvingDoubling,
    Algorithm::Shares,
    Algorithm::Star,
    Algorithm::Groups,
    Algorithm::Ring,
    Algorithm::Hierarchical,
];

/// Chooses the algorithm for `operands`.
pub fn choose(member: Member, operands: Operands) -> Algorithm {
    member
        .situation
        .preferences
        .choose(CollectiveOperation::Allreduce, ALGORITHMS, |one| cost(one, member, operands))
}

/// Returns the predicted time of an algorithm; `None` if it is not applicable.
pub fn cost(algorithm: Algorithm, member: Member, operands: Operands) -> Option<Cost> {
    let bytes = operands.bytes();
    let near = u64::from(member.situation.layout.largest());
    let mut estimate = TimeEstimate::new(member.situation);
    match algorithm {
        Algorithm::Star | Algorithm::Groups => {
            let shape = algorithm.shape().filter(|shape| shape.suits(member.size))?;
            estimate.up(member, shape, bytes, Some(operands));
            estimate.down(member, shape, bytes);
        }
        Algorithm::RecursiveDoubling => {
            estimate.join_power_of_two(member, bytes);
            estimate.each_bit(member, |one, distance| {
                one.exchange_at(distance, bytes);
                one.reduce(near, bytes);
            });
            estimate.leave_power_of_two(member, bytes);
        }
        Algorithm::HalvingDoubling if !operands.are_enough_for(member) => return None,
        Algorithm::HalvingDoubling => {
            estimate.join_power_of_two(member, bytes);
            estimate.halve(member, bytes);
            estimate.doubling(member, |distance| bytes / (2 * distance as usize));
            estimate.leave_power_of_two(member, bytes);
        }
        Algorithm::Shares => {
            let share = operands.share(member)?;
            estimate.reduce_shares(member, share);
            estimate.all_to_all(member, u64::from(member.size - 1), share);
        }
        Algorithm::Ring if !operands.commutative || !operands.are_enough_for(member) => {
            return None;
        }
        Algorithm::Ring => {
            let count = operands.count.div_ceil(member.size as usize);
            let share = count.saturating_mul(operands.element_bytes);
            let others = u64::from(member.size - 1);
            estimate.ring(others.saturating_mul(2), share);
            estimate.repeat(others, |one| one.reduce(near, share));
        }
        Algorithm::Hierarchical if !operands.keep_order_in_machines(member) => return None,
        Algorithm::Hierarchical => {
            let up = |one: Member| reduce::cost(reduce::choose(one, operands), one, operands);
            let down = |one: Member| bcast::cost(bcast::choose(one, bytes), one, bytes);
            return hierarchy::cost(
                member,
                |near| Some(up(near)? + down(near)?),
                |far| cost(choose(far, operands), far, operands),
            );
        }
        _ => return None,
    }
    Some(estimate.cost())
}

/// `MPI_Allreduce` (section 6.9.6).
pub fn allreduce(member: Member, operands: Operands, input: InputPlace) -> Schedule {
    with(choose(member, operands), member, operands, input)
}

/// Makes the reduction by a given algorithm.
pub fn with(
    algorithm: Algorithm,
    member: Member,
    operands: Operands,
    input: InputPlace,
) -> Schedule {
    let mut schedule = Schedule::default();
    let own = input.area().blocks(0, operands.count);
    if operands.count == 0 {
        return schedule;
    }
    if member.size == 1 {
        if input == InputPlace::SendBuffer {
            schedule.copy(own, Area::Receive.blocks(0, operands.count));
            schedule.end_round();
        }
        return schedule;
    }
    match algorithm {
        Algorithm::Star | Algorithm::Groups => {
            let tree = Tree::new(member, 0, algorithm.shape().unwrap_or(Branching::Star));
            through_first(&mut schedule, &tree, operands, own);
        }
        Algorithm::RecursiveDoubling => {
            among_power_of_two(&mut schedule, member, own, exchange_all);
        }
        Algorithm::HalvingDoubling => {
            among_power_of_two(&mut schedule, member, own, exchange_halves);
        }
        Algorithm::Shares => by_shares(&mut schedule, member, own),
        Algorithm::Ring => ring(&mut schedule, member, own),
        Algorithm::Hierarchical => return hierarchical(member, operands, input),
        _ => unreachable!("{algorithm} is no reduction to all"),
    }
    schedule
}

fn through_first(schedule: &mut Schedule, tree: &Tree, operands: Operands, own: BlockRange) {
    let result = Area::Receive.blocks(0, operands.count);
    let target = (own != result).then_some(result);
    let folded = fold_children(schedule, tree, operands, own, target);
    if let Some(parent) = tree.parent() {
        schedule.send(parent, folded);
        schedule.end_round();
    } else if folded != result {
        // The copy into the program's buffer is made last, while the results are being sent.
        schedule.copy(folded, result);
    }
    down(schedule, tree, folded, result);
}

fn by_shares(schedule: &mut Schedule, member: Member, own: BlockRange) {
    let share_of = |area: Area, rank: u32| share(area, own.count, member.size, rank);
    let result = share_of(Area::Receive, member.rank);
    let target = (own.area != Area::Receive).then_some(result);
    let reduced = exchange_shares(schedule, member, target, |rank| share_of(own.area, rank));
    for distance in 1..member.size {
        let (above, below) = (member.above(distance), member.below(distance));
        let arriving = share_of(Area::Receive, below);
        if arriving.count > 0 {
            schedule.receive(below, arriving);
        }
        if reduced.count > 0 {
            schedule.send(above, reduced);
        }
    }
    if reduced != result && reduced.count > 0 {
        schedule.copy(reduced, result);
    }
    schedule.end_round();
}

/// The ring. In step s of the first half, a process sends the share that is s ranks below, to which
/// it has added its operand, and receives the share below that one. In the end it has the share of
/// its rank.
fn ring(schedule: &mut Schedule, member: Member, own: BlockRange) {
    let share_of = |area: Area, rank: u32| share(area, own.count, member.size, rank);
    let (next, before) = (member.above(1), member.below(1));
    for step in 1..member.size {
        let area = if step == 1 { own.area } else { Area::Receive };
        let (leaving, rank) = (share_of(area, member.below(step)), member.below(step + 1));
        let (operand, result) = (share_of(own.area, rank), share_of(Area::Receive, rank));
        if leaving.count > 0 {
            schedule.send(next, leaving);
        }
        if operand.count > 0 {
            let is_in_place = operand == result;
            let arriving = Area::Scratch.blocks(0, operand.count);
            schedule.receive(before, if is_in_place { arriving } else { result });
            let from = if is_in_place { arriving } else { operand };
            schedule.reduce(from, result, Operand::From);
        }
        schedule.end_round();
    }
    for step in 0..member.size - 1 {
        let leaving = share_of(Area::Receive, member.below(step));
        let arriving = share_of(Area::Receive, member.below(step + 1));
        if leaving.count > 0 {
            schedule.send(next, leaving);
        }
        if arriving.count > 0 {
            schedule.receive(before, arriving);
        }
        schedule.end_round();
    }
}

/// Runs `exchange` among the largest power of two of processes. Each of the other processes first
/// sends its operands to its lower neighbour, and receives the result from it in the end.
fn among_power_of_two(
    schedule: &mut Schedule,
    member: Member,
    own: BlockRange,
    exchange: impl Fn(&mut Schedule, &Participant, BlockRange, Workspace),
) {
    let result = Area::Receive.blocks(0, own.count);
    let workspace = Workspace { result, spare: 0 };
    match halving::join(schedule, member, None, own, workspace) {
        FoldedRole::Represented { representative } => {
            if own == result {
                schedule.end_round();
            }
            schedule.receive(representative, result);
        }
        FoldedRole::Participant { own, neighbour, partial } => {
            exchange(schedule, &own, partial, workspace);
            if let Some(neighbour) = neighbour {
                schedule.send(neighbour, result);
            }
        }
    }
    schedule.end_round();
}

/// Recursive doubling: exchanges all elements at each distance.
fn exchange_all(
    schedule: &mut Schedule,
    own: &Participant,
    partial: BlockRange,
    workspace: Workspace,
) {
    let mut partial = partial;
    let rank = own.rank(own.number);
    for distance in halving::distances(own) {
        let peer = own.rank(own.number ^ distance);
        schedule.send(peer, partial);
        partial = halving::receive_and_reduce(schedule, rank, peer, partial, partial, workspace);
    }
}

/// Recursive halving, then recursive doubling on the reverse path (Rabenseifner).
fn exchange_halves(
    schedule: &mut Schedule,
    own: &Participant,
    partial: BlockRange,
    workspace: Workspace,
) {
    let mut first = halving::halve(schedule, own, partial, workspace);
    let mut count = 1;
    for distance in halving::distances(own).rev() {
        let peer = own.rank(own.number ^ distance);
        let is_lower = own.number & distance == 0;
        let other = if is_lower { first + count } else { first - count };
        let leaving = own.part(workspace.result, first, count);
        let arriving = own.part(workspace.result, other, count);
        if leaving.count > 0 {
            schedule.send(peer, leaving);
        }
        if arriving.count > 0 {
            schedule.receive(peer, arriving);
        }
        schedule.end_round();
        first = first.min(other);
        count *= 2;
    }
}

/// The hierarchical form: reduces to the leaders, combines among them, and broadcasts inside the
/// parts.
fn hierarchical(member: Member, operands: Operands, input: InputPlace) -> Schedule {
    let view = HierarchyView::new(member, None);
    let mut schedule = Schedule::default();
    let near = view.near_member();
    let leader_is_here = view.near_leader() == near.rank;
    let reduction = reduce::reduce(near, view.near_leader(), operands, input);
    view.add_inside(&mut schedule, &reduction, |place| match place.area {
        // Processes that are no leaders have their operands in the input area.
        Area::Send if !leader_is_here => input.area().blocks(place.first, place.count),
        _ => place,
    });
    if let Some(leader) = view.leader_member() {
        let across = allreduce(leader, operands, InputPlace::InPlace);
        view.add_across(&mut schedule, &across, |place| place);
    }
    let spread = bcast::of_blocks(near, view.near_leader(), operands.count, operands.bytes());
    view.add_inside(&mut schedule, &spread, |place| place);
    schedule
}
