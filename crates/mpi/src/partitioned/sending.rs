//! The sender's side of partitioned operations.

use std::cell::{OnceCell, RefCell};
use std::time::Duration;

use base::{Error, ErrorClass, GateId, Result};
use engine::{ContextSlot, RequestId, Send};
use memory::Buffer;
use runtime::Runtime;
use runtime::machine::{TickPace, ticks};

use super::division::{PartitionLayout, ROUNDS_APART};
use super::introduction::PartitionIntroduction;
use super::spaces::PartitionedSpaces;
use super::{Partitions, no_such_partition};
use crate::Process;
use crate::collective::blocks::BufferBlocks;
use crate::kernel::post_own_send;
use crate::thread_level::ThreadLevel;

/// A partitioned send, and the state of its round.
#[derive(Debug)]
pub(super) struct Sending {
    /// The receiver; `None` for `MPI_PROC_NULL`.
    target: Option<SendTarget>,
    blocks: BufferBlocks,
    /// All partitions.
    whole: Buffer,
    count: u32,
    round: RefCell<SendRound>,
    /// The pace of the clock of rounds, and [`HOLD_MAX`] in its ticks.
    pace: TickPace,
    hold_ticks: OnceCell<u64>,
}

#[derive(Debug)]
struct SendTarget {
    gate: GateId,
    rank: u32,
    context: ContextSlot,
    introduction: PartitionIntroduction,
}

#[derive(Debug, Default)]
struct SendRound {
    form: SendForm,
    /// Whether each partition is ready.
    ready: Vec<bool>,
    /// How many partitions are not ready.
    missing: u32,
    /// When the first partitions became ready, in ticks, if others became ready later.
    since: Option<u64>,
    /// Whether it took longer than [`HOLD_MAX`] until all partitions were ready, in the last
    /// round that held partitions back.
    slow: bool,
    /// The number of further rounds that send by partition from the start.
    apart: u32,
    /// The messages underway from the program's memory.
    pending: Vec<RequestId>,
    /// The messages underway from copies: those of this round, and those of earlier rounds.
    copies: Vec<RequestId>,
    earlier: Vec<RequestId>,
}

/// How the data of a round is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SendForm {
    /// Not decided: partitions that are ready are held back.
    #[default]
    Undecided,
    /// All in one message.
    AtOnce,
    /// Each partition when it is ready, as the receiver expects.
    ByPartition,
    /// Each partition when it is ready, from a copy: the receiver may post the receive for it
    /// long after the start of its round.
    ByCopies,
}

/// How a call changed whether ready partitions are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// They are held back from now on: the next round of progress sends them.
    Begun,
    /// They are no longer held back.
    Ended,
    Unchanged,
}

/// The maximum time for which ready partitions are held back, until all are ready.
const HOLD_MAX: Duration = Duration::from_micros(5);

