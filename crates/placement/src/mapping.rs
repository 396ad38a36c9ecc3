//! Mapping ranks to the leaves of a tree: groups within groups, from the root down.

use fastrand::Rng;

use crate::annealing::anneal;
use crate::bisection::bisect;
use crate::cost::{PlacementOrder, cost, fill};
use crate::embedding::embedded;
use crate::graph::{AffinityGraph, Half};
use crate::leaves::{FreeLeaves, Placement};
use crate::matrix::Affinity;
use crate::refinement::{Bounds, refine};
use crate::search::improve;
use crate::tree::BranchTree;

/// A fixed seed, so that equal input gives an equal placement.
const SEED: u64 = 0x00c0_b4a7;

/// In networks: the first temperature of each run of annealing.
const HEATS: [f64; 8] = [0.5, 0.2, 0.1, 0.5, 0.3, 0.5, 0.2, 0.06];

/// How often all pairs of groups below one vertex are improved.
const ROUNDS_MAX: u32 = 3;

/// How many pairs of groups are improved in one round, for each group.
const PAIRS_PER_GROUP: usize = 8;

/// Places each rank on a leaf so that bytes travel as little as possible. The result is never worse
/// than the ranks in order. `fixed` gives for some ranks the leaf on which they must be; it may be
/// empty.
///
/// No leaf gets more ranks than it has slots, unless there are more ranks than slots in total; then
/// each leaf gets its share of them. If there are fewer ranks than slots, the slots that remain
/// free are chosen for the lowest cost.
///
/// # Errors
/// A message for the user: there are no slots, or the fixed ranks do not fit.
pub fn place(
    affinity: &Affinity,
    tree: &BranchTree,
    fixed: &[Option<u32>],
) -> Result<Placement, String> {
    let room = FreeLeaves::new(affinity.ranks(), tree, fixed)?;
    let packed = fill(affinity.ranks(), tree, PlacementOrder::Packed, fixed, &room);
    let bounded = affinity.bounded(tree.crossing_max());
    let divided = BranchDivision::new(&bounded, tree, &room, fixed).run();
    let mut best = Best::new(affinity, tree, packed.clone());
    let mut candidates = vec![packed, divided];
    if fixed.iter().all(Option::is_none) {
        candidates.extend(embedded(affinity, tree));
    }
    for mut candidate in candidates {
        improve(&bounded, tree, &room, fixed, &mut candidate);
        best.consider(candidate);
    }
    if tree.network().is_some() {
        for run in (1..).zip(HEATS).map(|(seed, heat)| (heat, seed)) {
            if best.is_least() {
                break;
            }
            best.consider(anneal(&bounded, tree, &room, fixed, &best.placement, run));
        }
    }
    Ok(best.placement)
}

/// The best placement so far.
struct Best<'a> {
    affinity: &'a Affinity,
    tree: &'a BranchTree,
    placement: Placement,
    cost: u128,
}

impl<'a> Best<'a> {
    fn new(affinity: &'a Affinity, tree: &'a BranchTree, placement: Placement) -> Self {
        let cost = cost(affinity, tree, &placement);
        Self { affinity, tree, placement, cost }
    }

    fn consider(&mut self, placement: Placement) {
        let cost = cost(self.affinity, self.tree, &placement);
        if cost < self.cost {
            (self.placement, self.cost) = (placement, cost);
        }
    }

    /// Whether no pair of partners can be nearer, as all are as near as ranks can be.
    fn is_least(&self) -> bool {
        let Self { affinity, tree, .. } = self;
        let leaves = || (0..tree.leaf_count()).filter(|leaf| tree.slots(*leaf) > 0);
        let shares_leaf = u64::from(affinity.ranks()) > tree.slots_in_all()
            || leaves().any(|leaf| tree.slots(leaf) > 1);
        let least = match shares_leaf {
            true => 0,
            false => tree.neighbor_crossing(),
        };
        let weight = |rank| affinity.partners(rank).iter().map(|one| u128::from(one.1)).sum();
        let twice: u128 = (0..affinity.ranks()).map(|rank: u32| -> u128 { weight(rank) }).sum();
        self.cost <= twice / 2 * u128::from(least)
    }
}

/// The state while all ranks are divided among the branches of a tree.
struct BranchDivision<'a> {
    affinity: &'a Affinity,
    tree: &'a BranchTree,
    room: &'a FreeLeaves,
    fixed: &'a [Option<u32>],
    /// The leaf of each rank.
    leaves: Vec<u32>,
    /// The index of each rank in the graph under construction.
    numbers: Vec<u32>,
    /// For each rank, the vertex below which it will be, as far as is decided.
    decided: Vec<u32>,
    rng: Rng,
}

