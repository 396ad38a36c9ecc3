//! The receiver's side of partitioned operations.

use std::cell::RefCell;

use base::{Error, ErrorClass};
use engine::{ContextSlot, Receive, RequestId};
use memory::Buffer;
use runtime::Runtime;

use super::Partitions;
use super::division::{PartitionLayout, ROUNDS_APART};
use super::introduction::PartitionIntroduction;
use super::spaces::PartitionedSpaces;
use crate::Process;
use crate::collective::EqualBlocks;
use crate::collective::blocks::BufferBlocks;
use crate::errors::error_of;
use crate::kernel::post_own_receive;
use crate::status::{MessageSource, MessageStatus};

/// A partitioned receive, and the state of its round.
#[derive(Debug)]
pub(super) struct Receiving {
    /// The sender; `None` for `MPI_PROC_NULL`.
    source: Option<u32>,
    tag: i32,
    context: ContextSlot,
    buffer: Buffer,
    /// The buffer divided into elements.
    elements: BufferBlocks,
    element_bytes: usize,
    own: PartitionLayout,
    introduced: RefCell<Introduced>,
    round: RefCell<ReceiveRound>,
}

/// The state of the sender's introduction.
#[derive(Debug)]
enum Introduced {
    /// Not received: the receive of the introduction, and its buffer.
    Awaited(RequestId, Buffer),
    /// Received.
    Known(PartitionIntroduction),
    /// Invalid, or there is no sender.
    Unusable(Option<Error>),
}

#[derive(Debug, Default)]
struct ReceiveRound {
    stage: ReceiveStage,
    /// The receives for the sender's partitions if each is a message of its own; `None` for
    /// complete ones.
    pieces: Vec<Option<RequestId>>,
    /// All receives before this index are complete.
    settled: usize,
    bytes: u64,
    error: Option<Error>,
    /// The number of further rounds that begin with a receive for each partition.
    apart: u32,
    /// The buffer for packed data if a partition of the sender ends inside an element of the
    /// receiver.
    packed: Option<Buffer>,
}

#[derive(Clone, Copy, Debug, Default)]
enum ReceiveStage {
    /// No receive is posted, because the introduction has not arrived.
    #[default]
    Begun,
    /// One receive is posted, for all data in one message.
    AtOnce(RequestId),
    /// The receives for the sender's partitions are posted.
    ByPartition,
    /// The round is complete.
    Over,
}

impl Receiving {
    /// Makes a receive and posts the receive of the sender's introduction.
    pub(super) fn new(
        process: &Process,
        spaces: &PartitionedSpaces,
        source: Option<u32>,
        tag: i32,
        partitions: Partitions,
    ) -> Self {
        let Partitions { blocks, count } = partitions;
        let own = PartitionLayout { count, bytes: blocks.block_bytes() as u64 };
        let EqualBlocks { buffer, datatype, .. } = blocks;
        let introduced = match source {
            None => Introduced::Unusable(None),
            Some(rank) => {
                let introduction_buffer = Buffer::zeroed(PartitionIntroduction::BYTES);
                let id = process.post_receive(
                    spaces.introductions,
                    rank,
                    tag,
                    introduction_buffer.clone(),
                );
                Introduced::Awaited(id, introduction_buffer)
            }
        };
        Self {
            source,
            tag,
            context: spaces.data,
            elements: BufferBlocks::of_elements(buffer.clone(), &datatype, 1),
            element_bytes: datatype.size(),
            buffer,
            own,
            introduced: RefCell::new(introduced),
            round: RefCell::default(),
        }
    }

    pub(super) fn partition_count(&self) -> u32 {
        self.own.count
    }

    pub(super) fn start(&self) {
        let mut round = self.round.borrow_mut();
        round.stage = ReceiveStage::Begun;
        round.pieces.clear();
        (round.settled, round.bytes, round.error) = (0, 0, None);
    }

    /// Posts the receives of the round if the introduction has arrived. Returns whether it has.
    pub(super) fn post_when_introduced(&self, runtime: &mut Runtime) -> bool {
        let mut round = self.round.borrow_mut();
        let ReceiveStage::Begun = round.stage else { return true };
        self.receive_introduction(runtime);
        round.stage = match (&*self.introduced.borrow(), self.source) {
            (Introduced::Awaited(..), _) => return false,
            (Introduced::Known(sender), Some(source)) => {
                self.post(runtime, &mut round, sender, source)
            }
            (Introduced::Unusable(error), _) => {
                round.error.clone_from(error);
                ReceiveStage::Over
            }
            (Introduced::Known(_), None) => ReceiveStage::Over,
        };
        true
    }

