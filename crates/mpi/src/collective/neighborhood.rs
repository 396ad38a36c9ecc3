//! Neighbourhood collectives (section 8.6 of the standard): data moves along the edges of the
//! communicator's topology. Blocks for or from no process are left alone.

use std::rc::Rc;

use base::Result;
use collectives::Schedule;
use memory::Buffer;

use super::blocks::{BufferBlocks, OperationMemory};
use super::execution::Task;
use super::{Collective, EqualBlocks, Invocation};

/// `MPI_Neighbor_allgather` (section 8.6.1): the same data to all destinations, a block from each
/// source.
///
/// # Errors
/// `Topology` if the communicator has none; so for all that follow.
pub fn neighbor_allgather(
    invocation: &Invocation<'_>,
    send: Buffer,
    receive: EqualBlocks,
) -> Result<Collective> {
    let schedule = invocation.required_surroundings()?.allgather();
    Ok(prepare(invocation, schedule, BufferBlocks::single(send), receive.into_blocks()))
}

/// `MPI_Neighbor_allgatherv` (section 8.6.1), with one buffer for each source.
///
/// # Errors
/// As for [`neighbor_allgather`].
pub fn neighbor_allgatherv(
    invocation: &Invocation<'_>,
    send: Buffer,
    receive: Vec<Buffer>,
) -> Result<Collective> {
    let schedule = invocation.required_surroundings()?.allgather();
    Ok(prepare(invocation, schedule, BufferBlocks::single(send), BufferBlocks::Each(receive)))
}

/// `MPI_Neighbor_alltoall` (section 8.6.2): a block to each destination, a block from each source.
///
/// # Errors
/// As for [`neighbor_allgather`].
pub fn neighbor_alltoall(
    invocation: &Invocation<'_>,
    send: EqualBlocks,
    receive: EqualBlocks,
) -> Result<Collective> {
    let schedule = invocation.required_surroundings()?.alltoall();
    Ok(prepare(invocation, schedule, send.into_blocks(), receive.into_blocks()))
}

/// `MPI_Neighbor_alltoallv` and `MPI_Neighbor_alltoallw` (section 8.6.2), with one buffer for each
/// destination and for each source.
///
/// # Errors
/// As for [`neighbor_allgather`].
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
