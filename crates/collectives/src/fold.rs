//! Combines several operands in the order of ranks.

use crate::member::Member;
use crate::operands::Operands;
use crate::schedule::{Area, BlockRange, Operand, Schedule};
use crate::tree::Tree;

/// The maximum length of operands, in bytes, that a process receives from all children of a tree at
/// once. Longer ones are received one by one, so that scratch memory stays below two operands.
const CHILDREN_AT_ONCE_BYTES_MAX: usize = 16 * 1024;

/// Receives the partial results of all children and folds them behind `own`, which is not changed.
/// Returns where the result is: at `own` itself if there are no children, at `target` if that is
/// given, else in scratch memory. `target` must not overlap `own`.
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

/// Adds the round in which each process gets all operands of its share and folds them from the
/// lowest rank to the highest. `operand_of` returns this process's operand for a rank's share.
///
/// Returns where the reduced share is: at `target` if that is given, else in scratch memory; at the
/// operand itself if this process is alone or its share is empty. `target` must overlap no operand.
pub(crate) fn exchange_shares(
    schedule: &mut Schedule,
    member: Member,
    target: Option<BlockRange>,
    operand_of: impl Fn(u32) -> BlockRange,
) -> BlockRange {
    let own = operand_of(member.rank);
    let last_peer = if member.rank + 1 == member.size {
        member.size.saturating_sub(2)
    } else {
        member.size - 1
    };
    let slot = |rank: u32| match target {
        Some(target) if rank == last_peer => target,
        _ => {
            let number = if rank < member.rank { rank } else { rank - 1 };
            Area::Scratch.blocks(number as usize * own.count, own.count)
        }
    };
    for distance in 1..member.size {
        let (above, below) = (member.above(distance), member.below(distance));
        if own.count > 0 {
            schedule.receive(below, slot(below));
        }
        let given = operand_of(above);
        if given.count > 0 {
            schedule.send(above, given);
        }
    }
    let mut folded = None;
    for rank in (0..member.size).filter(|_| own.count > 0) {
        folded = match folded {
            None if rank == member.rank => Some(own),
            None => Some(slot(rank)),
            Some(left) if rank == member.rank => {
                schedule.reduce(own, left, Operand::Into);
                Some(left)
            }
            Some(left) => {
                schedule.reduce(left, slot(rank), Operand::From);
                Some(slot(rank))
            }
        };
    }
    schedule.end_round();
    folded.unwrap_or(own)
}
