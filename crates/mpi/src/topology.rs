//! Virtual topologies: the neighbours of each process in a communicator (chapter 8 of the MPI
//! standard).
//!
//! A topology is a plain value that returns the neighbours of ranks. All processes of a
//! communicator hold an identical one; but of a distributed graph each process has only its own
//! part. Ranks are reordered only if this brings neighbours to one machine, or to one part of a
//! machine.

mod cartesian;
mod creation;
pub mod dimensions;
mod distributed;
mod graph;
mod local;
mod reordering;
mod surroundings;
#[cfg(test)]
mod tests;

use collectives::neighborhood::Neighborhood;

pub use cartesian::{Cartesian, Dimension};
pub use creation::{Reordering, refuse_intercommunicator};
pub use distributed::{
    DistributedGraph, EdgeWeights, Neighbors, WeightedEdge, edge_count, edges_of_lists,
};
pub use graph::GraphTopology;
pub(crate) use local::LocalTopology;
pub(crate) use reordering::ProcessLocation;

/// The topology of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommunicatorTopology {
    /// A Cartesian grid.
    Cartesian(Cartesian),
    /// A graph that all processes have.
    Graph(GraphTopology),
    /// A graph of which each process has its neighbours.
    Distributed(DistributedGraph),
}

impl CommunicatorTopology {
    /// Returns the edges of the process with this rank for neighbourhood collectives.
    pub fn neighborhood(&self, rank: u32) -> Neighborhood {
        match self {
            CommunicatorTopology::Cartesian(grid) => grid.neighborhood(rank),
            CommunicatorTopology::Graph(graph) => graph.neighborhood(rank),
            CommunicatorTopology::Distributed(graph) => graph.neighborhood(),
        }
    }
}
