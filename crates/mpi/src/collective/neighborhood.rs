//! Neighbourhood collectives (section 8.6 of the standard): data moves along the edges of the
//! communicator's topology. Blocks of `MPI_PROC_NULL` neighbours are left unchanged.

use std::rc::Rc;

use base::Result;
use collectives::Schedule;
use memory::Buffer;

use super::blocks::{BufferBlocks, OperationMemory};
use super::execution::Task;
use super::{Collective, EqualBlocks, Invocation};

/// Prepares to send one block of data to all destinations and to receive a block from each source
/// (`MPI_Neighbor_allgather`, section 8.6.1).
///
/// # Errors
/// `Topology` if the communicator has none.
pub fn neighbor_allgather(
    invocation: &Invocation<'_>,
    send: Buffer,
    receive: EqualBlocks,
) -> Result<Collective> {
    let schedule = invocation.required_surroundings()?.allgather();
    Ok(prepare(invocation, schedule, BufferBlocks::single(send), receive.into_blocks()))
}

/// Prepares a neighbourhood allgather with one receive buffer for each source
/// (`MPI_Neighbor_allgatherv`, section 8.6.1).
///
/// # Errors
/// Those of [`neighbor_allgather`].
pub fn neighbor_allgatherv(
    invocation: &Invocation<'_>,
    send: Buffer,
    receive: Vec<Buffer>,
) -> Result<Collective> {
    let schedule = invocation.required_surroundings()?.allgather();
    Ok(prepare(invocation, schedule, BufferBlocks::single(send), BufferBlocks::Each(receive)))
}

/// Prepares to send a block to each destination and to receive a block from each source
/// (`MPI_Neighbor_alltoall`, section 8.6.2).
///
/// # Errors
/// Those of [`neighbor_allgather`].
pub fn neighbor_alltoall(
    invocation: &Invocation<'_>,
    send: EqualBlocks,
    receive: EqualBlocks,
) -> Result<Collective> {
    let schedule = invocation.required_surroundings()?.alltoall();
    Ok(prepare(invocation, schedule, send.into_blocks(), receive.into_blocks()))
}

/// Prepares a neighbourhood exchange with one buffer for each destination and for each source
/// (`MPI_Neighbor_alltoallv` and `MPI_Neighbor_alltoallw`, section 8.6.2).
///
/// # Errors
/// Those of [`neighbor_allgather`].
pub fn neighbor_alltoallv(
    invocation: &Invocation<'_>,
    send: Vec<Buffer>,
    receive: Vec<Buffer>,
) -> Result<Collective> {
    let schedule = invocation.required_surroundings()?.alltoall();
    Ok(prepare(invocation, schedule, BufferBlocks::Each(send), BufferBlocks::Each(receive)))
}

fn prepare(
    invocation: &Invocation<'_>,
    schedule: &Rc<Schedule>,
    send: BufferBlocks,
    receive: BufferBlocks,
) -> Collective {
    let memories = OperationMemory::apart(send, receive, BufferBlocks::Absent);
    Collective::new(invocation, Task::moving(Rc::clone(schedule), memories))
}
