//! The executor: one schedule over the buffers of one call, advanced without ever blocking.

use std::rc::Rc;
use std::sync::Arc;

use base::{Error, ErrorClass, Result};
use collectives::{Local, Operand, Schedule, Transfer};
use datatype::Datatype;
use memory::Buffer;

use super::blocks::Memories;
use super::channel::Channel;
use crate::operation::Operation;

/// One collective operation underway on one process.
///
/// Call [`Execution::start`], then [`Execution::advance`] until it returns true (messages must make
/// progress in between), then [`Execution::outcome`]; after that it can be started again.
///
/// When something fails the remaining steps are carried out all the same, so that the error of
/// one process does not leave the others waiting; the first error is what is told at the end.
#[derive(Debug)]
pub(crate) struct Execution<P> {
    schedule: Rc<Schedule>,
    memories: Memories,
    /// How elements are combined, and their type, if the operation is a reduction.
    combination: Option<(Rc<Operation>, Arc<Datatype>)>,
    /// What is copied between the program's memory and ours before the first round or after the
    /// last one. Boxed, as it is rare, and executions are moved a few times.
    repacking: Option<Box<Repacking>>,
    tag: i32,
    /// The round that is underway.
    round: usize,
    /// The messages of this round.
    pending: Vec<P>,
    /// How many of them, from the first on, are known to be complete.
    completed: usize,
    error: Option<Error>,
}

/// A copy between two buffers at one end of an execution.
#[derive(Debug)]
pub(crate) struct Repacking {
    pub(crate) when: End,
    pub(crate) from: Buffer,
    pub(crate) into: Buffer,
}

/// The two ends of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    BeforeFirstRound,
    AfterLastRound,
}

impl<P: Copy> Execution<P> {
    /// Ready to start. `pending` is an empty list, handed in so that its memory can be used again
    /// (see [`Execution::take_pending`]).
    #[inline(always)]
    pub(crate) fn new(schedule: Rc<Schedule>, memories: Memories, pending: Vec<P>) -> Self {
        debug_assert!(pending.is_empty());
        Self {
            schedule,
            memories,
            combination: None,
            repacking: None,
            tag: 0,
            round: 0,
            pending,
            completed: 0,
            error: None,
        }
    }

    /// The blocks are elements that local steps combine.
    #[inline(always)]
    pub(crate) fn reducing(mut self, operation: Rc<Operation>, datatype: Arc<Datatype>) -> Self {
        self.combination = Some((operation, datatype));
        self
    }

    /// At one end something is copied.
    pub(crate) fn repacking(mut self, repacking: Repacking) -> Self {
        self.repacking = Some(Box::new(repacking));
        self
    }

    /// Posts the messages of the first round, under a tag that is the same on all members.
    pub(crate) fn start<C: Channel<Pending = P>>(&mut self, channel: &C, tag: i32) {
        self.tag = tag;
        self.round = 0;
        self.repack(End::BeforeFirstRound);
        self.post(channel);
    }

    /// Goes as far as the messages that are complete allow; true when all is done.
    ///
    /// Nothing but `self` is borrowed while a function of the program combines elements.
    #[inline]
    pub(crate) fn advance<C: Channel<Pending = P>>(&mut self, channel: &C) -> bool {
        while self.round < self.schedule.round_count() {
            while let Some(pending) = self.pending.get(self.completed) {
                if !channel.is_complete(*pending) {
                    return false;
                }
                let result = channel.finish(*pending);
                self.completed += 1;
                self.note(result);
            }
            self.take_local_steps();
            self.round += 1;
            self.post(channel);
        }
        if self.error.is_none() {
            self.repack(End::AfterLastRound);
        }
        true
    }

    fn repack(&self, end: End) {
        if let Some(repacking) = &self.repacking
            && repacking.when == end
        {
            repacking.from.copy_to(&repacking.into);
        }
    }

    /// How it went: the first error, if there was one.
    pub(crate) fn outcome(&mut self) -> Result<()> {
        self.error.take().map_or(Ok(()), Err)
    }

    /// The empty list of messages, to be used for another execution.
    pub(crate) fn take_pending(&mut self) -> Vec<P> {
        self.pending.clear();
        std::mem::take(&mut self.pending)
    }

    /// Receives go first, so that the data of a fast peer finds its place waiting; the order
    /// among messages between the same two processes stays that of the schedule.
    fn post<C: Channel<Pending = P>>(&mut self, channel: &C) {
        self.pending.clear();
        self.completed = 0;
        let Some(round) = self.schedule.round(self.round) else { return };
        for transfer in round.transfers {
            if let Transfer::Receive { peer, into } = transfer {
                let buffer = self.memories.part(*into);
                self.pending.push(channel.receive(*peer, self.tag, buffer));
            }
        }
        for transfer in round.transfers {
            if let Transfer::Send { peer, from } = transfer {
                let buffer = self.memories.part(*from);
                self.pending.extend(channel.send(*peer, self.tag, buffer));
            }
        }
    }

    fn take_local_steps(&mut self) {
        let schedule = Rc::clone(&self.schedule);
        let Some(round) = schedule.round(self.round) else { return };
        for step in round.local {
            match step {
                Local::Copy { from, into } => {
                    let result = copy(&self.memories.part(*from), &self.memories.part(*into));
                    self.note(result);
                }
                Local::Reduce { from, into, first } => {
                    let count = from.count;
                    let (from, into) = (self.memories.part(*from), self.memories.part(*into));
                    let Some((operation, datatype)) = &self.combination else {
                        unreachable!("only the schedules of reductions combine elements")
                    };
                    match first {
                        Operand::From => operation.combine(&from, &into, datatype, count),
                        Operand::Into => operation.combine_reversed(&from, &into, datatype, count),
                    }
                }
            }
        }
    }

    fn note(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
    }
}

/// Copies a block; the standard wants both sides to have the same number of bytes.
fn copy(from: &Buffer, into: &Buffer) -> Result<()> {
    from.copy_to(into);
    if from.len() > into.len() {
        return Err(truncated(from.len(), into.len()));
    }
    Ok(())
}

#[cold]
fn truncated(sent: usize, room: usize) -> Error {
    let sentence = format!("{sent} bytes are contributed where there is room for {room} bytes");
    Error::new(ErrorClass::Truncate, sentence)
}
