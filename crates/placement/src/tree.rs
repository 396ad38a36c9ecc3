//! The tree of places to which ranks are mapped.

use std::ops::Range;

use base::{GridDimension, NetworkDistances};

use crate::hierarchy::{HostGroup, nested};

/// The caller's description of a part of a machine or cluster: a tree of any shape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branch {
    /// The cost of a byte between two leaves below different children; for a leaf, between two
    /// ranks on it. Costs must not decrease towards the root.
    pub crossing: u64,
    /// For a leaf: the number of ranks for which it is meant. If it is 0, no rank may be placed
    /// there.
    pub slots: u32,
    /// The number of network interfaces that are attached here, and not further below.
    pub interfaces: u32,
    /// Whether this is a machine: messages that leave it pass through its interfaces.
    pub is_machine: bool,
    /// The parts of which it consists; empty for a leaf.
    pub children: Vec<Branch>,
}

impl Branch {
    /// A leaf with this many slots, inside which bytes cost nothing.
    pub fn leaf(slots: u32) -> Self {
        Self { slots, ..Self::default() }
    }

    /// A branch with these children, between which a byte costs `crossing`.
    pub fn of(crossing: u64, children: Vec<Branch>) -> Self {
        Self { crossing, children, ..Self::default() }
    }

    /// The number of leaves.
    fn leaf_count(&self) -> usize {
        let below = self.children.iter().map(Self::leaf_count).sum();
        if self.children.is_empty() { 1 } else { below }
    }

    /// A regular tree with these numbers of children, level by level from the root. The cost of a
    /// byte is the number of edges on its path: two for each level.
    pub fn regular(arities: &[u32]) -> Self {
        match arities.split_first() {
            None => Self::leaf(1),
            Some((&arity, below)) => {
                let child = Self::regular(below);
                Self::of(2 * arities.len() as u64, vec![child; arity as usize])
            }
        }
    }
}

/// A tree of places, prepared for queries. Its leaves are numbered from left to right.
#[derive(Clone, Debug)]
pub struct BranchTree {
    /// The vertices: the root first, each vertex before its children.
    vertices: Vec<TreeVertex>,
    /// The vertex of each leaf.
    leaves: Vec<u32>,
    /// For each leaf, the vertices from the root down to it, padded with the leaf itself.
    paths: Vec<u32>,
    /// The length of each path.
    height: usize,
    /// The network between machines, if a byte's cost depends on more than the branch.
    network: Option<MachineNetwork>,
}

/// A network between the machines of a tree.
#[derive(Clone, Debug)]
struct MachineNetwork {
    distances: NetworkDistances,
    /// The cost of a byte for each unit of distance.
    per_link: u64,
    /// The additional cost of a byte between machines.
    inside: u64,
    /// The host of each leaf.
    hosts: Vec<u32>,
    /// The leaves in the order of hosts.
    listed: Vec<u32>,
}

/// A vertex of the tree.
#[derive(Clone, Debug)]
pub(crate) struct TreeVertex {
    pub crossing: u64,
    pub interfaces: u32,
    pub is_machine: bool,
    pub children: Vec<u32>,
    /// The leaves below the vertex, or the leaf itself.
    pub leaves: Range<u32>,
    /// The slots of these leaves together.
    pub slots: u64,
}

impl BranchTree {
    /// Builds a tree from a description.
    pub fn new(root: &Branch) -> Self {
        let mut tree = Self {
            vertices: Vec::new(),
            leaves: Vec::new(),
            paths: Vec::new(),
            height: 0,
            network: None,
        };
        let mut paths = Vec::new();
        tree.add(root, &mut Vec::new(), &mut paths);
        tree.height = paths.iter().map(Vec::len).max().unwrap_or(1);
        for mut path in paths {
            path.resize(tree.height, path[path.len() - 1]);
            tree.paths.extend(path);
        }
        tree
    }

