//! Reduce. A block is one element.

use crate::algorithm::Algorithm;
use crate::cost::Cost;
use crate::estimate::TimeEstimate;
use crate::fold::exchange_shares;
use crate::fold::fold_children;
use crate::halving::{self, FoldedRole, Workspace};
use crate::hierarchy::{self, HierarchyView};
use crate::member::{InputPlace, Member};
use crate::operands::Operands;
use crate::operation::CollectiveOperation;
use crate::schedule::{Area, BlockRange, Schedule};
use crate::share::share;
use crate::tree::{Branching, Tree};

/// The algorithms that send messages. By shares, each process sends its reduced share to the root.
/// By halving, the root gathers the shares on the reverse path (Rabenseifner).
pub const ALGORITHMS: &[Algorithm] = &[
    Algorithm::Binomial,
    Algorithm::Star,
    Algorithm::Groups,
    Algorithm::Shares,
    Algorithm::Halving,
    Algorithm::Hierarchical,
];

/// Chooses the algorithm for `operands`.
pub fn choose(member: Member, operands: Operands) -> Algorithm {
    member
        .situation
        .preferences
        .choose(CollectiveOperation::Reduce, ALGORITHMS, |one| cost(one, member, operands))
}

/// Returns the predicted time of an algorithm; `None` if it is not applicable.
pub fn cost(algorithm: Algorithm, member: Member, operands: Operands) -> Option<Cost> {
    let mut estimate = TimeEstimate::new(member.situation);
    match algorithm {
        Algorithm::Star | Algorithm::Groups | Algorithm::Binomial => {
            let shape = algorithm.shape().filter(|shape| shape.suits(member.size))?;
            estimate.up(member, shape, operands.bytes(), Some(operands));
        }
        Algorithm::Shares => {
            let share = operands.share(member)?;
            estimate.reduce_shares(member, share);
            estimate.up(member, Branching::Star, share, None);
        }
        Algorithm::Halving if !operands.are_enough_for(member) => return None,
        Algorithm::Halving => {
            let bytes = operands.bytes();
            estimate.join_power_of_two(member, bytes);
            estimate.halve(member, bytes);
            estimate.collect_halves(member, bytes);
        }
        Algorithm::Hierarchical if !operands.keep_order_in_machines(member) => return None,
        Algorithm::Hierarchical => {
            let least = |member: Member| cost(choose(member, operands), member, operands);
            return hierarchy::cost(member, least, least);
        }
        _ => return None,
    }
    Some(estimate.cost())
}

/// `MPI_Reduce` (section 6.9.1).
pub fn reduce(member: Member, root: u32, operands: Operands, input: InputPlace) -> Schedule {
    with(choose(member, operands), member, root, operands, input)
}

/// Makes the reduction by a given algorithm.
pub fn with(
    algorithm: Algorithm,
    member: Member,
    root: u32,
    operands: Operands,
    input: InputPlace,
) -> Schedule {
    let is_root = member.rank == root;
    let mut schedule = Schedule::default();
    let source = if is_root { input.area() } else { Area::Send };
    if operands.count > 0 {
        match algorithm {
            Algorithm::Star | Algorithm::Groups | Algorithm::Binomial => {
                let shape = algorithm.shape().unwrap_or(Branching::Star);
                tree(&mut schedule, member, root, shape, operands, source);
            }
            Algorithm::Shares => shares(&mut schedule, member, root, operands, source),
            Algorithm::Halving => halving(&mut schedule, member, root, operands, source),
            Algorithm::Hierarchical => return hierarchical(member, root, operands, source),
            _ => unreachable!("{algorithm} is no reduction"),
        }
    }
    schedule
}

/// Makes the reduction up a tree. A tree with rank 0 at its top keeps the order of ranks, so an
/// operation that does not commute takes one more message to any other root.
fn tree(
    schedule: &mut Schedule,
    member: Member,
    root: u32,
    shape: Branching,
    operands: Operands,
    source: Area,
) {
    let top = if operands.commutative { root } else { 0 };
    let tree = Tree::new(member, top, shape);
    let own = source.blocks(0, operands.count);
    let result = Area::Receive.blocks(0, operands.count);
    let is_root = member.rank == root;

    let target = (is_root && tree.is_root() && own != result).then_some(result);
    let partial = fold_children(schedule, &tree, operands, own, target);
    match tree.parent() {
        Some(parent) => schedule.send(parent, partial),
        None if !is_root => schedule.send(root, partial),
        None if partial != result => schedule.copy(partial, result),
        None => {}
    }
    schedule.end_round();
    if is_root && !tree.is_root() {
        schedule.receive(top, result);
        schedule.end_round();
    }
}

