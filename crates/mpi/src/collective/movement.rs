//! Executions of the collectives that move data and combine nothing.

use std::sync::Arc;

use collectives::{Input, Member, Schedule};
use datatype::Datatype;
use engine::RequestId;
use memory::Buffer;

use super::blocks::{Blocks, Memories};
use super::cache::ScheduleKey;
use super::execution::Execution;
use crate::communicator::Communicator;

/// Equal blocks, one for each process of a communicator.
#[derive(Clone, Debug)]
pub struct EqualBlocks {
    /// All blocks; block `i` begins at `i * count` extents of the datatype.
    pub buffer: Buffer,
    /// The type of all elements.
    pub datatype: Arc<Datatype>,
    /// How many elements make one block.
    pub count: usize,
}

impl EqualBlocks {
    fn block_bytes(&self) -> usize {
        self.count * self.datatype.size()
    }

    fn into_blocks(self) -> Blocks {
        Blocks::of_elements(self.buffer, &self.datatype, self.count)
    }
}

pub(super) fn barrier(communicator: &Communicator) -> Execution<RequestId> {
    let memories =
        Memories { send: Blocks::Absent, receive: Blocks::Absent, scratch: Blocks::Absent };
    prepare(communicator, ScheduleKey::Barrier, memories)
}

pub(super) fn bcast(
    communicator: &Communicator,
    root: u32,
    buffer: Buffer,
) -> Execution<RequestId> {
    let bytes = buffer.len();
    let key = ScheduleKey::Bcast { root, bytes };
    let is_root = communicator.rank() == root;
    let in_parts = || moves_parts(&communicator.cache.schedule(member(communicator), key), bytes);
    if buffer.is_contiguous() || !in_parts() {
        return prepare(communicator, key, receive_only(Blocks::bytes(buffer)));
    }
    let packed = Buffer::of_scratch(&communicator.cache.scratch(bytes), 0, bytes);
    if is_root {
        buffer.copy_to(&packed);
    }
    let execution = prepare(communicator, key, receive_only(Blocks::bytes(packed.clone())));
    if is_root { execution } else { execution.unpacking(packed, buffer) }
}

/// `send` is none at a root that works in place, `receive` is none on all others.
pub(super) fn gather(
    communicator: &Communicator,
    root: u32,
    send: Option<Buffer>,
    receive: Option<EqualBlocks>,
) -> Execution<RequestId> {
    let input = input_of(&send);
    let sent_bytes = send.as_ref().map_or(0, Buffer::len);
    let block_bytes = receive.as_ref().map_or(sent_bytes, EqualBlocks::block_bytes);
    let key = ScheduleKey::Gather { root, block_bytes, input };
    let memories = Memories {
        send: send.map_or(Blocks::Absent, Blocks::single),
        receive: receive.map_or(Blocks::Absent, EqualBlocks::into_blocks),
        scratch: packed_scratch(communicator, key, block_bytes),
    };
    prepare(communicator, key, memories)
}

/// As [`gather`], with blocks of any shape.
pub(super) fn gatherv(
    communicator: &Communicator,
    root: u32,
    send: Option<Buffer>,
    receive: Option<Vec<Buffer>>,
) -> Execution<RequestId> {
    let key = ScheduleKey::Gatherv { root, input: input_of(&send) };
    let memories = Memories {
        send: send.map_or(Blocks::Absent, Blocks::single),
        receive: receive.map_or(Blocks::Absent, Blocks::Each),
        scratch: Blocks::Absent,
    };
    prepare(communicator, key, memories)
}

/// `send` is none on all but the root, `receive` is none at a root that works in place.
pub(super) fn scatter(
    communicator: &Communicator,
    root: u32,
    send: Option<EqualBlocks>,
    receive: Option<Buffer>,
) -> Execution<RequestId> {
    let input = input_of(&receive);
    let received_bytes = receive.as_ref().map_or(0, Buffer::len);
    let block_bytes = send.as_ref().map_or(received_bytes, EqualBlocks::block_bytes);
    let key = ScheduleKey::Scatter { root, block_bytes, input };
    let memories = Memories {
        send: send.map_or(Blocks::Absent, EqualBlocks::into_blocks),
        receive: receive.map_or(Blocks::Absent, Blocks::single),
        scratch: packed_scratch(communicator, key, block_bytes),
    };
    prepare(communicator, key, memories)
}

/// As [`scatter`], with blocks of any shape.
pub(super) fn scatterv(
    communicator: &Communicator,
    root: u32,
    send: Option<Vec<Buffer>>,
    receive: Option<Buffer>,
) -> Execution<RequestId> {
    let key = ScheduleKey::Scatterv { root, input: input_of(&receive) };
    let memories = Memories {
        send: send.map_or(Blocks::Absent, Blocks::Each),
        receive: receive.map_or(Blocks::Absent, Blocks::single),
        scratch: Blocks::Absent,
    };
    prepare(communicator, key, memories)
}