    /// Builds the tree of machines in a network: as many machines as the network has hosts, in
    /// their order. A byte between two machines costs `per_link` for each unit of distance, in
    /// addition to the greatest cost inside a machine.
    pub fn over_network(machines: &[Branch], distances: NetworkDistances, per_link: u64) -> Self {
        assert_eq!(machines.len(), distances.hosts(), "each host is a machine");
        if let [only] = machines {
            return Self::new(only);
        }
        let inside = machines.iter().map(|machine| machine.crossing).max().unwrap_or_default();
        let groups = nested(&distances);
        let order = groups.hosts();
        let diameter = diameter(&distances);
        let mut tree = Self::new(&branch_of(&groups, machines, inside + per_link * diameter));
        let mut leaves_of = vec![Vec::new(); machines.len()];
        let mut hosts = Vec::with_capacity(tree.leaves.len());
        for host in order {
            for _ in 0..machines[host as usize].leaf_count() {
                leaves_of[host as usize].push(hosts.len() as u32);
                hosts.push(host);
            }
        }
        let listed = leaves_of.concat();
        tree.network = Some(MachineNetwork { distances, per_link, inside, hosts, listed });
        tree
    }

    fn add(&mut self, branch: &Branch, above: &mut Vec<u32>, paths: &mut Vec<Vec<u32>>) -> u32 {
        let number = self.vertices.len() as u32;
        let first = self.leaves.len() as u32;
        self.vertices.push(TreeVertex {
            crossing: branch.crossing,
            interfaces: branch.interfaces,
            is_machine: branch.is_machine,
            children: Vec::new(),
            leaves: first..first,
            slots: 0,
        });
        above.push(number);
        let (children, slots) = if branch.children.is_empty() {
            self.leaves.push(number);
            paths.push(above.clone());
            (Vec::new(), u64::from(branch.slots))
        } else {
            let children: Vec<u32> =
                branch.children.iter().map(|child| self.add(child, above, paths)).collect();
            let slots = children.iter().map(|&child| self.vertices[child as usize].slots).sum();
            (children, slots)
        };
        above.pop();
        let vertex = &mut self.vertices[number as usize];
        vertex.leaves.end = self.leaves.len() as u32;
        (vertex.children, vertex.slots) = (children, slots);
        number
    }

    /// The number of leaves; at least one.
    pub fn leaf_count(&self) -> u32 {
        self.leaves.len() as u32
    }

    /// The number of ranks for which a leaf is meant.
    pub fn slots(&self, leaf: u32) -> u32 {
        self.vertices[self.leaves[leaf as usize] as usize].slots as u32
    }

    /// The number of slots of all leaves.
    pub fn slots_in_all(&self) -> u64 {
        self.vertices[0].slots
    }

    /// The leaves in the order in which the machines were given; from left to right without a
    /// network.
    pub fn listed(&self) -> Vec<u32> {
        match &self.network {
            Some(network) => network.listed.clone(),
            None => (0..self.leaf_count()).collect(),
        }
    }

    /// The network between the machines, if there is one, and the host of each leaf.
    pub(crate) fn network(&self) -> Option<(&NetworkDistances, &[u32])> {
        self.network.as_ref().map(|network| (&network.distances, &network.hosts[..]))
    }

    /// The cost of a byte between ranks on these two leaves.
    pub fn crossing(&self, a: u32, b: u32) -> u64 {
        if let Some(network) = &self.network {
            let (one, other) = (network.hosts[a as usize], network.hosts[b as usize]);
            if one != other {
                return network.inside + network.per_link * network.distances.between(one, other);
            }
        }
        let (a, b) = (self.path(a), self.path(b));
        let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        self.vertices[a[common - 1] as usize].crossing
    }

    /// The greatest cost of a byte between any two leaves.
    pub(crate) fn crossing_max(&self) -> u64 {
        self.vertices.iter().map(|vertex| vertex.crossing).max().unwrap_or_default()
    }

