//! Broadcast. A block is one byte of the packed data. The buffer is [`Area::Receive`] on all
//! processes; the root only reads it.
//!
//! Blocks are bytes because the root and the other processes may describe the data with different
//! datatypes, which agree only in the number of bytes.

mod pieces;

use crate::algorithm::Algorithm;
use crate::cost::Cost;
use crate::estimate::TimeEstimate;
use crate::hierarchy::{self, HierarchyView};
use crate::member::Member;
use crate::operation::CollectiveOperation;
use crate::schedule::{Area, BlockRange, Schedule};
use crate::share::share;
use crate::tree::{Branching, Tree};

/// The algorithms that send messages.
pub const ALGORITHMS: &[Algorithm] = &[
    Algorithm::Binomial,
    Algorithm::Star,
    Algorithm::Groups,
    Algorithm::ScatterRing,
    Algorithm::Chain,
    Algorithm::Hierarchical,
    Algorithm::HierarchicalPieces,
];

/// The smallest piece, in bytes, and the maximum number of pieces.
const PIECE_BYTES_MIN: usize = 4096;
const PIECES_MAX: usize = 256;

/// Chooses the algorithm for `bytes` bytes.
pub fn choose(member: Member, bytes: usize) -> Algorithm {
    member
        .situation
        .preferences
        .choose(CollectiveOperation::Bcast, ALGORITHMS, |one| cost(one, member, bytes))
}

/// Returns the predicted time of an algorithm; `None` if it is not applicable.
pub fn cost(algorithm: Algorithm, member: Member, bytes: usize) -> Option<Cost> {
    let mut estimate = TimeEstimate::new(member.situation);
    match algorithm {
        Algorithm::Star | Algorithm::Groups | Algorithm::Binomial => {
            let shape = algorithm.shape().filter(|shape| shape.suits(member.size))?;
            estimate.down(member, shape, bytes);
        }
        Algorithm::ScatterRing => {
            let share = bytes.div_ceil(member.size as usize);
            estimate.down(member, Branching::Star, share);
            estimate.ring(u64::from(member.size - 1), share);
        }
        Algorithm::Chain => return Some(chain_cost(member, bytes, pieces(member, bytes))),
        Algorithm::Hierarchical if !hierarchy::is_applicable(member) => return None,
        Algorithm::Hierarchical => {
            let least = |member: Member| cost(choose(member, bytes), member, bytes);
            return hierarchy::cost(member, least, least);
        }
        Algorithm::HierarchicalPieces => return pieces::cost(member, bytes),
        _ => return None,
    }
    Some(estimate.cost())
}

/// `MPI_Bcast` (section 6.4) of `bytes` bytes of packed data.
pub fn bcast(member: Member, root: u32, bytes: usize) -> Schedule {
    of_blocks(member, root, bytes, bytes)
}

/// Makes the broadcast of blocks of any kind, which have `bytes` bytes in total.
pub(crate) fn of_blocks(member: Member, root: u32, blocks: usize, bytes: usize) -> Schedule {
    with(choose(member, bytes), member, root, blocks, bytes)
}

/// Makes the broadcast of blocks that have `bytes` bytes in total, by a given algorithm.
pub fn with(
    algorithm: Algorithm,
    member: Member,
    root: u32,
    blocks: usize,
    bytes: usize,
) -> Schedule {
    match algorithm {
        Algorithm::Star => tree(member, root, blocks, Branching::Star),
        Algorithm::Groups => tree(member, root, blocks, Branching::Groups),
        Algorithm::Binomial => tree(member, root, blocks, Branching::Binomial),
        Algorithm::ScatterRing => scatter_ring(member, root, blocks),
        Algorithm::Chain => chain(member, root, blocks, pieces(member, bytes)),
        Algorithm::Hierarchical => hierarchical(member, root, blocks, bytes),
        Algorithm::HierarchicalPieces => pieces::bcast(member, root, blocks, bytes),
        _ => unreachable!("{algorithm} is no broadcast"),
    }
}

/// Returns the number of pieces with which a chain is fastest.
fn pieces(member: Member, bytes: usize) -> usize {
    piece_counts(bytes).min_by_key(|count| chain_cost(member, bytes, *count)).unwrap_or(1)
}

