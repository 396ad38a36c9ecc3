//! Operations on the board: memory that the members of a communicator share, in which each of them
//! has a slot to write to and all others read.
//!
//! Whoever contributes writes into its slot once and raises; whoever needs it waits for that flag and
//! reads. No process waits for more than one turn on a core of each of the others, and no message is
//! sent (the *flat* algorithms). Of larger reductions each process combines one share and shows the
//! result in its turn. What does not fit in a slot does not go over the board.
//!
//! The operations that move data name bytes ([`Schedule::counts_bytes`]), those that combine name
//! elements, and those whose blocks have sizes of their own name whole blocks, each at the beginning
//! of its slot.

mod combining;
mod moving;

pub(crate) use combining::goes_by_shares;
pub use combining::{allreduce, exscan, reduce, reduce_scatter, reduce_scatter_block, scan};
pub use moving::{
    allgather, allgatherv, alltoall, alltoallv, barrier, bcast, gather, gatherv, scatter, scatterv,
};

use crate::member::Member;
use crate::schedule::{Area, Place, Schedule, Slots};

/// What the members of a communicator know of their board; the same for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Room {
    /// How many bytes a slot holds.
    pub slot_bytes: usize,
    /// Whether each member can read and write memory that others expose.
    pub regions: bool,
}

/// The slots of a board, by [`Slots`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rooms {
    /// There are many of these.
    pub small: Room,
    /// As many that they do not all stay in the caches.
    pub middle: Room,
    /// And a few of these.
    pub large: Room,
}

impl Rooms {
    /// What `of` makes for the smallest slots that are large enough. All members come to the same
    /// slots, as all know the same sizes.
    pub fn fit(self, of: impl Fn(Room) -> Option<Schedule>) -> Option<Schedule> {
        let Self { small, middle, large } = self;
        let mut rooms =
            [(small, Slots::Small), (middle, Slots::Middle), (large, Slots::Large)].into_iter();
        rooms.find_map(|(room, slots)| Some(of(room)?.for_slots(slots)))
    }
}

/// Boards are for communicators of at most this many processes: each reads the slots of all others.
pub const SIZE_MAX: u32 = 32;

/// Whether a board may be the way for an operation in which each member shows so many units, where
/// there is room for some.
fn fits(member: Member, shown: usize, room: usize) -> bool {
    (2..=SIZE_MAX).contains(&member.size) && shown > 0 && shown <= room
}

/// Waits for what `peers` show, each `expected` blocks.
fn wait_for(
    schedule: &mut Schedule,
    peers: impl IntoIterator<Item = u32>,
    expected: Option<usize>,
) {
    for peer in peers {
        schedule.wait(peer, 1, expected);
    }
}

fn slot(rank: u32, first: usize, count: usize) -> Place {
    Area::Slot(rank).blocks(first, count)
}

/// Shows what lies at `own` to the others, and begins the round after.
fn show(schedule: &mut Schedule, member: Member, own: Place) {
    schedule.copy(own, slot(member.rank, 0, own.count));
    schedule.end_round();
    schedule.raise(1);
}
