//! Simulated annealing: exchanges of ranks at random, of which worse ones are accepted more and
//! more rarely. It improves placements in networks, where the cost of a byte depends on both ends.

use std::collections::BTreeMap;
use std::ops::Range;

use fastrand::Rng;

use crate::leaves::{FreeLeaves, Placement};
use crate::matrix::Affinity;
use crate::tree::BranchTree;

/// The number of partners that are examined in one run, and the exchanges for each rank at most.
const WORK_MAX: u64 = 20_000_000;
const TRIES_PER_RANK: u64 = 25_000;

/// The share of the exchanges that are of whole branches; these examine many partners each.
const BRANCHES_PER_CENT: u64 = 20;

/// How many places apart branches are of which every second exchange is: near ones are often in one
/// part of the network.
const BRANCHES_APART_MAX: usize = 6;

/// The number of temperatures, and the last one, divided by the average by which exchanges make the
/// first placement worse.
const STEPS: u64 = 120;
const LAST: f64 = 0.02;

/// The exchanges that determine the first temperature.
const SAMPLES: u64 = 400;

/// How an exchange is chosen: any other place, or a place near a partner.
const NEAR_PARTNERS_PER_CENT: u32 = 70;

/// Improves a placement. `heat` is the first temperature, divided by the average by which exchanges
/// make the placement worse. Equal seeds give equal placements. Returns the best
/// placement found.
pub(crate) fn anneal(
    affinity: &Affinity,
    tree: &BranchTree,
    room: &FreeLeaves,
    fixed: &[Option<u32>],
    placement: &Placement,
    (heat, seed): (f64, u64),
) -> Placement {
    let mut annealing = Annealing::new(affinity, tree, room, fixed, placement, seed);
    if annealing.movable.len() < 2 {
        return placement.clone();
    }
    let average = annealing.average_loss();
    let mut temperature = average * heat;
    let partners: usize = (0..affinity.ranks()).map(|rank| affinity.partners(rank).len()).sum();
    let work_of_try = 2 * (partners as u64 / u64::from(affinity.ranks()) + 1);
    let tries = (TRIES_PER_RANK * annealing.movable.len() as u64).min(WORK_MAX / work_of_try);
    let of_branches = tries * BRANCHES_PER_CENT / 100;
    let cooling = (LAST / heat).powf(1.0 / STEPS as f64);
    for _ in 0..STEPS {
        for _ in 0..tries / STEPS {
            annealing.try_exchange(temperature);
        }
        let mut work = 0;
        while work < of_branches / STEPS * work_of_try && annealing.blocks.len() > 1 {
            work += annealing.try_branches(temperature);
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
    /// Groups of branches that can be exchanged, each by its slots.
    blocks: Vec<Vec<Range<u32>>>,
    /// For each rank, whether it is on one of the branches that are being exchanged.
    is_inside: Vec<bool>,
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
        seed: u64,
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
        let mut annealing = Self {
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
            rng: Rng::with_seed(seed),
            blocks: Vec::new(),
            is_inside: vec![false; ranks as usize],
        };
        annealing.blocks = annealing.alike(tree);
        annealing
    }

    /// The groups of branches that have equally many slots, of which each has several leaves and
    /// its sibling as well: by their slots.
    fn alike(&self, tree: &BranchTree) -> Vec<Vec<Range<u32>>> {
        let mut classes: BTreeMap<(usize, usize), Vec<Range<u32>>> = BTreeMap::new();
        for vertex in 0..tree.vertex_count() {
            let leaves = tree.vertex(vertex).leaves.clone();
            if leaves.len() > 1 && 2 * leaves.len() <= tree.leaf_count() as usize {
                let own = &self.of_leaf[leaves.start as usize..leaves.end as usize];
                let slots = own[0].start..own[own.len() - 1].end;
                let class = classes.entry((leaves.len(), slots.len())).or_default();
                // A branch with one child is the same place.
                if class.last() != Some(&slots) {
                    class.push(slots);
                }
            }
        }
        classes.into_values().filter(|class| class.len() > 1).collect()
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

    /// Tries to exchange all ranks on two branches. Returns the number of partners that were
    /// examined.
    fn try_branches(&mut self, temperature: f64) -> u64 {
        let class = &self.blocks[self.rng.usize(0..self.blocks.len())];
        let place = self.rng.usize(0..class.len());
        let others = match self.rng.bool() {
            true => 0..class.len(),
            false => {
                let end = class.len().min(place + BRANCHES_APART_MAX + 1);
                place.saturating_sub(BRANCHES_APART_MAX)..end
            }
        };
        let [one, other] = [place, self.rng.usize(others)].map(|place| class[place].clone());
        if one.start == other.start {
            return 1;
        }
        let ranks: Vec<u32> = one
            .clone()
            .chain(other.clone())
            .filter_map(|slot| self.slots[slot as usize].1)
            .collect();
        ranks.iter().for_each(|rank| self.is_inside[*rank as usize] = true);
        let before = self.cost_of(&ranks);
        self.exchange_branches(&one, &other);
        let loss = self.cost_of(&ranks) - before;
        ranks.iter().for_each(|rank| self.is_inside[*rank as usize] = false);
        if loss > 0 && self.rng.f64() >= (-(loss as f64) / temperature).exp() {
            self.exchange_branches(&one, &other);
        } else {
            self.cost += loss;
        }
        let partners = ranks.iter().map(|rank| self.affinity.partners(*rank).len() as u64);
        2 * partners.sum::<u64>() + 1
    }

    /// The cost of what these ranks, which are those that are marked as inside, communicate.
    fn cost_of(&self, ranks: &[u32]) -> i64 {
        let mut twice = 0;
        for &rank in ranks {
            let leaf = self.placement.leaf(rank);
            for &(partner, weight) in self.affinity.partners(rank) {
                let crossing = self.crossings.of(leaf, self.placement.leaf(partner));
                let times = if self.is_inside[partner as usize] { 1 } else { 2 };
                twice += times * weight as i64 * crossing as i64;
            }
        }
        twice / 2
    }

    fn exchange_branches(&mut self, one: &Range<u32>, other: &Range<u32>) {
        for (here, there) in one.clone().zip(other.clone()) {
            self.exchange(Exchange { here, there });
        }
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
