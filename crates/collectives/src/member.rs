//! Who asks for a schedule, and where its input lies.

use crate::schedule::Area;
use crate::situation::Situation;

/// Algorithms in which each process exchanges messages with all others at once are for
/// communicators of at most this many: it bounds the messages that one process has on their way.
pub const PEERS_AT_ONCE_MAX: u32 = 64;

/// One process of those that take part in a collective operation.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Its rank in the communicator, below `size`.
    pub rank: u32,
    /// How many processes the communicator has, at least one.
    pub size: u32,
    /// What all members know besides; it is the same for all of them.
    pub situation: &'a Situation,
}

/// Who takes what all contribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takers {
    /// One process, for which the others may go on.
    Root,
    /// All processes.
    All,
}

impl Takers {
    /// Of an operation with a root, or of another one.
    pub(crate) fn of(is_rooted: bool) -> Self {
        if is_rooted { Self::Root } else { Self::All }
    }
}

impl Member<'_> {
    /// The member `distance` ranks above, beginning again at zero.
    pub(crate) fn above(self, distance: u32) -> u32 {
        let rank = u64::from(self.rank) + u64::from(distance);
        (rank % u64::from(self.size)) as u32
    }

    /// The others, beginning with the next one above, so that not all turn to the same at once.
    pub(crate) fn others(self) -> impl DoubleEndedIterator<Item = u32> {
        let Self { rank, size, .. } = self;
        (rank + 1..size).chain(0..rank)
    }

    /// The member `distance` ranks below, where `distance` is at most the size.
    pub(crate) fn below(self, distance: u32) -> u32 {
        self.above(self.size - distance)
    }
}

/// Where the input of an operation lies.
///
/// In the operations with a root it matters at the root only; the others' input is where the
/// standard puts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InputPlace {
    /// In the send buffer.
    SendBuffer,
    /// In the receive buffer, which the result replaces (`MPI_IN_PLACE`, sections 6.2 and 6.9).
    InPlace,
}

impl InputPlace {
    /// The area that holds the input of a member for whom this choice matters.
    pub(crate) fn area(self) -> Area {
        match self {
            InputPlace::SendBuffer => Area::Send,
            InputPlace::InPlace => Area::Receive,
        }
    }
}
