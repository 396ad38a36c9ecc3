//! Names of message spaces, assigned without communication.

use std::cell::{Cell, RefCell};

use base::{ContextId, Error, ErrorClass, Result};
use engine::ContextSlot;
use message_queues::{CommunicatorRow, QueueTable};

/// The message spaces as one process sees them: the next number that it can assign, and the
/// spaces that can be closed.
///
/// A number is used once, so a late message can never match in a communicator that was made
/// later. One process can create an eighth of 2^32 communicators before the numbers are
/// exhausted.
///
/// Ranks are unique within a job only. A process that is connected with other jobs therefore takes
/// random names of 60 bits, which no rank can begin with.
#[derive(Debug)]
pub struct Contexts {
    world_rank: u32,
    next: Cell<u32>,
    /// Set when this process is connected with other jobs: the last random number.
    shared_names: Cell<Option<u64>>,
    retired: RefCell<Vec<ContextSlot>>,
    /// The communicators that messages can be sent on, for debuggers.
    rows: RefCell<Vec<CommunicatorRow>>,
    /// The table that debuggers read.
    table: Cell<Option<&'static QueueTable>>,
}

/// The message spaces of one communicator, identical on all its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContextBlock {
    creator: u32,
    counter: u32,
}

impl Contexts {
    /// Makes the state of the process with this rank in the job.
    pub fn new(world_rank: u32) -> Self {
        Self {
            world_rank,
            next: Cell::new(FIRST_FREE),
            shared_names: Cell::new(None),
            retired: RefCell::default(),
            rows: RefCell::default(),
            table: Cell::new(None),
        }
    }

    /// Publishes the communicators to debuggers through this table from now on.
    pub(crate) fn show_in(&self, table: &'static QueueTable) {
        self.table.set(Some(table));
        self.change_rows(|_| ());
    }

    /// Publishes a communicator that became ready for messages in the spaces of `block`.
    pub(crate) fn show(&self, block: ContextBlock, row: CommunicatorRow) {
        let internal = [ContextBlock::INTERNAL_WORLD, ContextBlock::CHECKS, ContextBlock::CLOCKS];
        if !internal.contains(&block) {
            self.change_rows(|rows| rows.push(row));
        }
    }

    /// Publishes the new name of a communicator.
    pub(crate) fn rename(&self, id: u64, name: &[u8]) {
        self.change_rows(|rows| {
            if let Some(row) = rows.iter_mut().find(|row| row.id == id) {
                row.set_name(name);
            }
        });
    }

    /// Removes a dropped communicator from the debuggers' table.
    pub(crate) fn hide(&self, id: u64) {
        self.change_rows(|rows| rows.retain(|row| row.id != id));
    }

    fn change_rows(&self, change: impl FnOnce(&mut Vec<CommunicatorRow>)) {
        let rows = &mut *self.rows.borrow_mut();
        match self.table.get() {
            Some(table) => table.change_communicators(rows, change),
            None => change(rows),
        }
    }

    /// The rank of this process in the job.
    pub fn world_rank(&self) -> u32 {
        self.world_rank
    }

    /// The message spaces of `MPI_COMM_SELF`.
    pub(crate) fn of_self(&self) -> ContextBlock {
        ContextBlock { creator: self.world_rank, counter: SELF }
    }

    /// Returns a block that no process has used, or [`ContextBlock::EXHAUSTED`]. A process that
    /// takes a block for others sends them `EXHAUSTED` too, so that all report the error.
    pub(crate) fn take(&self) -> ContextBlock {
        if let Some(last) = self.shared_names.get() {
            let (state, number) = next_random(last);
            self.shared_names.set(Some(state));
            return ContextBlock::of_random(number);
        }
        let counter = self.next.get();
        match counter.checked_add(ContextBlock::SIZE) {
            None => ContextBlock::EXHAUSTED,
            Some(next) => {
                self.next.set(next);
                ContextBlock { creator: self.world_rank, counter }
            }
        }
    }

    /// Takes names from now on that are unique among all jobs. `seed` is a random number.
    pub(crate) fn share_with_other_jobs(&self, seed: u64) {
        if self.shared_names.get().is_none() {
            self.shared_names.set(Some(seed));
        }
    }

    /// Records message spaces that must be closed when the engine can be borrowed.
    pub(crate) fn retire(&self, slots: impl IntoIterator<Item = ContextSlot>) {
        self.retired.borrow_mut().extend(slots);
    }

    /// Returns the message spaces that were retired since the last call.
    pub fn take_retired(&self) -> Vec<ContextSlot> {
        self.retired.take()
    }
}

impl ContextBlock {
    /// The number of names in one block.
    const SIZE: u32 = 8;

    /// The message spaces of `MPI_COMM_WORLD`.
    pub(crate) const WORLD: Self = Self { creator: 0, counter: 0 };

    /// The message spaces of all processes for internal agreements.
    pub(crate) const INTERNAL_WORLD: Self = Self { creator: 0, counter: 2 * Self::SIZE };

