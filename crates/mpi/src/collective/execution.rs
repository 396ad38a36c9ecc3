//! The executor: runs one schedule over the buffers of one call, advanced without ever blocking.

mod exposure;
mod handed_blocks;
mod portions;

use std::rc::Rc;

use base::{Error, ErrorClass, RegionToken, Result};
use boards::{BoardTurn, LONG_BYTES_MIN, Series, SeriesOrder};
use collectives::{Area, BlockRange, BlockRuns, Local, Operand, Round, Schedule, Transfer};
use engine::RequestId;
use memory::Buffer;

use super::blocks::{OperationMemory, PackedRange};
use super::board::Board;
use super::channel::Channel;
use crate::errors::revoked;
use crate::kernel::HELPED_BYTES_MIN;
use crate::operation::OperationKernel;

/// One collective operation underway on one process.
///
/// Call [`Execution::start`], then [`Execution::advance`] until it returns true (messages must
/// make progress in between), then [`Execution::outcome`]; after that it can be started again.
///
/// If a step fails, the remaining steps are carried out nevertheless, so that an error on one
/// process does not leave the others waiting. `outcome` returns the first error.
#[derive(Debug)]
pub(crate) struct Execution {
    task: Task,
    /// The schedule that the operation began with, while a later part of it is underway.
    first_part: Option<Rc<Schedule>>,
    tag: i32,
    /// The turn of the operation on the board, while it is underway there.
    turn: Option<BoardTurn>,
    /// The series of turns that it belongs to, if it uses the board.
    series: Series,
    /// The number of bytes written to the slot of this member.
    written: usize,
    /// Whether other members have exposed buffers of different sizes, so that no member carries
    /// out portions.
    differs: bool,
    /// Blocks that were too long for a handover on the board, and are not sent yet.
    unsent: Vec<(u32, BlockRange)>,
    /// The exposed buffers of this member, which other members access.
    exposed: Vec<RegionToken>,
    /// The current round.
    round: usize,
    /// Whether the current round was begun. On the board the first round of a turn waits until
    /// the slot of this member is free.
    is_posted: bool,
    /// The number of transfers of this round, from the first on, that are complete on the board.
    seen: usize,
    /// The requests of this round.
    pending: Vec<RequestId>,
    /// The number of requests, from the first on, that are known to be complete.
    completed: usize,
    error: Option<Error>,
}

/// The operation that an execution carries out.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) schedule: Rc<Schedule>,
    pub(crate) memories: OperationMemory,
    /// How elements are combined, if the operation is a reduction.
    pub(crate) combination: Option<OperationKernel>,
    /// Copies between the program's memory and internal memory, before the first round or after
    /// the last one. Boxed, because it is rare and tasks are moved several times.
    pub(crate) repacking: Option<Box<Repacking>>,
}

impl Task {
    /// Makes a task that combines and repacks nothing.
    #[inline(always)]
    pub(crate) fn moving(schedule: Rc<Schedule>, memories: OperationMemory) -> Self {
        Self { schedule, memories, combination: None, repacking: None }
    }
}

/// Copies between buffers: of each pair, the first is copied into the second.
#[derive(Debug, Default)]
pub(crate) struct Repacking {
    /// Before the first round.
    pub(crate) before: Vec<(Buffer, Buffer)>,
    /// After the last round.
    pub(crate) after: Vec<(Buffer, Buffer)>,
}

fn copy_all(copies: &[(Buffer, Buffer)]) {
    for (from, into) in copies {
        from.copy_to(into);
    }
}

impl Execution {
    /// Makes an execution that is ready to start. `pending` is an empty list whose memory is used
    /// again (see [`Execution::take_pending`]).
    #[inline(always)]
    pub(crate) fn new(task: Task, order: SeriesOrder, pending: Vec<RequestId>) -> Self {
        debug_assert!(pending.is_empty());
        let series = Series::new(order, task.schedule.slots());
        Self {
            task,
            first_part: None,
            tag: 0,
            turn: None,
            series,
            written: 0,
            differs: false,
            unsent: Vec::new(),
            exposed: Vec::new(),
            round: 0,
            is_posted: false,
            seen: 0,
            pending,
            completed: 0,
            error: None,
        }
    }

    /// Whether elements are combined by functions of the program.
    pub(crate) fn calls_program(&self) -> bool {
        matches!(self.task.combination, Some(OperationKernel::User { .. }))
    }

