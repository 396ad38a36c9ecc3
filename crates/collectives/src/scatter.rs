//! Scatter. A block is the data that one process gets: as many as there are processes in the root's
//! send buffer, one in each process's receive buffer.

use crate::algorithm::Algorithm;
use crate::cost::Cost;
use crate::gather;
use crate::hierarchy::HierarchyView;
use crate::member::{InputPlace, Member};
use crate::operation::CollectiveOperation;
use crate::schedule::{Area, Schedule};
use crate::tree::{Branching, Tree};

/// Chooses the algorithm.
pub fn choose(member: Member, block_bytes: usize) -> Algorithm {
    gather::choose_for(CollectiveOperation::Scatter, member, block_bytes)
}

/// Returns the predicted time of an algorithm; `None` if it is not applicable.
pub fn cost(algorithm: Algorithm, member: Member, block_bytes: usize) -> Option<Cost> {
    gather::cost_of(CollectiveOperation::Scatter, algorithm, member, block_bytes)
}

/// `MPI_Scatter` (section 6.6) of one block of `block_bytes` packed bytes per process.
///
/// In place, the root's own block stays where it is.
pub fn scatter(member: Member, root: u32, block_bytes: usize, input: InputPlace) -> Schedule {
    with(choose(member, block_bytes), member, root, block_bytes, input)
}

/// Makes the scatter by a given algorithm.
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
        _ => unreachable!("{algorithm} is no scatter"),
    }
}

/// `MPI_Scatterv` (section 6.6): block `i` of the root's send buffer goes to rank `i`.
///
/// Only the root knows all sizes, so no block can pass through a third process.
pub fn scatterv(member: Member, root: u32, input: InputPlace) -> Schedule {
    tree(member, root, Branching::Star, input)
}

/// Makes the scatter down a tree.
pub(crate) fn tree(member: Member, root: u32, shape: Branching, input: InputPlace) -> Schedule {
    let mut schedule = Schedule::default();
    let tree = Tree::new(member, root, shape);
    let own = Area::Receive.block(0);
    let Some(parent) = tree.parent() else {
        // The largest subtree comes first, as it takes longest.
        for child in tree.children().rev() {
            for run in tree.runs(child) {
                let from = Area::Send.blocks(run.first_rank, run.count);
                schedule.send(tree.rank(child.top), from);
            }
        }
        if input == InputPlace::SendBuffer {
            schedule.copy(Area::Send.block(root as usize), own);
        }
        schedule.end_round();
        return schedule;
    };

    let subtree = tree.own();
    let is_leaf = subtree.size == 1;
    let held = if is_leaf { own } else { Area::Scratch.blocks(0, subtree.size as usize) };
    if tree.is_below_root() {
        for run in tree.runs(subtree) {
            schedule.receive(parent, held.part(run.offset, run.count));
        }
    } else {
        schedule.receive(parent, held);
    }
    if !is_leaf {
        schedule.copy(held.part(0, 1), own);
    }
    schedule.end_round();

    for child in tree.children().rev() {
        let offset = (child.top - subtree.top) as usize;
        schedule.send(tree.rank(child.top), held.part(offset, child.size as usize));
    }
    schedule.end_round();
    schedule
}

/// The hierarchical scatter: the reverse of the gather.
fn hierarchical(member: Member, root: u32, block_bytes: usize, input: InputPlace) -> Schedule {
    let view = HierarchyView::new(member, Some(root));
    let mut schedule = Schedule::default();
    let (near, is_root) = (view.near_member(), member.rank == root);
    let own = if is_root { view.own_blocks(Area::Send) } else { view.held() };
    if let Some(leader) = view.leader_member() {
        let across = tree(leader, view.part_of(root), Branching::Star, InputPlace::InPlace);
        view.add_across(&mut schedule, &across, |place| match place.area {
            Area::Send => view.blocks(place),
            _ => own,
        });
    }
    // In place, only the root's own block stays at its place.
    let input = if is_root { input } else { InputPlace::SendBuffer };
    let distribution = scatter(near, view.near_leader(), block_bytes, input);
    view.add_inside(&mut schedule, &distribution, |place| match place.area {
        Area::Send => own.part(place.first, place.count),
        _ => view.behind_held(place),
    });
    schedule
}
