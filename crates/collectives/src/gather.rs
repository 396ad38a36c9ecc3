//! Gather. A block is what one process contributes: one at each process's send buffer, as many
//! as there are processes in the root's receive buffer.

use crate::barrier::STAR_SIZE_MAX;
use crate::member::{Input, Member};
use crate::schedule::{Area, Schedule};
use crate::tree::{Shape, Tree};

/// Past this size of a block, in bytes, it is cheaper that all send to the root than that inner
/// processes take and forward blocks of others.
pub const TREE_BYTES_MAX: usize = 2048;

/// Up to this many processes the root is done with all messages before a tree had its second
/// level.
pub const STAR_ALWAYS_SIZE_MAX: u32 = 8;

/// Takes the shape of the tree, for gather and scatter.
pub fn choose(member: Member, block_bytes: usize) -> Shape {
    let few = if member.crowded { STAR_SIZE_MAX } else { STAR_ALWAYS_SIZE_MAX };
    if member.size <= few || block_bytes > TREE_BYTES_MAX { Shape::Star } else { Shape::Binomial }
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