    /// Starts the operation with a tag that is equal on all members.
    #[inline]
    pub(crate) fn start(&mut self, channel: &impl Channel, tag: i32) {
        self.tag = tag;
        self.round = 0;
        self.is_posted = false;
        self.written = 0;
        self.differs = false;
        self.completed = 0;
        self.pending.clear();
        if let Some(first) = self.first_part.take() {
            self.task.schedule = first;
        }
        if let Some(repacking) = &self.task.repacking {
            copy_all(&repacking.before);
        }
        if self.task.schedule.uses_board() {
            self.turn = Some(board_of(channel).begin(self.series, self.task.schedule.turns()));
        }
    }

    /// Advances as far as the complete messages and the raised flags allow. Returns true when all
    /// rounds are complete.
    ///
    /// Nothing but `self` is borrowed while a function of the program combines elements.
    #[inline]
    pub(crate) fn advance(&mut self, channel: &impl Channel) -> bool {
        if !self.take_rounds(channel) {
            return false;
        }
        while self.task.schedule.is_part() && self.begin_next_part() {
            if !self.take_rounds(channel) {
                return false;
            }
        }
        if self.task.schedule.hands() && !self.check_messages(channel) {
            return false;
        }
        self.conceal(channel);
        if let Some(turn) = self.turn.take() {
            board_of(channel).complete(turn);
        }
        if self.error.is_none()
            && let Some(repacking) = &self.task.repacking
        {
            copy_all(&repacking.after);
        }
        true
    }

    /// Takes the remaining rounds of the schedule. Returns false if one of them is not complete.
    #[inline(always)]
    fn take_rounds(&mut self, channel: &impl Channel) -> bool {
        let schedule = Rc::clone(&self.task.schedule);
        while let Some(round) = schedule.round(self.round) {
            if !self.is_posted && !self.post(channel, round) {
                return false;
            }
            if self.task.schedule.has_messages() && !self.check_messages(channel) {
                return false;
            }
            if let Some(turn) = self.turn
                && !self.check_board(channel, turn, round)
            {
                return false;
            }
            if !schedule.has_portions() {
                self.take_local_steps(channel, round);
            } else if !self.carry_out_portion(channel, round) {
                return false;
            }
            self.round += 1;
            self.is_posted = false;
            if schedule.begins_turn(self.round)
                && let Some(turn) = self.turn
            {
                board_of(channel).complete(turn);
                self.turn = Some(turn.next());
                self.written = 0;
            }
        }
        true
    }

    /// Goes on with the next part of an operation with many peers; returns whether there is one.
    #[cold]
    fn begin_next_part(&mut self) -> bool {
        let Some(next) = collectives::next_part(&self.task.schedule) else { return false };
        let before = std::mem::replace(&mut self.task.schedule, Rc::new(next));
        self.first_part.get_or_insert(before);
        self.round = 0;
        true
    }

    /// The series of its turns on the board. `None` while the operation is underway on the board,
    /// or if it was abandoned there.
    pub(crate) fn idle_series(&self) -> Option<Series> {
        let is_idle = self.turn.is_none() && self.task.schedule.uses_board();
        is_idle.then_some(self.series)
    }

    /// Whether the operation needs progress of messages to complete.
    pub(crate) fn has_messages(&self) -> bool {
        self.task.schedule.has_messages() || !self.pending.is_empty()
    }

    /// Whether other members may wait for steps that this member has not taken.
    pub(crate) fn is_awaited(&self) -> bool {
        let next = self.round + usize::from(self.is_posted && self.pending.is_empty());
        !self.pending.is_empty() || self.task.schedule.is_awaited_from(next)
    }

    /// Whether only short receives are outstanding, and all messages of this member have left.
    /// Then no other member waits for the next steps of this one, which can be taken when the
    /// program waits.
    pub(crate) fn only_receives_little(&self) -> bool {
        let Some(round) = self.task.schedule.round(self.round) else { return false };
        let is_little = |transfer: &Transfer| match transfer {
            Transfer::Receive { into, .. } => {
                self.task.memories.part(*into).len() < HELPED_BYTES_MIN
            }
            Transfer::Send { .. } => true,
            _ => false,
        };
        let is_receive = |transfer: &&Transfer| matches!(transfer, Transfer::Receive { .. });
        self.is_posted
            && self.pending.len() == round.transfers.iter().filter(is_receive).count()
            && !self.task.schedule.is_awaited_from(self.round + 1)
            && round.transfers.iter().all(is_little)
    }