    fn receive_introduction(&self, runtime: &mut Runtime) {
        let mut introduced = self.introduced.borrow_mut();
        let Introduced::Awaited(id, introduction_buffer) = &*introduced else { return };
        let Some(outcome) = runtime.take(*id) else { return };
        if let Some(problem) = outcome.problem {
            *introduced = Introduced::Unusable(Some(error_of(problem)));
            return;
        }
        *introduced = match PartitionIntroduction::read(introduction_buffer, outcome.bytes) {
            Ok(introduction) => Introduced::Known(introduction),
            Err(error) => Introduced::Unusable(Some(error)),
        };
    }

    /// Posts the first receives of the round: one for all data, or one for each partition of the
    /// sender.
    fn post(
        &self,
        runtime: &mut Runtime,
        round: &mut ReceiveRound,
        sender: &PartitionIntroduction,
        source: u32,
    ) -> ReceiveStage {
        let (own, total) = (self.buffer.len(), sender.division.total());
        if total.is_none_or(|total| total > own as u64) {
            let what = format!(
                "the sender's {} partitions of {} bytes are more than the {} partitions of {} \
                 bytes that they are received into",
                sender.division.count, sender.division.bytes, self.own.count, self.own.bytes
            );
            round.error = Some(Error::new(ErrorClass::Truncate, what));
        }
        if sender.division.may_be_gathered() && round.apart == 0 {
            let (source, tag) = (Some(source), Some(sender.first_tag));
            let buffer = self.buffer.clone();
            let receive = Receive { context: self.context, source, tag, buffer };
            return ReceiveStage::AtOnce(post_own_receive(runtime, receive));
        }
        round.apart = round.apart.saturating_sub(1);
        self.post_pieces(runtime, round, sender);
        ReceiveStage::ByPartition
    }

    /// Posts a receive for each partition of the sender.
    fn post_pieces(
        &self,
        runtime: &mut Runtime,
        round: &mut ReceiveRound,
        sender: &PartitionIntroduction,
    ) {
        let bytes = sender.division.bytes as usize;
        if !self.elements_are_whole(bytes) && round.packed.is_none() {
            round.packed = Some(Buffer::zeroed(self.buffer.len()));
        }
        for number in 0..sender.division.count {
            let buffer = self.place(round, number, bytes);
            let (source, tag) = (self.source, Some(sender.tag(number)));
            let receive = Receive { context: self.context, source, tag, buffer };
            round.pieces.push(Some(post_own_receive(runtime, receive)));
        }
    }

    /// Checks the receive of the one message. If that is empty, posts receives for the
    /// partitions.
    #[inline]
    fn check(&self, runtime: &mut Runtime, round: &mut ReceiveRound) {
        let ReceiveStage::AtOnce(id) = round.stage else { return };
        let Some(outcome) = runtime.take(id) else { return };
        if outcome.bytes == 0 && outcome.problem.is_none() {
            if let Introduced::Known(sender) = &*self.introduced.borrow() {
                self.post_pieces(runtime, round, sender);
            }
            round.stage = ReceiveStage::ByPartition;
            round.apart = ROUNDS_APART;
            return;
        }
        round.bytes = outcome.bytes;
        if let Some(problem) = outcome.problem {
            round.error.get_or_insert(error_of(problem));
        }
        round.stage = ReceiveStage::Over;
    }

    /// Whether partitions of this number of bytes end between elements, or the elements have no
    /// gaps.
    fn elements_are_whole(&self, bytes: usize) -> bool {
        matches!(self.elements, BufferBlocks::Bytes { .. })
            || self.element_bytes == 0
            || bytes.is_multiple_of(self.element_bytes)
    }

    /// Returns offset and length of a sender's partition in the packed data, limited to the
    /// buffer.
    fn range(&self, number: u32, bytes: usize) -> (usize, usize) {
        let room = self.buffer.len();
        let offset = (number as usize).saturating_mul(bytes).min(room);
        (offset, bytes.min(room - offset))
    }

