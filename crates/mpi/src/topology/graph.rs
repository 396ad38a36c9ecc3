//! Graphs that every process has completely (section 8.5.3 of the standard).

use std::ops::Range;

use base::{Error, ErrorClass, Result};
use collectives::neighborhood::Neighborhood;

/// A graph of processes, in which each has a list of neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphTopology {
    /// The total number of neighbours of the processes up to and including this rank, by rank.
    index: Box<[i32]>,
    /// The neighbours of rank 0, then those of rank 1, and so on.
    edges: Box<[u32]>,
}

impl GraphTopology {
    /// Returns the number of edges of a graph with this index, which is the length of its list of
    /// edges.
    ///
    /// # Errors
    /// `Arg` if the index decreases or is negative.
    pub fn edge_count(index: &[i32]) -> Result<usize> {
        let mut before = 0;
        for (node, end) in index.iter().enumerate() {
            if *end < before {
                let what = format!(
                    "entry {node} of the index is {end}, less than the {before} neighbours of the \
                     nodes before it"
                );
                return Err(Error::new(ErrorClass::Arg, what));
            }
            before = *end;
        }
        Ok(before as usize)
    }

    /// Makes a graph of the first of `processes` processes. Entry `i` of `index` is the end of
    /// the neighbours of node `i` in `edges`.
    ///
    /// # Errors
    /// `Arg` if the index decreases, or the list of edges ends before it or names a node that does
    /// not exist; `Topology` if there are more nodes than processes.
    pub fn new(index: Vec<i32>, edges: Vec<i32>, processes: u32) -> Result<Self> {
        let nodes = index.len();
        if nodes > processes as usize {
            let what = format!(
                "the graph has {nodes} nodes, but the communicator has only {processes} processes"
            );
            return Err(Error::new(ErrorClass::Topology, what));
        }
        let needed = Self::edge_count(&index)?;
        if edges.len() < needed {
            let what = format!("the index specifies {needed} edges, but there are {}", edges.len());
            return Err(Error::new(ErrorClass::Arg, what));
        }
        let checked = edges[..needed].iter().enumerate().map(|(position, node)| {
            u32::try_from(*node).ok().filter(|node| (*node as usize) < nodes).ok_or_else(|| {
                let what = format!(
                    "edge {position} leads to node {node}, but the nodes are 0 to {}",
                    nodes - 1
                );
                Error::new(ErrorClass::Arg, what)
            })
        });
        let edges = checked.collect::<Result<_>>()?;
        Ok(Self { index: index.into(), edges })
    }

    /// The number of nodes, each of which is one process.
    pub fn process_count(&self) -> u32 {
        self.index.len() as u32
    }

    /// The end of the neighbours of each node in [`GraphTopology::edges`].
    pub fn index(&self) -> &[i32] {
        &self.index
    }

    /// The neighbours of all nodes, one node after the other.
    pub fn edges(&self) -> &[u32] {
        &self.edges
    }

    /// The neighbours of one node, in the order in which they were given.
    ///
    /// # Errors
    /// `Rank` if there is no such node.
    pub fn neighbors(&self, rank: i32) -> Result<&[u32]> {
        let range = usize::try_from(rank).ok().and_then(|node| self.range(node));
        range.map(|range| &self.edges[range]).ok_or_else(|| {
            let nodes = self.index.len();
            let what = format!("rank {rank} is not in the graph, which has {nodes} processes");
            Error::new(ErrorClass::Rank, what)
        })
    }

    /// Returns the neighbours for neighbourhood collectives: each neighbour is source and
    /// destination.
    pub fn neighborhood(&self, rank: u32) -> Neighborhood {
        let range = self.range(rank as usize).unwrap_or_default();
        let neighbors = &self.edges[range];
        Neighborhood::of_lists(neighbors, neighbors)
    }

    fn range(&self, node: usize) -> Option<Range<usize>> {
        let end = *self.index.get(node)? as usize;
        let begin = if node == 0 { 0 } else { self.index[node - 1] as usize };
        Some(begin..end)
    }
}
