//! The topology of a communicator, as one process sees it.

use std::cell::OnceCell;
use std::rc::Rc;

use collectives::neighborhood::Neighborhood;
use collectives::{Schedule, neighbor_allgather, neighbor_alltoall};

use super::CommunicatorTopology;

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