/// Makes the reduction by shares: each process reduces its share, in the order of ranks, and the
/// root collects the shares.
fn shares(schedule: &mut Schedule, member: Member, root: u32, operands: Operands, source: Area) {
    let share_of = |area: Area, rank: u32| share(area, operands.count, member.size, rank);
    let is_root = member.rank == root;
    let result = share_of(Area::Receive, member.rank);
    let target = (is_root && source != Area::Receive).then_some(result);
    let reduced = exchange_shares(schedule, member, target, |rank| share_of(source, rank));
    if is_root {
        if reduced != result && result.count > 0 {
            schedule.copy(reduced, result);
            schedule.end_round();
        }
        for rank in (0..member.size).filter(|rank| *rank != root) {
            let into = share_of(Area::Receive, rank);
            if into.count > 0 {
                schedule.receive(rank, into);
            }
        }
    } else if reduced.count > 0 {
        schedule.send(root, reduced);
    }
    schedule.end_round();
}

/// Makes the reduction by recursive halving. Then, from the farthest distance to the nearest,
/// participants whose number differs from the root's in that bit send all results that they have to
/// their partners.
fn halving(schedule: &mut Schedule, member: Member, root: u32, operands: Operands, source: Area) {
    let is_root = member.rank == root;
    let own = source.blocks(0, operands.count);
    let workspace = match is_root {
        true => Workspace { result: Area::Receive.blocks(0, operands.count), spare: 0 },
        false => {
            Workspace { result: Area::Scratch.blocks(0, operands.count), spare: operands.count }
        }
    };
    let role = halving::join(schedule, member, Some(root), own, workspace);
    if let FoldedRole::Participant { own: participant, partial, .. } = role {
        let number = participant.number_of(root);
        let mut first = halving::halve(schedule, &participant, partial, workspace);
        let mut count = 1;
        for distance in halving::distances(&participant).rev() {
            let peer = participant.rank(participant.number ^ distance);
            let other = match participant.number & distance {
                0 => first + count,
                _ => first - count,
            };
            if (participant.number ^ number) & distance != 0 {
                let leaving = participant.part(workspace.result, first, count);
                if leaving.count > 0 {
                    schedule.send(peer, leaving);
                }
                break;
            }
            let arriving = participant.part(workspace.result, other, count);
            if arriving.count > 0 {
                schedule.receive(peer, arriving);
            }
            schedule.end_round();
            first = first.min(other);
            count *= 2;
        }
        if member.size == 1 && partial != workspace.result {
            schedule.copy(partial, workspace.result);
        }
    }
    schedule.end_round();
}

/// The hierarchical reduction. Partial results are at the beginning of scratch memory on leaders
/// that are not the root.
fn hierarchical(member: Member, root: u32, operands: Operands, source: Area) -> Schedule {
    let view = HierarchyView::new(member, Some(root));
    let mut schedule = Schedule::default();
    let is_root = member.rank == root;
    let partial = Area::Scratch.blocks(0, operands.count);
    let behind = |place: BlockRange| match place.area {
        Area::Scratch => Area::Scratch.blocks(place.first + operands.count, place.count),
        _ => place,
    };
    let near = view.near_member();
    let input = if source == Area::Receive { InputPlace::InPlace } else { InputPlace::SendBuffer };
    let inside = reduce(near, view.near_leader(), operands, input);
    view.add_inside(&mut schedule, &inside, |place| match place.area {
        Area::Receive if !is_root => partial.part(place.first, place.count),
        _ => behind(place),
    });
    if let Some(leader) = view.leader_member() {
        let across = reduce(leader, view.part_of(root), operands, InputPlace::InPlace);
        view.add_across(&mut schedule, &across, |place| match place.area {
            Area::Send => partial.part(place.first, place.count),
            _ => behind(place),
        });
    }
    schedule
}
