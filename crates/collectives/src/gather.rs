//! Gather. A block is what one process contributes: one at each process's send buffer, as many
//! as there are processes in the root's receive buffer.

use crate::estimate::{Cost, Estimate};
use crate::member::{Input, Member};
use crate::schedule::{Area, Schedule};
use crate::selection::{self, Operation};
use crate::tree::{Shape, Tree};

/// The ways of gather and scatter, by the names that people use.
pub const ALGORITHMS: &[(&str, Shape)] = &[("star", Shape::Star), ("binomial", Shape::Binomial)];

/// Takes the shape of the tree.
pub fn choose(member: Member, block_bytes: usize) -> Shape {
    selection::choose(Operation::Gather, ALGORITHMS, member, |one| cost(one, member, block_bytes))
}

/// The predicted time with a tree of a shape.
pub fn cost(shape: Shape, member: Member, block_bytes: usize) -> Option<Cost> {
    let mut estimate = Estimate::new(member.situation);
    match shape {
        Shape::Star => estimate.up(member, Shape::Star, block_bytes, None),
        Shape::Binomial => estimate.growing_tree(member, block_bytes),
    }
    Some(estimate.cost())
}

/// `MPI_Gather` (section 6.5) of one block of `block_bytes` packed bytes per process.
///
/// In place, the root's block is already where it belongs in the receive buffer.
pub fn gather(member: Member, root: u32, block_bytes: usize, input: Input) -> Schedule {
    if block_bytes == 0 {
        return Schedule::default();
    }
    tree(member, root, choose(member, block_bytes), input)
}

/// `MPI_Gatherv` (section 6.5): block `i` of the root's receive buffer is what rank `i` sends.
///
/// Sizes are known to the root only, so that no block can pass through a third process.
pub fn gatherv(member: Member, root: u32, input: Input) -> Schedule {
    tree(member, root, Shape::Star, input)
}

/// The gather up a tree.
pub fn tree(member: Member, root: u32, shape: Shape, input: Input) -> Schedule {
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
        if input == Input::SendBuffer {
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
