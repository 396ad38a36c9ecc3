//! Turning branches: the ranks that send most to other machines are moved nearest to the network
//! interfaces.

use crate::leaves::Placement;
use crate::matrix::Affinity;
use crate::tree::BranchTree;

/// Exchanges groups of ranks between branches of one machine, if the branches are alike and one is
/// nearer to a network interface than the other. The grouping does not change, and neither does the
/// cost of the placement. A branch with a fixed rank is not moved.
pub fn turn(
    affinity: &Affinity,
    tree: &BranchTree,
    fixed: &[Option<u32>],
    placement: &mut Placement,
) {
    let mut turner = Turner {
        tree,
        outward: outward(affinity, tree, placement),
        has_fixed: vec![false; tree.leaf_count() as usize],
        occupants: vec![Vec::new(); tree.leaf_count() as usize],
    };
    for leaf in fixed.iter().flatten() {
        turner.has_fixed[*leaf as usize] = true;
    }
    for (rank, leaf) in (0..).zip(placement.leaves()) {
        turner.occupants[*leaf as usize].push(rank);
    }
    for vertex in 0..tree.vertex_count() {
        if is_in_machine(tree, vertex) {
            turner.turn_children(vertex);
        }
    }
    for (leaf, occupants) in (0..).zip(&turner.occupants) {
        for &rank in occupants {
            placement.put(rank, leaf);
        }
    }
}

/// The sum over all ranks of the weight sent to other machines, times the levels to the nearest
/// network interface of the rank's own machine. Machines without interfaces do not count.
pub fn distance_to_interfaces(
    affinity: &Affinity,
    tree: &BranchTree,
    placement: &Placement,
) -> u128 {
    let outward = outward(affinity, tree, placement);
    let ranks = placement.leaves().iter().zip(&outward);
    ranks.map(|(&leaf, &weight)| levels_to_interface(tree, leaf) * u128::from(weight)).sum()
}

/// The number of levels from a leaf up to a vertex that has an interface below, inside its machine.
fn levels_to_interface(tree: &BranchTree, leaf: u32) -> u128 {
    let mut path = tree.path(leaf).to_vec();
    path.dedup();
    let machine = path.iter().rposition(|&vertex| tree.vertex(vertex).is_machine).unwrap_or(0);
    let inside = path[machine..].iter().rev();
    inside.clone().position(|&vertex| has_interface(tree, vertex)).unwrap_or(0) as u128
}

fn has_interface(tree: &BranchTree, vertex: u32) -> bool {
    let vertex = tree.vertex(vertex);
    vertex.interfaces > 0 || vertex.children.iter().any(|&child| has_interface(tree, child))
}

/// The weight that each rank sends to ranks on other machines.
fn outward(affinity: &Affinity, tree: &BranchTree, placement: &Placement) -> Vec<u64> {
    let machine = |leaf: u32| {
        let path = tree.path(leaf).iter().rev();
        path.copied().find(|&vertex| tree.vertex(vertex).is_machine)
    };
    let machines: Vec<Option<u32>> = placement.leaves().iter().map(|&leaf| machine(leaf)).collect();
    let outward = |rank: u32| {
        let elsewhere =
            |partner: &&(u32, u64)| machines[partner.0 as usize] != machines[rank as usize];
        let partners = affinity.partners(rank).iter().filter(elsewhere);
        partners.fold(0, |sum: u64, partner| sum.saturating_add(partner.1))
    };
    (0..affinity.ranks()).map(outward).collect()
}

/// Whether a vertex is a machine or inside one.
fn is_in_machine(tree: &BranchTree, vertex: u32) -> bool {
    let leaf = tree.vertex(vertex).leaves.start;
    let path = tree.path(leaf).iter();
    path.take_while(|&&above| above != vertex)
        .chain([&vertex])
        .any(|&above| tree.vertex(above).is_machine)
}

struct Turner<'a> {
    tree: &'a BranchTree,
    outward: Vec<u64>,
    /// By leaf.
    has_fixed: Vec<bool>,
    occupants: Vec<Vec<u32>>,
}

impl Turner<'_> {
    /// Among children that are alike, assigns the groups that send most to other machines to the
    /// children with interfaces.
    fn turn_children(&mut self, vertex: u32) {
        let tree = self.tree;
        let mut waiting = tree.vertex(vertex).children.clone();
        waiting.retain(|&child| {
            !tree.vertex(child).leaves.clone().any(|leaf| self.has_fixed[leaf as usize])
        });
        while let Some(&first) = waiting.first() {
            let (alike, others): (Vec<u32>, Vec<u32>) =
                waiting.iter().partition(|&&child| tree.are_alike(first, child));
            waiting = others;
            self.deal_out(alike);
        }
    }

    fn deal_out(&mut self, alike: Vec<u32>) {
        let mut places = alike.clone();
        places.sort_by_key(|&child| !has_interface(self.tree, child));
        let mut groups: Vec<(std::cmp::Reverse<u64>, u32)> =
            alike.iter().map(|&child| (std::cmp::Reverse(self.talk(child)), child)).collect();
        // On a tie, groups that are already near an interface stay.
        groups.sort_by_key(|group| (group.0, !has_interface(self.tree, group.1)));
        let taken: Vec<Vec<Vec<u32>>> = groups
            .iter()
            .map(|&(_, child)| self.tree.vertex(child).leaves.clone())
            .map(|leaves| leaves.map(|leaf| self.occupants[leaf as usize].clone()).collect())
            .collect();
        for (place, group) in places.into_iter().zip(taken) {
            for (leaf, ranks) in self.tree.vertex(place).leaves.clone().zip(group) {
                self.occupants[leaf as usize] = ranks;
            }
        }
    }

    /// The weight that the ranks on a branch send to other machines.
    fn talk(&self, branch: u32) -> u64 {
        let leaves = self.tree.vertex(branch).leaves.clone();
        let ranks = leaves.flat_map(|leaf| &self.occupants[leaf as usize]);
        ranks.fold(0, |sum: u64, &rank| sum.saturating_add(self.outward[rank as usize]))
    }
}
