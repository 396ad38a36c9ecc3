//! Collective operations on intercommunicators. They are rare, so their schedules are built for
//! each call. Only the barrier's schedule is cached.

use std::rc::Rc;

use base::{Error, ErrorClass, Result};
use collectives::inter::{self as schedules, InterMember, InterRoot};
use collectives::{Operands, Schedule};
use memory::Buffer;

use super::blocks::{BufferBlocks, OperationMemory};
use super::movement::{EqualBlocks, member};
use super::reduction::{Reduction, execute};
use super::{Collective, Invocation, Task};
use crate::communicator::{Communicator, RemoteGroup};

/// The root of a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// The process with this rank; on an intercommunicator, a rank of the remote group.
    Rank(u32),
    /// This process is the root for the remote group of an intercommunicator (`MPI_ROOT`).
    Here,
    /// Another process of the local group of an intercommunicator is the root: this process takes
    /// no part (`MPI_PROC_NULL`).
    Beside,
}

impl Root {
    /// Whether this process is the root.
    pub fn is_here(self, communicator: &Communicator) -> bool {
        match self {
            Root::Rank(rank) => communicator.remote().is_none() && rank == communicator.rank(),
            Root::Here => true,
            Root::Beside => false,
        }
    }

    /// Whether this process has data of its own in the operation, other than as the root.
    pub fn involves(self) -> bool {
        matches!(self, Root::Rank(_))
    }

    /// The rank of the root in an intracommunicator.
    pub(super) fn inside(self, communicator: &Communicator) -> Result<u32> {
        let size = communicator.size();
        match self {
            Root::Rank(rank) if rank < size => Ok(rank),
            Root::Rank(rank) => Err(no_such_root(rank, size)),
            Root::Here | Root::Beside => {
                Err(Error::new(ErrorClass::Root, "only on an intercommunicator a root has no rank"))
            }
        }
    }

    fn across(self, remote: &RemoteGroup) -> Result<InterRoot> {
        let size = remote.group.size();
        match self {
            Root::Rank(rank) if rank < size => Ok(InterRoot::Remote(rank)),
            Root::Rank(rank) => Err(no_such_root(rank, size)),
            Root::Here => Ok(InterRoot::Here),
            Root::Beside => Ok(InterRoot::Beside),
        }
    }
}

#[cold]
fn no_such_root(root: u32, size: u32) -> Error {
    let sentence = format!("the root {root} is not among the {size} processes that can be it");
    Error::new(ErrorClass::Root, sentence)
}

/// Returns an error on an intercommunicator.
pub(super) fn refuse(communicator: &Communicator) -> Result<()> {
    match communicator.remote() {
        None => Ok(()),
        Some(_) => Err(Error::new(
            ErrorClass::Comm,
            "an intercommunicator has no order of all its processes, which this operation needs",
        )),
    }
}

fn inter_member<'a>(communicator: &'a Communicator, remote: &RemoteGroup) -> InterMember<'a> {
    InterMember {
        local: member(communicator),
        remote_size: remote.group.size(),
        first_local: remote.first_local,
    }
}

/// The part of a process in the root's group that is not the root: it is empty for all
/// operations.
pub fn beside_the_root(invocation: &Invocation<'_>) -> Collective {
    prepare(invocation, Schedule::default(), BufferBlocks::Absent, BufferBlocks::Absent)
}

pub(super) fn barrier(communicator: &Communicator, remote: &RemoteGroup) -> Rc<Schedule> {
    communicator.cache.barrier_across(|| schedules::barrier(inter_member(communicator, remote)))
}

pub(super) fn bcast(
    communicator: &Communicator,
    remote: &RemoteGroup,
    root: Root,
    bytes: usize,
) -> Result<Rc<Schedule>> {
    let member = inter_member(communicator, remote);
    Ok(Rc::new(schedules::bcast(member, root.across(remote)?, bytes)))
}

pub(super) fn gather(
    invocation: &Invocation<'_>,
    remote: &RemoteGroup,
    root: Root,
    send: Option<Buffer>,
    receive: Option<BufferBlocks>,
) -> Result<Collective> {
    let schedule = schedules::gather(inter_member(invocation, remote), root.across(remote)?);
    let send = send.map_or(BufferBlocks::Absent, BufferBlocks::single);
    Ok(prepare(invocation, schedule, send, receive.unwrap_or(BufferBlocks::Absent)))
}

pub(super) fn scatter(
    invocation: &Invocation<'_>,
    remote: &RemoteGroup,
    root: Root,
    send: Option<BufferBlocks>,
    receive: Option<Buffer>,
) -> Result<Collective> {
    let schedule = schedules::scatter(inter_member(invocation, remote), root.across(remote)?);
    let receive = receive.map_or(BufferBlocks::Absent, BufferBlocks::single);
    Ok(prepare(invocation, schedule, send.unwrap_or(BufferBlocks::Absent), receive))
}

