//! Neighbourhood collectives: data moves along the edges of a topology (section 8.6 of the
//! standard).
//!
//! All transfers of a process are one round. Rounds with fewer peers would require an order of
//! edges that all processes agree on, which they cannot find without knowledge of the whole graph.

use crate::schedule::{Area, Schedule};

/// The edges of one process.
///
/// The edges between two processes match in order: the first of one process's `sends` to another
/// matches the first of that process's `receives` from it, and so on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighborhood {
    /// The number of blocks to send, including blocks for `MPI_PROC_NULL`.
    pub outgoing_blocks: usize,
    /// The number of blocks to receive, including blocks from `MPI_PROC_NULL`.
    pub incoming_blocks: usize,
    /// The edges along which data is sent.
    pub sends: Vec<Edge>,
    /// The edges along which data is received.
    pub receives: Vec<Edge>,
}

/// One end of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The process at the other end.
    pub peer: u32,
    /// The block of the edge, in the send or in the receive buffer.
    pub block: usize,
}

impl Neighborhood {
    /// Makes edges with one block for each destination and each source, in the order of the lists.
    pub fn of_lists(destinations: &[u32], sources: &[u32]) -> Self {
        let edges = |peers: &[u32]| {
            peers.iter().enumerate().map(|(block, peer)| Edge { peer: *peer, block }).collect()
        };
        Self {
            outgoing_blocks: destinations.len(),
            incoming_blocks: sources.len(),
            sends: edges(destinations),
            receives: edges(sources),
        }
    }
}

/// `MPI_Neighbor_allgather` and its v-form, for the process `rank`: the single block of the send
/// buffer goes to all destinations.
pub fn neighbor_allgather(rank: u32, neighborhood: &Neighborhood) -> Schedule {
    along_edges(rank, neighborhood, |_| 0)
}

/// `MPI_Neighbor_alltoall` and its v- and w-forms, for the process `rank`: block `i` of the send
/// buffer goes along edge `i`.
pub fn neighbor_alltoall(rank: u32, neighborhood: &Neighborhood) -> Schedule {
    along_edges(rank, neighborhood, |edge| edge.block)
}

/// Makes the transfers along all edges. Edges from a process to itself are copies.
fn along_edges(
    rank: u32,
    neighborhood: &Neighborhood,
    block_to_send: impl Fn(&Edge) -> usize,
) -> Schedule {
    let mut schedule = Schedule::default();
    for edge in neighborhood.receives.iter().filter(|edge| edge.peer != rank) {
        schedule.receive(edge.peer, Area::Receive.block(edge.block));
    }
    for edge in neighborhood.sends.iter().filter(|edge| edge.peer != rank) {
        schedule.send(edge.peer, Area::Send.block(block_to_send(edge)));
    }
    let leaving = neighborhood.sends.iter().filter(|edge| edge.peer == rank);
    let reaching = neighborhood.receives.iter().filter(|edge| edge.peer == rank);
    for (from, into) in leaving.zip(reaching) {
        schedule.copy(Area::Send.block(block_to_send(from)), Area::Receive.block(into.block));
    }
    schedule.end_round();
    schedule
}