/// Returns the possible numbers of pieces for so many bytes.
pub(crate) fn piece_counts(bytes: usize) -> impl Iterator<Item = usize> {
    let most = (bytes / PIECE_BYTES_MIN).clamp(1, PIECES_MAX);
    (0..usize::BITS).map(|bit| 1 << bit).take_while(move |count| *count <= most)
}

/// Returns the predicted time of a chain. The last piece starts after all others, and then passes
/// through all processes.
fn chain_cost(member: Member, bytes: usize, pieces: usize) -> Cost {
    let mut estimate = TimeEstimate::new(member.situation);
    let steps = u64::from(member.size - 1) + pieces as u64 - 1;
    if member.size > 1 {
        estimate.ring(steps, bytes.div_ceil(pieces));
    }
    estimate.cost()
}

/// Makes the broadcast in pieces through the chain of all ranks, starting at the root.
pub fn chain(member: Member, root: u32, blocks: usize, pieces: usize) -> Schedule {
    let (before, after) = chain_neighbors(member, root);
    pass_on(before, after.as_slice(), blocks, pieces)
}

/// Returns the ranks before and after a process in the chain that starts at the root.
pub(crate) fn chain_neighbors(member: Member, root: u32) -> (Option<u32>, Option<u32>) {
    let tree = Tree::new(member, root, Branching::Star);
    let before = tree.position.checked_sub(1);
    let after = Some(tree.position + 1).filter(|after| *after < member.size);
    (before.map(|one| tree.rank(one)), after.map(|one| tree.rank(one)))
}

/// Makes a pipeline: pieces come from the parent, if there is one, and are sent to the children
/// while the next piece arrives.
pub(crate) fn pass_on(
    parent: Option<u32>,
    children: &[u32],
    blocks: usize,
    pieces: usize,
) -> Schedule {
    let mut schedule = Schedule::default();
    let pieces = pieces.min(blocks) as u32;
    let piece = |number: u32| share(Area::Receive, blocks, pieces, number);
    for number in 0..=pieces {
        if let Some(parent) = parent
            && number < pieces
        {
            schedule.receive(parent, piece(number));
        }
        // The root has all pieces from the beginning.
        if let Some(held) = number.checked_sub(1) {
            for child in children {
                schedule.send(*child, piece(held));
            }
        }
        schedule.end_round();
    }
    schedule
}

/// Makes the broadcast down a tree.
pub(crate) fn tree(member: Member, root: u32, bytes: usize, shape: Branching) -> Schedule {
    let mut schedule = Schedule::default();
    if bytes > 0 {
        let tree = Tree::new(member, root, shape);
        let buffer = Area::Receive.blocks(0, bytes);
        down(&mut schedule, &tree, buffer, buffer);
    }
    schedule
}

/// Adds the steps down `tree`, from `source` at its root to `target` on other processes.
pub(crate) fn down(schedule: &mut Schedule, tree: &Tree, source: BlockRange, target: BlockRange) {
    let whole = if tree.is_root() { source } else { target };
    if let Some(parent) = tree.parent() {
        schedule.receive(parent, whole);
        schedule.end_round();
    }
    // The largest subtree comes first, as it takes longest.
    for child in tree.children().rev() {
        schedule.send(tree.rank(child.top), whole);
    }
    schedule.end_round();
}

/// The broadcast by shares (van de Geijn): the root sends n - 1 shares, then each process sends to
/// the next one the share that it received last. No byte reaches a process twice, and none returns
/// to the root.
fn scatter_ring(member: Member, root: u32, bytes: usize) -> Schedule {
    let mut schedule = Schedule::default();
    let tree = Tree::new(member, root, Branching::Star);
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

/// The hierarchical broadcast of `blocks` blocks with `bytes` bytes in total.
fn hierarchical(member: Member, root: u32, blocks: usize, bytes: usize) -> Schedule {
    let view = HierarchyView::new(member, Some(root));
    let mut schedule = Schedule::default();
    if let Some(leader) = view.leader_member() {
        let across = of_blocks(leader, view.part_of(root), blocks, bytes);
        view.add_across(&mut schedule, &across, |place| place);
    }
    let inside = of_blocks(view.near_member(), view.near_leader(), blocks, bytes);
    view.add_inside(&mut schedule, &inside, |place| place);
    schedule
}
