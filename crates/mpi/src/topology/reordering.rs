//! Reordering of the processes of a topology: other ranks than in the original communicator, so
//! that neighbours are on one machine, and in one part of it (the argument `reorder` of section
//! 8.5).
//!
//! All processes know the locations of all, and compute an identical order without communication.
//! Only a distributed graph must be sent to all processes first.

use std::collections::HashMap;
use std::rc::Rc;

use base::{Error, ErrorClass, Result};
use memory::Buffer;
use placement::{Affinity, Branch, BranchTree, Placement, cost, place};
use topology::JobNetwork;

use super::{CommunicatorTopology, DistributedGraph, EdgeWeights, Neighbors};
use crate::Process;
use crate::collective::{Invocation, allgatherv};
use crate::communicator::Communicator;
use crate::exchange::{exchange, packed, unpacked};

impl Process {
    /// Returns the order for the first processes of a communicator: indexed by the rank in the
    /// topology, the rank in the communicator. The order differs from that of the ranks only if
    /// neighbours come nearer to each other.
    pub(super) fn reordered(
        &self,
        communicator: &Communicator,
        topology: &CommunicatorTopology,
    ) -> Vec<u32> {
        let all = communicator.group().locations(self);
        let first = &all[..topology.process_count().unwrap_or_default() as usize];
        order(first, self.map().network().as_ref(), topology.edges())
    }

    /// Returns the order for a distributed graph, as [`reordered`](Self::reordered) does, and the
    /// part of the graph around this process at its new rank. Collective over the communicator.
    ///
    /// # Errors
    /// The errors of [`Collective::complete`](crate::collective::Collective::complete).
    pub(super) fn reordered_distributed(
        &self,
        communicator: &Rc<Communicator>,
        graph: DistributedGraph,
    ) -> Result<(Vec<u32>, DistributedGraph)> {
        let size = communicator.size();
        let all = communicator.group().locations(self);
        if all.iter().all(|one| *one == all[0]) {
            return Ok(((0..size).collect(), graph));
        }
        let mut graphs = communicator.exchange_graphs(self, &graph)?;
        let edges = (0..).zip(&graphs).flat_map(|(rank, graph)| {
            let Neighbors { ranks, weights } = &graph.destinations;
            ranks
                .iter()
                .zip(weights)
                .map(move |(&to, &weight)| (rank, to, u64::from(weight.unsigned_abs())))
        });
        let order = order(&all, self.map().network().as_ref(), edges);
        let own = order.iter().position(|rank| *rank == communicator.rank()).unwrap_or_default();
        Ok((order, graphs.swap_remove(own)))
    }
}

impl Communicator {
    /// Gathers the neighbours of each process on all processes.
    ///
    /// # Errors
    /// `Intern` if a process announces a graph that no process can have; the errors of
    /// [`Collective::complete`](crate::collective::Collective::complete).
    fn exchange_graphs(
        self: &Rc<Self>,
        process: &Process,
        graph: &DistributedGraph,
    ) -> Result<Vec<DistributedGraph>> {
        let own = packed(&words_of(graph));
        let lengths = exchange(process, self, &own.len())?;
        for (rank, length) in (0..).zip(&lengths) {
            check_length(rank, *length)?;
        }
        let all: Vec<Buffer> = lengths.into_iter().map(Buffer::zeroed).collect();
        let invocation = Invocation::blocking(self);
        allgatherv(&invocation, Some(own), all.clone())?.complete(process)?;
        all.iter().map(|words| Ok(graph_of(unpacked(words)?, self.size()))).collect()
    }

    /// Returns the rank that this process gets in a reordered topology (`MPI_Cart_map`,
    /// `MPI_Graph_map`, section 8.5.8); `None` if it is not in the topology.
    pub fn mapped_rank(&self, process: &Process, topology: &CommunicatorTopology) -> Option<u32> {
        let order = process.reordered(self, topology);
        (0..).zip(order).find(|(_, old)| *old == self.rank()).map(|(new, _)| new)
    }
}

/// The location of a process: the numbers of the parts that contain it, from the outermost on.
/// The parts before index `machine` are switches, the part at it is the machine, and the rest are
/// parts of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessLocation {
    pub(crate) path: Vec<u32>,
    pub(crate) machine: usize,
}

/// The cost of a byte for each level inside a machine, and for each level above.
const CROSSINGS: (u64, u64) = (2, 20);

/// The locations of some processes as a tree. A leaf contains processes with one location.
#[derive(Default)]
struct LocationTree {
    /// The ranks in each leaf.
    members: Vec<Vec<u32>>,
}

