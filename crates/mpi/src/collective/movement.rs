//! The collective operations that move data and combine nothing.

use std::rc::Rc;

use base::Result;
use collectives::{CallForm, CollectiveCall, InputPlace, Schedule};
use memory::Buffer;

use super::blocks::{BufferBlocks, EqualBlocks, OperationMemory, input_of};
use super::contribution::is_copied;
use super::execution::{Repacking, Task};
use super::root::Root;
use super::{Collective, Invocation, inter};
use crate::Process;
use crate::team::Team;

/// Prepares a barrier (`MPI_Barrier`, section 6.3).
///
/// # Errors
/// Those of [`Collective::complete`](crate::collective::Collective::complete), if the members
/// decide about a board first.
#[inline(always)]
pub fn barrier(invocation: &Invocation<'_>) -> Result<Collective> {
    let schedule = match invocation.remote() {
        Some(remote) => inter::barrier(invocation, remote),
        None => invocation.schedule(&CollectiveCall::Barrier)?,
    };
    Ok(prepared(invocation, schedule, OperationMemory::plain(None, None, 0)))
}

/// Prepares a broadcast of the root's data (`MPI_Bcast`, section 6.4).
///
/// # Errors
/// `Root` if there is no such rank.
#[inline(always)]
pub fn bcast(invocation: &Invocation<'_>, root: Root, buffer: Buffer) -> Result<Collective> {
    let bytes = buffer.len();
    let schedule = match invocation.remote() {
        Some(remote) => inter::bcast(invocation, remote, root, bytes)?,
        None => {
            let root = root.inside(invocation)?;
            invocation.schedule(&CollectiveCall::Bcast { root, bytes })?
        }
    };
    Ok(over_bytes(invocation, schedule, buffer, root))
}

/// Prepares an operation whose blocks are the packed bytes of one buffer, which the source of the
/// data only reads. If the schedule moves parts of data that is not contiguous, the data is
/// packed before the operation or unpacked after it. A small contribution to an operation that
/// continues after the call is copied before.
#[inline]
fn over_bytes(
    invocation: &Invocation<'_>,
    schedule: Rc<Schedule>,
    buffer: Buffer,
    source: Root,
) -> Collective {
    let bytes = buffer.len();
    // In this order, a blocking operation only needs the check of its form.
    let is_copied = is_copied(&schedule, invocation.form(), &buffer) && source.is_here(invocation);
    let in_place = !is_copied && (buffer.is_contiguous() || !moves_parts(&schedule, bytes));
    if in_place {
        let memories = OperationMemory::plain(None, Some(buffer), 1);
        return Collective::new(invocation, Task::moving(schedule, memories));
    }
    over_packed_bytes(invocation, schedule, buffer, source)
}

/// Prepares the operation of [`over_bytes`] on a copy of the bytes.
#[inline(never)]
fn over_packed_bytes(
    invocation: &Invocation<'_>,
    schedule: Rc<Schedule>,
    buffer: Buffer,
    source: Root,
) -> Collective {
    let packed = invocation.cache.scratch(buffer.len());
    let is_source = source.is_here(invocation);
    if is_source && invocation.form() == CallForm::Nonblocking {
        buffer.copy_to(&packed);
        let memories = OperationMemory::plain(None, Some(packed), 1);
        return Collective::new(invocation, Task::moving(schedule, memories));
    }
    let mut repacking = Box::<Repacking>::default();
    match is_source {
        true => repacking.before.push((buffer, packed.clone())),
        false => repacking.after.push((packed.clone(), buffer)),
    }
    let repacking = Some(repacking);
    let memories = OperationMemory::plain(None, Some(packed), 1);
    Collective::new(invocation, Task { schedule, memories, combination: None, repacking })
}

/// Prepares a gather (`MPI_Gather`, section 6.5). `send` is `None` at a root that works in place;
/// `receive` is `None` on all other processes. If a process sends more than there is room for,
/// the operation ends with an error of class `Truncate`. This rule applies to all functions
/// below.
///
/// # Errors
/// Those of [`bcast`].
pub fn gather(
    invocation: &Invocation<'_>,
    root: Root,
    send: Option<Buffer>,
    receive: Option<EqualBlocks>,
) -> Result<Collective> {
    if let Some(remote) = invocation.remote() {
        return inter::gather(
            invocation,
            remote,
            root,
            send,
            receive.map(EqualBlocks::into_blocks),
        );
    }
    let root = root.inside(invocation)?;
    let input = input_of(&send);
    let sent_bytes = send.as_ref().map_or(0, Buffer::len);
    let block_bytes = receive.as_ref().map_or(sent_bytes, EqualBlocks::block_bytes);
    let schedule = invocation.schedule(&CollectiveCall::Gather { root, block_bytes, input })?;
    if schedule.counts_bytes() {
        let memories = OperationMemory::plain(send, receive.map(|blocks| blocks.buffer), 1);
        return Ok(prepared(invocation, schedule, memories));
    }
    let send = send.map_or(BufferBlocks::Absent, BufferBlocks::single);
    let receive = receive.map_or(BufferBlocks::Absent, EqualBlocks::into_blocks);
    Ok(in_blocks(invocation, schedule, block_bytes, send, receive))
}

