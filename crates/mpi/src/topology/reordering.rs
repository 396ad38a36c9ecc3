//! Giving the processes of a topology other ranks than in the communicator that it is made of, so that
//! neighbours are on one machine (the argument `reorder` of section 8.5).
//!
//! All processes know where all of them run, and work out the same order without asking each other;
//! only a distributed graph has to be told to all first.

use std::collections::HashMap;
use std::rc::Rc;

use base::Result;
use memory::Buffer;
use placement::{Affinity, Branch, Placement, Tree, cost, place};

use super::creation::scratch;
use super::{DistributedGraph, Neighbors, Topology};
use crate::Process;
use crate::collective::{self, allgatherv};
use crate::communicator::Communicator;

impl Process {
    /// By rank in a topology for the first processes of a communicator: the rank there. They change
    /// their ranks only if neighbours come nearer to each other by that.
    pub(super) fn reordered(&self, communicator: &Communicator, topology: &Topology) -> Vec<u32> {
        let nodes = self.nodes_of(communicator.group());
        order(&nodes[..topology.process_count().unwrap_or_default() as usize], topology.edges())
    }

    /// `MPI_Cart_map` and `MPI_Graph_map` (section 8.5.8): the rank that this process gets in a
    /// reordered topology; none if it gets none.
    pub fn mapped_rank(&self, communicator: &Communicator, topology: &Topology) -> Option<u32> {
        let order = self.reordered(communicator, topology);
        (0..).zip(order).find(|(_, old)| *old == communicator.rank()).map(|(new, _)| new)
    }

    /// As `reordered` for a distributed graph; and what this process has to know
    /// of the graph, with its new rank. To be called by all processes of the communicator.
    ///
    /// # Errors
    /// What [`Process::complete`] may return.
    pub(super) fn reordered_distributed(
        &self,
        communicator: &Rc<Communicator>,
        graph: DistributedGraph,
    ) -> Result<(Vec<u32>, DistributedGraph)> {
        let size = communicator.size();
        let nodes = self.nodes_of(communicator.group());
        if nodes.iter().all(|node| *node == nodes[0]) {
            return Ok(((0..size).collect(), graph));
        }
        let mut graphs = self.exchange_graphs(communicator, &graph)?;
        let edges = (0..).zip(&graphs).flat_map(|(rank, graph)| {
            let Neighbors { ranks, weights } = &graph.destinations;
            ranks
                .iter()
                .zip(weights)
                .map(move |(&to, &weight)| (rank, to, u64::from(weight.unsigned_abs())))
        });
        let order = order(&nodes, edges);
        let own = order.iter().position(|rank| *rank == communicator.rank()).unwrap_or_default();
        Ok((order, graphs.swap_remove(own)))
    }

    /// Tells all processes the neighbours of all.
    fn exchange_graphs(
        &self,
        communicator: &Rc<Communicator>,
        graph: &DistributedGraph,
    ) -> Result<Vec<DistributedGraph>> {
        let own = to_bytes(graph);
        let size = communicator.size() as usize;
        let lengths = scratch(size * 8);
        lengths.write(communicator.rank() as usize * 8, &(own.len() as u64).to_le_bytes());
        self.complete(collective::allgather_packed(communicator, lengths.clone(), 8))?;
        let length = |rank: usize| {
            let mut bytes = [0; 8];
            lengths.read(rank * 8, &mut bytes);
            u64::from_le_bytes(bytes) as usize
        };
        let texts: Vec<Buffer> = (0..size).map(|rank| scratch(length(rank))).collect();
        let sent = scratch(own.len());
        sent.write(0, &own);
        self.complete(allgatherv(communicator, Some(sent), texts.clone())?)?;
        let graph = |text: &Buffer| {
            let mut bytes = vec![0; text.len()];
            text.read(0, &mut bytes);
            from_bytes(&bytes, communicator.size())
        };
        Ok(texts.iter().map(graph).collect())
    }
}

