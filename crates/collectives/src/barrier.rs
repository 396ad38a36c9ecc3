//! Barrier: no process leaves before all have entered.

use crate::algorithm::Algorithm;
use crate::bcast::down;
use crate::cost::Cost;
use crate::estimate::TimeEstimate;
use crate::hierarchy::{self, HierarchyView};
use crate::member::Member;
use crate::operation::CollectiveOperation;
use crate::schedule::{BlockRange, Schedule};
use crate::tree::{Branching, Tree};

/// The algorithms that send messages: up a tree to rank 0 and down again (2 (n - 1) messages), or n
/// log n messages.
pub const ALGORITHMS: &[Algorithm] = &[
    Algorithm::Dissemination,
    Algorithm::Star,
    Algorithm::Groups,
    Algorithm::Binomial,
    Algorithm::Hierarchical,
];

/// Chooses the algorithm for a communicator.
pub fn choose(member: Member) -> Algorithm {
    member
        .situation
        .preferences
        .choose(CollectiveOperation::Barrier, ALGORITHMS, |one| cost(one, member))
}

/// Returns the predicted time of an algorithm; `None` if it is not applicable.
pub fn cost(algorithm: Algorithm, member: Member) -> Option<Cost> {
    let mut estimate = TimeEstimate::new(member.situation);
    match algorithm {
        Algorithm::Star | Algorithm::Groups | Algorithm::Binomial => {
            let shape = algorithm.shape().filter(|shape| shape.suits(member.size))?;
            estimate.up(member, shape, 0, None);
            estimate.down(member, shape, 0);
        }
        Algorithm::Dissemination => estimate.doubling(member, |_| 0),
        Algorithm::Hierarchical if !hierarchy::is_applicable(member) => return None,
        Algorithm::Hierarchical => {
            let inside = |near: Member| there_and_back_cost(there_and_back(near), near);
            return hierarchy::cost(member, inside, |far| cost(choose(far), far));
        }
        _ => return None,
    }
    Some(estimate.cost())
}

/// `MPI_Barrier` (section 6.3).
pub fn barrier(member: Member) -> Schedule {
    with(choose(member), member)
}

/// Makes the barrier by a given algorithm.
///
/// # Panics
/// If the algorithm is not one of [`ALGORITHMS`]. The `with` functions of all modules panic so.
pub fn with(algorithm: Algorithm, member: Member) -> Schedule {
    match algorithm {
        Algorithm::Star => tree(member, Branching::Star),
        Algorithm::Groups => tree(member, Branching::Groups),
        Algorithm::Binomial => tree(member, Branching::Binomial),
        Algorithm::Dissemination => dissemination(member),
        Algorithm::Hierarchical => hierarchical(member),
        _ => unreachable!("{algorithm} is no barrier"),
    }
}

/// Chooses the best of the algorithms that consist of a path up and the reverse path down: along a
/// tree, or inside the parts and between their leaders.
fn there_and_back(member: Member) -> Algorithm {
    let all = [Algorithm::Star, Algorithm::Groups, Algorithm::Binomial, Algorithm::Hierarchical];
    let costs = all.into_iter().filter_map(|one| Some((there_and_back_cost(one, member)?, one)));
    costs.min_by_key(|(cost, _)| *cost).map_or(Algorithm::Star, |(_, one)| one)
}

fn there_and_back_cost(algorithm: Algorithm, member: Member) -> Option<Cost> {
    let least = |member: Member| there_and_back_cost(there_and_back(member), member);
    match algorithm {
        Algorithm::Hierarchical if !hierarchy::is_applicable(member) => None,
        Algorithm::Hierarchical => hierarchy::cost(member, least, least),
        _ => cost(algorithm, member),
    }
}

/// Makes the barrier through rank 0.
fn tree(member: Member, shape: Branching) -> Schedule {
    let mut schedule = Schedule::default();
    up(&mut schedule, &Tree::new(member, 0, shape));
    down(&mut schedule, &Tree::new(member, 0, shape), BlockRange::NOTHING, BlockRange::NOTHING);
    schedule
}

/// Makes the first half of a barrier: afterwards `top` knows that all have entered.
pub(crate) fn come(member: Member, top: u32) -> Schedule {
    let Some(shape) = there_and_back(member).shape() else { return come_by_leaders(member, top) };
    let mut schedule = Schedule::default();
    up(&mut schedule, &Tree::new(member, top, shape));
    schedule
}

/// Makes the second half of a barrier: all wait for a message that starts at `top`.
pub(crate) fn leave(member: Member, top: u32) -> Schedule {
    let Some(shape) = there_and_back(member).shape() else { return leave_by_leaders(member, top) };
    let mut schedule = Schedule::default();
    down(&mut schedule, &Tree::new(member, top, shape), BlockRange::NOTHING, BlockRange::NOTHING);
    schedule
}

fn up(schedule: &mut Schedule, tree: &Tree) {
    for child in tree.children() {
        schedule.receive(tree.rank(child.top), BlockRange::NOTHING);
    }
    schedule.end_round();
    if let Some(parent) = tree.parent() {
        schedule.send(parent, BlockRange::NOTHING);
    }
    schedule.end_round();
}

/// The dissemination barrier of Hensgen, Finkel and Manber.
fn dissemination(member: Member) -> Schedule {
    let mut schedule = Schedule::default();
    let mut distance = 1;
    while distance < member.size {
        schedule.send(member.above(distance), BlockRange::NOTHING);
        schedule.receive(member.below(distance), BlockRange::NOTHING);
        schedule.end_round();
        distance = distance.saturating_mul(2);
    }
    schedule
}

/// The hierarchical barrier: all report to the leader of their part; the leaders wait for each
/// other, and release the others.
fn hierarchical(member: Member) -> Schedule {
    let view = HierarchyView::new(member, None);
    let mut schedule = Schedule::default();
    let (near, top) = (view.near_member(), view.near_leader());
    view.add_inside(&mut schedule, &come(near, top), |place| place);
    if let Some(leader) = view.leader_member() {
        view.add_across(&mut schedule, &barrier(leader), |place| place);
    }
    view.add_inside(&mut schedule, &leave(near, top), |place| place);
    schedule
}

/// The first half by leaders: all report to the leaders, and these to `top`.
fn come_by_leaders(member: Member, top: u32) -> Schedule {
    let view = HierarchyView::new(member, Some(top));
    let mut schedule = Schedule::default();
    let inside = come(view.near_member(), view.near_leader());
    view.add_inside(&mut schedule, &inside, |place| place);
    if let Some(leader) = view.leader_member() {
        let across = come(leader, view.part_of(top));
        view.add_across(&mut schedule, &across, |place| place);
    }
    schedule
}

/// The second half by leaders: the reverse of [`come_by_leaders`].
fn leave_by_leaders(member: Member, top: u32) -> Schedule {
    let view = HierarchyView::new(member, Some(top));
    let mut schedule = Schedule::default();
    if let Some(leader) = view.leader_member() {
        let across = leave(leader, view.part_of(top));
        view.add_across(&mut schedule, &across, |place| place);
    }
    let inside = leave(view.near_member(), view.near_leader());
    view.add_inside(&mut schedule, &inside, |place| place);
    schedule
}
