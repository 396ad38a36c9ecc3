//! Names of message spaces, handed out without asking anybody.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use base::{ContextId, Error, ErrorClass, Result};
use engine::ContextSlot;
use message_queues::{CommunicatorRow, NAME_MAX, QueueTable};

use super::Communicator;

/// What one process knows about message spaces: the next number of its own, and the spaces that
/// nobody needs any more.
///
/// A number is used once, so a late message can never meet a communicator made after its own;
/// an eighth of 2^32 communicators can be created by one process before the numbers end.
#[derive(Debug)]
pub struct Contexts {
    world_rank: u32,
    next: Cell<u32>,
    retired: RefCell<Vec<ContextSlot>>,
    /// The communicators that there are, and some that are no more.
    communicators: RefCell<Vec<Weak<Communicator>>>,
    /// Those that messages can be sent on, for debuggers.
    rows: RefCell<Vec<CommunicatorRow>>,
    /// Where debuggers look.
    table: Cell<Option<&'static QueueTable>>,
}

/// The message spaces of one communicator, the same on all its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContextBlock {
    creator: u32,
    counter: u32,
}

impl Contexts {
    /// Those of the process with this rank in the job.
    pub fn new(world_rank: u32) -> Self {
        Self {
            world_rank,
            next: Cell::new(FIRST_FREE),
            retired: RefCell::default(),
            communicators: RefCell::default(),
            rows: RefCell::default(),
            table: Cell::new(None),
        }
    }

    /// Knows of a new communicator.
    pub(crate) fn add(&self, communicator: &Rc<Communicator>) {
        let mut communicators = self.communicators.borrow_mut();
        // Where the list would grow it loses those that are no more.
        if communicators.len() == communicators.capacity() {
            communicators.retain(|one| one.strong_count() > 0);
        }
        communicators.push(Rc::downgrade(communicator));
    }

    /// Debuggers find the communicators through this table from now on.
    pub(crate) fn show_in(&self, table: &'static QueueTable) {
        self.table.set(Some(table));
        self.change_rows(|_| ());
    }

    /// A communicator can be used for messages.
    pub(crate) fn show(&self, communicator: &Communicator) {
        let Some(block) = communicator.context_block() else { return };
        if [ContextBlock::EVERYBODY, ContextBlock::CHECKS].contains(&block) {
            return;
        }
        let mut row = CommunicatorRow {
            id: u64::from_le_bytes(block.to_bytes()),
            own: communicator.group().row(),
            peers: communicator.peers().row(),
            context: communicator.point_to_point_context().index() as u32,
            rank: communicator.rank(),
            name: [0; NAME_MAX + 1],
        };
        row.set_name(&communicator.name());
        self.change_rows(|rows| rows.push(row));
    }

    /// It has another name.
    pub(crate) fn rename(&self, id: u64, name: &[u8]) {
        self.change_rows(|rows| {
            if let Some(row) = rows.iter_mut().find(|row| row.id == id) {
                row.set_name(name);
            }
        });
    }

    /// It is no more.
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

    /// The communicators of this process.
    pub(crate) fn communicators(&self) -> Vec<Rc<Communicator>> {
        self.communicators.borrow().iter().filter_map(Weak::upgrade).collect()
    }

    /// The rank of this process in the job.
    pub fn world_rank(&self) -> u32 {
        self.world_rank
    }

    /// The spaces of this process alone.
    pub(crate) fn of_self(&self) -> ContextBlock {
        ContextBlock { creator: self.world_rank, counter: SELF }
    }

    /// A block that no process has used, or [`ContextBlock::EXHAUSTED`]: who takes one for others
    /// tells them that too, so that all fail alike.
    pub(crate) fn take(&self) -> ContextBlock {
        let counter = self.next.get();
        match counter.checked_add(ContextBlock::SIZE) {
            None => ContextBlock::EXHAUSTED,
            Some(next) => {
                self.next.set(next);
                ContextBlock { creator: self.world_rank, counter }
            }
        }
    }

    /// Notes spaces that are to be closed when the engine is at hand.
    pub(crate) fn retire(&self, slots: impl IntoIterator<Item = ContextSlot>) {
        self.retired.borrow_mut().extend(slots);
    }

    /// The spaces to close since the last call.
    pub fn take_retired(&self) -> Vec<ContextSlot> {
        self.retired.take()
    }
}

impl ContextBlock {
    /// How many names one block has.
    const SIZE: u32 = 8;

    /// The spaces of all processes together.
    pub(crate) const WORLD: Self = Self { creator: 0, counter: 0 };

    /// Those of all processes together for agreements that the program does not see.
    pub(crate) const EVERYBODY: Self = Self { creator: 0, counter: 2 * Self::SIZE };

    /// Those of all processes together for what checks tell each other.
    pub(crate) const CHECKS: Self = Self { creator: 0, counter: 3 * Self::SIZE };

    /// In place of a block when the numbers have come to their end.
    pub(crate) const EXHAUSTED: Self = Self { creator: u32::MAX, counter: u32::MAX };

    /// The block, unless it is none.
    ///
    /// # Errors
    /// `NoSpace` when the process that took the block has no numbers left.
    pub(crate) fn checked(self) -> Result<Self> {
        if self == Self::EXHAUSTED {
            return Err(Error::new(
                ErrorClass::NoSpace,
                "the process with rank 0 in the new communicator has created 2^29 of them already, \
                 the most possible",
            ));
        }
        Ok(self)
    }

    /// The name of one of the spaces.
    pub(crate) fn id(self, purpose: SpacePurpose) -> ContextId {
        ContextId::new(self.creator, self.counter | purpose as u32)
    }

    /// For a message to another process.
    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        ((u64::from(self.creator) << 32) | u64::from(self.counter)).to_le_bytes()
    }

    /// From such a message.
    pub(crate) fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let both = u64::from_le_bytes(bytes);
        Self { creator: (both >> 32) as u32, counter: both as u32 }
    }

    /// The length of [`ContextBlock::to_bytes`].
    pub(crate) const BYTES: usize = 8;
}

/// What a message space of a communicator is for; the numbers are part of the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpacePurpose {
    PointToPoint = 0,
    Collective = 1,
    PartitionedIntroduction = 2,
    PartitionedData = 3,
    NativeSegments = 4,
    PackedOpening = 5,
    PackedData = 6,
    /// Of all processes of the job together.
    Recovery = 7,
}

/// Counters are multiples of the block's size. 0 is the world's, with process 0 as the creator.
const SELF: u32 = ContextBlock::SIZE;
const FIRST_FREE: u32 = 4 * ContextBlock::SIZE;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_space_has_two_communicators() {
        let (first, second) = (Contexts::new(0), Contexts::new(1));
        let common = [ContextBlock::WORLD, ContextBlock::EVERYBODY, ContextBlock::CHECKS];
        let mut blocks = vec![first.of_self(), second.of_self()];
        blocks.extend(common);
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
    fn the_end_of_the_numbers_is_an_error() {
        let contexts = Contexts::new(3);
        contexts.next.set(u32::MAX - 2 * ContextBlock::SIZE + 1);
        assert!(contexts.take().checked().is_ok());
        assert_eq!(contexts.take().checked().unwrap_err().class, ErrorClass::NoSpace);
        assert_eq!(contexts.take(), ContextBlock::EXHAUSTED);
    }
}