    /// Returns the first error, if any, and clears it.
    pub(crate) fn outcome(&mut self) -> Result<()> {
        self.error.take().map_or(Ok(()), Err)
    }

    /// The outstanding receives of this round, each with the rank of its sender.
    pub(super) fn awaited_messages(&self) -> impl Iterator<Item = (u32, RequestId)> {
        let round = self.task.schedule.round(self.round);
        let transfers = round.map_or(&[][..], |round| round.transfers);
        let senders = transfers.iter().filter_map(|transfer| match transfer {
            Transfer::Receive { peer, .. } => Some(*peer),
            _ => None,
        });
        // Receives are posted before sends.
        senders.zip(self.pending.iter().copied()).skip(self.completed)
    }

    /// The members whose flags this round waits for.
    pub(super) fn awaited_flags(&self, channel: &impl Channel) -> Vec<u32> {
        let (Some(turn), Some(round)) = (self.turn, self.task.schedule.round(self.round)) else {
            return Vec::new();
        };
        let awaited = round.transfers.iter().filter_map(|transfer| match transfer {
            Transfer::Await { peer, stage, .. } => Some((*peer, *stage)),
            _ => None,
        });
        let missing = |(peer, stage)| board_of(channel).raised(turn, peer, stage).is_none();
        awaited.filter(|one| missing(*one)).map(|(peer, _)| peer).collect()
    }

    /// The schedule that the operation began with, by which others recognise its call.
    pub(super) fn schedule(&self) -> &Rc<Schedule> {
        self.first_part.as_ref().unwrap_or(&self.task.schedule)
    }

    /// Returns the list of requests, emptied, for use by another execution.
    pub(crate) fn take_pending(&mut self) -> Vec<RequestId> {
        self.pending.clear();
        std::mem::take(&mut self.pending)
    }

    /// Begins a round. Returns false if it cannot begin yet.
    #[inline]
    fn post(&mut self, channel: &impl Channel, round: Round<'_>) -> bool {
        if self.task.schedule.begins_turn(self.round)
            && let Some(turn) = self.turn
            && !board_of(channel).is_free(turn, self.task.schedule.raises())
        {
            return false;
        }
        self.seen = 0;
        self.is_posted = true;
        if self.task.schedule.has_messages() {
            self.post_messages(channel, round);
        }
        true
    }

    /// Posts the messages of a round. Receives are posted first, so that data of a fast peer
    /// finds a posted receive. Messages between two processes keep the order of the schedule.
    fn post_messages(&mut self, channel: &impl Channel, round: Round<'_>) {
        self.pending.clear();
        self.completed = 0;
        for transfer in round.transfers {
            if let Transfer::Receive { peer, into } = transfer {
                let buffer = self.task.memories.part(*into);
                self.pending.push(channel.receive(*peer, self.tag, buffer));
            }
        }
        for transfer in round.transfers {
            if let Transfer::Send { peer, from } = transfer {
                let buffer = self.task.memories.part(*from);
                self.pending.extend(channel.send(*peer, self.tag, buffer));
            }
        }
    }

    /// Finishes the complete messages of this round. Returns whether all are complete.
    fn check_messages(&mut self, channel: &impl Channel) -> bool {
        while let Some(pending) = self.pending.get(self.completed) {
            let Some(result) = channel.take(*pending) else { return false };
            self.completed += 1;
            if let Err(error) = result {
                let is_first = self.error.is_none();
                let ends_all = matches!(error.class, ErrorClass::ProcFailed | ErrorClass::Revoked);
                self.note(Err(error));
                if is_first && ends_all && self.abandon(channel) {
                    return false;
                }
            }
        }
        true
    }