impl<'a> BranchDivision<'a> {
    fn new(
        affinity: &'a Affinity,
        tree: &'a BranchTree,
        room: &'a FreeLeaves,
        fixed: &'a [Option<u32>],
    ) -> Self {
        let ranks = affinity.ranks() as usize;
        let leaves = vec![0; ranks];
        let (numbers, decided) = (vec![u32::MAX; ranks], vec![0; ranks]);
        let rng = Rng::with_seed(SEED);
        Self { affinity, tree, room, fixed, leaves, numbers, decided, rng }
    }

    fn run(mut self) -> Placement {
        self.divide(0, (0..self.affinity.ranks()).collect());
        Placement::new(self.leaves)
    }

    /// Places these ranks below a vertex.
    fn divide(&mut self, vertex: u32, ranks: Vec<u32>) {
        let tree = self.tree;
        let children = &tree.vertex(vertex).children;
        if children.is_empty() {
            for rank in ranks {
                self.leaves[rank as usize] = tree.vertex(vertex).leaves.start;
            }
            return;
        }
        if ranks.is_empty() {
            return;
        }
        let mut groups = Vec::with_capacity(children.len());
        self.group(children, ranks, &mut groups);
        self.improve_groups(children, &mut groups);
        for (&child, group) in children.iter().zip(&groups) {
            group.iter().for_each(|rank| self.decided[*rank as usize] = child);
        }
        for (&child, group) in children.iter().zip(groups) {
            self.divide(child, group);
        }
    }

    /// Makes a group of ranks for each child.
    fn group(&mut self, children: &[u32], ranks: Vec<u32>, groups: &mut Vec<Vec<u32>>) {
        if children.len() == 1 {
            groups.push(ranks);
            return;
        }
        let (left, right) = children.split_at(children.len() / 2);
        let mut graph = self.graph(&ranks, right);
        let bounds = self.bounds(left, right, &graph);
        self.attract(&mut graph, &ranks, left, right);
        let sides = bisect(&graph, bounds, &mut self.rng);
        let (on_left, on_right) = parted(&ranks, &sides);
        self.group(left, on_left, groups);
        self.group(right, on_right, groups);
    }

    /// The bounds for the number of the graph's ranks on the left children.
    fn bounds(&self, left: &[u32], right: &[u32], graph: &AffinityGraph) -> Bounds {
        let sum = |of: &[u64], children: &[u32]| -> u64 {
            children.iter().map(|&child| of[child as usize]).sum()
        };
        let fixed = |side| graph.fixed.iter().filter(|fixed| **fixed == Some(side)).count() as u64;
        let all = graph.len() as u64;
        let least =
            sum(&self.room.least, left).max(all.saturating_sub(sum(&self.room.most, right)));
        let most = sum(&self.room.most, left).min(all.saturating_sub(sum(&self.room.least, right)));
        let least = least.max(fixed(Half::Left));
        let most = most.min(all - fixed(Half::Right));
        Bounds { least, most: most.max(least) }
    }

    /// Builds the graph of these ranks. Ranks that are fixed below one of the vertices `right` are
    /// fixed on the right side.
    fn graph(&mut self, ranks: &[u32], right: &[u32]) -> AffinityGraph {
        for (number, &rank) in (0..).zip(ranks) {
            self.numbers[rank as usize] = number;
        }
        let begin = right.first().map_or(u32::MAX, |&child| self.tree.vertex(child).leaves.start);
        let end = right.last().map_or(u32::MAX, |&child| self.tree.vertex(child).leaves.end);
        let mut graph = AffinityGraph { starts: vec![0], ..AffinityGraph::default() };
        for &rank in ranks {
            for &(partner, weight) in self.affinity.partners(rank) {
                let number = self.numbers[partner as usize];
                if number != u32::MAX {
                    graph.edges.push((number, weight as i64));
                }
            }
            graph.starts.push(graph.edges.len() as u32);
            graph.sizes.push(1);
            let leaf = self.fixed.get(rank as usize).copied().flatten();
            let side = |leaf| if (begin..end).contains(&leaf) { Half::Right } else { Half::Left };
            graph.fixed.push(leaf.map(side));
        }
        for &rank in ranks {
            self.numbers[rank as usize] = u32::MAX;
        }
        graph
    }