impl Sending {
    /// Makes a send and sends its introduction to the receiver.
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
            let introduction = PartitionIntroduction { first_tag, division };
            let buffer = Buffer::zeroed(PartitionIntroduction::BYTES);
            introduction.write(&buffer);
            if let Some(id) = process.post_send(gate, spaces.introductions, rank, tag, buffer) {
                process.runtime().detach(id);
            }
            SendTarget { gate, rank, context: spaces.data, introduction }
        });
        let whole = blocks.buffer.clone();
        let (round, pace) = (RefCell::default(), TickPace::begin());
        let (blocks, hold_ticks) = (blocks.into_blocks(), OnceCell::new());
        Self { target, blocks, whole, count, round, pace, hold_ticks }
    }

    pub(super) fn partition_count(&self) -> u32 {
        self.count
    }

    pub(super) fn start(&self) {
        let mut round = self.round.borrow_mut();
        let may_be_gathered =
            self.target.as_ref().is_some_and(|to| to.introduction.division.may_be_gathered());
        round.form = match may_be_gathered && round.apart == 0 {
            true => SendForm::Undecided,
            false => SendForm::ByPartition,
        };
        round.apart = round.apart.saturating_sub(1);
        round.ready.clear();
        round.ready.resize(self.count as usize, false);
        round.missing = self.count;
        round.since = None;
        let SendRound { copies, earlier, .. } = &mut *round;
        earlier.append(copies);
    }

    /// Marks partitions of an active operation; [`send_marked`](Self::send_marked) must follow.
    ///
    /// # Errors
    /// `Arg` if there is no such partition, or it was marked in this round already.
    pub(super) fn mark_ready(
        &self,
        process: &Process,
        partitions: impl Iterator<Item = i32>,
    ) -> Result<()> {
        let mut round = self.round.borrow_mut();
        for partition in partitions {
            let number = partition.cast_unsigned();
            let Some(ready) = round.ready.get_mut(number as usize) else {
                return Err(no_such_partition(partition, self.count));
            };
            if std::mem::replace(ready, true) {
                return Err(ready_already(partition));
            }
            round.missing -= 1;
            if let (SendForm::ByPartition | SendForm::ByCopies, Some(target)) =
                (round.form, &self.target)
            {
                self.send_partition(&mut process.runtime(), &mut round, target, number);
            }
        }
        Ok(())
    }

    /// Decides how the data of the round is sent, if some partitions are ready and this is
    /// undecided.
    pub(super) fn send_marked(&self, process: &Process) -> Held {
        let mut round = self.round.borrow_mut();
        if round.form != SendForm::Undecided || round.missing == self.count {
            return Held::Unchanged;
        }
        match (round.missing, round.since) {
            (0, None) => self.send_whole(&mut process.runtime(), &mut round),
            (0, Some(since)) => {
                self.send_whole(&mut process.runtime(), &mut round);
                let hold_ticks = *self.hold_ticks.get_or_init(|| self.pace.ticks_in(HOLD_MAX));
                round.slow = ticks().saturating_sub(since) > hold_ticks;
                return Held::Ended;
            }
            (_, Some(_)) => {}
            // With several threads, the thread that would send the held partitions may be asleep.
            (_, None) if round.slow || process.highest_level() == ThreadLevel::Multiple => {
                self.send_by_copies(&mut process.runtime(), &mut round);
            }
            (_, None) => {
                round.since = Some(ticks());
                return Held::Begun;
            }
        }
        Held::Unchanged
    }

    /// Sends the ready partitions if they are held back.
    pub(super) fn hold_no_longer(&self, runtime: &mut Runtime) {
        let mut round = self.round.borrow_mut();
        if round.form == SendForm::Undecided && round.missing < self.count {
            self.send_by_copies(runtime, &mut round);
        }
    }

    fn send_whole(&self, runtime: &mut Runtime, round: &mut SendRound) {
        round.form = SendForm::AtOnce;
        let Some(target) = &self.target else { return };
        let sent = target.send(runtime, target.introduction.first_tag, self.whole.clone());
        round.pending.extend(sent);
    }

    /// Sends each partition as a message of its own, now and in the next rounds.
    #[cold]
    fn send_by_copies(&self, runtime: &mut Runtime, round: &mut SendRound) {
        round.form = SendForm::ByCopies;
        round.apart = ROUNDS_APART;
        round.slow = false;
        let Some(target) = &self.target else { return };
        let reported = target.send(runtime, target.introduction.first_tag, Buffer::empty());
        round.copies.extend(reported);
        for partition in 0..self.count {
            if round.ready[partition as usize] {
                self.send_partition(runtime, round, target, partition);
            }
        }
    }

    fn send_partition(
        &self,
        runtime: &mut Runtime,
        round: &mut SendRound,
        target: &SendTarget,
        partition: u32,
    ) {
        let part = self.blocks.part(partition as usize, 1);
        let tag = target.introduction.tag(partition);
        if round.form == SendForm::ByCopies {
            let copy = Buffer::zeroed(part.len());
            part.copy_to(&copy);
            round.copies.extend(target.send(runtime, tag, copy));
        } else {
            round.pending.extend(target.send(runtime, tag, part));
        }
    }

    /// Whether all partitions were marked and have been sent. Copies of this round may still be
    /// underway.
    #[inline]
    pub(super) fn is_complete(&self, runtime: &mut Runtime) -> bool {
        let mut round = self.round.borrow_mut();
        let SendRound { pending, earlier, missing, .. } = &mut *round;
        *missing == 0 && are_gone(runtime, pending) && are_gone(runtime, earlier)
    }

    /// Detaches the copies that are underway; they complete without the request.
    pub(super) fn give_up(&self, runtime: &mut Runtime) {
        let mut round = self.round.borrow_mut();
        let SendRound { copies, earlier, .. } = &mut *round;
        copies.drain(..).chain(earlier.drain(..)).for_each(|id| runtime.detach(id));
    }
}

impl SendTarget {
    #[inline]
    fn send(&self, runtime: &mut Runtime, tag: i32, buffer: Buffer) -> Option<RequestId> {
        let Self { gate, rank: peer, context, .. } = *self;
        post_own_send(runtime, Send { gate, peer, context, tag, synchronous: false, buffer })
    }
}

#[cold]
fn ready_already(partition: i32) -> Error {
    let what = format!("is {partition}, which was already marked as ready since the start");
    Error::new(ErrorClass::Arg, what)
}

/// Whether all messages have been sent; removes those that have.
#[inline]
fn are_gone(runtime: &mut Runtime, messages: &mut Vec<RequestId>) -> bool {
    while let Some(last) = messages.last() {
        if runtime.take(*last).is_none() {
            return false;
        }
        messages.pop();
    }
    true
}