pub(super) fn allgather(
    invocation: &Invocation<'_>,
    remote: &RemoteGroup,
    send: Option<Buffer>,
    receive: EqualBlocks,
) -> Result<Collective> {
    let send = send.ok_or_else(in_place)?;
    let schedule = schedules::allgather(inter_member(invocation, remote));
    let unit = send.len();
    let bytes = unit * schedule.scratch_blocks();
    let buffer = invocation.cache.scratch(bytes);
    let scratch = BufferBlocks::Bytes { buffer, unit };
    let memories =
        OperationMemory::apart(BufferBlocks::single(send), receive.into_blocks(), scratch);
    Ok(with_memories(invocation, schedule, memories))
}

pub(super) fn allgatherv(
    invocation: &Invocation<'_>,
    remote: &RemoteGroup,
    send: Option<Buffer>,
    receive: Vec<Buffer>,
) -> Result<Collective> {
    let send = BufferBlocks::single(send.ok_or_else(in_place)?);
    let schedule = schedules::allgatherv(inter_member(invocation, remote));
    Ok(prepare(invocation, schedule, send, BufferBlocks::Each(receive)))
}

pub(super) fn alltoall(
    invocation: &Invocation<'_>,
    remote: &RemoteGroup,
    send: Option<BufferBlocks>,
    receive: BufferBlocks,
) -> Result<Collective> {
    let send = send.ok_or_else(in_place)?;
    let schedule = schedules::alltoall(inter_member(invocation, remote));
    Ok(prepare(invocation, schedule, send, receive))
}

pub(super) fn reduce(
    invocation: &Invocation<'_>,
    remote: &RemoteGroup,
    root: Root,
    count: usize,
    reduction: Reduction,
) -> Result<Collective> {
    let (member, operands) = (inter_member(invocation, remote), reduction.operands(count));
    let schedule = schedules::reduce(member, root.across(remote)?, operands);
    execute(invocation, Rc::new(schedule), reduction)
}

pub(super) fn allreduce(
    invocation: &Invocation<'_>,
    remote: &RemoteGroup,
    count: usize,
    reduction: Reduction,
) -> Result<Collective> {
    reduction.send.as_ref().ok_or_else(in_place)?;
    let (member, operands) = (inter_member(invocation, remote), reduction.operands(count));
    execute(invocation, Rc::new(schedules::allreduce(member, operands)), reduction)
}

pub(super) fn reduce_scatter(
    invocation: &Invocation<'_>,
    remote: &RemoteGroup,
    counts: &[usize],
    reduction: Reduction,
) -> Result<Collective> {
    reduction.send.as_ref().ok_or_else(in_place)?;
    let operands: Operands = reduction.operands(counts.iter().sum());
    let member = inter_member(invocation, remote);
    let schedule = schedules::reduce_scatter(member, counts, operands);
    execute(invocation, Rc::new(schedule), reduction)
}

/// Broadcasts the data `own` of both sides' leaders to all processes, which receive it in `told`.
/// The data of the side with the lower process numbers comes first. Internal.
pub(crate) fn leaders_tell_all(
    invocation: &Invocation<'_>,
    remote: &RemoteGroup,
    own: Buffer,
    told: Buffer,
) -> Collective {
    let schedule = schedules::leaders_tell_all(inter_member(invocation, remote));
    let told = BufferBlocks::Bytes { unit: own.len(), buffer: told };
    prepare(invocation, schedule, BufferBlocks::single(own), told)
}

/// Sends the packed bytes of each process to all processes of the other side, where they arrive
/// in one block per sender. Internal.
pub(crate) fn across_packed(
    invocation: &Invocation<'_>,
    remote: &RemoteGroup,
    own: Buffer,
    received: Buffer,
) -> Collective {
    let schedule = schedules::allgatherv(inter_member(invocation, remote));
    let receive = BufferBlocks::Bytes { unit: own.len(), buffer: received };
    prepare(invocation, schedule, BufferBlocks::single(own), receive)
}

fn prepare(
    invocation: &Invocation<'_>,
    schedule: Schedule,
    send: BufferBlocks,
    receive: BufferBlocks,
) -> Collective {
    with_memories(invocation, schedule, OperationMemory::apart(send, receive, BufferBlocks::Absent))
}

fn with_memories(
    invocation: &Invocation<'_>,
    schedule: Schedule,
    memories: OperationMemory,
) -> Collective {
    Collective::new(invocation, Task::moving(Rc::new(schedule), memories))
}

#[cold]
fn in_place() -> Error {
    Error::new(
        ErrorClass::Buffer,
        "MPI_IN_PLACE has no meaning on an intercommunicator: nobody receives what the own side \
         contributes",
    )
}