    /// In a network, adds to the graph of these ranks that they communicate with ranks elsewhere,
    /// which may be nearer to one half: two vertices without ranks, fixed on a side each, attract
    /// the ranks. Each weight is multiplied by the distance that depends on it.
    fn attract(&self, graph: &mut AffinityGraph, ranks: &[u32], left: &[u32], right: &[u32]) {
        let tree = self.tree;
        if tree.network().is_none() {
            return;
        }
        let middle = |first: u32, last: u32| {
            let (first, last) = (&tree.vertex(first).leaves, &tree.vertex(last).leaves);
            first.start.midpoint(last.end - 1)
        };
        let middle_of = |children: &[u32]| middle(children[0], children[children.len() - 1]);
        let [on_left, on_right] = [left, right].map(middle_of);
        let across = tree.crossing(on_left, on_right) as i64;
        graph.edges.iter_mut().for_each(|edge| edge.1 *= across.max(1));
        let mut inside = vec![false; self.numbers.len()];
        ranks.iter().for_each(|rank| inside[*rank as usize] = true);
        let pulls = ranks.iter().map(|&rank| {
            let elsewhere = self.affinity.partners(rank).iter();
            let elsewhere = elsewhere.filter(|partner| !inside[partner.0 as usize]);
            let pull = |&(partner, weight): &(u32, u64)| {
                let vertex = self.decided[partner as usize];
                let place = middle(vertex, vertex);
                let [to_left, to_right] = [on_left, on_right].map(|on| tree.crossing(place, on));
                weight as i64 * (to_right as i64 - to_left as i64)
            };
            elsewhere.map(pull).sum()
        });
        let pulls: Vec<i64> = pulls.collect();
        graph.attract(&pulls);
    }

    /// Moves ranks between groups, two groups at a time, most strongly connected groups first.
    fn improve_groups(&mut self, children: &[u32], groups: &mut [Vec<u32>]) {
        if children.len() < 3 {
            return;
        }
        for _ in 0..ROUNDS_MAX {
            let mut better = false;
            for (one, other) in self.pairs(groups) {
                better |= self.improve_pair(children, groups, one, other);
            }
            if !better {
                return;
            }
        }
    }

    /// The pairs of connected groups, strongest first, limited in number.
    fn pairs(&self, groups: &[Vec<u32>]) -> Vec<(usize, usize)> {
        let mut group_of = vec![usize::MAX; self.numbers.len()];
        for (number, group) in groups.iter().enumerate() {
            for &rank in group {
                group_of[rank as usize] = number;
            }
        }
        let mut pairs = Vec::new();
        let mut weights = vec![0_u64; groups.len()];
        for (number, group) in groups.iter().enumerate() {
            let mut touched = Vec::new();
            for &(partner, weight) in group.iter().flat_map(|&rank| self.affinity.partners(rank)) {
                let other = group_of[partner as usize];
                if other != usize::MAX && other > number {
                    if weights[other] == 0 {
                        touched.push(other);
                    }
                    weights[other] += weight;
                }
            }
            for other in touched {
                pairs.push((std::cmp::Reverse(weights[other]), number, other));
                weights[other] = 0;
            }
        }
        pairs.sort_unstable();
        pairs.truncate(groups.len() * PAIRS_PER_GROUP);
        pairs.into_iter().map(|(_, one, other)| (one, other)).collect()
    }

    fn improve_pair(
        &mut self,
        children: &[u32],
        groups: &mut [Vec<u32>],
        one: usize,
        other: usize,
    ) -> bool {
        let mut ranks = groups[one].clone();
        ranks.extend_from_slice(&groups[other]);
        let (left, right) = ([children[one]], [children[other]]);
        let mut graph = self.graph(&ranks, &right);
        let bounds = self.bounds(&left, &right, &graph);
        self.attract(&mut graph, &ranks, &left, &right);
        let mut sides = vec![Half::Left; groups[one].len()];
        sides.resize(ranks.len(), Half::Right);
        // Vertices without ranks are fixed.
        sides.extend(graph.fixed.iter().skip(ranks.len()).flatten());
        let before = graph.cut(&sides);
        refine(&graph, &mut sides, bounds);
        if graph.cut(&sides) >= before {
            return false;
        }
        (groups[one], groups[other]) = parted(&ranks, &sides);
        true
    }
}

fn parted(ranks: &[u32], sides: &[Half]) -> (Vec<u32>, Vec<u32>) {
    let (left, right): (Vec<_>, Vec<_>) =
        ranks.iter().zip(sides).partition(|(_, side)| **side == Half::Left);
    let ranks = |part: Vec<(&u32, &Half)>| part.into_iter().map(|(rank, _)| *rank).collect();
    (ranks(left), ranks(right))
}