/// The order of processes that run on these nodes, so that as little weight as possible goes between
/// nodes: by new rank the old one. As they are, if no other order is better.
fn order(nodes: &[u32], edges: impl IntoIterator<Item = (u32, u32, u64)>) -> Vec<u32> {
    let as_they_are = || (0..nodes.len() as u32).collect();
    if nodes.iter().all(|node| *node == nodes[0]) {
        return as_they_are();
    }
    // The machines are leaves, in the order of their first processes.
    let mut leaves: HashMap<u32, u32> = HashMap::new();
    let mut members: Vec<Vec<u32>> = Vec::new();
    let mut old = Vec::with_capacity(nodes.len());
    for (rank, node) in (0..).zip(nodes) {
        let leaf = *leaves.entry(*node).or_insert(members.len() as u32);
        if leaf as usize == members.len() {
            members.push(Vec::new());
        }
        members[leaf as usize].push(rank);
        old.push(leaf);
    }
    let machines = members.iter().map(|ranks| Branch::leaf(ranks.len() as u32)).collect();
    let tree = Tree::new(&Branch::of(1, machines));
    let affinity = Affinity::new(nodes.len() as u32, edges.into_iter());
    let Ok(placed) = place(&affinity, &tree, &[]) else { return as_they_are() };
    if cost(&affinity, &tree, &placed) >= cost(&affinity, &tree, &Placement::new(old)) {
        return as_they_are();
    }
    let mut members: Vec<_> = members.into_iter().map(Vec::into_iter).collect();
    let taken = placed.leaves().iter().map(|leaf| members[*leaf as usize].next());
    taken.collect::<Option<Vec<u32>>>().unwrap_or_else(as_they_are)
}

impl Topology {
    /// How many processes it has; none if this process knows only its neighbours.
    fn process_count(&self) -> Option<u32> {
        match self {
            Topology::Cartesian(grid) => Some(grid.process_count()),
            Topology::Graph(graph) => Some(graph.process_count()),
            Topology::Distributed(_) => None,
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

/// Whether there are weights, how many sources, how many destinations; then rank and weight of each.
fn to_bytes(graph: &DistributedGraph) -> Vec<u8> {
    let lists = [&graph.sources, &graph.destinations];
    let head =
        [u32::from(graph.weighted), lists[0].ranks.len() as u32, lists[1].ranks.len() as u32];
    let pairs = lists.into_iter().flat_map(|list| list.ranks.iter().zip(&list.weights));
    let body = pairs.flat_map(|(rank, weight)| [*rank, weight.cast_unsigned()]);
    head.into_iter().chain(body).flat_map(u32::to_le_bytes).collect()
}

/// What another process told; what makes no sense in it is left out.
fn from_bytes(bytes: &[u8], processes: u32) -> DistributedGraph {
    let mut words =
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let mut head = || words.next().unwrap_or_default();
    let (weighted, sources, destinations) = (head() != 0, head(), head());
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
    DistributedGraph { sources: list(sources), destinations: list(destinations), weighted }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Cartesian;

    fn ring(count: u32) -> Vec<(u32, u32, u64)> {
        let grid = Cartesian::new([(count as i32, true)].into_iter(), count).unwrap();
        Topology::Cartesian(grid).edges()
    }

    #[test]
    fn neighbours_come_to_one_machine() {
        // One process on each machine in turn: a ring has all its edges between machines.
        let nodes = [0, 1, 0, 1, 0, 1, 0, 1];
        let order = order(&nodes, ring(8));
        let crossing =
            (0..8).filter(|&at| nodes[order[at] as usize] != nodes[order[(at + 1) % 8] as usize]);
        assert_eq!(crossing.count(), 2, "{order:?}");
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn nothing_changes_without_gain() {
        for nodes in [[0; 6], [0, 0, 0, 3, 3, 3], [5, 5, 5, 0, 0, 0]] {
            assert_eq!(order(&nodes, ring(6)), [0, 1, 2, 3, 4, 5]);
        }
        assert_eq!(order(&[0, 1, 0, 1], []), [0, 1, 2, 3]);
        assert_eq!(order(&[], []), [0; 0]);
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
            weighted: true,
        };
        assert_eq!(from_bytes(&to_bytes(&graph), 4), graph);
        assert_eq!(from_bytes(&to_bytes(&graph), 3).sources.ranks, [1]);
        assert_eq!(from_bytes(&[1, 0, 0, 0, 255, 255, 255, 255], 4).sources.ranks, [0; 0]);
    }
}