/// Prepares a gather with one buffer for each rank (`MPI_Gatherv`, section 6.5). For the
/// arguments see [`gather`].
///
/// # Errors
/// Those of [`bcast`].
pub fn gatherv(
    invocation: &Invocation<'_>,
    root: Root,
    send: Option<Buffer>,
    receive: Option<Vec<Buffer>>,
) -> Result<Collective> {
    if let Some(remote) = invocation.remote() {
        return inter::gather(invocation, remote, root, send, receive.map(BufferBlocks::Each));
    }
    let root = root.inside(invocation)?;
    let call = CollectiveCall::Gatherv { root, input: input_of(&send) };
    let send = send.map_or(BufferBlocks::Absent, BufferBlocks::single);
    let receive = receive.map_or(BufferBlocks::Absent, BufferBlocks::Each);
    let schedule = invocation.schedule(&call)?;
    Ok(prepared(invocation, schedule, OperationMemory::apart(send, receive, BufferBlocks::Absent)))
}

/// Prepares a scatter (`MPI_Scatter`, section 6.6). `send` is `None` on all processes but the
/// root; `receive` is `None` at a root that works in place.
///
/// # Errors
/// Those of [`bcast`].
pub fn scatter(
    invocation: &Invocation<'_>,
    root: Root,
    send: Option<EqualBlocks>,
    receive: Option<Buffer>,
) -> Result<Collective> {
    if let Some(remote) = invocation.remote() {
        return inter::scatter(
            invocation,
            remote,
            root,
            send.map(EqualBlocks::into_blocks),
            receive,
        );
    }
    let root = root.inside(invocation)?;
    let input = input_of(&receive);
    let received_bytes = receive.as_ref().map_or(0, Buffer::len);
    let block_bytes = send.as_ref().map_or(received_bytes, EqualBlocks::block_bytes);
    let schedule = invocation.schedule(&CollectiveCall::Scatter { root, block_bytes, input })?;
    if schedule.counts_bytes() {
        let memories = OperationMemory::plain(send.map(|blocks| blocks.buffer), receive, 1);
        return Ok(prepared(invocation, schedule, memories));
    }
    let send = send.map_or(BufferBlocks::Absent, EqualBlocks::into_blocks);
    let receive = receive.map_or(BufferBlocks::Absent, BufferBlocks::single);
    Ok(in_blocks(invocation, schedule, block_bytes, send, receive))
}

/// Prepares a scatter with one buffer for each rank (`MPI_Scatterv`, section 6.6). For the
/// arguments see [`scatter`].
///
/// # Errors
/// Those of [`bcast`].
pub fn scatterv(
    invocation: &Invocation<'_>,
    root: Root,
    send: Option<Vec<Buffer>>,
    receive: Option<Buffer>,
) -> Result<Collective> {
    if let Some(remote) = invocation.remote() {
        return inter::scatter(invocation, remote, root, send.map(BufferBlocks::Each), receive);
    }
    let root = root.inside(invocation)?;
    let call = CollectiveCall::Scatterv { root, input: input_of(&receive) };
    let send = send.map_or(BufferBlocks::Absent, BufferBlocks::Each);
    let receive = receive.map_or(BufferBlocks::Absent, BufferBlocks::single);
    let schedule = invocation.schedule(&call)?;
    Ok(prepared(invocation, schedule, OperationMemory::apart(send, receive, BufferBlocks::Absent)))
}

/// Prepares an allgather (`MPI_Allgather`, section 6.7). `send` is `None` on a process that works
/// in place.
pub fn allgather(
    invocation: &Invocation<'_>,
    send: Option<Buffer>,
    receive: EqualBlocks,
) -> Result<Collective> {
    if let Some(remote) = invocation.remote() {
        return inter::allgather(invocation, remote, send, receive);
    }
    let block_bytes = receive.block_bytes();
    let call = CollectiveCall::Allgather { block_bytes, input: input_of(&send) };
    let schedule = invocation.schedule(&call)?;
    if schedule.counts_bytes() {
        return Ok(in_bytes(invocation, schedule, send, receive.buffer));
    }
    let send = send.map_or(BufferBlocks::Absent, BufferBlocks::single);
    let receive = receive.into_blocks();
    Ok(in_blocks(invocation, schedule, block_bytes, send, receive))
}

