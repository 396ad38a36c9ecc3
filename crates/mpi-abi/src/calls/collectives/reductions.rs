//! Collective operations that combine data: functions that make operations that are ready to run
//! from arguments (sections 6.9 to 6.11 of the standard).

use std::ffi::c_void;
use std::marker::PhantomData;

use base::ErrorClass;
use memory::Buffer;
use mpi::collective::{self, Collective, Invocation, Reduction, Root};
use mpi::operation::OperationKernel;

use super::refuse_in_place;
use crate::arguments::{
    Integer, IntegerSource, KnownDatatype, KnownOperation, TypeArgument, buffer_at, check_address,
    is_in_place, plain_buffer_at,
};
use crate::c::Datatype;
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};

/// The position of the receive buffer in all these calls.
const RECEIVE_POSITION: usize = 2;
/// The position of the operation in all these calls.
const OPERATION_POSITION: usize = 5;

/// The buffers of the operands and of the result of a reduction; the number of elements is not yet
/// checked.
///
/// `sent` elements of the datatype lie at the first address, unless it is `MPI_IN_PLACE`.
/// `received` elements lie at the second address, or `sent` elements if the operands are there. The
/// memory may be used until the operation of the call is complete. The creator of a value
/// guarantees this for `'a`.
#[derive(Clone, Copy)]
pub struct ReductionBuffers<'a> {
    send: *const c_void,
    receive: *mut c_void,
    sent: usize,
    received: usize,
    datatype: TypeArgument,
    lent: PhantomData<&'a [u8]>,
}

/// The buffers of a reduction whose result one process gets.
#[derive(Clone, Copy)]
pub struct ReduceOperands<'a> {
    operands: ReductionBuffers<'a>,
    /// The number of elements, if the buffers matter.
    count: usize,
}

/// The buffers of a reduction in which a list gives the number of results for each process.
#[derive(Clone)]
pub struct CountedOperands<'a> {
    operands: ReductionBuffers<'a>,
    counts: Vec<usize>,
}

impl Call {
    /// Returns the buffers, given by both addresses, count and datatype.
    ///
    /// # Safety
    /// As for [`ReductionBuffers`], for `count` elements each.
    #[inline(always)]
    pub unsafe fn operands(
        &self,
        position: usize,
        send: *const c_void,
        receive: *mut c_void,
        count: impl Integer,
        datatype: Datatype,
    ) -> CallOutcome<ReductionBuffers<'_>> {
        let count = self.count(position + 2, count)?;
        let datatype = self.used_type(position + 3, datatype)?;
        let lent = PhantomData;
        Ok(ReductionBuffers { send, receive, sent: count, received: count, datatype, lent })
    }

    /// Returns the buffers if only some of the addresses matter: `sends` and `receives` determine
    /// which.
    ///
    /// # Safety
    /// As for [`Call::operands`], for each address that matters.
    #[expect(clippy::too_many_arguments, reason = "four are the standard's")]
    pub unsafe fn operands_if(
        &self,
        position: usize,
        send: *const c_void,
        receive: *mut c_void,
        count: impl Integer,
        datatype: Datatype,
        sends: bool,
        receives: bool,
    ) -> CallOutcome<ReduceOperands<'_>> {
        // SAFETY: an address that does not matter is used with no elements.
        let operands = unsafe { self.operands(position, send, receive, count, datatype) }?;
        let count = operands.sent;
        let sent = if sends { count } else { 0 };
        let received = if receives { count } else { 0 };
        Ok(ReduceOperands { operands: ReductionBuffers { sent, received, ..operands }, count })
    }

    /// Returns the buffers for one block per process, each of which gets the result of one block.
    ///
    /// # Safety
    /// As for [`ReductionBuffers`], for `count` elements in each block.
    pub unsafe fn block_operands(
        &self,
        position: usize,
        send: *const c_void,
        receive: *mut c_void,
        count: impl Integer,
        datatype: Datatype,
        processes: u32,
    ) -> CallOutcome<ReductionBuffers<'_>> {
        // SAFETY: the caller fulfils the safety requirements.
        let operands = unsafe { self.operands(position, send, receive, count, datatype) }?;
        let sent = operands.received.saturating_mul(processes as usize);
        Ok(ReductionBuffers { sent, ..operands })
    }

    /// Returns the buffers for blocks with a count each, given by both addresses, counts and
    /// datatype.
    ///
    /// # Safety
    /// As for [`ReductionBuffers`], for as many elements as the counts give; and as for
    /// [`Integers`](crate::arguments::Integers) for the counts.
    #[expect(clippy::too_many_arguments, reason = "four are the standard's")]
    pub unsafe fn counted_operands(
        &self,
        position: usize,
        send: *const c_void,
        receive: *mut c_void,
        counts: impl Into<IntegerSource>,
        datatype: Datatype,
        processes: u32,
        rank: u32,
    ) -> CallOutcome<CountedOperands<'_>> {
        // SAFETY: the caller fulfils the safety requirements.
        let counts = unsafe { self.integers(position + 2, counts, processes as usize) }?;
        let counts = counts.read_counts()?;
        let sent = counts.iter().fold(0_usize, |sum, count| sum.saturating_add(*count));
        let received = counts[rank as usize];
        let datatype = self.used_type(position + 3, datatype)?;
        let operands =
            ReductionBuffers { send, receive, sent, received, datatype, lent: PhantomData };
        Ok(CountedOperands { operands, counts })
    }
}