    /// The least cost of a byte between two leaves with slots; 0 if there is one at most.
    pub(crate) fn neighbor_crossing(&self) -> u64 {
        let leaves: Vec<u32> =
            (0..self.leaf_count()).filter(|leaf| self.slots(*leaf) > 0).collect();
        let costs = leaves.iter().enumerate().flat_map(|(number, one)| {
            leaves[..number].iter().map(|other| self.crossing(*one, *other))
        });
        costs.min().unwrap_or_default()
    }

    pub(crate) fn vertex(&self, number: u32) -> &TreeVertex {
        &self.vertices[number as usize]
    }

    pub(crate) fn vertex_count(&self) -> u32 {
        self.vertices.len() as u32
    }

    /// The vertices from the root down to a leaf. All paths have equal length: short ones repeat
    /// the leaf at the end.
    pub(crate) fn path(&self, leaf: u32) -> &[u32] {
        &self.paths[leaf as usize * self.height..][..self.height]
    }

    /// Whether two branches are alike, so that the ranks on them can be exchanged at no cost.
    pub(crate) fn are_alike(&self, a: u32, b: u32) -> bool {
        let (one, other) = (self.vertex(a), self.vertex(b));
        one.crossing == other.crossing
            && one.slots == other.slots
            && one.children.len() == other.children.len()
            && one.children.iter().zip(&other.children).all(|(&a, &b)| self.are_alike(a, b))
    }
}

/// The greatest distance between two hosts of a network, or a little more.
fn diameter(distances: &NetworkDistances) -> u64 {
    match distances {
        NetworkDistances::Grid(dimensions) => {
            let length = |one: &GridDimension| u64::from(one.extent) * u64::from(one.step);
            dimensions.iter().map(length).sum()
        }
        NetworkDistances::Attached { hosts, between } => {
            let up = hosts.iter().map(|(_, up)| u64::from(*up)).max().unwrap_or_default();
            2 * up + u64::from(between.iter().copied().max().unwrap_or_default())
        }
    }
}

/// The branch of a group of machines, between which a byte costs at most `crossing`.
fn branch_of(group: &HostGroup, machines: &[Branch], crossing: u64) -> Branch {
    match group {
        HostGroup::Host(host) => machines[*host as usize].clone(),
        HostGroup::Groups(groups) => {
            let below = groups.iter().map(|group| branch_of(group, machines, crossing));
            Branch::of(crossing, below.collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_of_a_network_are_as_far_apart_as_their_hosts() {
        let ring =
            NetworkDistances::Grid(vec![GridDimension { extent: 4, is_periodic: true, step: 1 }]);
        let machines = vec![Branch { is_machine: true, ..Branch::regular(&[2]) }; 4];
        let tree = BranchTree::over_network(&machines, ring, 10);
        assert_eq!((tree.leaf_count(), tree.slots_in_all()), (8, 8));
        let listed = tree.listed();
        let crossing = |a: usize, b: usize| tree.crossing(listed[a], listed[b]);
        assert_eq!([crossing(0, 1), crossing(0, 2), crossing(0, 4)], [2, 12, 22]);
        assert_eq!([crossing(7, 0), crossing(3, 3)], [12, 0]);
        assert!(tree.crossing_max() >= 22);
    }

    #[test]
    fn leaves_are_numbered_from_left_to_right() {
        let odd =
            Branch::of(9, vec![Branch::regular(&[2, 2]), Branch::leaf(3), Branch::regular(&[2])]);
        let tree = BranchTree::new(&odd);
        assert_eq!((tree.leaf_count(), tree.slots_in_all()), (7, 9));
        assert_eq!(tree.slots(4), 3);
        assert_eq!(tree.crossing(0, 1), 2);
        assert_eq!(tree.crossing(0, 3), 4);
        assert_eq!(tree.crossing(1, 4), 9);
        assert_eq!(tree.crossing(5, 6), 2);
        assert_eq!(tree.crossing(4, 4), 0);
        assert_eq!(tree.crossing_max(), 9);
    }
}
