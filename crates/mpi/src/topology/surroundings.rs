//! The topology of a communicator, as one process sees it.

use std::cell::OnceCell;
use std::rc::Rc;

use base::{Error, ErrorClass, Result};
use collectives::neighborhood::Neighborhood;
use collectives::{Schedule, neighbor_allgather, neighbor_alltoall};

use super::{Cartesian, CommunicatorTopology, DistributedGraph, GraphTopology};
use crate::communicator::Communicator;

/// A topology, and the place of this process in it.
#[derive(Debug)]
pub(crate) struct LocalTopology {
    topology: CommunicatorTopology,
    rank: u32,
    neighborhood: Neighborhood,
    allgather: OnceCell<Rc<Schedule>>,
    alltoall: OnceCell<Rc<Schedule>>,
}

impl LocalTopology {
    /// Makes the local view of the process with this rank.
    pub(crate) fn new(topology: CommunicatorTopology, rank: u32) -> Self {
        let neighborhood = topology.neighborhood(rank);
        Self { topology, rank, neighborhood, allgather: OnceCell::new(), alltoall: OnceCell::new() }
    }

    pub(crate) fn topology(&self) -> &CommunicatorTopology {
        &self.topology
    }

    pub(crate) fn neighborhood(&self) -> &Neighborhood {
        &self.neighborhood
    }

    /// The schedule of an allgather along the edges.
    pub(crate) fn allgather(&self) -> &Rc<Schedule> {
        self.allgather.get_or_init(|| Rc::new(neighbor_allgather(self.rank, &self.neighborhood)))
    }

    /// The schedule of an alltoall along the edges.
    pub(crate) fn alltoall(&self) -> &Rc<Schedule> {
        self.alltoall.get_or_init(|| Rc::new(neighbor_alltoall(self.rank, &self.neighborhood)))
    }
}

impl Communicator {
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
            other => Err(another_topology(other, "is no Cartesian grid (MPI_Cart_create)")),
        }
    }

    /// The graph of the communicator.
    ///
    /// # Errors
    /// Those of [`Communicator::cartesian`].
    pub fn graph(&self) -> Result<&GraphTopology> {
        match self.topology() {
            Some(CommunicatorTopology::Graph(graph)) => Ok(graph),
            other => Err(another_topology(other, "is no graph (MPI_Graph_create)")),
        }
    }

    /// The part of the communicator's distributed graph that this process has.
    ///
    /// # Errors
    /// Those of [`Communicator::cartesian`].
    pub fn distributed_graph(&self) -> Result<&DistributedGraph> {
        match self.topology() {
            Some(CommunicatorTopology::Distributed(graph)) => Ok(graph),
            other => {
                Err(another_topology(other, "is no distributed graph (MPI_Dist_graph_create)"))
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