    /// Returns the buffer for a partition of the sender.
    fn place(&self, round: &ReceiveRound, number: u32, bytes: usize) -> Buffer {
        let (offset, length) = self.range(number, bytes);
        if length == 0 {
            return Buffer::empty();
        }
        if let BufferBlocks::Bytes { .. } = self.elements {
            return self.buffer.contiguous_part(offset as isize, length);
        }
        match &round.packed {
            Some(packed) if !self.elements_are_whole(bytes) => {
                packed.contiguous_part(offset as isize, length)
            }
            _ => self.elements.part(offset / self.element_bytes, length / self.element_bytes),
        }
    }

    /// Whether a partition of this side has arrived.
    pub(super) fn has_arrived(&self, runtime: &mut Runtime, partition: u32) -> bool {
        let mut round = self.round.borrow_mut();
        self.check(runtime, &mut round);
        match round.stage {
            ReceiveStage::Begun | ReceiveStage::AtOnce(_) => return false,
            ReceiveStage::Over => return true,
            ReceiveStage::ByPartition => {}
        }
        let Introduced::Known(sender) = *self.introduced.borrow() else { return true };
        let mut needed = self.own.overlapped(partition, &sender.division);
        needed.all(|number| self.settle(runtime, &mut round, number, &sender))
    }

    /// Whether all partitions have arrived.
    #[inline]
    pub(super) fn is_complete(&self, runtime: &mut Runtime) -> bool {
        let mut round = self.round.borrow_mut();
        self.check(runtime, &mut round);
        match round.stage {
            ReceiveStage::Begun | ReceiveStage::AtOnce(_) => return false,
            ReceiveStage::Over => return true,
            ReceiveStage::ByPartition => {}
        }
        let Introduced::Known(sender) = *self.introduced.borrow() else { return true };
        while round.settled < round.pieces.len() {
            let number = round.settled as u32;
            if !self.settle(runtime, &mut round, number, &sender) {
                return false;
            }
            round.settled += 1;
        }
        round.stage = ReceiveStage::Over;
        true
    }

    /// The receive of all data in one message, while it is posted.
    #[inline]
    pub(super) fn awaited(&self) -> Option<RequestId> {
        match self.round.borrow().stage {
            ReceiveStage::AtOnce(id) => Some(id),
            _ => None,
        }
    }

    /// Whether the round had no error.
    pub(super) fn is_fine(&self) -> bool {
        self.round.borrow().error.is_none()
    }

    /// Completes the receive of a partition of the sender. Returns whether it is complete.
    fn settle(
        &self,
        runtime: &mut Runtime,
        round: &mut ReceiveRound,
        number: u32,
        sender: &PartitionIntroduction,
    ) -> bool {
        let Some(id) = round.pieces[number as usize] else { return true };
        let Some(outcome) = runtime.take(id) else { return false };
        round.pieces[number as usize] = None;
        round.bytes += outcome.bytes;
        if let Some(problem) = outcome.problem {
            round.error.get_or_insert(error_of(problem));
        }
        let bytes = sender.division.bytes as usize;
        if !self.elements_are_whole(bytes) {
            let (offset, _) = self.range(number, bytes);
            self.unpack(&self.place(round, number, bytes), offset, outcome.bytes as usize);
        }
        true
    }

    /// Unpacks the first bytes of `packed` into the buffer, from a packed offset on.
    fn unpack(&self, packed: &Buffer, offset: usize, length: usize) {
        let length = length.min(packed.len());
        let mut piece = [0; UNPACK_PIECE_BYTES];
        let mut done = 0;
        while done < length {
            let part = &mut piece[..UNPACK_PIECE_BYTES.min(length - done)];
            packed.read(done, part);
            self.buffer.write(offset + done, part);
            done += part.len();
        }
    }

    pub(super) fn status(&self) -> MessageStatus {
        let round = self.round.borrow();
        match self.source {
            None => MessageStatus::OF_NULL,
            Some(rank) => MessageStatus {
                source: MessageSource::Rank(rank),
                tag: Some(self.tag),
                bytes: round.bytes,
                cancelled: false,
                error: round.error.clone().map(Box::new),
            },
        }
    }

    /// Releases the operation. If the introduction has not arrived, its receive stays posted: it
    /// matches the introduction of the corresponding send in the order of calls.
    pub(super) fn give_up(&self, runtime: &mut Runtime) {
        if let Introduced::Awaited(id, _) = &*self.introduced.borrow() {
            runtime.detach(*id);
        }
    }
}

/// The size in bytes of the stack memory through which data is unpacked.
const UNPACK_PIECE_BYTES: usize = 4096;
