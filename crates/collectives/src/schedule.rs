//! Schedules: the steps of one process in one collective operation.
//!
//! A schedule names blocks, never bytes. The documentation of the algorithm defines a block, and
//! the code that executes the schedule knows its size. So one schedule serves every buffer, and can
//! be kept and executed again.

use base::SlotSize;

/// The steps of one process in one collective operation: rounds, one after the other.
///
/// A round posts all its transfers before it waits for any. When all are complete, the local steps
/// are executed in order; then the next round begins. Transfers between two processes match in the
/// order in which their schedules list them, so one tag is enough for an operation.
///
/// The transfers of a round never write a block that another transfer of the round reads or writes.
/// Steps of several rounds are in one list, so a schedule costs three allocations, however many
/// rounds it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    transfers: Vec<Transfer>,
    local: Vec<Local>,
    /// The end of each round in the two lists.
    ends: Vec<RoundEnd>,
    /// The rounds that begin a turn on the board, after the first one.
    later_turns: Vec<usize>,
    scratch_blocks: usize,
    slot_blocks: usize,
    promised_blocks: usize,
    uses_board: bool,
    raises: bool,
    has_messages: bool,
    hands: bool,
    has_portions: bool,
    handed_bytes_max: usize,
    counts_bytes: bool,
    joins_blocks: bool,
    slots: SlotSize,
    part: Option<ExchangePart>,
}

/// The place of a schedule in an exchange with so many peers that it comes in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExchangePart {
    /// The member whose schedule it is, and the number of members.
    pub(crate) rank: u32,
    pub(crate) size: u32,
    /// The number of peers in a round.
    pub(crate) window: u32,
    /// The buffer with the data to send: the receive buffer of an exchange in place.
    pub(crate) source: Area,
    /// The number of parts before this one.
    pub(crate) number: u32,
    /// Whether this is the last part.
    pub(crate) is_last: bool,
}

/// One round of a schedule, borrowed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round<'schedule> {
    /// Posted all at once.
    pub transfers: &'schedule [Transfer],
    /// Executed in order when all transfers of the round are complete.
    pub local: &'schedule [Local],
}

/// A step that involves other members: a message, or a step on the board.
///
/// A message of zero blocks has no data, but it is sent. A round posts its messages first, then
/// raises, then checks whether the others have raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Send the blocks at `from` to the process with rank `peer`.
    Send {
        /// Rank of the receiver in the communicator.
        peer: u32,
        /// The blocks to send.
        from: BlockRange,
    },
    /// Receive blocks from the process with rank `peer`.
    Receive {
        /// Rank of the sender in the communicator.
        peer: u32,
        /// The destination of the data.
        into: BlockRange,
    },
    /// On the board: publishes all data that the previous rounds have written into the own slot.
    Raise {
        /// The stage, counted from 1 in each operation.
        stage: u16,
        /// The only member that waits for this stage, as its rank; `None` if several may.
        reader: Option<u32>,
    },
    /// On the board: waits until a member has raised `stage`, so that its slot can be read.
    Await {
        /// Rank of the member in the communicator.
        peer: u32,
        /// The stage that it must have raised at least.
        stage: u16,
        /// The number of blocks that it has written for that stage; `None` if that member
        /// determines it.
        count: Option<usize>,
    },
    /// On the board: claims a portion of the work of all members. The local steps of the round
    /// execute it; they are skipped if another member has claimed it. A member that computes claims
    /// nothing.
    Claim {
        /// Counted from 0, below [`PORTIONS_MAX`].
        portion: u32,
    },
    /// On the board: waits until so many portions were executed, by any members.
    AwaitPortions {
        /// The total number of portions.
        count: u32,
    },
}

/// The maximum number of portions of an operation.
pub const PORTIONS_MAX: u32 = 64;

