//! The final local search: two ranks are exchanged, or one rank moves to a free slot, wherever that
//! lowers the total cost.

use crate::leaves::{FreeLeaves, Placement};
use crate::matrix::Affinity;
use crate::tree::BranchTree;

/// The maximum number of passes over all ranks.
const ROUNDS_MAX: u32 = 20;

/// The maximum number of partners of a rank near which a new place is searched.
const PARTNERS_MAX: usize = 12;

/// The maximum number of edges that the search examines.
const WORK_MAX: u64 = 60_000_000;

/// Improves a placement by exchanges until none helps. Fixed ranks stay.
pub(crate) fn improve(
    affinity: &Affinity,
    tree: &BranchTree,
    room: &FreeLeaves,
    fixed: &[Option<u32>],
    placement: &mut Placement,
) {
    let mut search = SwapSearch::new(affinity, tree, room, fixed, placement);
    for _ in 0..ROUNDS_MAX {
        if !search.round() {
            return;
        }
    }
}

struct SwapSearch<'a> {
    affinity: &'a Affinity,
    tree: &'a BranchTree,
    room: &'a FreeLeaves,
    fixed: &'a [Option<u32>],
    placement: &'a mut Placement,
    /// The ranks on each leaf.
    occupants: Vec<Vec<u32>>,
    work: u64,
}

impl<'a> SwapSearch<'a> {
    fn new(
        affinity: &'a Affinity,
        tree: &'a BranchTree,
        room: &'a FreeLeaves,
        fixed: &'a [Option<u32>],
        placement: &'a mut Placement,
    ) -> Self {
        let mut occupants = vec![Vec::new(); tree.leaf_count() as usize];
        for (rank, leaf) in (0..).zip(placement.leaves()) {
            occupants[*leaf as usize].push(rank);
        }
        Self { affinity, tree, room, fixed, placement, occupants, work: 0 }
    }

    /// Tries to move each rank once. Returns whether any rank moved.
    fn round(&mut self) -> bool {
        let mut better = false;
        for rank in 0..self.affinity.ranks() {
            if self.work > WORK_MAX {
                return false;
            }
            better |= !self.is_fixed(rank) && self.settle(rank);
        }
        better
    }

    fn is_fixed(&self, rank: u32) -> bool {
        self.fixed.get(rank as usize).copied().flatten().is_some()
    }

    /// Moves a rank to the best place near one of its partners, if that is better than its current
    /// place.
    fn settle(&mut self, rank: u32) -> bool {
        let here = self.placement.leaf(rank);
        let cost_here = self.cost_at(rank, here);
        let mut partners: Vec<(u32, u64)> = self.affinity.partners(rank).to_vec();
        partners.sort_by_key(|partner| std::cmp::Reverse(partner.1));
        partners.truncate(PARTNERS_MAX);
        let mut branches: Vec<u32> = partners
            .iter()
            .map(|partner| self.surroundings(self.placement.leaf(partner.0)))
            .collect();
        branches.sort_unstable();
        branches.dedup();
        let mut best: (i64, u32, Option<u32>) = (0, here, None);
        for branch in branches {
            for leaf in self.tree.vertex(branch).leaves.clone() {
                if leaf == here || self.room.leaf_most[leaf as usize] == 0 {
                    continue;
                }
                let gain = cost_here - self.cost_at(rank, leaf);
                if gain <= 0 {
                    continue;
                }
                let (more, other) = self.best_exchange(rank, here, leaf);
                if gain + more > best.0 {
                    best = (gain + more, leaf, other);
                }
            }
        }
        let (gain, leaf, other) = best;
        if gain > 0 {
            self.move_to(rank, leaf);
            if let Some(other) = other {
                self.move_to(other, here);
            }
        }
        gain > 0
    }

    /// The innermost branch that contains a leaf, apart from the leaf itself.
    fn surroundings(&self, leaf: u32) -> u32 {
        let path = self.tree.path(leaf);
        let own = path[path.len() - 1];
        path.iter().rev().copied().find(|&vertex| vertex != own).unwrap_or(own)
    }

    /// The additional gain when `rank` moves from `here` to `leaf`, and the rank with which it is
    /// best exchanged. `None`: the rank moves into free space, without an exchange.
    fn best_exchange(&mut self, rank: u32, here: u32, leaf: u32) -> (i64, Option<u32>) {
        let load = |leaf: u32| self.occupants[leaf as usize].len() as u64;
        let may_move = load(leaf) < self.room.leaf_most[leaf as usize]
            && load(here) > self.room.leaf_least[here as usize];
        let mut best = (if may_move { 0 } else { i64::MIN / 2 }, None);
        let crossing = self.tree.crossing(here, leaf) as i64;
        let inside = |leaf| self.tree.crossing(leaf, leaf) as i64;
        let (inside_here, inside_there) = (inside(here), inside(leaf));
        for index in 0..self.occupants[leaf as usize].len() {
            let other = self.occupants[leaf as usize][index];
            if self.is_fixed(other) {
                continue;
            }
            let mut gain = self.cost_at(other, leaf) - self.cost_at(other, here);
            // Both moves were counted as if the other rank stayed. The two remain as far apart as
            // before.
            let between = self.affinity.partners(rank);
            if let Ok(place) = between.binary_search_by_key(&other, |partner| partner.0) {
                let weight = between[place].1 as i64;
                gain += weight * (inside_here + inside_there - 2 * crossing);
            }
            if gain > best.0 {
                best = (gain, Some(other));
            }
        }
        best
    }

    /// The cost of a rank at a leaf, with all other ranks where they are.
    fn cost_at(&mut self, rank: u32, leaf: u32) -> i64 {
        let partners = self.affinity.partners(rank);
        self.work += partners.len() as u64;
        let cost = |&(partner, weight): &(u32, u64)| {
            weight * self.tree.crossing(leaf, self.placement.leaf(partner))
        };
        partners.iter().map(cost).sum::<u64>() as i64
    }

    fn move_to(&mut self, rank: u32, leaf: u32) {
        let before = self.placement.leaf(rank);
        self.occupants[before as usize].retain(|&other| other != rank);
        self.occupants[leaf as usize].push(rank);
        self.placement.put(rank, leaf);
    }
}
