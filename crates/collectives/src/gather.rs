//! Gather. A block is the contribution of one process: one in each process's send buffer, as many
//! as there are processes in the root's receive buffer.

use crate::algorithm::Algorithm;
use crate::cost::Cost;
use crate::estimate::TimeEstimate;
use crate::hierarchy::{self, HierarchyView};
use crate::member::{InputPlace, Member};
use crate::operation::CollectiveOperation;
use crate::schedule::{Area, Schedule};
use crate::tree::{Branching, Tree};

/// The algorithms of gather and scatter that send messages.
pub const ALGORITHMS: &[Algorithm] =
    &[Algorithm::Star, Algorithm::Binomial, Algorithm::Hierarchical];

/// Chooses the algorithm.
pub fn choose(member: Member, block_bytes: usize) -> Algorithm {
    choose_for(CollectiveOperation::Gather, member, block_bytes)
}

/// Returns the predicted time of an algorithm; `None` if it is not applicable.
pub fn cost(algorithm: Algorithm, member: Member, block_bytes: usize) -> Option<Cost> {
    cost_of(CollectiveOperation::Gather, algorithm, member, block_bytes)
}

/// Chooses the algorithm of a gather or of its reverse, a scatter.
pub(crate) fn choose_for(
    operation: CollectiveOperation,
    member: Member,
    block_bytes: usize,
) -> Algorithm {
    let cost = |one| cost_of(operation, one, member, block_bytes);
    member.situation.preferences.choose(operation, ALGORITHMS, cost)
}

/// Returns the predicted time of a gather or of a scatter.
pub(crate) fn cost_of(
    operation: CollectiveOperation,
    algorithm: Algorithm,
    member: Member,
    block_bytes: usize,
) -> Option<Cost> {
    let mut estimate = TimeEstimate::new(member.situation);
    match algorithm {
        Algorithm::Star if operation == CollectiveOperation::Scatter => {
            estimate.down(member, Branching::Star, block_bytes);
            estimate.own_block(block_bytes);
        }
        Algorithm::Star => {
            estimate.up(member, Branching::Star, block_bytes, None);
            estimate.own_block(block_bytes);
        }
        Algorithm::Binomial => {
            estimate.growing_tree(member, block_bytes);
            estimate.own_block(block_bytes);
        }
        Algorithm::Hierarchical if !hierarchy::is_ordered(member) => return None,
        Algorithm::Hierarchical => {
            let all = block_bytes.saturating_mul(member.situation.widest().largest() as usize);
            let inside = |near: Member| {
                let algorithm = choose_for(operation, near, block_bytes);
                cost_of(operation, algorithm, near, block_bytes)
            };
            let star = Algorithm::Star;
            return hierarchy::cost(member, inside, |far| cost_of(operation, star, far, all));
        }
        _ => return None,
    }
    Some(estimate.cost())
}

/// `MPI_Gather` (section 6.5) of one block of `block_bytes` packed bytes per process.
///
/// In place, the root's block is already at its place in the receive buffer.
pub fn gather(member: Member, root: u32, block_bytes: usize, input: InputPlace) -> Schedule {
    with(choose(member, block_bytes), member, root, block_bytes, input)
}

/// Makes the gather by a given algorithm.
pub fn with(
    algorithm: Algorithm,
    member: Member,
    root: u32,
    block_bytes: usize,
    input: InputPlace,
) -> Schedule {
    match algorithm {
        _ if block_bytes == 0 => Schedule::default(),
        Algorithm::Star => tree(member, root, Branching::Star, input),
        Algorithm::Binomial => tree(member, root, Branching::Binomial, input),
        Algorithm::Hierarchical => hierarchical(member, root, block_bytes, input),
        _ => unreachable!("{algorithm} is no gather"),
    }
}

/// `MPI_Gatherv` (section 6.5): block `i` of the root's receive buffer is the data that rank `i`
/// sends.
///
/// Only the root knows all sizes, so no block can pass through a third process.
pub fn gatherv(member: Member, root: u32, input: InputPlace) -> Schedule {
    tree(member, root, Branching::Star, input)
}

/// Makes the gather up a tree.
pub(crate) fn tree(member: Member, root: u32, shape: Branching, input: InputPlace) -> Schedule {
    let mut schedule = Schedule::default();
    let tree = Tree::new(member, root, shape);
    let own = Area::Send.block(0);
    let Some(parent) = tree.parent() else {
        for child in tree.children() {
            for run in tree.runs(child) {
                let into = Area::Receive.blocks(run.first_rank, run.count);
                schedule.receive(tree.rank(child.top), into);
            }
        }
        if input == InputPlace::SendBuffer {
            schedule.copy(own, Area::Receive.block(root as usize));
        }
        schedule.end_round();
        return schedule;
    };

    let subtree = tree.own();
    let mut held = own;
    if subtree.size > 1 {
        held = Area::Scratch.blocks(0, subtree.size as usize);
        for child in tree.children() {
            let offset = (child.top - subtree.top) as usize;
            schedule.receive(tree.rank(child.top), held.part(offset, child.size as usize));
        }
        schedule.copy(own, held.part(0, 1));
        schedule.end_round();
    }
    if tree.is_below_root() {
        for run in tree.runs(subtree) {
            schedule.send(parent, held.part(run.offset, run.count));
        }
    } else {
        schedule.send(parent, held);
    }
    schedule.end_round();
    schedule
}

/// The hierarchical gather, for parts with consecutive ranks. Leaders that are not the root keep
/// the blocks of their part at the beginning of scratch memory.
fn hierarchical(member: Member, root: u32, block_bytes: usize, input: InputPlace) -> Schedule {
    let view = HierarchyView::new(member, Some(root));
    let mut schedule = Schedule::default();
    let (near, is_root) = (view.near_member(), member.rank == root);
    let own = if is_root { view.own_blocks(Area::Receive) } else { view.held() };
    // In place, only the root's own block is at its place.
    let input = if is_root { input } else { InputPlace::SendBuffer };
    let collection = gather(near, view.near_leader(), block_bytes, input);
    view.add_inside(&mut schedule, &collection, |place| match place.area {
        Area::Receive => own.part(place.first, place.count),
        _ => view.behind_held(place),
    });
    let Some(leader) = view.leader_member() else { return schedule };
    let across = tree(leader, view.part_of(root), Branching::Star, InputPlace::InPlace);
    view.add_across(&mut schedule, &across, |place| match place.area {
        Area::Receive => view.blocks(place),
        _ => own,
    });
    schedule
}