/// One step without another process. Both places have an equal number of blocks and do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// Copy the blocks.
    Copy {
        /// The source.
        from: BlockRange,
        /// The destination.
        into: BlockRange,
    },
    /// Copy several runs of blocks, which lie at regular distances. They are copied in order.
    CopyRuns {
        /// The source of the first run.
        from: BlockRange,
        /// The destination of the first run.
        into: BlockRange,
        /// The other runs.
        runs: BlockRuns,
    },
    /// Combine the blocks one by one with the operation of the reduction, leaving `from` as it is.
    Reduce {
        /// One operand.
        from: BlockRange,
        /// The other operand; the result replaces it.
        into: BlockRange,
        /// The left operand of the two. A commutative operation may ignore it. [`Operand::From`] is
        /// the convention of the functions that programs pass to `MPI_Op_create` (`from` is their
        /// `invec`). [`Operand::Into`] is the rare case, in which a function that does not commute
        /// needs a copy of an operand.
        first: Operand,
    },
    /// On the board: lets the others use all blocks of `area`, the send or the receive buffer, from
    /// the next stage on until the schedule ends. The exposure is written into the own slot.
    Expose {
        /// The exposed area.
        area: Area,
        /// The role of the exposed area.
        role: ExposureRole,
    },
    /// On the board, by member 0 before its first stage: marks all portions as unclaimed.
    Divide,
    /// On the board: compares how much the members have exposed. If the sizes differ, the operation
    /// ends with an error, and no member executes portions.
    Compare,
    /// On the board: shows a block to one other member in the own slot. If it is too long for the
    /// slot, which only its owner may know, it is sent as a message after the next stage. A member
    /// that hands blocks has no other messages.
    Hand {
        /// Rank of the member in the communicator.
        peer: u32,
        /// The block to hand over.
        from: BlockRange,
    },
    /// On the board: takes a block that a member has handed to this one. It is copied from that
    /// member's slot; or a receive is begun, and the schedule does not end before the receive is
    /// complete.
    Take {
        /// Rank of the member in the communicator.
        peer: u32,
        /// The destination of the data.
        into: BlockRange,
    },
}

/// Runs of blocks at regular distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRuns {
    /// The number of runs, at least one.
    pub count: u32,
    /// The distance from the beginning of a source to that of the next, in blocks.
    pub from_step: i32,
    /// The distance from the beginning of a destination to that of the next, in blocks.
    pub into_step: i32,
}

impl BlockRuns {
    /// Returns the source and the destination of each run, from those of the first.
    pub fn each(
        self,
        from: BlockRange,
        into: BlockRange,
    ) -> impl Iterator<Item = (BlockRange, BlockRange)> {
        let moved = |place: BlockRange, number: u32, step: i32| {
            let offset = number as isize * step as isize;
            BlockRange { first: place.first.wrapping_add_signed(offset), ..place }
        };
        (0..self.count).map(move |number| {
            (moved(from, number, self.from_step), moved(into, number, self.into_step))
        })
    }
}

/// The role in which a member exposes a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExposureRole {
    /// Its contribution.
    Input,
    /// The destination of its result.
    Result,
}

/// One of the two operands of [`Local::Reduce`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// The operand at `from`.
    From,
    /// The operand at `into`.
    Into,
}

/// `count` consecutive blocks of `area`, from block `first` on.
///
/// In operations whose blocks have individual sizes (the v- and w-forms), `count` is 1, except in
/// `allgatherv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRange {
    /// The memory.
    pub area: Area,
    /// The number of the first block.
    pub first: usize,
    /// The number of blocks.
    pub count: usize,
}

