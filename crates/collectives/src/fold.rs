//! What the reductions share: their operands, and the folding of several operands in the order
//! of ranks.

use crate::estimate::PEERS_AT_ONCE_MAX;
use crate::hierarchy;
use crate::member::Member;
use crate::schedule::{Area, BlockRange, Operand, Schedule};
use crate::tree::Tree;

/// What a reduction combines. A block is one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operands {
    /// Elements that each process contributes; for `reduce_scatter_block`, those that each
    /// process gets.
    pub count: usize,
    /// Size of the data of one element, in bytes.
    pub element_bytes: usize,
    /// Whether the operation commutes. Where it does not, all algorithms combine in the order of
    /// ranks; how they associate depends on the size, the root, and the sizes of the data only.
    pub commutative: bool,
}

impl Operands {
    /// So many bytes, which nothing combines.
    pub(crate) const fn bytes_only(count: usize) -> Self {
        Self { count, element_bytes: 1, commutative: true }
    }

    /// The size of the data that they make together, or of what each process gets.
    pub fn bytes(self) -> usize {
        self.count.saturating_mul(self.element_bytes)
    }

    /// Whether the operands of each machine may be combined before those of others.
    pub(crate) fn keep_order_in_machines(self, member: Member) -> bool {
        hierarchy::is_ordered(member) || self.commutative && hierarchy::is_applicable(member)
    }

    /// Whether there is an element for each process at least.
    pub(crate) fn are_enough_for(self, member: Member) -> bool {
        self.count >= member.size as usize
    }

    /// The bytes of one process's share of the elements; none where there are fewer elements than
    /// processes, or more processes than shall exchange shares with each other.
    pub(crate) fn share(self, member: Member) -> Option<usize> {
        let is_shared = self.are_enough_for(member) && member.size <= PEERS_AT_ONCE_MAX;
        let count = self.count.div_ceil(member.size as usize);
        is_shared.then(|| count.saturating_mul(self.element_bytes))
    }
}

/// Up to this many bytes a process receives from all children of a tree at once; past it, one by
/// one, so that scratch memory stays below two operands.
const CHILDREN_AT_ONCE_BYTES_MAX: usize = 16 * 1024;

/// Receives the partial results of all children and folds them behind `own`, which is not
/// changed. Says where the result lies: at `own` itself if there are no children, at `target`
/// if that is given, else in scratch memory. `target` does not overlap `own`.
pub(crate) fn fold_children(
    schedule: &mut Schedule,
    tree: &Tree,
    operands: Operands,
    own: BlockRange,
    target: Option<BlockRange>,
) -> BlockRange {
    let children = tree.children().count();
    let at_once = operands.bytes() <= CHILDREN_AT_ONCE_BYTES_MAX;
    let slot = |number: usize| match target {
        Some(target) if at_once && number + 1 == children => target,
        Some(target) if !at_once && (children - number) % 2 == 1 => target,
        Some(_) if !at_once => Area::Scratch.blocks(0, operands.count),
        None if !at_once => Area::Scratch.blocks(number % 2 * operands.count, operands.count),
        _ => Area::Scratch.blocks(number * operands.count, operands.count),
    };
    let mut result = own;
    if at_once {
        for (number, child) in tree.children().enumerate() {
            schedule.receive(tree.rank(child.top), slot(number));
        }
        for number in 0..children {
            schedule.reduce(result, slot(number), Operand::From);
            result = slot(number);
        }
        schedule.end_round();
    } else {
        for (number, child) in tree.children().enumerate() {
            schedule.receive(tree.rank(child.top), slot(number));
            schedule.reduce(result, slot(number), Operand::From);
            schedule.end_round();
            result = slot(number);
        }
    }
    result
}