impl LocationTree {
    /// Returns the branch of `ranks`, which have a common path down to `depth`, and the height of
    /// the branch.
    fn branch(&mut self, all: &[ProcessLocation], ranks: &[u32], depth: usize) -> (Branch, u64) {
        let at = |rank: u32| all[rank as usize].path.get(depth);
        if at(ranks[0]).is_none() {
            self.members.push(ranks.to_vec());
            return (Branch::leaf(ranks.len() as u32), 0);
        }
        // In the order of their first processes.
        let mut parts: Vec<(Option<&u32>, Vec<u32>)> = Vec::new();
        let mut known: HashMap<Option<&u32>, usize> = HashMap::new();
        for &rank in ranks {
            let part = *known.entry(at(rank)).or_insert(parts.len());
            if part == parts.len() {
                parts.push((at(rank), Vec::new()));
            }
            parts[part].1.push(rank);
        }
        if let [(_, ranks)] = &parts[..] {
            return self.branch(all, ranks, depth + 1);
        }
        let mut height = 0;
        let mut children = Vec::new();
        for (_, ranks) in &parts {
            let (child, below) = self.branch(all, ranks, depth + 1);
            children.push(child);
            height = height.max(below + 1);
        }
        let (inside, beyond) = CROSSINGS;
        let step = if depth <= all[ranks[0] as usize].machine { beyond } else { inside };
        (Branch::of(step * height, children), height)
    }
}

/// The network between the machines, and the host of each machine in it.
type HostsInNetwork<'a> = (&'a JobNetwork, HashMap<u32, u32>);

/// Returns the tree of these locations: by switches, or in a network by its distances. `None` if a
/// machine is not in the network. The leaves are in the order of `places`.
fn tree(
    all: &[ProcessLocation],
    network: Option<&HostsInNetwork<'_>>,
    places: &mut LocationTree,
) -> Option<BranchTree> {
    let as_they_are: Vec<u32> = (0..all.len() as u32).collect();
    let Some((network, host_of)) = network else {
        let (root, _) = places.branch(all, &as_they_are, 0);
        return Some(BranchTree::new(&root));
    };
    let mut on_hosts = vec![Vec::new(); network.distances().hosts()];
    for rank in as_they_are {
        let place = &all[rank as usize];
        let host = host_of.get(place.path.get(place.machine)?)?;
        on_hosts.get_mut(*host as usize)?.push(rank);
    }
    let machine = |ranks: &Vec<u32>| match ranks.first() {
        Some(&first) => places.branch(all, ranks, all[first as usize].machine + 1).0,
        None => {
            places.members.push(Vec::new());
            Branch::leaf(0)
        }
    };
    let machines: Vec<Branch> = on_hosts.iter().map(machine).collect();
    Some(BranchTree::over_network(&machines, network.distances().clone(), CROSSINGS.1 / 2))
}

/// Returns an order of processes with these locations, so that little weight crosses large
/// distances: old ranks, indexed by new rank. Keeps the order if no other one is better.
fn order(
    all: &[ProcessLocation],
    network: Option<&HostsInNetwork<'_>>,
    edges: impl IntoIterator<Item = (u32, u32, u64)>,
) -> Vec<u32> {
    let as_they_are: Vec<u32> = (0..all.len() as u32).collect();
    if all.iter().all(|one| *one == all[0]) {
        return as_they_are;
    }
    let mut places = LocationTree::default();
    let Some(tree) = tree(all, network, &mut places) else { return as_they_are };
    let listed = tree.listed();
    let mut old = vec![0; all.len()];
    for (leaf, ranks) in listed.iter().zip(&places.members) {
        ranks.iter().for_each(|rank| old[*rank as usize] = *leaf);
    }
    let affinity = Affinity::new(all.len() as u32, edges.into_iter());
    let Ok(placed) = place(&affinity, &tree, &[]) else { return as_they_are };
    if cost(&affinity, &tree, &placed) >= cost(&affinity, &tree, &Placement::new(old)) {
        return as_they_are;
    }
    let mut members = vec![Vec::new().into_iter(); listed.len()];
    for (leaf, ranks) in listed.iter().zip(places.members) {
        members[*leaf as usize] = ranks.into_iter();
    }
    let taken = placed.leaves().iter().map(|leaf| members[*leaf as usize].next());
    taken.collect::<Option<Vec<u32>>>().unwrap_or(as_they_are)
}

