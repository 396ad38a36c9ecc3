//! Operations on the board: memory that the members of a communicator share, in which each of them
//! has a slot to write to and all others read.
//!
//! Whoever contributes writes into its slot once and raises; whoever needs it waits for that flag and
//! reads. No process waits for more than one turn on a core of each of the others, and no message is
//! sent (the *flat* algorithms). Where each has a core, what is long goes in pieces: one is written
//! while those before are read. Of larger reductions each process combines one share and shows the
//! result in its turn, or one process combines all for the others. Where members lie in several parts of
//! the machine, short operations may go by parts, through a leader of each. What does not fit in a slot
//! takes several turns, one after the other.
//!
//! The operations that move data name bytes ([`Schedule::counts_bytes`]), those that combine name
//! elements, and those whose blocks have sizes of their own name whole blocks, each at the beginning
//! of its slot.

mod combining;
mod moving;
mod parts;

pub use combining::{allreduce, exscan, reduce, reduce_scatter, reduce_scatter_block, scan};
pub(crate) use combining::{goes_by_shares, goes_through_one};
pub use moving::{
    allgather, allgatherv, alltoall, alltoallv, barrier, bcast, gather, gatherv, scatter, scatterv,
};

use base::SlotSize;

use crate::member::Member;
use crate::schedule::{Area, Place, Schedule};

/// What the members of a communicator know of their board; the same for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Room {
    /// How many bytes a slot holds.
    pub slot_bytes: usize,
    /// Whether each member can read and write memory that others expose.
    pub regions: bool,
    /// What is longer goes in pieces of about so many bytes, where that makes sense.
    pub piece_bytes: usize,
}

/// A piece stays in the inner caches of a core while it is combined, and takes some times longer than
/// its flag.
const PIECE_BYTES: usize = 16 << 10;

impl Room {
    /// Slots of so many bytes.
    pub const fn new(slot_bytes: usize, regions: bool) -> Self {
        Self { slot_bytes, regions, piece_bytes: PIECE_BYTES }
    }
}

/// The slots of a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rooms([Room; SlotSize::ALL.len()]);

impl Rooms {
    /// Those of all boards, whose members can use memory that others expose, or not.
    pub const fn new(regions: bool) -> Self {
        let [tiny, small, medium, large] = SlotSize::ALL;
        Self([
            Room::new(tiny.bytes(), regions),
            Room::new(small.bytes(), regions),
            Room::new(medium.bytes(), regions),
            Room::new(large.bytes(), regions),
        ])
    }

    /// A board with such slots only.
    pub const fn alike(room: Room) -> Self {
        Self([room; SlotSize::ALL.len()])
    }

    /// The slots of one size.
    pub const fn of(&self, size: SlotSize) -> Room {
        self.0[size as usize]
    }

    /// What `of` makes for the smallest slots that are large enough. All members come to the same
    /// slots, as all know the same sizes.
    pub fn fit(self, of: impl Fn(Room) -> Option<Schedule>) -> Option<Schedule> {
        SlotSize::ALL.into_iter().find_map(|size| Some(of(self.of(size))?.for_slots(size)))
    }

    /// What `of` makes for a block of so many units, or, where that fits in no slot, for parts of it
    /// that go one after the other. Places of `of` in the program's buffers lie in rows of as many units
    /// as it is asked for.
    pub fn fit_in_turns(
        self,
        units: usize,
        of: impl Fn(Room, usize) -> Option<Schedule>,
    ) -> Option<Schedule> {
        self.fit(|room| of(room, units)).or_else(|| {
            let large = self.of(SlotSize::Large);
            let parts = 2..=TURNS_MAX.min(units);
            let mut lengths = parts.map(|parts| units.div_ceil(parts));
            let longest = lengths.find(|length| of(large, *length).is_some())?;
            let mut schedule = Schedule::default();
            for before in (0..units).step_by(longest) {
                let length = longest.min(units - before);
                schedule.add_turn(&of(large, length)?, |place, done| {
                    let first = place.first + done;
                    match place.area {
                        Area::Send | Area::Receive => {
                            let (row, column) = (first / length, first % length);
                            let there = place.area.block(row * units + before + column);
                            (there, length - column)
                        }
                        _ => (place.area.block(first), place.count - done),
                    }
                });
            }
            Some(schedule.for_slots(SlotSize::Large))
        })
    }
}