impl ReductionBuffers<'_> {
    /// Returns this process's operands; `None` if they are in the receive buffer.
    #[inline(always)]
    fn sent(&self, call: &Call, datatype: &KnownDatatype) -> CallOutcome<Option<Buffer>> {
        if is_in_place(self.send) {
            return Ok(None);
        }
        // SAFETY: the type guarantees that the operands lie there.
        unsafe { elements(call, 1, self.send, self.sent, datatype) }.map(Some)
    }

    /// Returns the buffer for the result.
    #[inline(always)]
    fn result(&self, call: &Call, datatype: &KnownDatatype) -> CallOutcome<Buffer> {
        // With MPI_IN_PLACE the operands are in the buffer of the result.
        let room = if is_in_place(self.send) { self.sent } else { self.received };
        // SAFETY: the type guarantees room for the result, and for the operands if they are in
        // place.
        unsafe { elements(call, RECEIVE_POSITION, self.receive, room, datatype) }
    }

    /// Returns the reduction, for operations in which every process gets a result.
    #[inline(always)]
    fn reduction(&self, call: &Call, op: &KnownOperation) -> CallOutcome<Reduction> {
        let datatype = self.datatype.committed(call)?;
        refuse_alias(self.send, self.receive, self.sent.min(self.received))?;
        let send = self.sent(call, &datatype)?;
        let receive = Some(self.result(call, &datatype)?);
        let combination = checked(op, &datatype)?;
        Ok(Reduction { send, receive, datatype: datatype.object, combination })
    }
}

/// Returns `count` elements at an address as a buffer.
///
/// # Safety
/// They lie there, in memory that the operation of the call may use until it is complete.
#[inline(always)]
unsafe fn elements(
    call: &Call,
    position: usize,
    address: *const c_void,
    count: usize,
    datatype: &KnownDatatype,
) -> CallOutcome<Buffer> {
    let (address, handle) = (address.cast_mut(), datatype.handle);
    // SAFETY: the caller fulfils the safety requirements.
    if let Some(buffer) = unsafe { plain_buffer_at(call, address, count, handle) } {
        return Ok(buffer);
    }
    // SAFETY: the caller fulfils the safety requirements.
    unsafe { any_elements(call, position, address, count, datatype) }
}

/// Like [`elements`], for any datatype.
///
/// # Safety
/// As for [`elements`].
#[cold]
#[inline(never)]
unsafe fn any_elements(
    call: &Call,
    position: usize,
    address: *mut c_void,
    count: usize,
    datatype: &KnownDatatype,
) -> CallOutcome<Buffer> {
    check_address(position, address, 0, count, datatype)?;
    // SAFETY: the caller fulfils the safety requirements.
    unsafe { buffer_at(call, address, count, datatype) }
}

