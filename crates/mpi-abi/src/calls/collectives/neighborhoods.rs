//! Neighbourhood collectives: from arguments to what is ready to run (section 8.6 of the standard).
//! None of them works in place.

use std::ffi::c_void;

use mpi::collective::{self, Collective};

use super::blocks::{BlockTable, TypedBlockTable, equal_blocks};
use crate::arguments::{Elements, HandleList, Integers, KnownCommunicator, TypeArgument};
use crate::c::Datatype;
use crate::entry::Call;
use crate::failure::{Failure, Outcome};

pub fn neighbor_allgather(
    call: &Call,
    send: Elements,
    receive: Elements,
    comm: &KnownCommunicator,
) -> Outcome<Collective> {
    let blocks = block_counts(7, comm)?;
    // SAFETY: the program vouches for its memory during the call.
    let sent = unsafe { send.unshifted_buffer(call) }?;
    let received = equal_blocks(call, receive, blocks.incoming)?;
    Ok(collective::neighbor_allgather(comm, sent, received)?)
}

pub fn neighbor_allgatherv(
    call: &Call,
    send: Elements,
    recvbuf: *mut c_void,
    recvcounts: Integers,
    displs: Integers,
    recvtype: TypeArgument,
    comm: &KnownCommunicator,
) -> Outcome<Collective> {
    let blocks = block_counts(8, comm)?;
    // SAFETY: the program vouches for its memory during the call.
    let sent = unsafe { send.unshifted_buffer(call) }?;
    let table = BlockTable { position: 4, address: recvbuf, counts: recvcounts, displs };
    let received = table.buffers(call, recvtype, blocks.incoming)?;
    Ok(collective::neighbor_allgatherv(comm, sent, received)?)
}

pub fn neighbor_alltoall(
    call: &Call,
    send: Elements,
    receive: Elements,
    comm: &KnownCommunicator,
) -> Outcome<Collective> {
    let blocks = block_counts(7, comm)?;
    let sent = equal_blocks(call, send, blocks.outgoing)?;
    let received = equal_blocks(call, receive, blocks.incoming)?;
    Ok(collective::neighbor_alltoall(comm, sent, received)?)
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn neighbor_alltoallv(
    call: &Call,
    sendbuf: *const c_void,
    sendcounts: Integers,
    sdispls: Integers,
    sendtype: TypeArgument,
    recvbuf: *mut c_void,
    recvcounts: Integers,
    rdispls: Integers,
    recvtype: TypeArgument,
    comm: &KnownCommunicator,
) -> Outcome<Collective> {
    let blocks = block_counts(9, comm)?;
    let address = sendbuf.cast_mut();
    let out = BlockTable { position: 1, address, counts: sendcounts, displs: sdispls };
    let into = BlockTable { position: 5, address: recvbuf, counts: recvcounts, displs: rdispls };
    let sent = out.buffers(call, sendtype, blocks.outgoing)?;
    let received = into.buffers(call, recvtype, blocks.incoming)?;
    Ok(collective::neighbor_alltoallv(comm, sent, received)?)
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn neighbor_alltoallw(
    call: &Call,
    sendbuf: *const c_void,
    sendcounts: Integers,
    sdispls: Integers,
    sendtypes: HandleList<Datatype>,
    recvbuf: *mut c_void,
    recvcounts: Integers,
    rdispls: Integers,
    recvtypes: HandleList<Datatype>,
    comm: &KnownCommunicator,
) -> Outcome<Collective> {
    let counts = block_counts(9, comm)?;
    let address = sendbuf.cast_mut();
    let blocks = BlockTable { position: 1, address, counts: sendcounts, displs: sdispls };
    let sent = TypedBlockTable { blocks, types: sendtypes }.buffers(call, counts.outgoing)?;
    let blocks = BlockTable { position: 5, address: recvbuf, counts: recvcounts, displs: rdispls };
    let received = TypedBlockTable { blocks, types: recvtypes }.buffers(call, counts.incoming)?;
    Ok(collective::neighbor_alltoallv(comm, sent, received)?)
}

/// How many blocks a process sends and receives, those for no process included.
struct BlockCounts {
    outgoing: u32,
    incoming: u32,
}

/// Of a communicator, which is the argument at `position`.
fn block_counts(position: usize, comm: &KnownCommunicator) -> Outcome<BlockCounts> {
    let neighborhood =
        comm.neighborhood().map_err(|error| Failure::of_argument(position, error))?;
    Ok(BlockCounts {
        outgoing: neighborhood.outgoing_blocks as u32,
        incoming: neighborhood.incoming_blocks as u32,
    })
}
