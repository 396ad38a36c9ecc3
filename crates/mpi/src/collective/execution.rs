//! The executor: one schedule over the buffers of one call, advanced without ever blocking.

mod exposure;

use std::rc::Rc;
use std::sync::Arc;

use base::{Error, ErrorClass, RegionToken, Result};
use collectives::{Area, Local, Operand, Place, Schedule, Transfer};
use datatype::Datatype;
use driver_shm::{Board, Series, Turn};
use memory::Buffer;

use super::blocks::{Memories, Range};
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
    /// The operation on the board, while it is underway there.
    turn: Option<Turn>,
    is_blocking: bool,
    /// How many bytes the own slot has.
    written: usize,
    /// The own buffers that others use.
    exposed: Vec<RegionToken>,
    /// The round that is underway.
    round: usize,
    /// Whether it was begun: on the board the first one waits until the own slot is free.
    is_posted: bool,
    /// How many transfers of this round, from the first on, need no more looks at the board.
    seen: usize,
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
            turn: None,
            is_blocking: true,
            written: 0,
            exposed: Vec::new(),
            round: 0,
            is_posted: false,
            seen: 0,
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

    /// On the board it is one of those that the program begins and does not wait for at once.
    pub(crate) fn not_blocking(&mut self) {
        self.is_blocking = false;
    }

    /// Posts the messages of the first round, under a tag that is the same on all members.
    pub(crate) fn start<C: Channel<Pending = P>>(&mut self, channel: &C, tag: i32) {
        self.tag = tag;
        self.round = 0;
        self.written = 0;
        self.repack(End::BeforeFirstRound);
        if self.schedule.uses_board() {
            let series = Series { blocking: self.is_blocking, small: self.schedule.is_small() };
            self.turn = Some(board_of(channel).begin(series));
        }
        self.post(channel);
    }

    /// Goes as far as the messages that are complete allow; true when all is done.
    ///
    /// Nothing but `self` is borrowed while a function of the program combines elements.
    #[inline]
    pub(crate) fn advance<C: Channel<Pending = P>>(&mut self, channel: &C) -> bool {
        if !self.is_posted {
            self.post(channel);
            if !self.is_posted {
                return false;
            }
        }
        while self.round < self.schedule.round_count() {
            while let Some(pending) = self.pending.get(self.completed) {
                if !channel.is_complete(*pending) {
                    return false;
                }
                let result = channel.finish(*pending);
                self.completed += 1;
                self.note(result);
            }
            if self.turn.is_some() && !self.look_at_board(channel) {
                return false;
            }
            self.take_local_steps(channel);
            self.round += 1;
            self.post(channel);
        }
        self.conceal(channel);
        if let Some(turn) = self.turn.take() {
            board_of(channel).complete(turn);
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
        self.seen = 0;
        self.is_posted = self.turn.is_none_or(|turn| board_of(channel).is_free(turn));
        if !self.is_posted {
            return;
        }
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
        if let Some(turn) = self.turn {
            for transfer in round.transfers {
                if let Transfer::Raise { stage } = transfer {
                    board_of(channel).raise(turn, *stage, self.written);
                }
            }
        }
    }

    /// Looks whether the members that this round waits for have raised.
    fn look_at_board<C: Channel<Pending = P>>(&mut self, channel: &C) -> bool {
        let (Some(turn), Some(round)) = (self.turn, self.schedule.round(self.round)) else {
            return true;
        };
        let board = board_of(channel);
        let mut error = None;
        for transfer in &round.transfers[self.seen..] {
            if let Transfer::Await { peer, stage, count } = transfer {
                if !board.has_raised(turn, *peer, *stage) {
                    return false;
                }
                let expected = count.zip(self.memories.block_bytes());
                let expected = expected.map(|(count, bytes)| count * bytes);
                let length = board.length(turn, *peer);
                if expected.is_some_and(|expected| length > expected) {
                    error = error.or(expected.map(|expected| truncated(length, expected)));
                }
            }
            self.seen += 1;
        }
        self.note(error.map_or(Ok(()), Err));
        true
    }

    fn take_local_steps<C: Channel<Pending = P>>(&mut self, channel: &C) {
        let schedule = Rc::clone(&self.schedule);
        let Some(round) = schedule.round(self.round) else { return };
        for step in round.local {
            match step {
                Local::Copy { from, into } => {
                    let result = match (self.turn, from.area, into.area) {
                        (Some(turn), Area::InputOf(member), _) => {
                            self.copy_from_input(channel, turn, member, (*from, *into))
                        }
                        (Some(turn), _, Area::ResultOf(member)) => {
                            self.copy_into_result(channel, turn, member, (*from, *into))
                        }
                        (Some(turn), Area::Slot(member), _) => {
                            self.copy_from_slot(board_of(channel), turn, member, *from, *into)
                        }
                        (Some(turn), _, Area::Slot(_)) => {
                            self.copy_into_slot(board_of(channel), turn, *from, *into)
                        }
                        _ => copy(self.memories.range(*from), self.memories.range(*into)),
                    };
                    self.note(result);
                }
                Local::Expose { area, role } => {
                    let turn = self.turn.expect("who exposes has a turn on the board");
                    self.expose(channel, turn, *area, *role);
                }
                Local::Reduce { from, into, .. }
                    if let (Some(turn), Area::Slot(member)) = (self.turn, from.area) =>
                {
                    self.reduce_from_slot(board_of(channel), turn, member, *from, *into);
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

    fn copy_into_slot(
        &mut self,
        board: &Board,
        turn: Turn,
        from: Place,
        into: Place,
    ) -> Result<()> {
        let Range { buffer, offset, length } = self.memories.range(from);
        let at = into.first * self.memories.block_bytes().unwrap_or(length);
        let bytes = board.slot_bytes(turn);
        let room = bytes.saturating_sub(at);
        let fitting = length.min(room);
        board.write(turn, at.min(bytes), fitting, |slot| buffer.read(offset, slot));
        self.written = self.written.max(at + fitting);
        if length > room { Err(truncated(length, room)) } else { Ok(()) }
    }

    /// Of a member that has less than is expected only that is copied, as of a short message.
    fn copy_from_slot(
        &self,
        board: &Board,
        turn: Turn,
        member: u32,
        from: Place,
        into: Place,
    ) -> Result<()> {
        let Range { buffer, offset, length } = self.memories.range(into);
        let at = from.first * self.memories.block_bytes().unwrap_or(length);
        let there = self.shown(board, turn, member).saturating_sub(at);
        let fitting = length.min(there);
        let at = at.min(board.slot_bytes(turn));
        board.read(turn, member, at, fitting, |slot| buffer.write(offset, slot));
        // Where all blocks have one length, this was checked for all of a slot together.
        let is_long = self.memories.receive.is_each() && there > length;
        if is_long { Err(truncated(there, length)) } else { Ok(()) }
    }

    /// How many bytes of a slot can be read.
    #[inline]
    fn shown(&self, board: &Board, turn: Turn, member: u32) -> usize {
        if member == board.own() { self.written } else { board.length(turn, member) }
    }

    fn reduce_from_slot(&self, board: &Board, turn: Turn, member: u32, from: Place, into: Place) {
        let Some((operation, datatype)) = &self.combination else {
            unreachable!("only the schedules of reductions combine elements")
        };
        let unit = datatype.size();
        let there = self.shown(board, turn, member).saturating_sub(from.first * unit);
        let count = from.count.min(there / unit.max(1));
        let place = Place { count, ..into };
        let range = self.memories.range(place);
        let at = (from.first * unit).min(board.slot_bytes(turn));
        board.read(turn, member, at, range.length, |slot| {
            operation.combine_bytes(slot, range, || self.memories.part(place), datatype, count);
        });
    }

    fn note(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
    }
}

/// Copies a block; the standard wants both sides to have the same number of bytes.
fn copy(from: Range<'_>, into: Range<'_>) -> Result<()> {
    let length = from.length.min(into.length);
    from.buffer.copy_range(from.offset, into.buffer, into.offset, length);
    if from.length > into.length {
        return Err(truncated(from.length, into.length));
    }
    Ok(())
}

#[inline]
fn board_of<C: Channel>(channel: &C) -> &Board {
    channel.board().expect("schedules name the board only where there is one")
}

#[cold]
fn truncated(sent: usize, room: usize) -> Error {
    let sentence = format!("{sent} bytes are contributed where there is room for {room} bytes");
    Error::new(ErrorClass::Truncate, sentence)
}
