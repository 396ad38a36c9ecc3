//! Barrier: nobody leaves before all have come.

use crate::member::Member;
use crate::schedule::{Place, Schedule};
use crate::tree::{Shape, Tree};

/// The ways to a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Up a tree to rank 0 and down again: 2 (n - 1) messages.
    Tree(Shape),
    /// Round k: tell the process 2^k ranks above, hear of the one 2^k below. n log n messages.
    Dissemination,
}

/// A crowded communicator of at most this many processes meets at rank 0: there a turn on a core
/// costs more than a message, and a star lets each process wait only once.
pub(crate) const STAR_SIZE_MAX: u32 = 32;

/// Takes the algorithm for a communicator.
pub fn choose(member: Member) -> Algorithm {
    match (member.crowded, member.size) {
        (true, 3..=STAR_SIZE_MAX) => Algorithm::Tree(Shape::Star),
        (true, size) if size > STAR_SIZE_MAX => Algorithm::Tree(Shape::Binomial),
        _ => Algorithm::Dissemination,
    }
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
