//! Schedules: what one process does in one collective operation.
//!
//! A schedule names blocks, never bytes: what a block is, is said by the algorithm's
//! documentation and known to whoever executes it. So one schedule serves every buffer, and can
//! be kept and executed again.

use base::SlotSize;

/// What one process does in one collective operation: rounds, one after the other.
///
/// In a round all transfers are posted at once; when all of them are complete, the local steps
/// are executed in order; then the next round begins. Transfers between the same two processes
/// match in the order in which their schedules list them, so one tag is enough for an operation.
///
/// The transfers of a round never write a block that another transfer of the round reads or
/// writes. Steps of several rounds lie in one list, so a schedule costs three allocations however
/// many rounds it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    transfers: Vec<Transfer>,
    local: Vec<Local>,
    /// Where each round ends in the two lists.
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
    slots: SlotSize,
}

/// One round of a schedule, borrowed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round<'schedule> {
    /// Posted all at once.
    pub transfers: &'schedule [Transfer],
    /// Executed in order when all transfers of the round are complete.
    pub local: &'schedule [Local],
}

/// What a member does towards the others: a message, or a step on the board.
///
/// A message of zero blocks has no data: it is sent all the same. A round posts its messages first,
/// then raises, then looks whether the others have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Send the blocks at `from` to the process with rank `peer`.
    Send {
        /// Rank of the receiver in the communicator.
        peer: u32,
        /// What is sent.
        from: BlockRange,
    },
    /// Receive blocks from the process with rank `peer`.
    Receive {
        /// Rank of the sender in the communicator.
        peer: u32,
        /// Where the data goes.
        into: BlockRange,
    },
    /// On the board: all that the rounds before have written into the own slot is ready for the
    /// others.
    Raise {
        /// Counted from 1 in each operation, one by one.
        stage: u16,
    },
    /// On the board: wait until a member has raised `stage`, so that its slot can be read.
    Await {
        /// Rank of the member in the communicator.
        peer: u32,
        /// What it must have raised at least.
        stage: u16,
        /// How many blocks it has written for that stage; none where that is for it to say.
        count: Option<usize>,
    },
    /// On the board: claims a portion of the work of all members. The local steps of the round
    /// carry it out; they are left out if another member has claimed it. Who computes claims
    /// nothing.
    Claim {
        /// Counted from 0, below [`PORTIONS_MAX`].
        portion: u32,
    },
    /// On the board: wait until so many portions were carried out, by whomever.
    AwaitPortions {
        /// All of them.
        count: u32,
    },
}

/// An operation has so many portions at most.
pub const PORTIONS_MAX: u32 = 64;

/// One step that needs nobody else. Both places have the same number of blocks and do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// Copy the blocks.
    Copy {
        /// What is copied.
        from: BlockRange,
        /// Where it goes.
        into: BlockRange,
    },
    /// Combine the blocks one by one with the operation of the reduction, leaving `from` as it is.
    Reduce {
        /// One operand.
        from: BlockRange,
        /// The other operand; the result replaces it.
        into: BlockRange,
        /// Which of the two is the left operand. A commutative operation may ignore it. With
        /// [`Operand::From`] this is the convention of the functions that programs give to
        /// `MPI_Op_create` (`from` is their `invec`); [`Operand::Into`] is the rare case, where
        /// a function that does not commute needs a copy of an operand.
        first: Operand,
    },
    /// On the board: lets the others use all blocks of `area`, the send or the receive buffer, from
    /// the next stage on until the schedule ends. It is written into the own slot.
    Expose {
        /// What is exposed.
        area: Area,
        /// As what.
        role: ExposureRole,
    },
    /// On the board, by member 0 before its first stage: no portion is claimed yet.
    Divide,
    /// On the board: compares how much the members have exposed. Where that differs the operation
    /// ends with an error, and nobody carries out portions.
    Compare,
    /// On the board: shows a block to one other member in the own slot; if it is too long for that,
    /// as only its owner may know, it goes as a message after the next stage. Whoever hands has no
    /// other messages.
    Hand {
        /// Rank of the member in the communicator.
        peer: u32,
        /// What is handed.
        from: BlockRange,
    },
    /// On the board: takes a block that a member has handed to this one: out of its slot, or it
    /// begins to receive it, and the schedule does not end before that is over.
    Take {
        /// Rank of the member in the communicator.
        peer: u32,
        /// Where the data goes.
        into: BlockRange,
    },
}

