//! Blocking collective operations that move data (chapter 6 of the standard).

mod blocks;
mod reductions;

use std::ffi::c_void;

use base::ErrorClass;
use memory::Buffer;

use crate::arguments::{
    Elements, HandleList, Integers, KnownCommunicator, TypeArgument, is_in_place,
};
use crate::c::Datatype;
use crate::entry::Call;
use crate::failure::{Failure, Outcome};
use blocks::{BlockTable, TypedBlockTable, equal_blocks};

pub use reductions::{
    allreduce, exscan, reduce, reduce_local, reduce_scatter, reduce_scatter_block, scan,
};

pub fn barrier(call: &Call, comm: KnownCommunicator) -> Outcome<()> {
    Ok(call.library.process.barrier(&comm)?)
}

pub fn bcast(call: &Call, buffer: Elements, root: u32, comm: KnownCommunicator) -> Outcome<()> {
    // SAFETY: the program vouches for its memory during the call.
    let buffer = unsafe { buffer.buffer(call) }?;
    Ok(call.library.process.bcast(&comm, root, buffer)?)
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
    root: u32,
    comm: KnownCommunicator,
) -> Outcome<()> {
    let is_root = comm.rank() == root;
    let sent = own(call, send, is_root)?;
    let received = match is_root {
        true => Some(equal_blocks(call, receive, comm.size())?),
        false => None,
    };
    Ok(call.library.process.gather(&comm, root, sent, received)?)
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn gatherv(
    call: &Call,
    send: Elements,
    recvbuf: *mut c_void,
    recvcounts: Integers,
    displs: Integers,
    recvtype: TypeArgument,
    root: u32,
    comm: KnownCommunicator,
) -> Outcome<()> {
    let is_root = comm.rank() == root;
    let sent = own(call, send, is_root)?;
    let table = BlockTable { position: 4, address: recvbuf, counts: recvcounts, displs };
    let received = match is_root {
        true => Some(table.buffers(call, recvtype, comm.size())?),
        false => None,
    };
    Ok(call.library.process.gatherv(&comm, root, sent, received)?)
}

pub fn scatter(
    call: &Call,
    send: Elements,
    receive: Elements,
    root: u32,
    comm: KnownCommunicator,
) -> Outcome<()> {
    let is_root = comm.rank() == root;
    let received = own(call, receive, is_root)?;
    let sent = match is_root {
        true => Some(equal_blocks(call, send, comm.size())?),
        false => None,
    };
    Ok(call.library.process.scatter(&comm, root, sent, received)?)
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn scatterv(
    call: &Call,
    sendbuf: *const c_void,
    sendcounts: Integers,
    displs: Integers,
    sendtype: TypeArgument,
    receive: Elements,
    root: u32,
    comm: KnownCommunicator,
) -> Outcome<()> {
    let is_root = comm.rank() == root;
    let received = own(call, receive, is_root)?;
    let address = sendbuf.cast_mut();
    let table = BlockTable { position: 1, address, counts: sendcounts, displs };
    let sent = match is_root {
        true => Some(table.buffers(call, sendtype, comm.size())?),
        false => None,
    };
    Ok(call.library.process.scatterv(&comm, root, sent, received)?)
}

pub fn allgather(
    call: &Call,
    send: Elements,
    receive: Elements,
    comm: KnownCommunicator,
) -> Outcome<()> {
    let sent = own(call, send, true)?;
    let received = equal_blocks(call, receive, comm.size())?;
    Ok(call.library.process.allgather(&comm, sent, received)?)
}

pub fn allgatherv(
    call: &Call,
    send: Elements,
    recvbuf: *mut c_void,
    recvcounts: Integers,
    displs: Integers,
    recvtype: TypeArgument,
    comm: KnownCommunicator,
) -> Outcome<()> {
    let sent = own(call, send, true)?;
    let table = BlockTable { position: 4, address: recvbuf, counts: recvcounts, displs };
    let received = table.buffers(call, recvtype, comm.size())?;
    Ok(call.library.process.allgatherv(&comm, sent, received)?)
}

pub fn alltoall(
    call: &Call,
    send: Elements,
    receive: Elements,
    comm: KnownCommunicator,
) -> Outcome<()> {
    let sent = match send.is_in_place() {
        true => None,
        false => Some(equal_blocks(call, send, comm.size())?),
    };
    let received = equal_blocks(call, receive, comm.size())?;
    Ok(call.library.process.alltoall(&comm, sent, received)?)
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
    comm: KnownCommunicator,
) -> Outcome<()> {
    let address = sendbuf.cast_mut();
    let out = BlockTable { position: 1, address, counts: sendcounts, displs: sdispls };
    let sent = match is_in_place(sendbuf) {
        true => None,
        false => Some(out.buffers(call, sendtype, comm.size())?),
    };
    let into = BlockTable { position: 5, address: recvbuf, counts: recvcounts, displs: rdispls };
    let received = into.buffers(call, recvtype, comm.size())?;
    Ok(call.library.process.alltoallv(&comm, sent, received)?)
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
    comm: KnownCommunicator,
) -> Outcome<()> {
    let address = sendbuf.cast_mut();
    let blocks = BlockTable { position: 1, address, counts: sendcounts, displs: sdispls };
    let sent = match is_in_place(sendbuf) {
        true => None,
        false => Some(TypedBlockTable { blocks, types: sendtypes }.buffers(call, comm.size())?),
    };
    let blocks = BlockTable { position: 5, address: recvbuf, counts: recvcounts, displs: rdispls };
    let received = TypedBlockTable { blocks, types: recvtypes }.buffers(call, comm.size())?;
    Ok(call.library.process.alltoallv(&comm, sent, received)?)
}

/// Fails for an address that is in place where that is not allowed.
fn refuse_in_place(position: usize, address: *const c_void) -> Outcome<()> {
    if !is_in_place(address) {
        return Ok(());
    }
    let detail = "is MPI_IN_PLACE, which is not allowed here";
    Err(Failure::argument(position, ErrorClass::Buffer, detail))
}
