//! The broadcast on all levels at once: pieces follow each other from leader to leader, and through
//! the part of each leader. A process that passes one piece on receives the next meanwhile.

use super::{chain_neighbors, pass_on, piece_counts};
use crate::cost::Cost;
use crate::estimate::TimeEstimate;
use crate::hierarchy::{HierarchyView, is_applicable, with_both};
use crate::member::Member;
use crate::schedule::Schedule;
use crate::tree::{Branching, Tree};

/// The path of pieces from the leader of a part to its other members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WayInside {
    Tree(Branching),
    /// Each member passes the pieces on to the next.
    Chain,
}

const WAYS_INSIDE: [WayInside; 3] =
    [WayInside::Tree(Branching::Star), WayInside::Tree(Branching::Binomial), WayInside::Chain];

/// Returns the number of pieces and the path inside parts that are fastest for so many bytes, with
/// the predicted time.
fn fastest(member: Member, bytes: usize) -> (usize, WayInside, Cost) {
    with_both(member, 0, |near, far| {
        let all = piece_counts(bytes).flat_map(|pieces| WAYS_INSIDE.map(|way| (pieces, way)));
        let timed = all.map(|(pieces, way)| (pieces, way, time(near, far, bytes, pieces, way)));
        let whole = (1, WayInside::Chain, Cost::default());
        timed.min_by_key(|(.., cost)| *cost).unwrap_or(whole)
    })
}

/// Returns the predicted time. The first piece passes through all leaders and one part; each step
/// of the slower level then delivers another piece.
fn time(near: Member, far: Member, bytes: usize, pieces: usize, way: WayInside) -> Cost {
    let piece_bytes = bytes.div_ceil(pieces);
    let step = |member: Member| {
        let mut estimate = TimeEstimate::new(member.situation);
        if member.size > 1 {
            estimate.ring(1, piece_bytes);
        }
        estimate.cost()
    };
    let (through_part, inside_step) = match way {
        WayInside::Tree(branching) => {
            let mut estimate = TimeEstimate::new(near.situation);
            estimate.down(near, branching, piece_bytes);
            (estimate.cost(), estimate.cost())
        }
        WayInside::Chain => (step(near) * u64::from(near.size - 1), step(near)),
    };
    let across_step = step(far);
    let to_leaders = across_step * u64::from(far.size - 1);
    to_leaders + through_part + inside_step.max(across_step) * (pieces as u64 - 1)
}

/// Returns the predicted time; `None` if there are no levels.
pub(crate) fn cost(member: Member, bytes: usize) -> Option<Cost> {
    is_applicable(member).then(|| fastest(member, bytes).2)
}

/// Makes the broadcast of `blocks` blocks with `bytes` bytes in total.
pub(crate) fn bcast(member: Member, root: u32, blocks: usize, bytes: usize) -> Schedule {
    let view = HierarchyView::new(member, Some(root));
    let (near, top) = (view.near_member(), view.near_leader());
    let (pieces, way, _) = fastest(member, bytes);
    let of_part = |rank: u32| view.near.get(rank as usize);
    let (mut parent, near_children): (_, Vec<u32>) = match way {
        WayInside::Tree(branching) => {
            let tree = Tree::new(near, top, branching);
            // The largest subtree comes first, as it takes longest.
            let children = tree.children().rev().map(|child| of_part(tree.rank(child.top)));
            (tree.parent().map(of_part), children.collect())
        }
        WayInside::Chain => {
            let (before, after) = chain_neighbors(near, top);
            (before.map(of_part), after.map(of_part).into_iter().collect())
        }
    };
    let mut children = Vec::new();
    if let Some(leader) = view.leader_member() {
        let of_leaders = |part: u32| view.leader(part);
        let (before, after) = chain_neighbors(leader, view.part_of(root));
        parent = before.map(of_leaders);
        children.extend(after.map(of_leaders));
    }
    children.extend(near_children);
    pass_on(parent, &children, blocks, pieces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::ProcessLayout;
    use crate::situation::Situation;

    #[test]
    fn a_piece_takes_the_whole_way_and_each_other_one_a_step_of_the_slower_level() {
        const BYTES: usize = 64 << 10;
        let inside = Situation::plain(5);
        let across = Situation { layout: ProcessLayout::apart(4), ..Situation::default() };
        let near = Member { rank: 0, size: 5, situation: &inside };
        let far = Member { rank: 0, size: 4, situation: &across };
        let step = |situation: &Situation| {
            let mut estimate = TimeEstimate::new(situation);
            estimate.ring(1, BYTES);
            estimate.cost()
        };
        let tree = WayInside::Tree(Branching::Star);
        let mut down = TimeEstimate::new(&inside);
        down.down(near, Branching::Star, BYTES);
        let (leaders, through_tree) = (step(&across) * 3, down.cost());
        let of = |near, far, pieces, way| time(near, far, pieces * BYTES, pieces, way);
        assert_eq!(of(near, far, 1, tree), leaders + through_tree);
        assert_eq!(of(near, far, 1, WayInside::Chain), leaders + step(&inside) * 4);
        assert_eq!(of(near, far, 8, tree), leaders + through_tree + step(&across) * 7);
        // Between machines with one process each, and inside a single machine.
        let alone = Member { size: 1, ..near };
        assert_eq!(of(alone, far, 1, WayInside::Chain), leaders);
        let only = Member { size: 1, ..far };
        assert_eq!(of(near, only, 3, WayInside::Chain), step(&inside) * (4 + 2));
    }
}