/// As what a member exposes a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExposureRole {
    /// What it contributes.
    Input,
    /// Where its result goes.
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
/// In the operations whose blocks have sizes of their own (the v- and w-forms) `count` is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRange {
    /// The memory.
    pub area: Area,
    /// The number of the first block.
    pub first: usize,
    /// How many blocks.
    pub count: usize,
}

/// The memories that a schedule works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Area {
    /// The send buffer of the program: read only. Never named where the input is in place.
    Send,
    /// The receive buffer of the program (or the only buffer, as in a broadcast). Never named
    /// where it is not significant: on the processes that are not the root.
    Receive,
    /// Memory of the execution: [`Schedule::scratch_blocks`] blocks, undefined at the beginning.
    /// A block holds packed data of the size of a block of the program's buffers, or in a
    /// reduction one element with its extent; in `alltoallv` scratch block `i` has the packed
    /// size of block `i` of the receive buffer.
    Scratch,
    /// The slot of the member with this rank on the board: packed blocks, undefined at the
    /// beginning. The own slot is written by local steps, and read by them. The slot of another
    /// member is only read, after [`Transfer::Await`]. No local step reads and writes slots at
    /// once, and none reduces into a slot.
    Slot(u32),
    /// What another member contributes, which it has exposed ([`Local::Expose`]): read only, by
    /// copies into own memory.
    InputOf(u32),
    /// Where another member's result goes, which it has exposed: written only, by copies of own
    /// memory.
    ResultOf(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RoundEnd {
    transfers: usize,
    local: usize,
}

impl Schedule {
    /// How many rounds there are; none where nothing has to be done.
    pub fn round_count(&self) -> usize {
        self.ends.len()
    }

    /// Round `index`, counted from zero; none past the last one.
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

    /// All rounds in order.
    pub fn rounds(&self) -> impl Iterator<Item = Round<'_>> {
        (0..self.round_count()).filter_map(|index| self.round(index))
    }

    /// How many blocks of scratch memory an execution needs.
    pub fn scratch_blocks(&self) -> usize {
        self.scratch_blocks
    }

    /// How many blocks of a slot are named at most.
    pub fn slot_blocks(&self) -> usize {
        self.slot_blocks
    }

    /// Whether the operation takes place on the board, for some of its members at least: then all
    /// of them count it there.
    #[inline]
    pub fn uses_board(&self) -> bool {
        self.uses_board
    }

    /// How many turns on the board it takes: one after the other each has slots and flags of its
    /// own.
    #[inline]
    pub fn turns(&self) -> usize {
        1 + self.later_turns.len()
    }

    /// Whether a turn on the board begins with this round.
    #[inline]
    pub fn begins_turn(&self, round: usize) -> bool {
        round == 0 || !self.later_turns.is_empty() && self.later_turns.contains(&round)
    }

    /// Whether this member raises its flag, and so has something to show in its slot.
    #[inline]
    pub fn raises(&self) -> bool {
        self.raises
    }

    /// Whether this member sends or receives messages.
    #[inline]
    pub fn has_messages(&self) -> bool {
        self.has_messages
    }

    /// Whether this member hands blocks to others, or takes what they hand, which may need
    /// messages.
    #[inline]
    pub fn hands(&self) -> bool {
        self.hands
    }

    /// Whether members carry out portions of it for each other.
    #[inline]
    pub fn has_portions(&self) -> bool {
        self.has_portions
    }

    /// Whether others may wait for a step of this member in round `round` or a later one, before
    /// which it waits for something itself.
    pub fn is_awaited_from(&self, round: usize) -> bool {
        let from = if round == 0 { 0 } else { self.ends[round - 1].transfers };
        let is_for_others = |transfer: &Transfer| {
            !matches!(
                transfer,
                Transfer::Await { .. } | Transfer::Claim { .. } | Transfer::AwaitPortions { .. }
            )
        };
        self.hands || self.transfers[from..].iter().any(is_for_others)
    }

    /// How long a block is at most that is handed over in a slot, in bytes.
    #[inline]
    pub fn handed_bytes_max(&self) -> usize {
        self.handed_bytes_max
    }

    /// Whether each block that it names is a byte, whatever else blocks are in its operation.
    #[inline]
    pub fn counts_bytes(&self) -> bool {
        self.counts_bytes
    }

    /// Which slots of the board it was made for.
    #[inline]
    pub fn slots(&self) -> SlotSize {
        self.slots
    }

    /// Sends nothing to member `peer`: of an operation that cannot take place, as that member has
    /// failed, which is what becomes of the send. A receive could still get what it sent before.
    pub fn to_failed(peer: u32) -> Self {
        let mut schedule = Self::default();
        schedule.send(peer, BlockRange::NOTHING);
        schedule.end_round();
        schedule
    }

    /// Of an operation that is given up: ends as soon as the messages that are underway have.
    pub fn of_nothing_new() -> Self {
        Self { hands: true, ..Self::default() }
    }

    pub(crate) fn for_slots(self, slots: SlotSize) -> Self {
        Self { slots, ..self }
    }

    /// In slots of that size; what is handed over goes as a message from so many bytes on.
    pub(crate) fn for_handing(self, slots: SlotSize, handed_bytes_max: usize) -> Self {
        Self { slots, handed_bytes_max, ..self }
    }

    /// A schedule that counts bytes.
    pub(crate) fn of_bytes() -> Self {
        Self { counts_bytes: true, ..Self::default() }
    }

    /// How many blocks the own slot will have in the end at least, which is told with each flag;
    /// not more than zero where only what is there is told.
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
        self.uses_board = true;
        self.raises = true;
        self.transfers.push(Transfer::Raise { stage });
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

    pub(crate) fn reduce(&mut self, from: BlockRange, into: BlockRange, first: Operand) {
        debug_assert_eq!(from.count, into.count);
        self.note(from);
        self.note(into);
        self.local.push(Local::Reduce { from, into, first });
    }

    /// Closes the round; one without any step vanishes.
    pub(crate) fn end_round(&mut self) {
        let end = RoundEnd { transfers: self.transfers.len(), local: self.local.len() };
        if self.ends.last().copied().unwrap_or(RoundEnd { transfers: 0, local: 0 }) != end {
            self.ends.push(end);
        }
    }

    /// Adds the rounds of another schedule, whose peers have other ranks here, and whose places may
    /// lie elsewhere.
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
                    Local::Reduce { from, into, first } => {
                        self.reduce(place(from), place(into), first);
                    }
                    _ => unreachable!("a board has the members that it has"),
                }
            }
            self.end_round();
        }
    }

    /// Adds a turn on the board, whose steps are cut into parts that lie elsewhere: `part` tells
    /// for a place, from the given block on, where that lies and how many blocks more are there in
    /// a row.
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
                    Transfer::Raise { stage } => self.raise(stage),
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

    /// The same where no message and no step has several blocks: for blocks that differ in size.
    pub(crate) fn block_by_block(&self) -> Self {
        let mut single = Self::default();
        let blocks = |place: BlockRange| (0..place.count).map(move |number| place.part(number, 1));
        for round in self.rounds() {
            for transfer in round.transfers {
                match *transfer {
                    Transfer::Send { peer, from } => {
                        blocks(from).for_each(|from| single.send(peer, from));
                    }
                    Transfer::Receive { peer, into } => {
                        blocks(into).for_each(|into| single.receive(peer, into));
                    }
                    _ => unreachable!("on a board there are no messages"),
                }
            }
            for step in round.local {
                match *step {
                    Local::Copy { from, into } => {
                        blocks(from)
                            .zip(blocks(into))
                            .for_each(|(from, into)| single.copy(from, into));
                    }
                    Local::Reduce { .. } => unreachable!("elements have one size"),
                    _ => unreachable!("a board has the members that it has"),
                }
            }
            single.end_round();
        }
        single
    }

    /// Keeps the counts of scratch blocks and of blocks in slots: one past the highest that is
    /// named.
    fn note(&mut self, place: BlockRange) {
        let end = place.first + place.count;
        match place.area {
            Area::Scratch => self.scratch_blocks = self.scratch_blocks.max(end),
            Area::Slot(_) => self.slot_blocks = self.slot_blocks.max(end),
            Area::Send | Area::Receive | Area::InputOf(_) | Area::ResultOf(_) => {}
        }
    }
}

impl Area {
    /// One block.
    pub(crate) const fn block(self, number: usize) -> BlockRange {
        self.blocks(number, 1)
    }

    /// `count` blocks from block `first` on.
    pub(crate) const fn blocks(self, first: usize, count: usize) -> BlockRange {
        BlockRange { area: self, first, count }
    }
}

impl BlockRange {
    /// No blocks: what a message without data carries.
    pub(crate) const NOTHING: Self = Area::Scratch.blocks(0, 0);

    /// `count` of these blocks, from the `offset`-th on.
    pub(crate) const fn part(self, offset: usize, count: usize) -> Self {
        self.area.blocks(self.first + offset, count)
    }
}
