//! Neighbourhood collectives: functions that make operations that are ready to run from arguments
//! (section 8.6 of the standard). None of them works in place.

use mpi::collective::{self, Collective, Invocation};

use super::blocks::{BlockList, equal_blocks};
use crate::arguments::{BlocksArgument, ElementsArgument, KnownCommunicator};
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};

pub fn neighbor_allgather(
    call: &Call,
    send: ElementsArgument,
    receive: BlocksArgument,
    comm: &Invocation<'_>,
) -> CallOutcome<Collective> {
    check_neighborhood(7, comm)?;
    let sent = send.unshifted_buffer(call)?;
    Ok(collective::neighbor_allgather(comm, sent, equal_blocks(call, &receive)?)?)
}

pub fn neighbor_allgatherv(
    call: &Call,
    send: ElementsArgument,
    receive: BlockList,
    comm: &Invocation<'_>,
) -> CallOutcome<Collective> {
    check_neighborhood(8, comm)?;
    let sent = send.unshifted_buffer(call)?;
    Ok(collective::neighbor_allgatherv(comm, sent, receive.buffers(call)?)?)
}

pub fn neighbor_alltoall(
    call: &Call,
    send: BlocksArgument,
    receive: BlocksArgument,
    comm: &Invocation<'_>,
) -> CallOutcome<Collective> {
    check_neighborhood(7, comm)?;
    let (sent, received) = (equal_blocks(call, &send)?, equal_blocks(call, &receive)?);
    Ok(collective::neighbor_alltoall(comm, sent, received)?)
}

/// `MPI_Neighbor_alltoallv` and `MPI_Neighbor_alltoallw`.
pub fn neighbor_alltoallv(
    call: &Call,
    send: BlockList,
    receive: BlockList,
    comm: &Invocation<'_>,
) -> CallOutcome<Collective> {
    check_neighborhood(9, comm)?;
    let (sent, received) = (send.buffers(call)?, receive.buffers(call)?);
    Ok(collective::neighbor_alltoallv(comm, sent, received)?)
}

/// Returns the number of blocks that a process sends, including those for `MPI_PROC_NULL`; 0
/// without neighbours.
pub fn outgoing(comm: &KnownCommunicator) -> u32 {
    comm.neighborhood().map_or(0, |neighborhood| neighborhood.outgoing_blocks as u32)
}

/// Returns the number of blocks that a process receives, including those for `MPI_PROC_NULL`; 0
/// without neighbours.
pub fn incoming(comm: &KnownCommunicator) -> u32 {
    comm.neighborhood().map_or(0, |neighborhood| neighborhood.incoming_blocks as u32)
}

/// Fails if a communicator, which is the argument at `position`, has no neighbours.
fn check_neighborhood(position: usize, comm: &Invocation<'_>) -> CallOutcome<()> {
    match comm.neighborhood() {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::of_argument(position, error)),
    }
}
