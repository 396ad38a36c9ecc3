//! Access to the topology of a communicator.

use base::{Error, ErrorClass, Result};
use collectives::neighborhood::Neighborhood;

use super::{Cartesian, CommunicatorTopology, DistributedGraph, GraphTopology, LocalTopology};
use crate::team::Team;

impl Team {
    /// The edges of this process, for neighbourhood collectives.
    ///
    /// # Errors
    /// `Topology` if the communicator has no topology.
    pub fn neighborhood(&self) -> Result<&Neighborhood> {
        self.required_surroundings().map(LocalTopology::neighborhood)
    }

    /// The Cartesian grid of the communicator.
    ///
    /// # Errors
    /// `Topology` if the communicator has another topology or none.
    pub fn cartesian(&self) -> Result<&Cartesian> {
        match self.topology() {
            Some(CommunicatorTopology::Cartesian(grid)) => Ok(grid),
            other => Err(another_topology(other, "is not a Cartesian grid (MPI_Cart_create)")),
        }
    }

    /// The graph of the communicator.
    ///
    /// # Errors
    /// Those of [`Team::cartesian`].
    pub fn graph(&self) -> Result<&GraphTopology> {
        match self.topology() {
            Some(CommunicatorTopology::Graph(graph)) => Ok(graph),
            other => Err(another_topology(other, "is not a graph (MPI_Graph_create)")),
        }
    }

    /// The part of the communicator's distributed graph that this process has.
    ///
    /// # Errors
    /// Those of [`Team::cartesian`].
    pub fn distributed_graph(&self) -> Result<&DistributedGraph> {
        match self.topology() {
            Some(CommunicatorTopology::Distributed(graph)) => Ok(graph),
            other => {
                Err(another_topology(other, "is not a distributed graph (MPI_Dist_graph_create)"))
            }
        }
    }

    pub(crate) fn required_surroundings(&self) -> Result<&LocalTopology> {
        self.surroundings().ok_or_else(|| another_topology(None, "has no neighbours"))
    }
}

#[cold]
fn another_topology(found: Option<&CommunicatorTopology>, wanted: &str) -> Error {
    let is = match found {
        None => "it has no topology",
        Some(CommunicatorTopology::Cartesian(_)) => "it is a Cartesian grid",
        Some(CommunicatorTopology::Graph(_)) => "it is a graph",
        Some(CommunicatorTopology::Distributed(_)) => "it is a distributed graph",
    };
    Error::new(ErrorClass::Topology, format!("the communicator {wanted}: {is}"))
}
