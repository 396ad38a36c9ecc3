//! Collective operations that combine data: from arguments to what is ready to run (sections 6.9 to
//! 6.11 of the standard).

use std::ffi::c_void;

use base::ErrorClass;
use memory::Buffer;
use mpi::collective::{self, Collective, Reduction, Root};
use mpi::operation::Combination;

use super::refuse_in_place;
use crate::arguments::{
    Integers, KnownCommunicator, KnownOperation, TypeArgument, UsedDatatype, buffer_at,
    check_address, is_in_place, plain_buffer_at,
};
use crate::entry::Call;
use crate::failure::{Failure, Outcome};

/// The receive buffer is the second argument of all these calls.
const RECEIVE_POSITION: usize = 2;
/// And the operation is the fifth.
const OPERATION_POSITION: usize = 5;

/// Data of a reduction: `count` elements at an address.
#[inline(always)]
fn elements(
    call: &Call,
    position: usize,
    address: *const c_void,
    count: usize,
    datatype: &UsedDatatype,
) -> Outcome<Buffer> {
    let (address, handle) = (address.cast_mut(), datatype.handle);
    // SAFETY: the program vouches for its memory during the call.
    if let Some(buffer) = unsafe { plain_buffer_at(call, address, count, handle) } {
        return Ok(buffer);
    }
    any_elements(position, address, count, datatype)
}

#[cold]
#[inline(never)]
fn any_elements(
    position: usize,
    address: *mut c_void,
    count: usize,
    datatype: &UsedDatatype,
) -> Outcome<Buffer> {
    check_address(position, address, 0, count, datatype)?;
    // SAFETY: the program vouches for its memory during the call.
    unsafe { buffer_at(address, count, datatype) }
}

/// Operands and result of a reduction in which every process gets `received` elements of `sent`.
#[inline(always)]
fn reduction(
    call: &Call,
    sendbuf: *const c_void,
    sent: usize,
    recvbuf: *mut c_void,
    received: usize,
    datatype: UsedDatatype,
    op: &KnownOperation,
) -> Outcome<Reduction> {
    let in_place = is_in_place(sendbuf);
    refuse_alias(sendbuf, recvbuf, sent.min(received))?;
    let send = match in_place {
        true => None,
        false => Some(elements(call, 1, sendbuf, sent, &datatype)?),
    };
    // In place the operands are where the result goes.
    let room = if in_place { sent } else { received };
    let receive = Some(elements(call, RECEIVE_POSITION, recvbuf, room, &datatype)?);
    let combination = checked(op, &datatype)?;
    Ok(Reduction { send, receive, datatype: datatype.object, combination })
}

/// The operation for a datatype.
#[inline(always)]
fn checked(op: &KnownOperation, datatype: &UsedDatatype) -> Outcome<Combination> {
    match op.on(datatype) {
        Ok(combination) => Ok(combination),
        Err(error) => Err(Failure::of_argument(OPERATION_POSITION, error)),
    }
}

/// Two buffers in which one process both sends and receives must not be one (section 6.1).
fn refuse_alias(sendbuf: *const c_void, recvbuf: *const c_void, count: usize) -> Outcome<()> {
    if sendbuf != recvbuf || count == 0 || sendbuf.is_null() {
        return Ok(());
    }
    let detail = "is the same as the first; use MPI_IN_PLACE in its stead";
    Err(Failure::argument(RECEIVE_POSITION, ErrorClass::Buffer, detail))
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn reduce(
    call: &Call,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: usize,
    datatype: TypeArgument,
    op: KnownOperation,
    root: Root,
    comm: &KnownCommunicator,
) -> Outcome<Collective> {
    if root == Root::Beside {
        return Ok(collective::beside_the_root(comm));
    }
    let datatype = datatype.committed(call)?;
    let arguments = if root.is_here(comm) && root.involves() {
        reduction(call, sendbuf, count, recvbuf, count, datatype, &op)?
    } else {
        let (send, receive) = if root.involves() {
            refuse_in_place(1, sendbuf)?;
            (Some(elements(call, 1, sendbuf, count, &datatype)?), None)
        } else {
            (None, Some(elements(call, RECEIVE_POSITION, recvbuf, count, &datatype)?))
        };
        let combination = checked(&op, &datatype)?;
        Reduction { send, receive, datatype: datatype.object, combination }
    };
    Ok(collective::reduce(comm, root, count, arguments)?)
}

pub fn allreduce(
    call: &Call,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: usize,
    datatype: TypeArgument,
    op: KnownOperation,
    comm: &KnownCommunicator,
) -> Outcome<Collective> {
    let datatype = datatype.committed(call)?;
    let arguments = reduction(call, sendbuf, count, recvbuf, count, datatype, &op)?;
    Ok(collective::allreduce(comm, count, arguments)?)
}

pub fn reduce_scatter_block(
    call: &Call,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: i64,
    datatype: TypeArgument,
    op: KnownOperation,
    comm: &KnownCommunicator,
) -> Outcome<Collective> {
    let count = call.count(3, recvcount)?;
    let datatype = datatype.committed(call)?;
    let total = count.saturating_mul(comm.size() as usize);
    let arguments = reduction(call, sendbuf, total, recvbuf, count, datatype, &op)?;
    Ok(collective::reduce_scatter_block(comm, count, arguments)?)
}

pub fn reduce_scatter(
    call: &Call,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: Integers,
    datatype: TypeArgument,
    op: KnownOperation,
    comm: &KnownCommunicator,
) -> Outcome<Collective> {
    // SAFETY: the program vouches for a count for each process.
    let counts = unsafe { recvcounts.read_counts(comm.size() as usize) }?;
    let datatype = datatype.committed(call)?;
    let total = counts.iter().fold(0_usize, |sum, count| sum.saturating_add(*count));
    let own = counts[comm.rank() as usize];
    let arguments = reduction(call, sendbuf, total, recvbuf, own, datatype, &op)?;
    Ok(collective::reduce_scatter(comm, &counts, arguments)?)
}

pub fn scan(
    call: &Call,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: usize,
    datatype: TypeArgument,
    op: KnownOperation,
    comm: &KnownCommunicator,
) -> Outcome<Collective> {
    let datatype = datatype.committed(call)?;
    let arguments = reduction(call, sendbuf, count, recvbuf, count, datatype, &op)?;
    Ok(collective::scan(comm, count, arguments)?)
}

pub fn exscan(
    call: &Call,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: usize,
    datatype: TypeArgument,
    op: KnownOperation,
    comm: &KnownCommunicator,
) -> Outcome<Collective> {
    let datatype = datatype.committed(call)?;
    let arguments = reduction(call, sendbuf, count, recvbuf, count, datatype, &op)?;
    Ok(collective::exscan(comm, count, arguments)?)
}

pub fn reduce_local(
    call: &Call,
    inbuf: *const c_void,
    inoutbuf: *mut c_void,
    count: usize,
    datatype: TypeArgument,
    op: KnownOperation,
) -> Outcome<()> {
    let datatype = datatype.committed(call)?;
    let from = elements(call, 1, inbuf, count, &datatype)?;
    let into = elements(call, RECEIVE_POSITION, inoutbuf, count, &datatype)?;
    let combination = checked(&op, &datatype)?;
    if count > 0 {
        combination.combine(&from, &into, count);
    }
    Ok(())
}
