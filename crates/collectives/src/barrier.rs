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
    /// Inside the machines, among their leaders, inside again.
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
            let inside = |near: Member| cost(Algorithm::Tree(shape(near)), near);
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

/// The better shape of a tree.
pub(crate) fn shape(member: Member) -> Shape {
    let time = |shape: &Shape| cost(Algorithm::Tree(*shape), member);
    [Shape::Star, Shape::Binomial].into_iter().min_by_key(time).unwrap_or(Shape::Star)
}

/// The barrier through rank 0.
pub fn tree(member: Member, shape: Shape) -> Schedule {
    let mut schedule = come(member, shape);
    schedule.append(&leave(member, shape), |peer| peer, |place| place);
    schedule
}

/// Up a tree: rank 0 knows then that all have come.
pub(crate) fn come(member: Member, shape: Shape) -> Schedule {
    let mut schedule = Schedule::default();
    let tree = Tree::new(member, 0, shape);
    for child in tree.children() {
        schedule.receive(tree.rank(child.top), Place::NOTHING);
    }
    schedule.end_round();
    if let Some(parent) = tree.parent() {
        schedule.send(parent, Place::NOTHING);
    }
    schedule.end_round();
    schedule
}

/// Down a tree: all know what rank 0 knows.
pub(crate) fn leave(member: Member, shape: Shape) -> Schedule {
    let mut schedule = Schedule::default();
    down(&mut schedule, &Tree::new(member, 0, shape), Place::NOTHING, Place::NOTHING);
    schedule
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
