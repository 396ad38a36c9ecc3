//! The last touch: two ranks change places, or one moves to a free slot, wherever that makes the
//! whole cheaper.

use crate::cost::Placement;
use crate::mapping::FreeLeaves;
use crate::matrix::Affinity;
use crate::tree::BranchTree;

/// How often all ranks are gone through at most.
const ROUNDS_MAX: u32 = 20;

/// How many partners of a rank are looked at as neighbours to be.
const PARTNERS_MAX: usize = 12;

/// How many edges are looked at in all, at most.
const WORK_MAX: u64 = 60_000_000;

/// Improves a placement by exchanges until there is none that helps. Fixed ranks stay.
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

    /// Lets each rank change its place once; returns whether any did.
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

    /// Moves a rank to the best place near one of its partners, if that is better than its own.
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

    /// The branch around a leaf.
    fn surroundings(&self, leaf: u32) -> u32 {
        let path = self.tree.path(leaf);
        let own = path[path.len() - 1];
        path.iter().rev().copied().find(|&vertex| vertex != own).unwrap_or(own)
    }

    /// What is gained besides when `rank` leaves `here` for `leaf`: by nobody, if there is room, or
    /// by the one with whom it best changes places.
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
            // Each was counted as if the other stayed: they are as far from each other as before.
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

    /// What a rank would pay at a leaf, with all others where they are.
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
