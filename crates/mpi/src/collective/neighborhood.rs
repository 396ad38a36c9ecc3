//! Neighbourhood collectives (section 8.6 of the standard): data moves along the edges of the
//! communicator's topology. Blocks for or from no process are left alone.

use std::rc::Rc;

use base::Result;
use collectives::Schedule;
use memory::Buffer;

use super::blocks::{Blocks, Memories};
use super::execution::Task;
use super::{Collective, EqualBlocks};
use crate::communicator::Communicator;

/// `MPI_Neighbor_allgather` (section 8.6.1): the same data to all destinations, a block from each
/// source.
///
/// # Errors
/// `Topology` if the communicator has none; so for all that follow.
pub fn neighbor_allgather(
    communicator: &Rc<Communicator>,
    send: Buffer,
    receive: EqualBlocks,
) -> Result<Collective> {
    let schedule = communicator.required_surroundings()?.allgather();
    Ok(prepare(communicator, schedule, Blocks::single(send), receive.into_blocks()))
}

/// `MPI_Neighbor_allgatherv` (section 8.6.1), with one buffer for each source.
///
/// # Errors
/// As for [`neighbor_allgather`].
pub fn neighbor_allgatherv(
    communicator: &Rc<Communicator>,
    send: Buffer,
    receive: Vec<Buffer>,
) -> Result<Collective> {
    let schedule = communicator.required_surroundings()?.allgather();
    Ok(prepare(communicator, schedule, Blocks::single(send), Blocks::Each(receive)))
}

/// `MPI_Neighbor_alltoall` (section 8.6.2): a block to each destination, a block from each source.
///
/// # Errors
/// As for [`neighbor_allgather`].
pub fn neighbor_alltoall(
    communicator: &Rc<Communicator>,
    send: EqualBlocks,
    receive: EqualBlocks,
) -> Result<Collective> {
    let schedule = communicator.required_surroundings()?.alltoall();
    Ok(prepare(communicator, schedule, send.into_blocks(), receive.into_blocks()))
}

/// `MPI_Neighbor_alltoallv` and `MPI_Neighbor_alltoallw` (section 8.6.2), with one buffer for each
/// destination and for each source.
///
/// # Errors
/// As for [`neighbor_allgather`].
pub fn neighbor_alltoallv(
    communicator: &Rc<Communicator>,
    send: Vec<Buffer>,
    receive: Vec<Buffer>,
) -> Result<Collective> {
    let schedule = communicator.required_surroundings()?.alltoall();
    Ok(prepare(communicator, schedule, Blocks::Each(send), Blocks::Each(receive)))
}

fn prepare(
    communicator: &Rc<Communicator>,
    schedule: &Rc<Schedule>,
    send: Blocks,
    receive: Blocks,
) -> Collective {
    let memories = Memories::apart(send, receive, Blocks::Absent);
    Collective::new(communicator, Task::moving(Rc::clone(schedule), memories))
}
