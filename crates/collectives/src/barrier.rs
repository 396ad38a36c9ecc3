//! Barrier: nobody leaves before all have come.

use crate::bcast::down;
use crate::estimate::{Cost, Estimate};
use crate::hierarchy;
use crate::member::Member;
use crate::schedule::{Place, Schedule};
use crate::selection::{self, Operation};
use crate::tree::{Shape, Tree};

/// The ways to a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Up a tree to rank 0 and down again: 2 (n - 1) messages.
    Tree(Shape),
    /// Round k: tell the process 2^k ranks above, hear of the one 2^k below. n log n messages.
    Dissemination,
    /// Inside machines or parts of these, among their leaders, inside again.
    Hierarchical,
}

/// All of them, by the names that people use.
pub const ALGORITHMS: &[(&str, Algorithm)] = &[
    ("dissemination", Algorithm::Dissemination),
    ("star", Algorithm::Tree(Shape::Star)),
    ("binomial", Algorithm::Tree(Shape::Binomial)),
    ("hierarchical", Algorithm::Hierarchical),
];

/// Takes the algorithm for a communicator.
pub fn choose(member: Member) -> Algorithm {
    selection::choose(Operation::Barrier, ALGORITHMS, member, |one| cost(one, member))
}

/// The predicted time of an algorithm; none if it is not applicable.
pub fn cost(algorithm: Algorithm, member: Member) -> Option<Cost> {
    let mut estimate = Estimate::new(member.situation);
    match algorithm {
        Algorithm::Tree(shape) => {
            estimate.up(member, shape, 0, None);
            estimate.down(member, shape, 0);
        }
        Algorithm::Dissemination => estimate.doubling(member, |_| 0),
        Algorithm::Hierarchical if !hierarchy::is_applicable(member) => return None,
        Algorithm::Hierarchical => {
            let inside = |near: Member| climb_cost(climb(near), near);
            return hierarchy::cost(member, inside, |far| cost(choose(far), far));
        }
    }
    Some(estimate.cost())
}

/// `MPI_Barrier` (section 6.3).
pub fn barrier(member: Member) -> Schedule {
    match choose(member) {
        Algorithm::Tree(shape) => tree(member, shape),
        Algorithm::Dissemination => dissemination(member),
        Algorithm::Hierarchical => hierarchy::barrier(member),
    }
}

/// How processes come to one and leave from there.
#[derive(Clone, Copy)]
enum Climb {
    /// Along a tree.
    Tree(Shape),
    /// Inside the parts, and between their leaders.
    Hierarchical,
}

/// The best way up and down again.
fn climb(member: Member) -> Climb {
    let all = [Climb::Tree(Shape::Star), Climb::Tree(Shape::Binomial), Climb::Hierarchical];
    let costs = all.into_iter().filter_map(|one| Some((climb_cost(one, member)?, one)));
    costs.min_by_key(|(cost, _)| *cost).map_or(Climb::Tree(Shape::Star), |(_, one)| one)
}

fn climb_cost(way: Climb, member: Member) -> Option<Cost> {
    let least = |member: Member| climb_cost(climb(member), member);
    match way {
        Climb::Tree(shape) => cost(Algorithm::Tree(shape), member),
        Climb::Hierarchical if !hierarchy::is_applicable(member) => None,
        Climb::Hierarchical => hierarchy::cost(member, least, least),
    }
}

/// The barrier through rank 0.
pub fn tree(member: Member, shape: Shape) -> Schedule {
    let mut schedule = Schedule::default();
    up(&mut schedule, &Tree::new(member, 0, shape));
    down(&mut schedule, &Tree::new(member, 0, shape), Place::NOTHING, Place::NOTHING);
    schedule
}

/// `top` knows then that all have come.
pub(crate) fn come(member: Member, top: u32) -> Schedule {
    let Climb::Tree(shape) = climb(member) else { return hierarchy::come(member, top) };
    let mut schedule = Schedule::default();
    up(&mut schedule, &Tree::new(member, top, shape));
    schedule
}

/// All know what `top` knows.
pub(crate) fn leave(member: Member, top: u32) -> Schedule {
    let Climb::Tree(shape) = climb(member) else { return hierarchy::leave(member, top) };
    let mut schedule = Schedule::default();
    down(&mut schedule, &Tree::new(member, top, shape), Place::NOTHING, Place::NOTHING);
    schedule
}

fn up(schedule: &mut Schedule, tree: &Tree) {
    for child in tree.children() {
        schedule.receive(tree.rank(child.top), Place::NOTHING);
    }
    schedule.end_round();
    if let Some(parent) = tree.parent() {
        schedule.send(parent, Place::NOTHING);
    }
    schedule.end_round();
}

/// The dissemination barrier of Hensgen, Finkel and Manber.
pub fn dissemination(member: Member) -> Schedule {
    let mut schedule = Schedule::default();
    let mut distance = 1;
    while distance < member.size {
        schedule.send(member.above(distance), Place::NOTHING);
        schedule.receive(member.below(distance), Place::NOTHING);
        schedule.end_round();
        distance = distance.saturating_mul(2);
    }
    schedule
}
