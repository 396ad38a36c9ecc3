//! The member for which a schedule is made, and the place of its input.

use crate::schedule::Area;
use crate::situation::Situation;

/// The maximum number of processes for algorithms in which each process exchanges messages with all
/// others at once. It bounds the messages that one process has on their way.
pub const PEERS_AT_ONCE_MAX: u32 = 64;

/// One process of a collective operation.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Its rank in the communicator, below `size`.
    pub rank: u32,
    /// The number of processes of the communicator, at least one.
    pub size: u32,
    /// The other properties of the communicator; equal on all members.
    pub situation: &'a Situation,
}

/// The processes that take the data that all contribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takers {
    /// One process, during whose work the others may continue.
    Root,
    /// All processes.
    All,
}

impl Takers {
    /// Returns `Root` for an operation with a root, else `All`.
    pub(crate) fn of(is_rooted: bool) -> Self {
        if is_rooted { Self::Root } else { Self::All }
    }
}

impl Member<'_> {
    /// Returns the member `distance` ranks above, wrapping around to zero.
    pub(crate) fn above(self, distance: u32) -> u32 {
        let rank = u64::from(self.rank) + u64::from(distance);
        (rank % u64::from(self.size)) as u32
    }

    /// Returns the other members, beginning with the next one above, so that not all access one
    /// member at once.
    pub(crate) fn others(self) -> impl DoubleEndedIterator<Item = u32> {
        let Self { rank, size, .. } = self;
        (rank + 1..size).chain(0..rank)
    }

    /// Returns the member `distance` ranks below; `distance` is at most the size.
    pub(crate) fn below(self, distance: u32) -> u32 {
        self.above(self.size - distance)
    }
}

/// The place of an operation's input.
///
/// In operations with a root it matters at the root only; the input of other processes is where the
/// standard specifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InputPlace {
    /// In the send buffer.
    SendBuffer,
    /// In the receive buffer, which the result replaces (`MPI_IN_PLACE`, sections 6.2 and 6.9).
    InPlace,
}

impl InputPlace {
    /// Returns the area of the input, for a member that may choose the place.
    pub(crate) fn area(self) -> Area {
        match self {
            InputPlace::SendBuffer => Area::Send,
            InputPlace::InPlace => Area::Receive,
        }
    }
}