    /// Abandons the operation if the communicator was revoked or a member has failed; a
    /// persistent one too. Returns whether it did. This member cancels its messages, so that
    /// living members do not wait for them. The operation ends when no message accesses the
    /// program's memory any more: messages that were matched already are transferred.
    #[cold]
    pub(super) fn abandon(&mut self, channel: &impl Channel) -> bool {
        let failed = channel.failed_member();
        if !channel.is_revoked() && failed.is_none() {
            return false;
        }
        self.pending.drain(..self.completed);
        self.completed = 0;
        for pending in &self.pending {
            channel.cancel(*pending);
        }
        if channel.is_revoked() {
            self.note(Err(revoked()));
        } else if let Some(member) = failed {
            self.pending.extend(channel.send(member, self.tag, Buffer::empty()));
        }
        self.conceal(channel);
        self.task.schedule = Rc::new(Schedule::of_nothing_new());
        self.task.repacking = None;
        self.round = 0;
        self.is_posted = false;
        self.unsent.clear();
        self.turn = None;
        true
    }

    /// Raises the flags of this round, and checks the flags that it waits for. Returns whether
    /// all awaited flags are raised.
    #[inline]
    fn check_board(&mut self, channel: &impl Channel, turn: BoardTurn, round: Round<'_>) -> bool {
        let board = board_of(channel);
        for transfer in &round.transfers[self.seen..] {
            match transfer {
                Transfer::Raise { stage, reader } => {
                    board.raise(turn, *stage, self.written.max(self.promised()), *reader);
                    if !self.unsent.is_empty() {
                        self.send_late(channel);
                    }
                }
                Transfer::Await { peer, stage, count } => {
                    let Some(length) = board.raised(turn, *peer, *stage) else {
                        board.await_stage(turn, *peer, *stage);
                        return false;
                    };
                    board.await_any();
                    let expected = count.zip(self.task.memories.block_bytes());
                    let expected = expected.map_or(length, |(count, bytes)| count * bytes);
                    if length > expected {
                        self.note(Err(truncated(length, expected)));
                    }
                }
                Transfer::AwaitPortions { count } => {
                    if !self.differs && board.ended_portions(turn) < u64::from(*count) {
                        return false;
                    }
                }
                Transfer::Claim { .. } | Transfer::Send { .. } | Transfer::Receive { .. } => {}
            }
            self.seen += 1;
        }
        true
    }

    /// The minimum number of bytes that the slot of this member will have.
    #[inline]
    fn promised(&self) -> usize {
        match self.task.schedule.promised_blocks() {
            0 => 0,
            blocks => blocks * self.task.memories.block_bytes().unwrap_or(0),
        }
    }

    #[inline(always)]
    fn take_local_steps(&mut self, channel: &impl Channel, round: Round<'_>) {
        for step in round.local {
            let result = match step {
                Local::Copy { from, into } => match (self.turn, from.area, into.area) {
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
                    _ => copy(self.task.memories.range(*from), self.task.memories.range(*into)),
                },
                Local::CopyRuns { from, into, runs } => {
                    copy_runs(&self.task.memories, *from, *into, *runs)
                }
                Local::Expose { area, role } => {
                    let turn = self.turn.expect("the exposing process has a turn on the board");
                    self.expose(channel, turn, *area, *role);
                    Ok(())
                }
                Local::Divide | Local::Compare => {
                    self.prepare_portions(channel, *step);
                    Ok(())
                }
                Local::Hand { peer, from } => {
                    self.hand(channel, *peer, *from);
                    Ok(())
                }
                Local::Take { peer, into } => self.take(channel, *peer, *into),
                Local::Reduce { from, into, first } => {
                    match (self.turn, from.area) {
                        (Some(turn), Area::Slot(member)) => {
                            self.reduce_from_slot(board_of(channel), turn, member, *from, *into);
                        }
                        _ => self.reduce(*from, *into, *first),
                    }
                    Ok(())
                }
            };
            if let Err(error) = result {
                self.note(Err(error));
            }
        }
    }

    fn reduce(&self, from: BlockRange, into: BlockRange, first: Operand) {
        let memories = &self.task.memories;
        match (first, self.combination()) {
            (_, OperationKernel::Predefined(kernel)) => {
                let (from, into) = (memories.range(from), memories.range(into));
                let length = from.length.min(into.length);
                let (from, into) = ((from.buffer, from.offset), (into.buffer, into.offset));
                kernel.combine_range(from, into, length);
            }
            (first, combination) => {
                let (count, from, into) = (from.count, memories.part(from), memories.part(into));
                match first {
                    Operand::From => combination.combine(&from, &into, count),
                    Operand::Into => combination.combine_reversed(&from, &into, count),
                }
            }
        }
    }

    #[inline]
    fn combination(&self) -> &OperationKernel {
        self.task.combination.as_ref().expect("only the schedules of reductions combine elements")
    }

