//! Creation of communicators with a topology.

use std::rc::Rc;

use base::{Error, ErrorClass, Result};
use memory::Buffer;

use super::{
    Cartesian, CommunicatorTopology, DistributedGraph, EdgeWeights, GraphTopology, WeightedEdge,
};
use crate::Process;
use crate::collective::{self, Invocation, alltoallv};
use crate::communicator::Communicator;
use crate::exchange::{packed, unpacked};

/// Whether processes may get other ranks in a communicator with a topology, so that neighbours come
/// nearer to each other (the argument `reorder`, section 8.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reordering {
    /// Processes keep the order of their ranks in the original communicator.
    Forbidden,
    /// Processes may get other ranks.
    Allowed,
}

impl Communicator {
    fn create_of_first(
        self: &Rc<Self>,
        process: &Process,
        count: u32,
        topology: CommunicatorTopology,
        reordering: Reordering,
    ) -> Result<Option<Rc<Communicator>>> {
        refuse_intercommunicator(self)?;
        let order = match reordering {
            Reordering::Allowed => process.reordered(self, &topology),
            Reordering::Forbidden => (0..count).collect(),
        };
        self.create_in_order(process, &order, topology)
    }

    /// Creates a communicator of the processes with the ranks in `order`, in this order.
    fn create_in_order(
        self: &Rc<Self>,
        process: &Process,
        order: &[u32],
        topology: CommunicatorTopology,
    ) -> Result<Option<Rc<Communicator>>> {
        let ranks: Vec<i32> = order.iter().map(|rank| *rank as i32).collect();
        let group = self.group().incl(&ranks)?;
        let created = self.create(process, &group)?;
        Ok(created.inspect(|created| created.set_topology(topology)))
    }

    /// Sends to each process the edges that leave it and those that reach it. Returns the edges
    /// that leave and that reach this process, both in the order of the ranks of the processes
    /// that specified them.
    fn exchange_edges(
        self: &Rc<Self>,
        process: &Process,
        edges: &[WeightedEdge],
        weights: EdgeWeights,
    ) -> Result<(Vec<WeightedEdge>, Vec<WeightedEdge>)> {
        let size = self.size() as usize;
        let mut leaving = vec![Vec::new(); size];
        let mut reaching = vec![Vec::new(); size];
        for edge in edges {
            leaving[edge.source as usize].push(*edge);
            reaching[edge.destination as usize].push(*edge);
        }
        let sent_notices: Vec<EdgeAnnouncement> = (leaving.iter().zip(&reaching))
            .map(|(leaving, reaching)| EdgeAnnouncement {
                leaving: leaving.len() as u32,
                reaching: reaching.len() as u32,
                weighted: weights == EdgeWeights::Given,
                usable: true,
            })
            .collect();
        let received_notices = self.exchange_notices(process, &sent_notices)?;
        check_notices(&received_notices, weights)?;
        let sent: Vec<Buffer> = (leaving.iter().zip(&reaching))
            .map(|(leaving, reaching)| packed(leaving.iter().chain(reaching)))
            .collect();
        let received: Vec<Buffer> = received_notices
            .iter()
            .map(|notice| Buffer::zeroed(notice.edges() * WeightedEdge::BYTES))
            .collect();
        let invocation = Invocation::blocking(self);
        alltoallv(&invocation, Some(sent), received.clone())?.complete(process)?;
        let (mut leaving, mut reaching) = (Vec::new(), Vec::new());
        for (notice, buffer) in received_notices.iter().zip(&received) {
            let mut edges = unpacked::<WeightedEdge>(buffer)?.into_iter();
            leaving.extend(edges.by_ref().take(notice.leaving as usize));
            reaching.extend(edges);
        }
        Ok((leaving, reaching))
    }

    fn exchange_notices(
        self: &Rc<Self>,
        process: &Process,
        sent_notices: &[EdgeAnnouncement],
    ) -> Result<Vec<EdgeAnnouncement>> {
        let (sent, block_bytes) = (packed(sent_notices), EdgeAnnouncement::BYTES);
        let received = Buffer::zeroed(sent.len());
        let invocation = Invocation::blocking(self);
        collective::alltoall_packed(&invocation, sent, received.clone(), block_bytes)?
            .complete(process)?;
        unpacked(&received)
    }

    /// Creates a communicator with a Cartesian topology (`MPI_Cart_create`, section 8.5.1). The
    /// grid consists of the first processes, in the order of their ranks, or in another order if
    /// `reordering` allows it. Returns `None` on processes outside the grid.
    ///
    /// # Errors
    /// `Comm` for an intercommunicator; the errors of [`Communicator::create`].
    pub fn create_cartesian(
        self: &Rc<Self>,
        process: &Process,
        grid: Cartesian,
        reordering: Reordering,
    ) -> Result<Option<Rc<Communicator>>> {
        let count = grid.process_count();
        self.create_of_first(process, count, CommunicatorTopology::Cartesian(grid), reordering)
    }

    /// Creates the part of the grid around this process in the dimensions that remain
    /// (`MPI_Cart_sub`, section 8.5.7).
    ///
    /// # Errors
    /// `Topology` if the communicator is not a grid.
    pub fn create_part_of_cartesian(
        self: &Rc<Self>,
        process: &Process,
        remain: &[bool],
    ) -> Result<Option<Rc<Communicator>>> {
        let (part, members) = self.cartesian()?.part(self.rank(), remain);
        let ranks: Vec<i32> = members.iter().map(|rank| *rank as i32).collect();
        let group = self.group().incl(&ranks)?;
        let created = self.create(process, &group)?;
        Ok(created.inspect(|created| created.set_topology(CommunicatorTopology::Cartesian(part))))
    }

