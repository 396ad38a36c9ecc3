//! Partitioned point-to-point communication (chapter 4 of the standard).

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use base::ErrorClass;
use mpi::collective::EqualBlocks;
use mpi::info::Info;
use mpi::{Destination, Partitioned, Partitions};

use crate::arguments::{
    Integers, KnownCommunicator, Out, TypeArgument, buffer_at, check_address, invalid,
};
use crate::c::Request;
use crate::entry::Call;
use crate::failure::{Failure, Outcome};
use crate::generated::constants::MPI_REQUEST_NULL;

use super::point_to_point::hand_out;
use super::requests::{Pending, is_transfer};

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn psend_init(
    call: &Call,
    buf: *const c_void,
    partitions: c_int,
    count: usize,
    datatype: TypeArgument,
    dest: Destination,
    tag: i32,
    comm: KnownCommunicator,
    _info: Option<Rc<Info>>,
    request: Out<Request>,
) -> Outcome<()> {
    let partitions = divided(call, buf.cast_mut(), partitions, count, datatype)?;
    let process = &call.library.process;
    let made = process.partitioned_send_init(&comm, rank_of(dest), tag, partitions)?;
    hand_out(call, &comm, made, request);
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn precv_init(
    call: &Call,
    buf: *mut c_void,
    partitions: c_int,
    count: usize,
    datatype: TypeArgument,
    dest: Destination,
    tag: i32,
    comm: KnownCommunicator,
    _info: Option<Rc<Info>>,
    request: Out<Request>,
) -> Outcome<()> {
    let partitions = divided(call, buf, partitions, count, datatype)?;
    let process = &call.library.process;
    let made = process.partitioned_receive_init(&comm, rank_of(dest), tag, partitions)?;
    hand_out(call, &comm, made, request);
    Ok(())
}

fn rank_of(peer: Destination) -> Option<u32> {
    match peer {
        Destination::Null => None,
        Destination::Rank(rank) => Some(rank),
    }
}

/// The buffer at the first four arguments.
fn divided(
    call: &Call,
    buf: *mut c_void,
    partitions: c_int,
    count: usize,
    datatype: TypeArgument,
) -> Outcome<Partitions> {
    let parts = u32::try_from(partitions).map_err(|_| {
        let detail = format!("is {partitions}, but must not be negative");
        Failure::argument(2, ErrorClass::Arg, detail)
    })?;
    let datatype = datatype.committed(call)?.object;
    let total = count.checked_mul(parts as usize).ok_or_else(|| {
        let detail = format!("is {count}, which in {parts} partitions exceeds the memory");
        Failure::argument(3, ErrorClass::Count, detail)
    })?;
    check_address(1, buf, 0, total, &datatype)?;
    // SAFETY: the program vouches for its memory as long as the request exists.
    let buffer = unsafe { buffer_at(buf, total, &datatype) }?;
    Ok(Partitions { blocks: EqualBlocks { buffer, datatype, count }, count: parts })
}

pub fn pready(call: &Call, partition: c_int, request: Request) -> Outcome<()> {
    let operation = operation(call, 2, request)?;
    mark(call, &operation, 2, 1, partition)
}

pub fn pready_range(
    call: &Call,
    partition_low: c_int,
    partition_high: c_int,
    request: Request,
) -> Outcome<()> {
    let operation = operation(call, 3, request)?;
    if partition_low > partition_high {
        let detail = format!("is {partition_low}, above the last partition, {partition_high}");
        return Err(Failure::argument(1, ErrorClass::Arg, detail));
    }
    for (position, partition) in [(1, partition_low), (2, partition_high)] {
        let checked = operation.checked_partition(partition);
        checked.map_err(|error| Failure::of_argument(position, error))?;
    }
    (partition_low..=partition_high)
        .try_for_each(|partition| mark(call, &operation, 3, 1, partition))
}

pub fn pready_list(
    call: &Call,
    length: c_int,
    array_of_partitions: Integers,
    request: Request,
) -> Outcome<()> {
    let operation = operation(call, 3, request)?;
    let length = call.count(1, length.into())?;
    // SAFETY: the program vouches for as many partitions as it told.
    let partitions = unsafe { array_of_partitions.read_ints(length) }?;
    partitions.into_iter().try_for_each(|partition| mark(call, &operation, 3, 2, partition))
}

pub fn parrived(call: &Call, request: Request, partition: c_int, flag: Out<c_int>) -> Outcome<()> {
    // Nothing is awaited of no request.
    let arrived = request == MPI_REQUEST_NULL || {
        let operation = operation(call, 1, request)?;
        let arrived = call.library.process.has_arrived(&operation, partition);
        arrived.map_err(|error| blame(error, 1, 2))?
    };
    flag.set_flag(arrived);
    Ok(())
}

/// Marks a partition; says which argument was wrong if one was.
fn mark(
    call: &Call,
    operation: &Partitioned,
    request_position: usize,
    position: usize,
    partition: c_int,
) -> Outcome<()> {
    let marked = call.library.process.mark_ready(operation, partition);
    marked.map_err(|error| blame(error, request_position, position))
}

fn blame(error: base::Error, request_position: usize, partition_position: usize) -> Failure {
    let position =
        if error.class == ErrorClass::Request { request_position } else { partition_position };
    Failure::of_argument(position, error)
}

/// The operation behind a handle; errors go to its communicator from here on.
fn operation(call: &Call, position: usize, request: Request) -> Outcome<Rc<Partitioned>> {
    let found = call.library.requests.with(request, |pending| {
        call.blame(pending.blamed);
        match &pending.work {
            Pending::One(work) => work.partitioned().cloned(),
            _ => None,
        }
    });
    let found = found.or_else(|| is_transfer(call, request).then_some(None));
    match found {
        None => Err(invalid(position, request)),
        Some(None) => {
            let detail = "is not a partitioned operation (MPI_Psend_init, MPI_Precv_init)";
            Err(Failure::argument(position, ErrorClass::Request, detail))
        }
        Some(Some(operation)) => Ok(operation),
    }
}
