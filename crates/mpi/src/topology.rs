//! Virtual topologies: who is whose neighbour in a communicator (chapter 8 of the MPI standard).
//!
//! A topology is a plain value that answers questions about ranks; all processes of a
//! communicator hold the same one, except a distributed graph, of which each knows its own part.
//! Ranks are reordered only where neighbours come together on machines, or in parts of them, by
//! that.

mod cartesian;
mod creation;
pub mod dimensions;
mod distributed;
mod graph;
mod reordering;
mod surroundings;
#[cfg(test)]
mod tests;

use collectives::neighborhood::Neighborhood;

pub use cartesian::{Cartesian, Dimension};
pub use creation::refuse_intercommunicator;
pub use distributed::{DistributedGraph, Neighbors, WeightedEdge, edge_count, edges_of_lists};
pub use graph::GraphTopology;
pub(crate) use reordering::ProcessLocation;
pub(crate) use surroundings::LocalTopology;

/// The topology of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommunicatorTopology {
    /// A grid.
    Cartesian(Cartesian),
    /// A graph that all processes know.
    Graph(GraphTopology),
    /// A graph of which each process knows its neighbours.
    Distributed(DistributedGraph),
}

impl CommunicatorTopology {
    /// The edges of the process with this rank, as neighbourhood collectives use them.
    pub fn neighborhood(&self, rank: u32) -> Neighborhood {
        match self {
            CommunicatorTopology::Cartesian(grid) => grid.neighborhood(rank),
            CommunicatorTopology::Graph(graph) => graph.neighborhood(rank),
            CommunicatorTopology::Distributed(graph) => graph.neighborhood(),
        }
    }
}
