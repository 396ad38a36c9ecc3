//! Collective operations on intercommunicators. They are rare, so their schedules are built for
//! each call. Only the barrier's schedule is cached.

use std::rc::Rc;

use base::{Error, ErrorClass, Result};
use collectives::inter::{self as schedules, InterMember};
use collectives::{Operands, Schedule};
use memory::Buffer;

use super::blocks::{BufferBlocks, EqualBlocks, OperationMemory};
use super::execution::Task;
use super::root::Root;
use super::{Collective, Invocation};
use crate::message_domain::RemoteGroup;
use crate::team::Team;

/// Returns an error on an intercommunicator.
pub(super) fn refuse(team: &Team) -> Result<()> {
    match team.remote() {
        None => Ok(()),
        Some(_) => Err(Error::new(
            ErrorClass::Comm,
            "an intercommunicator has no order of all its processes, which this operation needs",
        )),
    }
}

fn inter_member<'a>(team: &'a Team, remote: &RemoteGroup) -> InterMember<'a> {
    InterMember {
        local: team.member(),
        remote_size: remote.group.size(),
        first_local: remote.first_local,
    }
}

/// The part of a process in the root's group that is not the root: it is empty for all
/// operations.
pub fn beside_the_root(invocation: &Invocation<'_>) -> Collective {
    prepare(invocation, Schedule::default(), BufferBlocks::Absent, BufferBlocks::Absent)
}

pub(super) fn barrier(team: &Team, remote: &RemoteGroup) -> Rc<Schedule> {
    team.cache.barrier_across(|| schedules::barrier(inter_member(team, remote)))
}

pub(super) fn bcast(
    team: &Team,
    remote: &RemoteGroup,
    root: Root,
    bytes: usize,
) -> Result<Rc<Schedule>> {
    let member = inter_member(team, remote);
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
    let send = contributed(send)?;
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
    let send = BufferBlocks::single(contributed(send)?);
    let schedule = schedules::allgatherv(inter_member(invocation, remote));
    Ok(prepare(invocation, schedule, send, BufferBlocks::Each(receive)))
}

pub(super) fn alltoall(
    invocation: &Invocation<'_>,
    remote: &RemoteGroup,
    send: Option<BufferBlocks>,
    receive: BufferBlocks,
) -> Result<Collective> {
    let send = contributed(send)?;
    let schedule = schedules::alltoall(inter_member(invocation, remote));
    Ok(prepare(invocation, schedule, send, receive))
}

/// Returns the schedule of a reduction.
pub(super) fn reduce(
    team: &Team,
    remote: &RemoteGroup,
    root: Root,
    operands: Operands,
) -> Result<Schedule> {
    Ok(schedules::reduce(inter_member(team, remote), root.across(remote)?, operands))
}

/// Returns the schedule of a reduction to all processes.
pub(super) fn allreduce(team: &Team, remote: &RemoteGroup, operands: Operands) -> Schedule {
    schedules::allreduce(inter_member(team, remote), operands)
}

/// Returns the schedule of a reduction of which rank `i` gets `counts[i]` elements.
pub(super) fn reduce_scatter(
    team: &Team,
    remote: &RemoteGroup,
    counts: &[usize],
    operands: Operands,
) -> Schedule {
    schedules::reduce_scatter(inter_member(team, remote), counts, operands)
}

/// Returns the data that a process contributes.
///
/// # Errors
/// `Buffer` if it works in place.
pub(super) fn contributed<T>(send: Option<T>) -> Result<T> {
    send.ok_or_else(in_place)
}

/// Broadcasts the data `own` of both sides' leaders to all processes, which receive it in
/// `agreed_block`. The data of the side with the lower process numbers comes first. Internal.
pub(crate) fn leaders_send_all(
    invocation: &Invocation<'_>,
    remote: &RemoteGroup,
    own: Buffer,
    agreed_block: Buffer,
) -> Collective {
    let schedule = schedules::leaders_send_all(inter_member(invocation, remote));
    let agreed_block = BufferBlocks::Bytes { unit: own.len(), buffer: agreed_block };
    prepare(invocation, schedule, BufferBlocks::single(own), agreed_block)
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
        "MPI_IN_PLACE is not allowed on an intercommunicator: only the remote group receives the \
         data of the local group",
    )
}