/// The memories that a schedule accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Area {
    /// The send buffer of the program: read only. Never used if the input is in place.
    Send,
    /// The receive buffer of the program (or the only buffer, as in a broadcast). Never used where
    /// it is not significant: on the processes that are not the root.
    Receive,
    /// Scratch memory of the execution: [`Schedule::scratch_blocks`] blocks, undefined at the
    /// beginning. A block holds packed data of the size of a block of the program's buffers, or in
    /// a reduction one element with its extent. In `alltoallv` scratch block `i` has the packed
    /// size of block `i` of the receive buffer.
    Scratch,
    /// The slot of the member with this rank on the board: packed blocks, undefined at the
    /// beginning. Local steps write and read the own slot. The slot of another member is only read,
    /// after [`Transfer::Await`]. No local step reads one slot and writes another, and none reduces
    /// into a slot.
    Slot(u32),
    /// The exposed input of another member ([`Local::Expose`]): read only, by copies into own
    /// memory.
    InputOf(u32),
    /// The exposed result buffer of another member: written only, by copies of own memory.
    ResultOf(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RoundEnd {
    transfers: usize,
    local: usize,
}

impl Schedule {
    /// Returns the number of rounds; 0 if there is nothing to do.
    pub fn round_count(&self) -> usize {
        self.ends.len()
    }

    /// Returns round `index`, counted from zero; `None` past the last one.
    #[inline]
    pub fn round(&self, index: usize) -> Option<Round<'_>> {
        let end = self.ends.get(index)?;
        let begin = match index {
            0 => RoundEnd { transfers: 0, local: 0 },
            _ => self.ends[index - 1],
        };
        Some(Round {
            transfers: &self.transfers[begin.transfers..end.transfers],
            local: &self.local[begin.local..end.local],
        })
    }

    /// Returns all rounds in order.
    pub fn rounds(&self) -> impl Iterator<Item = Round<'_>> {
        (0..self.round_count()).filter_map(|index| self.round(index))
    }

    /// Returns how many blocks of scratch memory an execution needs.
    pub fn scratch_blocks(&self) -> usize {
        self.scratch_blocks
    }

    /// Returns how many blocks of a slot the schedule uses.
    pub fn slot_blocks(&self) -> usize {
        self.slot_blocks
    }

    /// Whether any member uses the board in this operation: then all members count the operation on
    /// the board.
    #[inline]
    pub fn uses_board(&self) -> bool {
        self.uses_board
    }

    /// Returns the number of turns on the board. They follow one another, and each has its own
    /// slots and flags.
    #[inline]
    pub fn turns(&self) -> usize {
        1 + self.later_turns.len()
    }

    /// Whether a turn on the board begins with this round.
    #[inline]
    pub fn begins_turn(&self, round: usize) -> bool {
        round == 0 || !self.later_turns.is_empty() && self.later_turns.contains(&round)
    }

    /// Whether this member raises its flag, and so shows data in its slot.
    #[inline]
    pub fn raises(&self) -> bool {
        self.raises
    }

    /// Whether this member sends or receives messages.
    #[inline]
    pub fn has_messages(&self) -> bool {
        self.has_messages
    }

    /// Whether this member hands blocks to others, or takes handed blocks, which may need messages.
    #[inline]
    pub fn hands(&self) -> bool {
        self.hands
    }

    /// Whether members execute portions of it for each other.
    #[inline]
    pub fn has_portions(&self) -> bool {
        self.has_portions
    }

    /// Whether other members may wait for a step of this member in round `round` or a later one.
    pub fn is_awaited_from(&self, round: usize) -> bool {
        let from = if round == 0 { 0 } else { self.ends[round - 1].transfers };
        let is_for_others = |transfer: &Transfer| {
            !matches!(
                transfer,
                Transfer::Await { .. } | Transfer::Claim { .. } | Transfer::AwaitPortions { .. }
            )
        };
        self.hands
            || self.part.is_some_and(|part| !part.is_last)
            || self.transfers[from..].iter().any(is_for_others)
    }

    /// Returns the maximum length of a block that is handed over in a slot, in bytes.
    #[inline]
    pub fn handed_bytes_max(&self) -> usize {
        self.handed_bytes_max
    }

    /// Whether each of its blocks is a byte, whatever the operation's blocks are otherwise.
    #[inline]
    pub fn counts_bytes(&self) -> bool {
        self.counts_bytes
    }

    /// Whether a message or a local step has several blocks.
    #[inline]
    pub fn joins_blocks(&self) -> bool {
        self.joins_blocks
    }

    /// Returns the size of the board slots that it was made for.
    #[inline]
    pub fn slots(&self) -> SlotSize {
        self.slots
    }

    /// Makes a schedule that sends an empty message to member `peer`, which has failed, so that the
    /// operation ends with the failure of that send. A receive could still get an earlier message
    /// of that member.
    pub fn to_failed(peer: u32) -> Self {
        let mut schedule = Self::default();
        schedule.send(peer, BlockRange::NOTHING);
        schedule.end_round();
        schedule
    }

    /// Makes a schedule for an abandoned operation, which ends as soon as the messages underway
    /// have completed.
    pub fn of_nothing_new() -> Self {
        Self { hands: true, ..Self::default() }
    }

    pub(crate) fn for_slots(self, slots: SlotSize) -> Self {
        Self { slots, ..self }
    }

    /// Sets the slot size; handed blocks longer than `handed_bytes_max` are sent as messages.
    pub(crate) fn for_handed_blocks(self, slots: SlotSize, handed_bytes_max: usize) -> Self {
        Self { slots, handed_bytes_max, ..self }
    }

    /// Whether it is a part of an operation with many peers, see
    /// [`next_part`](crate::next_part). Its scratch memory is that of the whole operation.
    #[inline]
    pub fn is_part(&self) -> bool {
        self.part.is_some()
    }

    pub(crate) fn part(&self) -> Option<ExchangePart> {
        self.part
    }

    pub(crate) fn of_part(part: ExchangePart) -> Self {
        let scratch_blocks = if part.source == Area::Send { 0 } else { part.size as usize };
        Self { part: Some(part), scratch_blocks, ..Self::default() }
    }

    /// Makes a schedule whose blocks are bytes.
    pub(crate) fn of_bytes() -> Self {
        Self { counts_bytes: true, ..Self::default() }
    }

    /// Returns the minimum final number of blocks in the own slot, which is published with each
    /// flag. 0 if only the present number is published.
    #[inline]
    pub fn promised_blocks(&self) -> usize {
        self.promised_blocks
    }

    pub(crate) fn promise(&mut self, blocks: usize) {
        self.promised_blocks = blocks;
    }

    pub(crate) fn expose(&mut self, area: Area, role: ExposureRole) {
        self.uses_board = true;
        self.local.push(Local::Expose { area, role });
    }

    pub(crate) fn divide(&mut self) {
        self.uses_board = true;
        self.local.push(Local::Divide);
    }

    pub(crate) fn compare(&mut self) {
        self.local.push(Local::Compare);
    }

    pub(crate) fn claim(&mut self, portion: u32) {
        debug_assert!(portion < PORTIONS_MAX);
        self.has_portions = true;
        self.transfers.push(Transfer::Claim { portion });
    }

    pub(crate) fn wait_for_portions(&mut self, count: u32) {
        self.transfers.push(Transfer::AwaitPortions { count });
    }

    pub(crate) fn hand(&mut self, peer: u32, from: BlockRange) {
        self.hands = true;
        self.local.push(Local::Hand { peer, from });
    }

    pub(crate) fn take(&mut self, peer: u32, into: BlockRange) {
        self.hands = true;
        self.local.push(Local::Take { peer, into });
    }

    pub(crate) fn raise(&mut self, stage: u16) {
        self.raise_for(None, stage);
    }

    /// Raises a stage for which only `reader` waits, if it is one member.
    pub(crate) fn raise_for(&mut self, reader: Option<u32>, stage: u16) {
        self.uses_board = true;
        self.raises = true;
        self.transfers.push(Transfer::Raise { stage, reader });
    }

    pub(crate) fn wait(&mut self, peer: u32, stage: u16, count: Option<usize>) {
        self.uses_board = true;
        self.transfers.push(Transfer::Await { peer, stage, count });
    }

    pub(crate) fn send(&mut self, peer: u32, from: BlockRange) {
        self.note(from);
        self.has_messages = true;
        self.transfers.push(Transfer::Send { peer, from });
    }

    pub(crate) fn receive(&mut self, peer: u32, into: BlockRange) {
        self.note(into);
        self.has_messages = true;
        self.transfers.push(Transfer::Receive { peer, into });
    }

    pub(crate) fn copy(&mut self, from: BlockRange, into: BlockRange) {
        debug_assert_eq!(from.count, into.count);
        self.note(from);
        self.note(into);
        self.local.push(Local::Copy { from, into });
    }

    /// Adds the copy of several runs of blocks; of one run, or none, if there are not more.
    pub(crate) fn copy_runs(&mut self, from: BlockRange, into: BlockRange, runs: BlockRuns) {
        debug_assert_eq!(from.count, into.count);
        if runs.count < 2 {
            return runs.each(from, into).for_each(|(from, into)| self.copy(from, into));
        }
        for (from, into) in std::iter::once((from, into)).chain(runs.each(from, into).last()) {
            self.note(from);
            self.note(into);
        }
        self.local.push(Local::CopyRuns { from, into, runs });
    }

    pub(crate) fn reduce(&mut self, from: BlockRange, into: BlockRange, first: Operand) {
        debug_assert_eq!(from.count, into.count);
        self.note(from);
        self.note(into);
        self.local.push(Local::Reduce { from, into, first });
    }

    /// Ends the round; a round without any step is dropped.
    pub(crate) fn end_round(&mut self) {
        let end = RoundEnd { transfers: self.transfers.len(), local: self.local.len() };
        if self.ends.last().copied().unwrap_or(RoundEnd { transfers: 0, local: 0 }) != end {
            self.ends.push(end);
        }
    }

    /// Adds the rounds of another schedule. `rank` and `place` translate its peers and places.
    pub(crate) fn append(
        &mut self,
        other: &Schedule,
        rank: impl Fn(u32) -> u32,
        place: impl Fn(BlockRange) -> BlockRange,
    ) {
        for round in other.rounds() {
            for transfer in round.transfers {
                match *transfer {
                    Transfer::Send { peer, from } => self.send(rank(peer), place(from)),
                    Transfer::Receive { peer, into } => self.receive(rank(peer), place(into)),
                    _ => unreachable!("a board has the members that it has"),
                }
            }
            for step in round.local {
                match *step {
                    Local::Copy { from, into } => self.copy(place(from), place(into)),
                    // The other place may not preserve distances.
                    Local::CopyRuns { from, into, runs } => {
                        runs.each(from, into)
                            .for_each(|(from, into)| self.copy(place(from), place(into)));
                    }
                    Local::Reduce { from, into, first } => {
                        self.reduce(place(from), place(into), first);
                    }
                    _ => unreachable!("a board has the members that it has"),
                }
            }
            self.end_round();
        }
    }

    /// Adds a turn on the board, whose steps are divided into parts at other places. `part`
    /// returns, for a place and a block in it, where that block is and how many blocks follow it
    /// contiguously.
    pub(crate) fn add_turn(
        &mut self,
        turn: &Schedule,
        part: impl Fn(BlockRange, usize) -> (BlockRange, usize),
    ) {
        match self.ends.is_empty() {
            true => self.promised_blocks = turn.promised_blocks,
            false => self.later_turns.push(self.ends.len()),
        }
        self.promised_blocks = self.promised_blocks.min(turn.promised_blocks);
        self.counts_bytes = turn.counts_bytes;
        for round in turn.rounds() {
            for transfer in round.transfers {
                match *transfer {
                    Transfer::Raise { stage, reader } => self.raise_for(reader, stage),
                    Transfer::Await { peer, stage, count } => self.wait(peer, stage, count),
                    _ => unreachable!("a turn has no messages and no portions"),
                }
            }
            for step in round.local {
                let (Local::Copy { from, into } | Local::Reduce { from, into, .. }) = *step else {
                    unreachable!("what is exposed or handed over takes one turn");
                };
                let mut done = 0;
                while done < from.count {
                    let ((here, some), (there, others)) = (part(from, done), part(into, done));
                    let count = some.min(others).min(from.count - done);
                    let (here, there) = (here.part(0, count), there.part(0, count));
                    match *step {
                        Local::Reduce { first, .. } => self.reduce(here, there, first),
                        _ => self.copy(here, there),
                    }
                    done += count;
                }
            }
            self.end_round();
        }
    }

    /// Updates the numbers of scratch blocks and slot blocks (one past the highest that is used),
    /// and whether blocks are joined.
    fn note(&mut self, place: BlockRange) {
        let end = place.first + place.count;
        self.joins_blocks |= place.count > 1;
        match place.area {
            Area::Scratch => self.scratch_blocks = self.scratch_blocks.max(end),
            Area::Slot(_) => self.slot_blocks = self.slot_blocks.max(end),
            Area::Send | Area::Receive | Area::InputOf(_) | Area::ResultOf(_) => {}
        }
    }
}

impl Area {
    /// Returns one block.
    pub(crate) const fn block(self, number: usize) -> BlockRange {
        self.blocks(number, 1)
    }

    /// Returns `count` blocks from block `first` on.
    pub(crate) const fn blocks(self, first: usize, count: usize) -> BlockRange {
        BlockRange { area: self, first, count }
    }
}

impl BlockRange {
    /// No blocks: the content of a message without data.
    pub(crate) const NOTHING: Self = Area::Scratch.blocks(0, 0);

    /// Returns `count` of these blocks, from the `offset`-th on.
    pub(crate) const fn part(self, offset: usize, count: usize) -> Self {
        self.area.blocks(self.first + offset, count)
    }
}