/// Prepares an allgather with one buffer for each rank (`MPI_Allgatherv`, section 6.7).
pub fn allgatherv(
    invocation: &Invocation<'_>,
    send: Option<Buffer>,
    receive: Vec<Buffer>,
) -> Result<Collective> {
    if let Some(remote) = invocation.remote() {
        return inter::allgatherv(invocation, remote, send, receive);
    }
    let total_bytes = receive.iter().map(Buffer::len).sum();
    let call = CollectiveCall::Allgatherv { total_bytes, input: input_of(&send) };
    let send = send.map_or(BufferBlocks::Absent, BufferBlocks::single);
    let schedule = invocation.schedule(&call)?;
    if schedule.joins_blocks() {
        return Ok(in_joined_blocks(invocation, schedule, send, receive));
    }
    let memories = OperationMemory::apart(send, BufferBlocks::Each(receive), BufferBlocks::Absent);
    Ok(prepared(invocation, schedule, memories))
}

/// Prepares an operation whose schedule sends and receives several blocks of different sizes as one
/// message. If they do not adjoin in the program's memory they do in internal memory, from which
/// they are unpacked in the end.
fn in_joined_blocks(
    invocation: &Invocation<'_>,
    schedule: Rc<Schedule>,
    send: BufferBlocks,
    receive: Vec<Buffer>,
) -> Collective {
    let mut repacking = None;
    let sizes = || receive.iter().map(Buffer::len);
    let buffer = Buffer::joined(&receive).unwrap_or_else(|| {
        let packed = invocation.cache.scratch(sizes().sum());
        let mut copies = Box::<Repacking>::default();
        copies.after = packed_parts(&packed, &receive).zip(receive.iter().cloned()).collect();
        let own = invocation.rank() as usize;
        let (parts, own_block) = (&mut copies.after, receive.get(own));
        if let (BufferBlocks::Absent, Some(own_block)) = (&send, own_block) {
            // In place, the own block need not be unpacked.
            let (part, _) = parts.remove(own);
            copies.before.push((own_block.clone(), part));
        }
        repacking = Some(copies);
        packed
    });
    let blocks = BufferBlocks::adjoining(buffer, sizes());
    let memories = OperationMemory::apart(send, blocks, BufferBlocks::Absent);
    Collective::new(invocation, Task { schedule, memories, combination: None, repacking })
}

/// Prepares an all-to-all exchange (`MPI_Alltoall`, section 6.8). `send` is `None` on a process
/// that works in place.
pub fn alltoall(
    invocation: &Invocation<'_>,
    send: Option<EqualBlocks>,
    receive: EqualBlocks,
) -> Result<Collective> {
    if let Some(remote) = invocation.remote() {
        return inter::alltoall(
            invocation,
            remote,
            send.map(EqualBlocks::into_blocks),
            receive.into_blocks(),
        );
    }
    let block_bytes = receive.block_bytes();
    let call = CollectiveCall::Alltoall { block_bytes, input: input_of(&send) };
    let schedule = invocation.schedule(&call)?;
    if schedule.counts_bytes() {
        let send = send.map(|blocks| blocks.buffer);
        return Ok(in_bytes(invocation, schedule, send, receive.buffer));
    }
    let send = send.map_or(BufferBlocks::Absent, EqualBlocks::into_blocks);
    let receive = receive.into_blocks();
    Ok(in_blocks(invocation, schedule, block_bytes, send, receive))
}

/// Prepares an all-to-all exchange with one buffer for each rank (`MPI_Alltoallv` and
/// `MPI_Alltoallw`, section 6.8).
pub fn alltoallv(
    invocation: &Invocation<'_>,
    send: Option<Vec<Buffer>>,
    receive: Vec<Buffer>,
) -> Result<Collective> {
    if let Some(remote) = invocation.remote() {
        return inter::alltoall(
            invocation,
            remote,
            send.map(BufferBlocks::Each),
            BufferBlocks::Each(receive),
        );
    }
    let schedule = invocation.schedule(&CollectiveCall::Alltoallv { input: input_of(&send) })?;
    let scratch_blocks = schedule.scratch_blocks();
    let scratch = match scratch_blocks {
        0 => BufferBlocks::Absent,
        // Scratch block `i` takes the data that is received into block `i` of the receive buffer.
        _ => packed_like(invocation, &receive[..scratch_blocks]),
    };
    let send = send.map_or(BufferBlocks::Absent, BufferBlocks::Each);
    let memories = OperationMemory::apart(send, BufferBlocks::Each(receive), scratch);
    Ok(prepared(invocation, schedule, memories))
}

