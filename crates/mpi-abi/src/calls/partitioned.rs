//! Partitioned point-to-point communication (chapter 4 of the standard).

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use base::ErrorClass;
use mpi::collective::EqualBlocks;
use mpi::info::Info;
use mpi::{ChoiceKind, Destination, Partitioned, Partitions};

use crate::arguments::{
    BlocksArgument, ElementsArgument, Integer, Integers, KnownCommunicator, Out,
};
use crate::c::{self, Request};
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::MPI_REQUEST_NULL;
use crate::requests::Pending;

use super::requests::{find, hand_out, in_order};
use super::statuses::answer;

pub fn psend_init(
    call: &Call,
    blocks: BlocksArgument,
    dest: Destination,
    tag: i32,
    comm: KnownCommunicator,
    _info: Option<Rc<Info>>,
    request: Out<Request>,
) -> CallOutcome<()> {
    let partitions = divided(call, blocks)?;
    let process = &call.library.process;
    let made = comm.partitioned_send_init(process, rank_of(dest), tag, partitions)?;
    hand_out(call, comm.handle, made, request);
    Ok(())
}

pub fn precv_init(
    call: &Call,
    blocks: BlocksArgument,
    dest: Destination,
    tag: i32,
    comm: KnownCommunicator,
    _info: Option<Rc<Info>>,
    request: Out<Request>,
) -> CallOutcome<()> {
    let partitions = divided(call, blocks)?;
    let process = &call.library.process;
    let made = comm.partitioned_receive_init(process, rank_of(dest), tag, partitions)?;
    hand_out(call, comm.handle, made, request);
    Ok(())
}

fn rank_of(peer: Destination) -> Option<u32> {
    match peer {
        Destination::Null => None,
        Destination::Rank(rank) => Some(rank),
    }
}

fn divided(call: &Call, blocks: BlocksArgument) -> CallOutcome<Partitions> {
    let (buffer, datatype, count) = blocks.buffer(call)?;
    let datatype = datatype.object;
    Ok(Partitions { blocks: EqualBlocks { buffer, datatype, count }, count: blocks.number() })
}

impl Call {
    /// Returns a buffer in partitions: address, number of partitions, and count and datatype of
    /// each.
    ///
    /// # Errors
    /// `Arg` for a negative number.
    ///
    /// # Safety
    /// As for [`BlocksArgument`].
    pub unsafe fn partitions(
        &self,
        position: usize,
        address: *const c_void,
        partitions: c_int,
        count: impl Integer,
        datatype: c::Datatype,
    ) -> CallOutcome<BlocksArgument<'_>> {
        let number = u32::try_from(partitions).map_err(|_| {
            let detail = format!("is {partitions}, but must not be negative");
            Failure::argument(position + 1, ErrorClass::Arg, detail)
        })?;
        let datatype = self.used_type(position + 3, datatype)?;
        // SAFETY: the caller fulfils the safety requirements.
        Ok(unsafe {
            BlocksArgument::new(ElementsArgument::new(position, address, count, datatype), number)
        })
    }
}

pub fn pready(call: &Call, partition: c_int, request: Request) -> CallOutcome<()> {
    let operation = operation(call, 2, request)?;
    mark(call, &operation, 2, 1, std::iter::once(partition))
}

pub fn pready_range(
    call: &Call,
    partition_low: c_int,
    partition_high: c_int,
    request: Request,
) -> CallOutcome<()> {
    let operation = operation(call, 3, request)?;
    if partition_low > partition_high {
        let detail = format!("is {partition_low}, above the last partition, {partition_high}");
        return Err(Failure::argument(1, ErrorClass::Arg, detail));
    }
    for (position, partition) in [(1, partition_low), (2, partition_high)] {
        let checked = operation.checked_partition(partition);
        checked.map_err(|error| Failure::of_argument(position, error))?;
    }
    mark(call, &operation, 3, 1, partition_low..=partition_high)
}

pub fn pready_list(call: &Call, partitions: Integers, request: Request) -> CallOutcome<()> {
    let operation = operation(call, 3, request)?;
    mark(call, &operation, 3, 2, partitions.read_ints()?.into_iter())
}

pub fn parrived(
    call: &Call,
    request: Request,
    partition: c_int,
    flag: Out<c_int>,
) -> CallOutcome<()> {
    let now = || parrived_now(call, request, partition, flag);
    if !in_order::applies(call) || request == MPI_REQUEST_NULL {
        return now();
    }
    let operation = operation(call, 1, request)?;
    let process = &call.library.process;
    let has_arrived = || operation.has_arrived(process, partition) != Ok(false);
    in_order::flagged(call, ChoiceKind::PartitionTest, flag, has_arrived, now)
}

fn parrived_now(
    call: &Call,
    request: Request,
    partition: c_int,
    flag: Out<c_int>,
) -> CallOutcome<()> {
    // A null request has arrived.
    let arrived = request == MPI_REQUEST_NULL || {
        let operation = operation(call, 1, request)?;
        let arrived = operation.has_arrived(&call.library.process, partition);
        arrived.map_err(|error| set_handler_owner(error, 1, 2))?
    };
    answer(call, arrived, flag);
    Ok(())
}

/// Marks partitions as ready. An error names the argument that was wrong.
fn mark(
    call: &Call,
    operation: &Rc<Partitioned>,
    request_position: usize,
    position: usize,
    partitions: impl Iterator<Item = c_int>,
) -> CallOutcome<()> {
    let marked = operation.mark_ready(&call.library.process, partitions);
    marked.map_err(|error| set_handler_owner(error, request_position, position))
}

fn set_handler_owner(
    error: base::Error,
    request_position: usize,
    partition_position: usize,
) -> Failure {
    let position =
        if error.class == ErrorClass::Request { request_position } else { partition_position };
    Failure::of_argument(position, error)
}

/// Returns the operation of a handle. From here on errors go to its communicator.
fn operation(call: &Call, position: usize, request: Request) -> CallOutcome<Rc<Partitioned>> {
    let found = find(call, position, request, |work| match work {
        Pending::One(work) => Partitioned::of(work),
        _ => None,
    })?;
    found.ok_or_else(|| {
        let detail = "is not a partitioned operation (MPI_Psend_init, MPI_Precv_init)";
        Failure::argument(position, ErrorClass::Request, detail)
    })
}
