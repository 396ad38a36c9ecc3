//! Broadcast. A block is one byte of the packed data; the buffer is [`Area::Receive`] on all
//! processes, and the root only reads it.
//!
//! Bytes, because the root and the others may describe the data with different datatypes, of
//! which only the number of bytes is the same.

use crate::barrier::STAR_SIZE_MAX;
use crate::member::Member;
use crate::schedule::{Area, Place, Schedule};
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

/// From this size on, in bytes, the time to move the data outweighs the n - 1 rounds of the ring.
pub const RING_BYTES_MIN: usize = 512 * 1024;

/// Below this many processes a tree has so few levels that shares gain nothing.
pub const RING_SIZE_MIN: u32 = 8;

/// Takes the algorithm for `bytes` bytes. On a crowded communicator the ring only adds waiting:
/// the cores, not the links, are what is short.
pub fn choose(member: Member, bytes: usize) -> Algorithm {
    if member.crowded && member.size <= STAR_SIZE_MAX {
        Algorithm::Tree(Shape::Star)
    } else if !member.crowded && bytes >= RING_BYTES_MIN && member.size >= RING_SIZE_MIN {
        Algorithm::ScatterRing
    } else {
        Algorithm::Tree(Shape::Binomial)
    }
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
