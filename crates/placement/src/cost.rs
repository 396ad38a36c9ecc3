//! The cost of a placement, and the baseline placements for comparison.

use fastrand::Rng;

use crate::leaves::{FreeLeaves, Placement};
use crate::matrix::Affinity;
use crate::tree::BranchTree;

/// The hop-weighted bytes: the sum over all pairs of their bytes times the cost of a byte between
/// their leaves.
pub fn cost(affinity: &Affinity, tree: &BranchTree, placement: &Placement) -> u128 {
    let mut twice = 0;
    for rank in 0..affinity.ranks() {
        let leaf = placement.leaf(rank);
        for &(partner, weight) in affinity.partners(rank) {
            let crossing = tree.crossing(leaf, placement.leaf(partner));
            twice += u128::from(weight) * u128::from(crossing);
        }
    }
    twice / 2
}

/// A placement that ignores communication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementOrder {
    /// Leaf by leaf in the order of the machines, the default of launchers.
    Packed,
    /// One rank on each branch in turn, on all levels.
    Scattered,
    /// A random placement from this seed.
    Random(u64),
}

/// Places this many ranks in the given order.
///
/// # Errors
/// A message for the user: there are no slots.
pub fn place_in_order(
    ranks: u32,
    tree: &BranchTree,
    order: PlacementOrder,
) -> Result<Placement, String> {
    let room = FreeLeaves::new(ranks, tree, &[])?;
    Ok(fill(ranks, tree, order, &[], &room))
}

/// Places ranks in the given order around the ranks that are fixed.
pub(crate) fn fill(
    ranks: u32,
    tree: &BranchTree,
    order: PlacementOrder,
    fixed: &[Option<u32>],
    room: &FreeLeaves,
) -> Placement {
    let shares = shares(ranks, tree);
    let mut order = match order {
        PlacementOrder::Packed => leaf_by_leaf(tree, &shares),
        PlacementOrder::Scattered => in_turn(tree, 0, &shares),
        PlacementOrder::Random(seed) => {
            let mut leaves = leaf_by_leaf(tree, &shares);
            Rng::with_seed(seed).shuffle(&mut leaves);
            leaves
        }
    }
    .into_iter();
    let mut loads = vec![0_u64; shares.len()];
    for leaf in fixed.iter().flatten() {
        loads[*leaf as usize] += 1;
    }
    let mut place = |rank: u32| {
        if let Some(leaf) = fixed.get(rank as usize).copied().flatten() {
            return leaf;
        }
        // Fixed ranks may exceed the share of their leaf, which leaves less to others.
        let leaf = order.find(|&leaf| loads[leaf as usize] < shares[leaf as usize]).or_else(|| {
            (0..tree.leaf_count())
                .find(|&leaf| loads[leaf as usize] < room.leaf_most[leaf as usize])
        });
        let leaf = leaf.unwrap_or_default();
        loads[leaf as usize] += 1;
        leaf
    };
    Placement::new((0..ranks).map(&mut place).collect())
}

/// The number of ranks for each leaf: all its slots, or if there are more ranks than slots, its
/// share of the ranks.
fn shares(ranks: u32, tree: &BranchTree) -> Vec<u64> {
    let (ranks, slots) = (u64::from(ranks), tree.slots_in_all());
    let mut before = 0;
    let mut share = |leaf: u32| {
        let own = u64::from(tree.slots(leaf));
        let first = before;
        before += own;
        if ranks <= slots { own } else { before * ranks / slots - first * ranks / slots }
    };
    (0..tree.leaf_count()).map(&mut share).collect()
}

fn leaf_by_leaf(tree: &BranchTree, shares: &[u64]) -> Vec<u32> {
    let slots = |leaf: u32| std::iter::repeat_n(leaf, shares[leaf as usize] as usize);
    tree.listed().into_iter().flat_map(slots).collect()
}

/// The slots below a vertex, taking one from each child in turn.
fn in_turn(tree: &BranchTree, vertex: u32, shares: &[u64]) -> Vec<u32> {
    let children = &tree.vertex(vertex).children;
    if children.is_empty() {
        let leaf = tree.vertex(vertex).leaves.start;
        return vec![leaf; shares[leaf as usize] as usize];
    }
    let below: Vec<Vec<u32>> = children.iter().map(|&child| in_turn(tree, child, shares)).collect();
    let longest = below.iter().map(Vec::len).max().unwrap_or_default();
    (0..longest)
        .flat_map(|turn| below.iter().filter_map(move |one| one.get(turn).copied()))
        .collect()
}