/// Returns the operation for a datatype.
#[inline(always)]
fn checked(op: &KnownOperation, datatype: &KnownDatatype) -> CallOutcome<OperationKernel> {
    match op.on(datatype) {
        Ok(combination) => Ok(combination),
        Err(error) => Err(Failure::of_argument(OPERATION_POSITION, error)),
    }
}

/// Refuses a buffer that one process uses both for sending and for receiving (section 6.1).
fn refuse_alias(sendbuf: *const c_void, recvbuf: *const c_void, count: usize) -> CallOutcome<()> {
    if sendbuf != recvbuf || count == 0 || sendbuf.is_null() {
        return Ok(());
    }
    let detail = "is the same buffer as the first; use MPI_IN_PLACE instead";
    Err(Failure::argument(RECEIVE_POSITION, ErrorClass::Buffer, detail))
}

pub fn reduce(
    call: &Call,
    operands: ReduceOperands,
    op: KnownOperation,
    root: Root,
    comm: &Invocation<'_>,
) -> CallOutcome<Collective> {
    if root == Root::Beside {
        return Ok(collective::beside_the_root(comm));
    }
    let ReduceOperands { operands, count } = operands;
    let arguments = if root.is_here(comm) && root.involves() {
        operands.reduction(call, &op)?
    } else {
        let datatype = operands.datatype.committed(call)?;
        let (send, receive) = if root.involves() {
            refuse_in_place(1, operands.send)?;
            (operands.sent(call, &datatype)?, None)
        } else {
            (None, Some(operands.result(call, &datatype)?))
        };
        let combination = checked(&op, &datatype)?;
        Reduction { send, receive, datatype: datatype.object, combination }
    };
    Ok(collective::reduce(comm, root, count, arguments)?)
}

pub fn allreduce(
    call: &Call,
    operands: ReductionBuffers,
    op: KnownOperation,
    comm: &Invocation<'_>,
) -> CallOutcome<Collective> {
    Ok(collective::allreduce(comm, operands.sent, operands.reduction(call, &op)?)?)
}

/// Returns the arguments of an allreduce that begins later.
pub fn allreduce_arguments(
    call: &Call,
    operands: ReductionBuffers,
    op: &KnownOperation,
) -> CallOutcome<(usize, Reduction)> {
    Ok((operands.sent, operands.reduction(call, op)?))
}

pub fn reduce_scatter_block(
    call: &Call,
    operands: ReductionBuffers,
    op: KnownOperation,
    comm: &Invocation<'_>,
) -> CallOutcome<Collective> {
    let arguments = operands.reduction(call, &op)?;
    Ok(collective::reduce_scatter_block(comm, operands.received, arguments)?)
}

pub fn reduce_scatter(
    call: &Call,
    operands: CountedOperands,
    op: KnownOperation,
    comm: &Invocation<'_>,
) -> CallOutcome<Collective> {
    let arguments = operands.operands.reduction(call, &op)?;
    Ok(collective::reduce_scatter(comm, operands.counts, arguments)?)
}

pub fn scan(
    call: &Call,
    operands: ReductionBuffers,
    op: KnownOperation,
    comm: &Invocation<'_>,
) -> CallOutcome<Collective> {
    Ok(collective::scan(comm, operands.sent, operands.reduction(call, &op)?)?)
}

pub fn exscan(
    call: &Call,
    operands: ReductionBuffers,
    op: KnownOperation,
    comm: &Invocation<'_>,
) -> CallOutcome<Collective> {
    Ok(collective::exscan(comm, operands.sent, operands.reduction(call, &op)?)?)
}

pub fn reduce_local(
    call: &Call,
    operands: ReductionBuffers,
    op: KnownOperation,
) -> CallOutcome<()> {
    let datatype = operands.datatype.committed(call)?;
    // SAFETY: the type guarantees that the operands lie there; MPI_IN_PLACE has no meaning here.
    let from = unsafe { elements(call, 1, operands.send, operands.sent, &datatype) }?;
    let into = operands.result(call, &datatype)?;
    let combination = checked(&op, &datatype)?;
    if operands.sent > 0 {
        combination.combine(&from, &into, operands.sent);
    }
    Ok(())
}