    #[inline]
    fn copy_into_slot(
        &mut self,
        board: &Board,
        turn: BoardTurn,
        from: BlockRange,
        into: BlockRange,
    ) -> Result<()> {
        let PackedRange { buffer, offset, length } = self.task.memories.range(from);
        let at = into.first * self.task.memories.block_bytes().unwrap_or(length);
        let bytes = board.slot_bytes(turn);
        let room = bytes.saturating_sub(at);
        let fitting = length.min(room);
        write_into_slot(
            board,
            turn,
            at.min(bytes),
            PackedRange { length: fitting, buffer, offset },
        );
        self.written = self.written.max(at + fitting);
        if length > room { Err(truncated(length, room)) } else { Ok(()) }
    }

    /// Copies from a member's slot. If the slot has less than expected, only that is copied, as
    /// with a short message.
    #[inline]
    fn copy_from_slot(
        &self,
        board: &Board,
        turn: BoardTurn,
        member: u32,
        from: BlockRange,
        into: BlockRange,
    ) -> Result<()> {
        let PackedRange { buffer, offset, length } = self.task.memories.range(into);
        let at = from.first * self.task.memories.block_bytes().unwrap_or(length);
        let there = self.shown(board, turn, member).saturating_sub(at);
        let fitting = length.min(there);
        let at = at.min(board.slot_bytes(turn));
        board.read(turn, member, at, fitting, |slot| buffer.write_shared(offset, slot));
        // If all blocks have one length, this was checked for the whole slot.
        let is_long = self.task.memories.receives_each() && there > length;
        if is_long { Err(truncated(there, length)) } else { Ok(()) }
    }

    /// The number of bytes of a slot that can be read.
    #[inline]
    fn shown(&self, board: &Board, turn: BoardTurn, member: u32) -> usize {
        if member == board.own() { self.written } else { board.length(turn, member) }
    }

    #[inline]
    fn reduce_from_slot(
        &self,
        board: &Board,
        turn: BoardTurn,
        member: u32,
        from: BlockRange,
        into: BlockRange,
    ) {
        let combination = self.combination();
        let unit = combination.element_bytes();
        let there = self.shown(board, turn, member).saturating_sub(from.first * unit);
        let count = from.count.min(there / unit.max(1));
        let place = BlockRange { count, ..into };
        let at = (from.first * unit).min(board.slot_bytes(turn));
        board.read(turn, member, at, count * unit, |slot| {
            combination.combine_shared(slot, &self.task.memories, place);
        });
    }

    fn note(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
    }
}

/// Copies a range to a position in this member's slot, where it must fit.
#[inline(always)]
fn write_into_slot(board: &Board, turn: BoardTurn, at: usize, from: PackedRange<'_>) {
    let PackedRange { buffer, offset, length } = from;
    if length < LONG_BYTES_MIN || !buffer.is_contiguous() {
        return board.write(turn, at, length, |slot| buffer.read_shared(offset, slot));
    }
    board.write_long(turn, at, length, |done, slot, past_caches| match past_caches {
        true => buffer.read_past_caches(offset + done, slot),
        false => buffer.read_shared(offset + done, slot),
    });
}

/// Copies several runs of blocks. Few schedules do; none of the short ones.
#[cold]
fn copy_runs(
    memories: &OperationMemory,
    from: BlockRange,
    into: BlockRange,
    runs: BlockRuns,
) -> Result<()> {
    let copy_run = |(from, into)| copy(memories.range(from), memories.range(into));
    runs.each(from, into).try_for_each(copy_run)
}

/// Copies a block. The standard requires that both sides have an equal number of bytes.
#[inline(always)]
fn copy(from: PackedRange<'_>, into: PackedRange<'_>) -> Result<()> {
    let length = from.length.min(into.length);
    from.buffer.copy_range(from.offset, into.buffer, into.offset, length);
    if from.length > into.length {
        return Err(truncated(from.length, into.length));
    }
    Ok(())
}

#[inline]
fn board_of(channel: &impl Channel) -> &Board {
    channel.board().expect("schedules name the board only where there is one")
}

#[cold]
fn truncated(sent: usize, room: usize) -> Error {
    let sentence = format!("{sent} bytes are contributed where there is room for {room} bytes");
    Error::new(ErrorClass::Truncate, sentence)
}
