//! Operations on the board: memory that the members of a communicator share, in which each of them
//! has a slot to write to and all others read.
//!
//! Whoever contributes writes into its slot and raises; whoever needs it waits for that flag and
//! reads. What fits in a slot is written at once: no process waits for more than one turn on a core
//! of each of the others, and no message is sent (the *flat* algorithms). More goes in pieces, which
//! take turns in the parts of the slot: a part is written again when a later stage of those who
//! read it tells that they have. Reductions of more than a few elements go by shares: each process
//! combines one share of the elements, out of all slots, and shows the result in its own.
//!
//! The operations that move data name bytes ([`Schedule::counts_bytes`]), those that combine name
//! elements, and those whose blocks have sizes of their own name whole blocks, each at the beginning
//! of its slot.

mod combining;
mod moving;

pub use combining::{allreduce, exscan, reduce, reduce_scatter, reduce_scatter_block, scan};
pub use moving::{allgather, allgatherv, alltoall, barrier, bcast, gather, gatherv, scatter};

use crate::member::Member;
use crate::schedule::{Area, Place, Schedule};

/// What the members of a communicator know of their board; the same for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Room {
    /// How many bytes a slot holds.
    pub slot_bytes: usize,
}

/// The slots of a board: small ones for operations in which each member shows little, and only once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rooms {
    /// There are many of these.
    pub small: Room,
    /// And a few of these.
    pub large: Room,
}

impl Rooms {
    /// What `of` makes for the smallest slots in which all can be shown at once, else for the large
    /// ones. All members come to the same slots, as all make stages alike.
    pub fn fit(self, of: impl Fn(Room) -> Option<Schedule>) -> Option<Schedule> {
        let small = of(self.small).filter(Schedule::shows_once);
        small.map(Schedule::for_small_slots).or_else(|| of(self.large))
    }
}

/// Boards are for communicators of at most this many processes: each reads the slots of all others.
pub const SIZE_MAX: u32 = 32;

/// How a slot is used when all are to see `total` units: one after the other in `parts` places.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    total: usize,
    /// The length of all pieces but the last.
    length: usize,
    parts: usize,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Where it begins in what is shown.
    first: usize,
    length: usize,
    /// Where it begins in the slot.
    at: usize,
}

impl Pieces {
    /// All at once if it fits in `room` units, else pieces in two halves of them. None if they are
    /// too many, or one does not fit.
    fn halves(total: usize, room: usize) -> Option<Self> {
        if total <= room {
            return Some(Self { total, length: total.max(1), parts: 1 });
        }
        Self { total, length: room / 2, parts: 2 }.checked()
    }

    /// Pieces of `length` units, as many at once as fit in `room` units.
    fn of_length(total: usize, length: usize, room: usize) -> Option<Self> {
        let length = length.min(total).max(1);
        Self { total, length, parts: room / length }.checked()
    }

    fn checked(self) -> Option<Self> {
        (self.length > 0 && self.parts > 0 && self.count() <= PIECES_MAX).then_some(self)
    }

    fn count(self) -> usize {
        self.total.div_ceil(self.length).max(1)
    }

    fn piece(self, number: usize) -> Piece {
        let first = number * self.length;
        let length = self.length.min(self.total - first);
        Piece { first, length, at: number % self.parts * self.length }
    }

    /// What those who wait for the first stage may expect to be there.
    fn expected(self, count: usize) -> Option<usize> {
        (self.count() == 1).then_some(count)
    }
}

/// More pieces than this are a sign that the board is not the way to go.
const PIECES_MAX: usize = 64;

fn is_small(member: Member) -> bool {
    (2..=SIZE_MAX).contains(&member.size)
}

/// The others, beginning with the next one above, so that not all look at the same line at once.
fn others(member: Member) -> Vec<u32> {
    (1..member.size).map(|distance| member.above(distance)).collect()
}

fn stage(number: usize) -> u16 {
    u16::try_from(number).expect("there are not so many pieces")
}

fn wait_for(schedule: &mut Schedule, peers: &[u32], stage: u16, expected: Option<usize>) {
    for peer in peers {
        schedule.wait(*peer, stage, expected);
    }
}

fn slot(rank: u32, first: usize, count: usize) -> Place {
    Area::Slot(rank).blocks(first, count)
}

/// Shows all pieces to `peers`, who take them with [`take`]; `put` copies one into the slot.
fn show(
    schedule: &mut Schedule,
    pieces: Pieces,
    peers: &[u32],
    put: impl Fn(&mut Schedule, Piece),
) {
    let count = pieces.count();
    put(schedule, pieces.piece(0));
    schedule.end_round();
    for next in 1..=count {
        schedule.raise(stage(next));
        if next < count {
            if next >= pieces.parts {
                wait_for(schedule, peers, stage(next - pieces.parts + 1), None);
            }
            put(schedule, pieces.piece(next));
        }
        schedule.end_round();
    }
}

/// Takes all pieces that `peers` show with [`show`]. `take` copies one from all their slots.
fn take(
    schedule: &mut Schedule,
    pieces: Pieces,
    (peers, expected): (&[u32], Option<usize>),
    take: impl Fn(&mut Schedule, Piece),
) {
    let count = pieces.count();
    for number in 0..count {
        wait_for(schedule, peers, stage(number + 1), expected);
        take(schedule, pieces.piece(number));
        schedule.end_round();
        // Nobody waits to hear that the last ones were taken.
        if number + pieces.parts < count {
            schedule.raise(stage(number + 1));
        }
    }
}

/// All show pieces to all, and take those of all. A process puts its next piece when all have shown
/// this one, and so have taken the one before, in whose part the next one comes.
fn exchange(
    schedule: &mut Schedule,
    pieces: Pieces,
    (peers, expected): (&[u32], Option<usize>),
    put: impl Fn(&mut Schedule, Piece),
    take: impl Fn(&mut Schedule, Piece),
) {
    let count = pieces.count();
    put(schedule, pieces.piece(0));
    schedule.end_round();
    for number in 0..count {
        schedule.raise(stage(number + 1));
        wait_for(schedule, peers, stage(number + 1), expected);
        take(schedule, pieces.piece(number));
        if number + 1 < count {
            put(schedule, pieces.piece(number + 1));
        }
        schedule.end_round();
    }
}
