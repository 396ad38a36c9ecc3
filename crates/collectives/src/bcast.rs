//! Broadcast. A block is one byte of the packed data; the buffer is [`Area::Receive`] on all
//! processes, and the root only reads it.
//!
//! Bytes, because the root and the others may describe the data with different datatypes, of
//! which only the number of bytes is the same.

use crate::estimate::{Cost, Estimate};
use crate::member::Member;
use crate::schedule::{Area, Place, Schedule};
use crate::selection::{self, Operation};
use crate::share::share;
use crate::tree::{Shape, Tree};

/// The ways of a broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// All data goes down a tree.
    Tree(Shape),
    /// The root gives each process a share; the shares go round a ring.
    ScatterRing,
}

/// All of them, by the names that people use.
pub const ALGORITHMS: &[(&str, Algorithm)] = &[
    ("binomial", Algorithm::Tree(Shape::Binomial)),
    ("star", Algorithm::Tree(Shape::Star)),
    ("scatter-ring", Algorithm::ScatterRing),
];

/// Takes the algorithm for `bytes` bytes.
pub fn choose(member: Member, bytes: usize) -> Algorithm {
    selection::choose(Operation::Bcast, ALGORITHMS, member, |one| cost(one, member, bytes))
}

/// The predicted time of an algorithm; none if it is not applicable.
pub fn cost(algorithm: Algorithm, member: Member, bytes: usize) -> Option<Cost> {
    let mut estimate = Estimate::new(member.situation);
    match algorithm {
        Algorithm::Tree(shape) => estimate.down(member, shape, bytes),
        Algorithm::ScatterRing => {
            let share = bytes.div_ceil(member.size as usize);
            estimate.down(member, Shape::Star, share);
            estimate.ring(member, u64::from(member.size - 1), share);
        }
    }
    Some(estimate.cost())
}

/// `MPI_Bcast` (section 6.4) of `bytes` bytes of packed data.
pub fn bcast(member: Member, root: u32, bytes: usize) -> Schedule {
    match choose(member, bytes) {
        Algorithm::Tree(shape) => tree(member, root, bytes, shape),
        Algorithm::ScatterRing => scatter_ring(member, root, bytes),
    }
}

/// The broadcast down a tree.
pub fn tree(member: Member, root: u32, bytes: usize, shape: Shape) -> Schedule {
    let mut schedule = Schedule::default();
    if bytes > 0 {
        let tree = Tree::new(member, root, shape);
        let buffer = Area::Receive.blocks(0, bytes);
        down(&mut schedule, &tree, buffer, buffer);
    }
    schedule
}

/// Adds the way down `tree`, from `source` at its root to `target` elsewhere.
pub(crate) fn down(schedule: &mut Schedule, tree: &Tree, source: Place, target: Place) {
    let whole = if tree.is_root() { source } else { target };
    if let Some(parent) = tree.parent() {
        schedule.receive(parent, whole);
        schedule.end_round();
    }
    // The largest subtree has the longest way before it.
    for child in tree.children().rev() {
        schedule.send(tree.rank(child.top), whole);
    }
    schedule.end_round();
}

/// The broadcast by shares (van de Geijn): the root sends n - 1 shares, then each process hands
/// to the next one what it got last. No byte reaches a process twice, and none returns to the
/// root.
pub fn scatter_ring(member: Member, root: u32, bytes: usize) -> Schedule {
    let mut schedule = Schedule::default();
    let tree = Tree::new(member, root, Shape::Star);
    let size = member.size;
    let share_of = |position: u32| share(Area::Receive, bytes, size, position);

    for child in tree.children() {
        let part = share_of(child.top);
        if part.count > 0 {
            schedule.send(tree.rank(child.top), part);
        }
    }
    if !tree.is_root() && share_of(tree.position).count > 0 {
        schedule.receive(root, share_of(tree.position));
    }
    schedule.end_round();

    let next = (tree.position + 1) % size;
    for step in 0..size - 1 {
        let sent = share_of((tree.position + size - step) % size);
        let received = share_of((tree.position + size - 1 - step) % size);
        if next != 0 && sent.count > 0 {
            schedule.send(tree.rank(next), sent);
        }
        if !tree.is_root() && received.count > 0 {
            schedule.receive(tree.rank(tree.position - 1), received);
        }
        schedule.end_round();
    }
    schedule
}
