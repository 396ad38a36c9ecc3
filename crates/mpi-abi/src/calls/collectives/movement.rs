//! Collective operations that move data: from arguments to what is ready to run (sections 6.3 to 6.8
//! of the standard).

use std::ffi::c_void;

use memory::Buffer;
use mpi::collective::{self, Collective, Root};

use super::blocks::{BlockTable, TypedBlockTable, equal_blocks};
use crate::arguments::{
    Elements, HandleList, Integers, KnownCommunicator, TypeArgument, is_in_place,
};
use crate::c::Datatype;
use crate::entry::Call;
use crate::failure::Outcome;

pub fn barrier(_call: &Call, comm: &KnownCommunicator) -> Outcome<Collective> {
    Ok(collective::barrier(comm))
}

pub fn bcast(
    call: &Call,
    buffer: Elements,
    root: Root,
    comm: &KnownCommunicator,
) -> Outcome<Collective> {
    if root == Root::Beside {
        return Ok(collective::beside_the_root(comm));
    }
    // SAFETY: the program vouches for its memory during the call.
    let buffer = unsafe { buffer.buffer(call) }?;
    Ok(collective::bcast(comm, root, buffer)?)
}

/// This process's own data, or none where it works in place, as only some may.
fn own(call: &Call, elements: Elements, may_be_in_place: bool) -> Outcome<Option<Buffer>> {
    if may_be_in_place && elements.is_in_place() {
        return Ok(None);
    }
    // SAFETY: the program vouches for its memory during the call.
    unsafe { elements.unshifted_buffer(call) }.map(Some)
}

pub fn gather(
    call: &Call,
    send: Elements,
    receive: Elements,
    root: Root,
    comm: &KnownCommunicator,
) -> Outcome<Collective> {
    let is_root = root.is_here(comm);
    let sent = if root.involves() { own(call, send, is_root)? } else { None };
    let received = match is_root {
        true => Some(equal_blocks(call, receive, comm.peer_count())?),
        false => None,
    };
    Ok(collective::gather(comm, root, sent, received)?)
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn gatherv(
    call: &Call,
    send: Elements,
    recvbuf: *mut c_void,
    recvcounts: Integers,
    displs: Integers,
    recvtype: TypeArgument,
    root: Root,
    comm: &KnownCommunicator,
) -> Outcome<Collective> {
    let is_root = root.is_here(comm);
    let sent = if root.involves() { own(call, send, is_root)? } else { None };
    let table = BlockTable { position: 4, address: recvbuf, counts: recvcounts, displs };
    let received = match is_root {
        true => Some(table.buffers(call, recvtype, comm.peer_count())?),
        false => None,
    };
    Ok(collective::gatherv(comm, root, sent, received)?)
}

pub fn scatter(
    call: &Call,
    send: Elements,
    receive: Elements,
    root: Root,
    comm: &KnownCommunicator,
) -> Outcome<Collective> {
    let is_root = root.is_here(comm);
    let received = if root.involves() { own(call, receive, is_root)? } else { None };
    let sent = match is_root {
        true => Some(equal_blocks(call, send, comm.peer_count())?),
        false => None,
    };
    Ok(collective::scatter(comm, root, sent, received)?)
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn scatterv(
    call: &Call,
    sendbuf: *const c_void,
    sendcounts: Integers,
    displs: Integers,
    sendtype: TypeArgument,
    receive: Elements,
    root: Root,
    comm: &KnownCommunicator,
) -> Outcome<Collective> {
    let is_root = root.is_here(comm);
    let received = if root.involves() { own(call, receive, is_root)? } else { None };
    let address = sendbuf.cast_mut();
    let table = BlockTable { position: 1, address, counts: sendcounts, displs };
    let sent = match is_root {
        true => Some(table.buffers(call, sendtype, comm.peer_count())?),
        false => None,
    };
    Ok(collective::scatterv(comm, root, sent, received)?)
}

pub fn allgather(
    call: &Call,
    send: Elements,
    receive: Elements,
    comm: &KnownCommunicator,
) -> Outcome<Collective> {
    let sent = own(call, send, true)?;
    let received = equal_blocks(call, receive, comm.peer_count())?;
    Ok(collective::allgather(comm, sent, received)?)
}

pub fn allgatherv(
    call: &Call,
    send: Elements,
    recvbuf: *mut c_void,
    recvcounts: Integers,
    displs: Integers,
    recvtype: TypeArgument,
    comm: &KnownCommunicator,
) -> Outcome<Collective> {
    let sent = own(call, send, true)?;
    let table = BlockTable { position: 4, address: recvbuf, counts: recvcounts, displs };
    let received = table.buffers(call, recvtype, comm.peer_count())?;
    Ok(collective::allgatherv(comm, sent, received)?)
}

pub fn alltoall(
    call: &Call,
    send: Elements,
    receive: Elements,
    comm: &KnownCommunicator,
) -> Outcome<Collective> {
    let sent = match send.is_in_place() {
        true => None,
        false => Some(equal_blocks(call, send, comm.peer_count())?),
    };
    let received = equal_blocks(call, receive, comm.peer_count())?;
    Ok(collective::alltoall(comm, sent, received)?)
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn alltoallv(
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
    let address = sendbuf.cast_mut();
    let out = BlockTable { position: 1, address, counts: sendcounts, displs: sdispls };
    let sent = match is_in_place(sendbuf) {
        true => None,
        false => Some(out.buffers(call, sendtype, comm.peer_count())?),
    };
    let into = BlockTable { position: 5, address: recvbuf, counts: recvcounts, displs: rdispls };
    let received = into.buffers(call, recvtype, comm.peer_count())?;
    Ok(collective::alltoallv(comm, sent, received)?)
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn alltoallw(
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
    let address = sendbuf.cast_mut();
    let blocks = BlockTable { position: 1, address, counts: sendcounts, displs: sdispls };
    let sent = match is_in_place(sendbuf) {
        true => None,
        false => {
            Some(TypedBlockTable { blocks, types: sendtypes }.buffers(call, comm.peer_count())?)
        }
    };
    let blocks = BlockTable { position: 5, address: recvbuf, counts: recvcounts, displs: rdispls };
    let received = TypedBlockTable { blocks, types: recvtypes }.buffers(call, comm.peer_count())?;
    Ok(collective::alltoallv(comm, sent, received)?)
}
