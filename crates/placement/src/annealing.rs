//! Simulated annealing: exchanges of ranks at random, of which worse ones are accepted more and more
//! rarely. It improves placements in networks, where the cost of a byte depends on both ends.

use std::ops::Range;

use fastrand::Rng;

use crate::leaves::{FreeLeaves, Placement};
use crate::matrix::Affinity;
use crate::tree::BranchTree;

/// The number of partners that are examined in all, and the exchanges for each rank at most.
const WORK_MAX: u64 = 30_000_000;
const TRIES_PER_RANK: u64 = 30_000;

/// The number of temperatures, and the last one divided by the first.
const STEPS: u64 = 120;
const LAST: f64 = 0.002;

/// The exchanges that determine the first temperature.
const SAMPLES: u64 = 400;

/// A fixed seed, so that equal input gives an equal placement.
const SEED: u64 = 0x616e_6e65;

/// How an exchange is chosen: any other place, or a place near a partner.
const NEAR_PARTNERS_PER_CENT: u32 = 70;

/// Improves a placement. `heat` is the share of the exchanges that make it worse by the average
/// amount and are accepted in the beginning. Returns the best placement found.
pub(crate) fn anneal(
    affinity: &Affinity,
    tree: &BranchTree,
    room: &FreeLeaves,
    fixed: &[Option<u32>],
    placement: &Placement,
    heat: f64,
) -> Placement {
    let mut annealing = Annealing::new(affinity, tree, room, fixed, placement);
    if annealing.movable.len() < 2 {
        return placement.clone();
    }
    let average = annealing.average_loss();
    let mut temperature = average / -heat.ln();
    let partners: usize = (0..affinity.ranks()).map(|rank| affinity.partners(rank).len()).sum();
    let work_of_try = 2 * (partners as u64 / u64::from(affinity.ranks()) + 1);
    let tries = (TRIES_PER_RANK * annealing.movable.len() as u64).min(WORK_MAX / work_of_try);
    let cooling = LAST.powf(1.0 / STEPS as f64);
    for _ in 0..STEPS {
        for _ in 0..tries / STEPS {
            annealing.try_exchange(temperature);
        }
        annealing.keep_if_best();
        temperature *= cooling;
    }
    annealing.best
}

struct Annealing<'a> {
    affinity: &'a Affinity,
    crossings: Crossings<'a>,
    near: NearLeaves,
    /// The ranks that are not fixed.
    movable: Vec<u32>,
    /// The slots that are not of fixed ranks: each its leaf and the rank on it.
    slots: Vec<(u32, Option<u32>)>,
    /// The slot of each rank.
    slot_of: Vec<u32>,
    /// The slots of each leaf.
    of_leaf: Vec<Range<u32>>,
    placement: Placement,
    /// The cost, compared with that of the first placement.
    cost: i64,
    best: Placement,
    best_cost: i64,
    rng: Rng,
}

/// An exchange: of the rank on the first slot with what is on the second.
#[derive(Clone, Copy)]
struct Exchange {
    here: u32,
    there: u32,
}

impl<'a> Annealing<'a> {
    fn new(
        affinity: &'a Affinity,
        tree: &'a BranchTree,
        room: &FreeLeaves,
        fixed: &[Option<u32>],
        placement: &Placement,
    ) -> Self {
        let is_fixed = |rank: u32| fixed.get(rank as usize).copied().flatten().is_some();
        let ranks = affinity.ranks();
        let mut on_leaf = vec![Vec::new(); tree.leaf_count() as usize];
        let mut loads = vec![0_u64; tree.leaf_count() as usize];
        for (rank, leaf) in (0..).zip(placement.leaves()) {
            loads[*leaf as usize] += 1;
            if !is_fixed(rank) {
                on_leaf[*leaf as usize].push(Some(rank));
            }
        }
        // If there are more ranks than slots, each leaf keeps its share of them.
        if u64::from(ranks) <= tree.slots_in_all() {
            for ((own, load), most) in on_leaf.iter_mut().zip(&loads).zip(&room.leaf_most) {
                own.resize(own.len() + most.saturating_sub(*load) as usize, None);
            }
        }
        let mut slots = Vec::new();
        let mut slot_of = vec![u32::MAX; ranks as usize];
        let mut of_leaf = Vec::new();
        for (leaf, own) in (0..).zip(on_leaf) {
            let first = slots.len() as u32;
            for rank in own {
                if let Some(rank) = rank {
                    slot_of[rank as usize] = slots.len() as u32;
                }
                slots.push((leaf, rank));
            }
            of_leaf.push(first..slots.len() as u32);
        }
        Self {
            affinity,
            crossings: Crossings::new(tree),
            near: NearLeaves::new(tree),
            movable: (0..ranks).filter(|rank| !is_fixed(*rank)).collect(),
            slots,
            slot_of,
            of_leaf,
            placement: placement.clone(),
            cost: 0,
            best: placement.clone(),
            best_cost: 0,
            rng: Rng::with_seed(SEED),
        }
    }

    /// The average by which an exchange makes the placement worse, of those that do.
    fn average_loss(&mut self) -> f64 {
        let losses: Vec<i64> = (0..SAMPLES)
            .filter_map(|_| {
                let exchange = self.choose()?;
                Some(self.loss(exchange))
            })
            .filter(|loss| *loss > 0)
            .collect();
        losses.iter().map(|loss| *loss as f64).sum::<f64>() / losses.len().max(1) as f64
    }