    /// The message spaces of all processes for the messages of checks.
    pub(crate) const CHECKS: Self = Self { creator: 0, counter: 3 * Self::SIZE };

    /// The message spaces in which clocks are compared.
    pub(crate) const CLOCKS: Self = Self { creator: 0, counter: 4 * Self::SIZE };

    /// The message spaces of endpoints.
    pub(crate) const ENDPOINTS: Self = Self { creator: 0, counter: 5 * Self::SIZE };

    /// Used in place of a block when the numbers are exhausted.
    pub(crate) const EXHAUSTED: Self = Self { creator: u32::MAX, counter: u32::MAX };

    /// Returns the block that a random number names: its creator is no rank.
    fn of_random(number: u64) -> Self {
        let creator = (number >> 32) as u32 | NO_RANK;
        Self { creator, counter: number as u32 / Self::SIZE * Self::SIZE }
    }

    /// Returns the block, unless it is [`EXHAUSTED`](Self::EXHAUSTED).
    ///
    /// # Errors
    /// `NoSpace` when the process that took the block has no numbers left.
    pub(crate) fn checked(self) -> Result<Self> {
        if self == Self::EXHAUSTED {
            return Err(Error::new(
                ErrorClass::NoSpace,
                "the process with rank 0 in the new communicator has already created 2^29 \
                 communicators, the maximum",
            ));
        }
        Ok(self)
    }

    /// The name of the message space for a purpose.
    pub(crate) fn id(self, purpose: SpacePurpose) -> ContextId {
        ContextId::new(self.creator, self.counter | purpose as u32)
    }

    /// The block as a number.
    pub(crate) fn number(self) -> u64 {
        (u64::from(self.creator) << 32) | u64::from(self.counter)
    }

    /// Encodes the block for a message to another process.
    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        self.number().to_le_bytes()
    }

    /// Decodes a block from a message.
    pub(crate) fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let both = u64::from_le_bytes(bytes);
        Self { creator: (both >> 32) as u32, counter: both as u32 }
    }

    /// The length of [`ContextBlock::to_bytes`].
    pub(crate) const BYTES: usize = 8;
}

/// The purpose of a message space; the numbers are part of the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpacePurpose {
    PointToPoint = 0,
    Collective = 1,
    PartitionedIntroduction = 2,
    PartitionedData = 3,
    NativeSegments = 4,
    PackedOpening = 5,
    PackedData = 6,
    /// Common to all processes of the job.
    Recovery = 7,
}

/// Set in the creator of blocks whose names are random.
const NO_RANK: u32 = 1 << 31;

/// Returns the next state and number of the generator SplitMix64.
fn next_random(state: u64) -> (u64, u64) {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (state, mixed ^ (mixed >> 31))
}

/// Counters are multiples of the block's size. Counter 0 of creator 0 is that of the world.
const SELF: u32 = ContextBlock::SIZE;
const FIRST_FREE: u32 = 6 * ContextBlock::SIZE;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_space_has_two_communicators() {
        let (first, second) = (Contexts::new(0), Contexts::new(1));
        let internal = [ContextBlock::INTERNAL_WORLD, ContextBlock::CHECKS, ContextBlock::CLOCKS];
        let mut blocks = vec![first.of_self(), second.of_self()];
        blocks.push(ContextBlock::WORLD);
        blocks.extend(internal);
        for _ in 0..3 {
            blocks.extend([first.take(), second.take()]);
        }
        let purposes = [
            SpacePurpose::PointToPoint,
            SpacePurpose::Collective,
            SpacePurpose::PartitionedIntroduction,
            SpacePurpose::PartitionedData,
            SpacePurpose::NativeSegments,
            SpacePurpose::PackedOpening,
            SpacePurpose::PackedData,
            SpacePurpose::Recovery,
        ];
        let ids = blocks.iter().flat_map(|block| purposes.map(|purpose| block.id(purpose)));
        let distinct: std::collections::HashSet<_> = ids.collect();
        assert_eq!(distinct.len(), purposes.len() * blocks.len());
        for block in blocks {
            assert_eq!(ContextBlock::from_bytes(block.to_bytes()), block);
        }
    }

    #[test]
    fn names_for_several_jobs_differ_from_those_of_one() {
        let (first, second) = (Contexts::new(0), Contexts::new(0));
        first.share_with_other_jobs(1);
        second.share_with_other_jobs(2);
        let mut blocks = std::collections::HashSet::new();
        for _ in 0..1000 {
            for block in [first.take(), second.take()] {
                assert!(block.creator >= NO_RANK && block.checked().is_ok());
                assert_eq!(block.counter % ContextBlock::SIZE, 0);
                assert!(blocks.insert(block));
            }
        }
    }

    #[test]
    fn the_end_of_the_numbers_is_an_error() {
        let contexts = Contexts::new(3);
        contexts.next.set(u32::MAX - 2 * ContextBlock::SIZE + 1);
        assert!(contexts.take().checked().is_ok());
        assert_eq!(contexts.take().checked().unwrap_err().class, ErrorClass::NoSpace);
        assert_eq!(contexts.take(), ContextBlock::EXHAUSTED);
    }
}