    /// Creates a communicator with a graph topology (`MPI_Graph_create`, section 8.5.3). The
    /// graph consists of the first processes, in the order of their ranks, or in another order if
    /// `reordering` allows it. Returns `None` on processes outside the graph.
    ///
    /// # Errors
    /// Those of [`Communicator::create_cartesian`].
    pub fn create_graph(
        self: &Rc<Self>,
        process: &Process,
        graph: GraphTopology,
        reordering: Reordering,
    ) -> Result<Option<Rc<Communicator>>> {
        let count = graph.process_count();
        self.create_of_first(process, count, CommunicatorTopology::Graph(graph), reordering)
    }

    /// Creates a communicator with a distributed graph of which each process specifies its own
    /// neighbours (`MPI_Dist_graph_create_adjacent`, section 8.5.4). If processes are reordered,
    /// the neighbours belong to the process that gets this rank.
    ///
    /// # Errors
    /// Those of [`Communicator::create_cartesian`].
    pub fn create_distributed_graph(
        self: &Rc<Self>,
        process: &Process,
        graph: DistributedGraph,
        reordering: Reordering,
    ) -> Result<Option<Rc<Communicator>>> {
        refuse_intercommunicator(self)?;
        let (order, graph) = match reordering {
            Reordering::Allowed => process.reordered_distributed(self, graph)?,
            Reordering::Forbidden => ((0..self.size()).collect(), graph),
        };
        self.create_in_order(process, &order, CommunicatorTopology::Distributed(graph))
    }

    /// Creates a communicator with a distributed graph of which each process specifies any edges
    /// (`MPI_Dist_graph_create`, section 8.5.4).
    ///
    /// # Errors
    /// Those of [`Communicator::create_cartesian`]; `Arg` if another process cannot use its
    /// edges, or if not all processes give weights.
    pub fn create_distributed_graph_of_edges(
        self: &Rc<Self>,
        process: &Process,
        edges: &[WeightedEdge],
        weights: EdgeWeights,
        reordering: Reordering,
    ) -> Result<Option<Rc<Communicator>>> {
        refuse_intercommunicator(self)?;
        let (leaving, reaching) = self.exchange_edges(process, edges, weights)?;
        let graph = DistributedGraph::of_edges(leaving, reaching, weights);
        self.create_distributed_graph(process, graph, reordering)
    }

    /// Takes part in [`Communicator::create_distributed_graph_of_edges`] for a process whose
    /// edges cannot be used. The other processes get an error instead of waiting for ever.
    ///
    /// # Errors
    /// `Comm` for an intercommunicator; `ProcFailed` if another process has failed.
    pub fn refuse_distributed_graph_of_edges(self: &Rc<Self>, process: &Process) -> Result<()> {
        refuse_intercommunicator(self)?;
        let sent_notices = vec![EdgeAnnouncement::UNUSABLE; self.size() as usize];
        self.exchange_notices(process, &sent_notices).map(|_| ())
    }
}

/// The message that a process sends to another before it sends edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EdgeAnnouncement {
    /// How many edges follow that leave the receiver.
    leaving: u32,
    /// How many edges follow after them that reach the receiver.
    reaching: u32,
    weighted: bool,
    /// Whether the program's arguments are valid.
    usable: bool,
}

impl EdgeAnnouncement {
    const UNUSABLE: Self = Self { leaving: 0, reaching: 0, weighted: false, usable: false };

    /// The two counts, the two flags.
    const BYTES: usize = 10;

    fn edges(&self) -> usize {
        self.leaving as usize + self.reaching as usize
    }
}

wire::codec!(EdgeAnnouncement { leaving, reaching, weighted, usable });

impl WeightedEdge {
    /// The two ranks, the weight.
    const BYTES: usize = 12;
}

wire::codec!(WeightedEdge { source, destination, weight });

fn check_notices(received_notices: &[EdgeAnnouncement], weights: EdgeWeights) -> Result<()> {
    let weighted = weights == EdgeWeights::Given;
    for (rank, notice) in received_notices.iter().enumerate() {
        if !notice.usable {
            let what = format!(
                "the process with rank {rank} passed invalid edges; the graph cannot be created \
                 without them"
            );
            return Err(Error::new(ErrorClass::Arg, what));
        }
        if notice.weighted != weighted {
            let (here, there) = if weighted { ("", "no ") } else { ("no ", "") };
            let what = format!(
                "{here}weights are given here, but {there}weights by the process with rank {rank}: \
                 MPI_UNWEIGHTED must be passed by all processes or by none"
            );
            return Err(Error::new(ErrorClass::Arg, what));
        }
    }
    Ok(())
}

/// Checks that a communicator may have a topology: only one with a single group may.
///
/// # Errors
/// `Comm` for an intercommunicator.
pub fn refuse_intercommunicator(communicator: &Communicator) -> Result<()> {
    if communicator.remote().is_none() {
        return Ok(());
    }
    let what = "the communicator is an intercommunicator, which has no topology";
    Err(Error::new(ErrorClass::Comm, what))
}
