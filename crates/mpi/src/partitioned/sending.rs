//! The side that sends partitions.

use std::cell::RefCell;

use base::{Error, ErrorClass, GateId, Result};
use engine::{ContextSlot, RequestId};
use memory::Buffer;

use super::division::PartitionLayout;
use super::introduction::PartitionIntroduction;
use super::{PartitionedSpaces, Partitions};
use crate::collective::blocks::BufferBlocks;
use crate::process::Process;

/// A send, and where it stands in its round.
#[derive(Debug)]
pub(super) struct Sending {
    /// None for no process.
    target: Option<SendTarget>,
    blocks: BufferBlocks,
    count: u32,
    round: RefCell<SendRound>,
}

#[derive(Debug)]
struct SendTarget {
    gate: GateId,
    rank: u32,
    context: ContextSlot,
    first_tag: i32,
}

#[derive(Debug, Default)]
struct SendRound {
    /// Which partitions are ready.
    ready: Vec<bool>,
    /// How many are not.
    missing: u32,
    /// The messages that are underway.
    pending: Vec<RequestId>,
}

impl Sending {
    /// Tells the receiver of itself.
    pub(super) fn new(
        process: &Process,
        spaces: &PartitionedSpaces,
        target: Option<(GateId, u32)>,
        tag: i32,
        partitions: Partitions,
    ) -> Self {
        let Partitions { blocks, count } = partitions;
        let target = target.map(|(gate, rank)| {
            let first_tag = spaces.reserve_tags(count);
            let division = PartitionLayout { count, bytes: blocks.block_bytes() as u64 };
            let buffer = Buffer::zeroed(PartitionIntroduction::BYTES);
            PartitionIntroduction { first_tag, division }.write(&buffer);
            if let Some(id) = process.post_send(gate, spaces.introductions, rank, tag, buffer) {
                process.runtime().detach(id);
            }
            SendTarget { gate, rank, context: spaces.data, first_tag }
        });
        Self { target, blocks: blocks.into_blocks(), count, round: RefCell::default() }
    }

    pub(super) fn partition_count(&self) -> u32 {
        self.count
    }

    pub(super) fn start(&self) {
        let mut round = self.round.borrow_mut();
        round.ready.clear();
        round.ready.resize(self.count as usize, false);
        round.missing = self.count;
    }

    /// Sends a partition of an active operation.
    ///
    /// # Errors
    /// `Arg` if it was sent in this round already.
    pub(super) fn mark_ready(&self, process: &Process, partition: u32) -> Result<()> {
        let mut round = self.round.borrow_mut();
        if std::mem::replace(&mut round.ready[partition as usize], true) {
            let what = format!("is {partition}, which was marked as ready already since the start");
            return Err(Error::new(ErrorClass::Arg, what));
        }
        round.missing -= 1;
        if let Some(SendTarget { gate, rank, context, first_tag }) = self.target {
            let buffer = self.blocks.part(partition as usize, 1);
            let tag = first_tag + partition as i32;
            round.pending.extend(process.post_send(gate, context, rank, tag, buffer));
        }
        Ok(())
    }

    /// Whether all partitions were ready and have gone.
    pub(super) fn is_complete(&self, process: &Process) -> bool {
        let mut round = self.round.borrow_mut();
        while let Some(last) = round.pending.last() {
            if process.runtime().take(*last).is_none() {
                return false;
            }
            round.pending.pop();
        }
        round.missing == 0
    }
}
