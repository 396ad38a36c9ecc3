//! Barrier: nobody leaves before all have come.

use crate::estimate::{Cost, Estimate};
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
}

/// All of them, by the names that people use.
pub const ALGORITHMS: &[(&str, Algorithm)] = &[
    ("dissemination", Algorithm::Dissemination),
    ("star", Algorithm::Tree(Shape::Star)),
    ("binomial", Algorithm::Tree(Shape::Binomial)),
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
    }
    Some(estimate.cost())
}

/// `MPI_Barrier` (section 6.3).
pub fn barrier(member: Member) -> Schedule {
    match choose(member) {
        Algorithm::Tree(shape) => tree(member, shape),
        Algorithm::Dissemination => dissemination(member),
    }
}

/// The barrier through rank 0.
pub fn tree(member: Member, shape: Shape) -> Schedule {
    let mut schedule = Schedule::default();
    let tree = Tree::new(member, 0, shape);
    for child in tree.children() {
        schedule.receive(tree.rank(child.top), Place::NOTHING);
    }
    schedule.end_round();
    if let Some(parent) = tree.parent() {
        schedule.send(parent, Place::NOTHING);
        schedule.receive(parent, Place::NOTHING);
        schedule.end_round();
    }
    for child in tree.children().rev() {
        schedule.send(tree.rank(child.top), Place::NOTHING);
    }
    schedule.end_round();
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