impl CommunicatorTopology {
    /// The number of processes; `None` if this process knows only its neighbours.
    fn process_count(&self) -> Option<u32> {
        match self {
            CommunicatorTopology::Cartesian(grid) => Some(grid.process_count()),
            CommunicatorTopology::Graph(graph) => Some(graph.process_count()),
            CommunicatorTopology::Distributed(_) => None,
        }
    }

    /// The edges between processes, as far as all processes know them.
    fn edges(&self) -> Vec<(u32, u32, u64)> {
        let edges = |rank| {
            let sends = self.neighborhood(rank).sends;
            sends.into_iter().map(move |edge| (rank, edge.peer, 1))
        };
        (0..self.process_count().unwrap_or_default()).flat_map(edges).collect()
    }
}

/// Encodes a graph: whether there are weights, the number of sources, the number of destinations;
/// then rank and weight of each.
fn words_of(graph: &DistributedGraph) -> Vec<u32> {
    let lists = [&graph.sources, &graph.destinations];
    let head = [
        u32::from(graph.weights == EdgeWeights::Given),
        lists[0].ranks.len() as u32,
        lists[1].ranks.len() as u32,
    ];
    let pairs = lists.into_iter().flat_map(|list| list.ranks.iter().zip(&list.weights));
    let body = pairs.flat_map(|(rank, weight)| [*rank, weight.cast_unsigned()]);
    head.into_iter().chain(body).collect()
}

/// The bytes of the longest encoded graph: MPI counts the sources and the destinations of a process
/// with an `int` each.
const GRAPH_BYTES_MAX: usize = (3 + 2 * 2 * i32::MAX as usize) * size_of::<u32>();

/// Checks the length in bytes of the encoded graph that a process announces.
///
/// # Errors
/// `Intern` if no graph has an encoding of this length.
fn check_length(rank: u32, length: usize) -> Result<()> {
    if length <= GRAPH_BYTES_MAX {
        return Ok(());
    }
    let what = format!(
        "rank {rank} of the communicator announces neighbours in {length} bytes, but the longest \
         list has {GRAPH_BYTES_MAX}: check that all processes use the same version of Combray"
    );
    Err(Error::new(ErrorClass::Intern, what))
}