    fn try_exchange(&mut self, temperature: f64) {
        let Some(exchange) = self.choose() else { return };
        let loss = self.loss(exchange);
        if loss > 0 && self.rng.f64() >= (-(loss as f64) / temperature).exp() {
            return;
        }
        self.exchange(exchange);
        self.cost += loss;
    }

    /// Remembers the placement if it is the best one so far.
    fn keep_if_best(&mut self) {
        if self.cost < self.best_cost {
            self.best_cost = self.cost;
            self.best = self.placement.clone();
        }
    }

    /// Chooses an exchange at random; `None` if it would not change anything.
    fn choose(&mut self) -> Option<Exchange> {
        let rank = self.movable[self.rng.usize(0..self.movable.len())];
        let here = self.slot_of[rank as usize];
        let partners = self.affinity.partners(rank);
        let slots = if partners.is_empty() || self.rng.u32(0..100) >= NEAR_PARTNERS_PER_CENT {
            0..self.slots.len() as u32
        } else {
            let partner = partners[self.rng.usize(0..partners.len())].0;
            let leaf = self.near.leaf(self.placement.leaf(partner), &mut self.rng);
            self.of_leaf[leaf as usize].clone()
        };
        if slots.is_empty() {
            return None;
        }
        let there = self.rng.u32(slots);
        let differ = self.slots[here as usize].0 != self.slots[there as usize].0;
        differ.then_some(Exchange { here, there })
    }

    /// By how much an exchange makes the placement more expensive.
    fn loss(&self, exchange: Exchange) -> i64 {
        let Exchange { here, there } = exchange;
        let ((from, one), (to, other)) = (self.slots[here as usize], self.slots[there as usize]);
        self.loss_of_move(one, other, from, to) + self.loss_of_move(other, one, to, from)
    }

    /// By how much the move of a rank makes the placement more expensive, apart from what it
    /// communicates with the rank that moves the opposite way: the two remain as far apart.
    fn loss_of_move(&self, rank: Option<u32>, other: Option<u32>, from: u32, to: u32) -> i64 {
        let Some(rank) = rank else { return 0 };
        let partners = self.affinity.partners(rank).iter();
        let loss = |&(partner, weight): &(u32, u64)| {
            let leaf = self.placement.leaf(partner);
            let more = self.crossings.of(to, leaf) as i64 - self.crossings.of(from, leaf) as i64;
            weight as i64 * more
        };
        partners.filter(|partner| Some(partner.0) != other).map(loss).sum()
    }

    fn exchange(&mut self, exchange: Exchange) {
        let Exchange { here, there } = exchange;
        let ((from, one), (to, other)) = (self.slots[here as usize], self.slots[there as usize]);
        for (slot, leaf, rank) in [(here, from, other), (there, to, one)] {
            self.slots[slot as usize].1 = rank;
            if let Some(rank) = rank {
                self.slot_of[rank as usize] = slot;
                self.placement.put(rank, leaf);
            }
        }
    }
}

/// The costs of a byte between leaves, as a table if it is small.
struct Crossings<'a> {
    tree: &'a BranchTree,
    table: Option<Vec<u32>>,
    leaves: usize,
}

/// The maximum number of leaves of a table.
const TABLE_LEAVES_MAX: u32 = 2048;

impl<'a> Crossings<'a> {
    fn new(tree: &'a BranchTree) -> Self {
        let leaves = tree.leaf_count();
        let is_small = leaves <= TABLE_LEAVES_MAX && tree.crossing_max() <= u64::from(u32::MAX);
        let row = |one: u32| (0..leaves).map(move |other| tree.crossing(one, other) as u32);
        let table = is_small.then(|| (0..leaves).flat_map(row).collect());
        Self { tree, table, leaves: leaves as usize }
    }

    fn of(&self, a: u32, b: u32) -> u64 {
        match &self.table {
            Some(table) => u64::from(table[a as usize * self.leaves + b as usize]),
            None => self.tree.crossing(a, b),
        }
    }
}

/// For each leaf some leaves that are near.
struct NearLeaves {
    near: Vec<Vec<u32>>,
}

/// The number of leaves that are kept, and the number of leaves to the left and right among which
/// they are searched in large trees.
const NEAR_MAX: usize = 12;
const NEAR_RANGE: u32 = 1024;

impl NearLeaves {
    fn new(tree: &BranchTree) -> Self {
        let near = |leaf: u32| {
            let end = tree.leaf_count().min(leaf + NEAR_RANGE);
            let others = (leaf.saturating_sub(NEAR_RANGE)..end).filter(|other| *other != leaf);
            let mut others: Vec<(u64, u32)> =
                others.map(|other| (tree.crossing(leaf, other), other)).collect();
            if others.len() > NEAR_MAX {
                others.select_nth_unstable(NEAR_MAX);
                others.truncate(NEAR_MAX);
            }
            others.push((0, leaf));
            others.into_iter().map(|(_, other)| other).collect()
        };
        Self { near: (0..tree.leaf_count()).map(near).collect() }
    }

    fn leaf(&self, leaf: u32, rng: &mut Rng) -> u32 {
        let near = &self.near[leaf as usize];
        near[rng.usize(0..near.len())]
    }
}