pub(super) fn allgather(
    communicator: &Communicator,
    send: Option<Buffer>,
    receive: EqualBlocks,
) -> Execution<RequestId> {
    let block_bytes = receive.block_bytes();
    let key = ScheduleKey::Allgather { block_bytes, input: input_of(&send) };
    let memories = Memories {
        send: send.map_or(Blocks::Absent, Blocks::single),
        receive: receive.into_blocks(),
        scratch: packed_scratch(communicator, key, block_bytes),
    };
    prepare(communicator, key, memories)
}

pub(super) fn allgatherv(
    communicator: &Communicator,
    send: Option<Buffer>,
    receive: Vec<Buffer>,
) -> Execution<RequestId> {
    let total_bytes = receive.iter().map(Buffer::len).sum();
    let key = ScheduleKey::Allgatherv { total_bytes, input: input_of(&send) };
    let memories = Memories {
        send: send.map_or(Blocks::Absent, Blocks::single),
        receive: Blocks::Each(receive),
        scratch: Blocks::Absent,
    };
    prepare(communicator, key, memories)
}

pub(super) fn alltoall(
    communicator: &Communicator,
    send: Option<EqualBlocks>,
    receive: EqualBlocks,
) -> Execution<RequestId> {
    let block_bytes = receive.block_bytes();
    let key = ScheduleKey::Alltoall { block_bytes, input: input_of(&send) };
    let memories = Memories {
        send: send.map_or(Blocks::Absent, EqualBlocks::into_blocks),
        receive: receive.into_blocks(),
        scratch: packed_scratch(communicator, key, block_bytes),
    };
    prepare(communicator, key, memories)
}

pub(super) fn alltoallv(
    communicator: &Communicator,
    send: Option<Vec<Buffer>>,
    receive: Vec<Buffer>,
) -> Execution<RequestId> {
    let key = ScheduleKey::Alltoallv { input: input_of(&send) };
    let scratch_blocks = communicator.cache.schedule(member(communicator), key).scratch_blocks();
    let scratch = match scratch_blocks {
        0 => Blocks::Absent,
        // Scratch block `i` takes what comes into block `i` of the receive buffer.
        _ => packed_like(communicator, &receive[..scratch_blocks]),
    };
    let memories = Memories {
        send: send.map_or(Blocks::Absent, Blocks::Each),
        receive: Blocks::Each(receive),
        scratch,
    };
    prepare(communicator, key, memories)
}

/// An allgather in place over packed blocks, for purposes of our own.
pub(super) fn allgather_packed(
    communicator: &Communicator,
    buffer: Buffer,
    block_bytes: usize,
) -> Execution<RequestId> {
    let key = ScheduleKey::Allgather { block_bytes, input: Input::InPlace };
    let scratch = packed_scratch(communicator, key, block_bytes);
    let receive = Blocks::Bytes { buffer, unit: block_bytes };
    prepare(communicator, key, Memories { send: Blocks::Absent, receive, scratch })
}

pub(super) fn receive_only(receive: Blocks) -> Memories {
    Memories { send: Blocks::Absent, receive, scratch: Blocks::Absent }
}

/// This process as the algorithms see it.
pub(super) fn member(communicator: &Communicator) -> Member {
    Member { rank: communicator.rank(), size: communicator.size(), crowded: communicator.crowded() }
}

pub(super) fn prepare(
    communicator: &Communicator,
    key: ScheduleKey,
    memories: Memories,
) -> Execution<RequestId> {
    let schedule = communicator.cache.schedule(member(communicator), key);
    let pending = communicator.cache.take_pending();
    Execution::new(schedule, memories, communicator.take_tag(), pending)
}

pub(super) fn input_of<T>(buffer: &Option<T>) -> Input {
    if buffer.is_some() { Input::SendBuffer } else { Input::InPlace }
}

fn packed_scratch(communicator: &Communicator, key: ScheduleKey, block_bytes: usize) -> Blocks {
    let schedule = communicator.cache.schedule(member(communicator), key);
    match schedule.scratch_blocks() {
        0 => Blocks::Absent,
        blocks => {
            let bytes = blocks * block_bytes;
            let buffer = Buffer::of_scratch(&communicator.cache.scratch(bytes), 0, bytes);
            Blocks::Bytes { buffer, unit: block_bytes }
        }
    }
}

fn packed_like(communicator: &Communicator, blocks: &[Buffer]) -> Blocks {
    let scratch = communicator.cache.scratch(blocks.iter().map(Buffer::len).sum());
    let mut offset = 0;
    let place = |block: &Buffer| {
        let packed = Buffer::of_scratch(&scratch, offset, block.len());
        offset += block.len();
        packed
    };
    Blocks::Each(blocks.iter().map(place).collect())
}

/// Whether a schedule of byte blocks ever names less than all `bytes`.
fn moves_parts(schedule: &Schedule, bytes: usize) -> bool {
    use collectives::Transfer::{Receive, Send};
    schedule.rounds().flat_map(|round| round.transfers).any(|transfer| match transfer {
        Send { from: place, .. } | Receive { into: place, .. } => place.count != bytes,
    })
}