/// Decodes the graph of another process; invalid ranks are left out.
fn graph_of(words: Vec<u32>, processes: u32) -> DistributedGraph {
    let mut words = words.into_iter();
    let mut head = || words.next().unwrap_or_default();
    let weights = if head() == 0 { EdgeWeights::Omitted } else { EdgeWeights::Given };
    let (sources, destinations) = (head(), head());
    let mut list = |count: u32| {
        let mut neighbors = Neighbors::default();
        for _ in 0..count {
            let (Some(rank), Some(weight)) = (words.next(), words.next()) else { break };
            if rank < processes {
                neighbors.ranks.push(rank);
                neighbors.weights.push(weight.cast_signed());
            }
        }
        neighbors
    };
    DistributedGraph { sources: list(sources), destinations: list(destinations), weights }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Cartesian;

    fn ring(count: u32) -> Vec<(u32, u32, u64)> {
        let grid = Cartesian::new([(count as i32, true)].into_iter(), count).unwrap();
        CommunicatorTopology::Cartesian(grid).edges()
    }

    /// Processes with these paths, of which the element at `machine` is the machine's number.
    fn at<const N: usize>(machine: usize, paths: &[[u32; N]]) -> Vec<ProcessLocation> {
        paths.iter().map(|path| ProcessLocation { path: path.to_vec(), machine }).collect()
    }

    /// The number of edges of a ring in this order between different parts at this depth.
    fn crossings(all: &[ProcessLocation], order: &[u32], depth: usize) -> usize {
        let part = |place: usize| &all[order[place % order.len()] as usize].path[..=depth];
        (0..order.len()).filter(|&place| part(place) != part(place + 1)).count()
    }

    #[test]
    fn neighbours_come_to_one_switch_machine_and_package() {
        // Two switches with two machines each, which have two packages with two processes each;
        // consecutive ranks are as far apart as they can be.
        let path = |rank: u32| [rank % 2, rank / 2 % 2, rank / 4 % 2];
        let paths: Vec<[u32; 3]> = (0..16).map(path).collect();
        let all = at(1, &paths);
        let as_they_are: Vec<u32> = (0..16).collect();
        let counts = |order: &[u32]| [0, 1, 2].map(|depth| crossings(&all, order, depth));
        assert_eq!(counts(&as_they_are), [16; 3]);
        assert_eq!(counts(&order(&all, None, ring(16))), [2, 4, 8]);
        // One machine with these packages.
        let one = at(0, &paths.iter().map(|path| [0, path[2]]).collect::<Vec<_>>());
        assert_eq!(crossings(&one, &order(&one, None, ring(16)), 1), 2);
    }

    #[test]
    fn neighbours_come_to_one_machine() {
        // One process on each machine in turn: a ring has all its edges between machines.
        let all = at(0, &[0, 1, 0, 1, 0, 1, 0, 1].map(|node| [node]));
        let order = order(&all, None, ring(8));
        assert_eq!(crossings(&all, &order, 0), 2, "{order:?}");
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    /// The distances between neighbours of a grid in this order, summed up.
    fn lengths(
        extents: &[i32],
        all: &[ProcessLocation],
        order: &[u32],
        (network, host_of): &HostsInNetwork<'_>,
    ) -> u64 {
        let grid = extents.iter().map(|extent| (*extent, true));
        let grid = Cartesian::new(grid, all.len() as u32).unwrap();
        let host = |rank: u32| host_of[&all[order[rank as usize] as usize].path[0]];
        let edges = CommunicatorTopology::Cartesian(grid).edges().into_iter();
        edges.map(|(from, to, _)| network.distances().between(host(from), host(to))).sum()
    }

    /// Cartesian topologies on a torus whose machines have the ranks in any order: all neighbours
    /// are one link apart, or on one machine, as far as the extents allow.
    #[test]
    fn grids_are_folded_on_a_torus() {
        let network = JobNetwork::from_text("grid 4p1x4p1x4p1 0-63").unwrap();
        for (extents, each, least) in [
            (&[4, 4, 4][..], 1, 6 * 64),
            (&[8, 8], 1, 4 * 64),
            (&[64], 1, 2 * 64),
            (&[16, 2, 2], 1, 2 * 64 + 2 * 2 * 64),
            // Blocks of 2 x 2 x 1 ranks: a face of 2, 2 and 4 ranks on both sides.
            (&[8, 8, 4], 4, 64 * 2 * (2 + 2 + 4)),
        ] {
            // Machine 0 has the lowest ranks, but they are scattered in the torus.
            let machines = 64_u32;
            let path = |rank: u32| [rank * 37 % machines];
            let paths: Vec<[u32; 1]> = (0..machines * each).map(path).collect();
            let all = at(0, &paths);
            let hosts = (0..machines).map(|machine| (machine, machine * 11 % 64)).collect();
            let known = (&network, hosts);
            let edges = || {
                let grid = extents.iter().map(|extent| (*extent, true));
                let grid = Cartesian::new(grid, all.len() as u32).unwrap();
                CommunicatorTopology::Cartesian(grid).edges()
            };
            let order = order(&all, Some(&known), edges());
            assert_eq!(lengths(extents, &all, &order, &known), least, "{extents:?}");
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..machines * each).collect::<Vec<_>>());
        }
    }

    #[test]
    fn nothing_changes_without_gain() {
        for nodes in [[0; 6], [0, 0, 0, 3, 3, 3], [5, 5, 5, 0, 0, 0]] {
            assert_eq!(order(&at(0, &nodes.map(|node| [node])), None, ring(6)), [0, 1, 2, 3, 4, 5]);
        }
        assert_eq!(order(&at(0, &[[0], [1], [0], [1]]), None, []), [0, 1, 2, 3]);
        assert_eq!(order(&[], None, []), [0; 0]);
    }

    #[test]
    fn graphs_travel() {
        let neighbors = |ranks: &[u32], weights: &[i32]| Neighbors {
            ranks: ranks.to_vec(),
            weights: weights.to_vec(),
        };
        let graph = DistributedGraph {
            sources: neighbors(&[3, 1], &[7, 0]),
            destinations: neighbors(&[2], &[i32::MAX]),
            weights: EdgeWeights::Given,
        };
        assert_eq!(graph_of(words_of(&graph), 4), graph);
        assert_eq!(graph_of(words_of(&graph), 3).sources.ranks, [1]);
        assert_eq!(graph_of(vec![1, u32::MAX], 4).sources.ranks, [0; 0]);
    }

    #[test]
    fn a_length_that_no_graph_has_is_an_error() {
        assert!(check_length(2, GRAPH_BYTES_MAX).is_ok());
        for length in [GRAPH_BYTES_MAX + 1, usize::MAX] {
            let error = check_length(2, length).unwrap_err();
            assert_eq!(error.class, ErrorClass::Intern);
            assert!(error.to_string().contains("rank 2 "), "{error}");
        }
    }
}