/// Prepares an internal allgather in place of packed blocks.
pub fn allgather_packed(
    invocation: &Invocation<'_>,
    buffer: Buffer,
    block_bytes: usize,
) -> Result<Collective> {
    let call = CollectiveCall::Allgather { block_bytes, input: InputPlace::InPlace };
    let schedule = invocation.schedule(&call)?;
    let unit = if schedule.counts_bytes() { 1 } else { block_bytes };
    let receive = BufferBlocks::Bytes { buffer, unit };
    Ok(in_blocks(invocation, schedule, block_bytes, BufferBlocks::Absent, receive))
}

/// Gathers the bytes of all processes, by rank. All must give an equal number of bytes. Internal.
///
/// # Errors
/// Those of collective operations.
pub fn allgather_bytes(process: &Process, team: &Rc<Team>, mine: &[u8]) -> Result<Vec<u8>> {
    if team.size() == 1 {
        return Ok(mine.to_vec());
    }
    let all = Buffer::zeroed(mine.len() * team.size() as usize);
    all.write(team.rank() as usize * mine.len(), mine);
    let invocation = Invocation::blocking(team);
    allgather_packed(&invocation, all.clone(), mine.len())?.complete(process)?;
    let mut bytes = vec![0; all.len()];
    all.read(0, &mut bytes);
    Ok(bytes)
}

/// Prepares an internal all-to-all exchange of packed blocks.
pub(crate) fn alltoall_packed(
    invocation: &Invocation<'_>,
    send: Buffer,
    receive: Buffer,
    block_bytes: usize,
) -> Result<Collective> {
    let call = CollectiveCall::Alltoall { block_bytes, input: InputPlace::SendBuffer };
    let schedule = invocation.schedule(&call)?;
    let unit = if schedule.counts_bytes() { 1 } else { block_bytes };
    let [send, receive] = [send, receive].map(|buffer| BufferBlocks::Bytes { buffer, unit });
    Ok(in_blocks(invocation, schedule, block_bytes, send, receive))
}

#[inline(always)]
fn prepared(
    invocation: &Invocation<'_>,
    schedule: Rc<Schedule>,
    memories: OperationMemory,
) -> Collective {
    Collective::new(invocation, Task::moving(schedule, memories))
}

/// Prepares an operation whose schedule counts bytes, with the scratch memory that it needs.
#[inline]
fn in_bytes(
    invocation: &Invocation<'_>,
    schedule: Rc<Schedule>,
    send: Option<Buffer>,
    receive: Buffer,
) -> Collective {
    if schedule.scratch_blocks() == 0 {
        return prepared(invocation, schedule, OperationMemory::plain(send, Some(receive), 1));
    }
    let bytes = |buffer| BufferBlocks::Bytes { buffer, unit: 1 };
    in_blocks(invocation, schedule, 1, send.map_or(BufferBlocks::Absent, bytes), bytes(receive))
}

/// Prepares an operation with the scratch memory that its schedule needs.
#[inline(never)]
fn in_blocks(
    invocation: &Invocation<'_>,
    schedule: Rc<Schedule>,
    block_bytes: usize,
    send: BufferBlocks,
    receive: BufferBlocks,
) -> Collective {
    let scratch = match schedule.scratch_blocks() {
        0 => BufferBlocks::Absent,
        blocks => {
            let bytes = blocks * block_bytes;
            let buffer = invocation.cache.scratch(bytes);
            BufferBlocks::Bytes { buffer, unit: block_bytes }
        }
    };
    prepared(invocation, schedule, OperationMemory::apart(send, receive, scratch))
}

fn packed_like(team: &Team, blocks: &[Buffer]) -> BufferBlocks {
    let scratch = team.cache.scratch(blocks.iter().map(Buffer::len).sum());
    BufferBlocks::Each(packed_parts(&scratch, blocks).collect())
}

/// Returns parts of `memory`, one after the other, which are as long as `blocks`.
fn packed_parts(memory: &Buffer, blocks: &[Buffer]) -> impl Iterator<Item = Buffer> {
    blocks.iter().scan(0, |offset, block| {
        let packed = memory.contiguous_part(*offset, block.len());
        *offset += block.len() as isize;
        Some(packed)
    })
}

/// Whether a transfer of a schedule of byte blocks moves fewer than all `bytes`.
fn moves_parts(schedule: &Schedule, bytes: usize) -> bool {
    use collectives::Transfer::{Receive, Send};
    schedule.rounds().flat_map(|round| round.transfers).any(|transfer| match transfer {
        Send { from: place, .. } | Receive { into: place, .. } => place.count != bytes,
        _ => false,
    })
}
