//! The slots of a board, and what goes through them in which way.

use base::SlotSize;

use crate::member::{Member, Takers};
use crate::operands::Operands;
use crate::schedule::{Area, Schedule};

/// What the members of a communicator know of their board; the same for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotCapacity {
    /// How many bytes a slot holds.
    pub slot_bytes: usize,
    /// Of memory that others expose.
    pub regions: RegionSupport,
    /// What is longer goes in pieces of about so many bytes, where that makes sense.
    pub piece_bytes: usize,
}

/// Whether each member can read and write memory that others expose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegionSupport {
    /// Each can.
    Possible,
    /// Some cannot.
    Impossible,
}

impl RegionSupport {
    /// Possible if so.
    pub const fn if_possible(is_possible: bool) -> Self {
        if is_possible { Self::Possible } else { Self::Impossible }
    }
}

/// A piece stays in the inner caches of a core while it is combined, and takes some times longer
/// than its flag.
const PIECE_BYTES: usize = 16 << 10;

impl SlotCapacity {
    /// Slots of so many bytes.
    pub const fn new(slot_bytes: usize, regions: RegionSupport) -> Self {
        Self { slot_bytes, regions, piece_bytes: PIECE_BYTES }
    }
}

/// The slots of a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotCapacities([SlotCapacity; SlotSize::ALL.len()]);

impl SlotCapacities {
    /// Those of all boards.
    pub const fn new(regions: RegionSupport) -> Self {
        let [tiny, small, medium, large] = SlotSize::ALL;
        Self([
            SlotCapacity::new(tiny.bytes(), regions),
            SlotCapacity::new(small.bytes(), regions),
            SlotCapacity::new(medium.bytes(), regions),
            SlotCapacity::new(large.bytes(), regions),
        ])
    }

    /// A board with such slots only.
    pub const fn alike(capacity: SlotCapacity) -> Self {
        Self([capacity; SlotSize::ALL.len()])
    }

    /// The slots of one size.
    pub const fn of(&self, size: SlotSize) -> SlotCapacity {
        self.0[size as usize]
    }

    /// What `of` makes for the smallest slots that are large enough. All members come to the same
    /// slots, as all know the same sizes.
    pub fn fit(self, of: impl Fn(SlotCapacity) -> Option<Schedule>) -> Option<Schedule> {
        SlotSize::ALL.into_iter().find_map(|size| Some(of(self.of(size))?.for_slots(size)))
    }

    /// What `of` makes for a block of so many units, or, where that fits in no slot, for parts of
    /// it that go one after the other. Places of `of` in the program's buffers lie in rows of as
    /// many units as it is asked for.
    pub fn fit_in_turns(
        self,
        units: usize,
        of: impl Fn(SlotCapacity, usize) -> Option<Schedule>,
    ) -> Option<Schedule> {
        self.fit(|capacity| of(capacity, units)).or_else(|| {
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
pub(crate) fn fits(member: Member, shown: usize, capacity: usize) -> bool {
    (2..=SIZE_MAX).contains(&member.size) && shown > 0 && shown <= capacity
}

/// An operation goes in so many pieces at most, which bounds its schedule.
const PIECES_MAX: usize = 16;

/// In how many pieces it is best to show so many bytes. On a crowded machine who reads comes when
/// all has been written anyway.
pub(crate) fn piece_count(member: Member, capacity: SlotCapacity, bytes: usize) -> usize {
    match member.situation.crowded {
        true => 1,
        false => bytes.div_ceil(capacity.piece_bytes.max(1)).clamp(1, PIECES_MAX),
    }
}

/// From so many bytes on each process combines a share only.
const SHARED_BYTES_MIN: usize = 8 << 10;

/// The same of two processes: they show each other as much as if each combined all, and wait once
/// more; but what the caches do not hold they read less often.
const PAIR_SHARED_BYTES_MIN: usize = 256 << 10;

/// Whether it is better that each process combines one share of the operands than that those who
/// need the result combine all. A root that is the only one to need it combines while the others do
/// something else, which is as good where they do it on the same cores, or where there is one
/// other.
pub(crate) fn goes_by_shares(member: Member, operands: Operands, takers: Takers) -> bool {
    let is_pair = member.size == 2;
    let least = if is_pair { PAIR_SHARED_BYTES_MIN } else { SHARED_BYTES_MIN };
    let is_shared = takers == Takers::All || !is_pair && !member.situation.crowded;
    is_shared && operands.bytes() >= least && operands.count >= member.size as usize
}

/// Of so many bytes the operands go through one process where they take turns: below, all combine
/// all in the time of a turn; above, that one would work while cores are idle.
const THROUGH_ONE_BYTES: std::ops::RangeInclusive<usize> = (4 << 10)..=(16 << 10);

/// Whether it is better that one process combines all operands and shows the result: where several
/// processes share a core, each other one then waits for its turn once instead of twice.
pub(crate) fn goes_through_one(member: Member, operands: Operands) -> bool {
    let is_between = THROUGH_ONE_BYTES.contains(&operands.bytes());
    member.situation.crowded && member.situation.load() > 2 && is_between
}