/// What fits in no slot takes so many turns at most, which bounds the schedule.
pub(crate) const TURNS_MAX: usize = 32;

/// Boards are for communicators of at most this many processes: each reads the slots of all others.
pub const SIZE_MAX: u32 = 32;

/// Whether a board may be the way for an operation in which each member shows so many units, where
/// there is room for some.
fn fits(member: Member, shown: usize, room: usize) -> bool {
    (2..=SIZE_MAX).contains(&member.size) && shown > 0 && shown <= room
}

/// Waits for what `peers` show at a stage, each `expected` blocks.
fn wait_for(
    schedule: &mut Schedule,
    peers: impl IntoIterator<Item = u32>,
    stage: u16,
    expected: Option<usize>,
) {
    for peer in peers {
        schedule.wait(peer, stage, expected);
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

/// An operation goes in so many pieces at most, which bounds its schedule.
const PIECES_MAX: usize = 16;

/// The parts of a block that are shown one after the other, each under a stage of its own.
#[derive(Clone, Copy)]
struct Pieces {
    count: usize,
    /// How long the block is, and how long each piece but the last.
    total: usize,
    length: usize,
}

impl Pieces {
    /// A block that has `total` units, where each member shows `shown_bytes` bytes for all of it.
    fn new(member: Member, room: Room, total: usize, shown_bytes: usize) -> Self {
        let wanted = piece_count(member, room, shown_bytes);
        let length = total.div_ceil(wanted).max(1);
        Self { count: total.div_ceil(length).max(1), total, length }
    }

    fn get(self, number: usize) -> Piece {
        let first = number * self.length;
        Piece { first, count: self.length.min(self.total - first) }
    }
}

/// Some units of a block.
#[derive(Clone, Copy)]
struct Piece {
    first: usize,
    count: usize,
}

/// In how many pieces it is best to show so many bytes. On a crowded machine who reads comes when all
/// has been written anyway.
pub(crate) fn piece_count(member: Member, room: Room, bytes: usize) -> usize {
    match member.situation.crowded {
        true => 1,
        false => bytes.div_ceil(room.piece_bytes.max(1)).clamp(1, PIECES_MAX),
    }
}

/// Pieces are shown one after the other, if this member shows something, and those of the members
/// `awaited` are taken one later, so that nobody waits for a flag that was raised just now. What is to
/// be done `meanwhile` comes before the first waiting.
struct Flow {
    pieces: Pieces,
    shows: bool,
    meanwhile: Option<(Place, Place)>,
    awaited: Vec<u32>,
    /// How many units who shows something shows in the end.
    shown: usize,
}

impl Flow {
    /// Adds the rounds, in which `show` shows a piece and `take` takes it from all that are awaited.
    fn add_to(
        &self,
        schedule: &mut Schedule,
        show: impl Fn(&mut Schedule, Piece),
        take: impl Fn(&mut Schedule, Piece),
    ) {
        let Self { pieces, shows, meanwhile, ref awaited, shown } = *self;
        let last = pieces.count - 1;
        if shows && last > 0 {
            schedule.promise(shown);
        }
        for step in 0..=pieces.count {
            if shows && step <= last {
                show(schedule, pieces.get(step));
                schedule.end_round();
                schedule.raise(step as u16 + 1);
            }
            if let Some((from, into)) = meanwhile.filter(|_| step == last.min(1)) {
                schedule.copy(from, into);
                schedule.end_round();
            }
            if step > 0 && !awaited.is_empty() {
                let expected = (step > last).then_some(shown);
                wait_for(schedule, awaited.iter().copied(), step as u16, expected);
                take(schedule, pieces.get(step - 1));
            }
            if !shows || step >= last && step > 0 {
                schedule.end_round();
            }
        }
    }
}
