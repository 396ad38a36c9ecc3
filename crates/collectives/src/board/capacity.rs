//! The slots of a board, and the form in which data goes through them.

use base::SlotSize;

use crate::member::{Member, Takers};
use crate::operands::Operands;
use crate::schedule::{Area, Schedule};

/// The properties of a communicator's board; equal on all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotCapacity {
    /// The size of a slot in bytes.
    pub slot_bytes: usize,
    /// Whether members can access exposed memory.
    pub regions: RegionSupport,
    /// The approximate length of the pieces of longer data, in bytes, where pieces are useful.
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
    /// Returns `Possible` if `is_possible`, else `Impossible`.
    pub const fn if_possible(is_possible: bool) -> Self {
        if is_possible { Self::Possible } else { Self::Impossible }
    }
}

/// The length of a piece: it stays in the inner caches of a core while it is combined, and takes
/// several times longer than its flag.
const PIECE_BYTES: usize = 16 << 10;

impl SlotCapacity {
    /// Makes slots of so many bytes.
    pub const fn new(slot_bytes: usize, regions: RegionSupport) -> Self {
        Self { slot_bytes, regions, piece_bytes: PIECE_BYTES }
    }
}

/// The slots of a board, by size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotCapacities([SlotCapacity; SlotSize::ALL.len()]);

impl SlotCapacities {
    /// Returns the slots that all boards have.
    pub const fn new(regions: RegionSupport) -> Self {
        let [tiny, small, medium, large] = SlotSize::ALL;
        Self([
            SlotCapacity::new(tiny.bytes(), regions),
            SlotCapacity::new(small.bytes(), regions),
            SlotCapacity::new(medium.bytes(), regions),
            SlotCapacity::new(large.bytes(), regions),
        ])
    }

    /// Makes a board with slots of a single size.
    pub const fn alike(capacity: SlotCapacity) -> Self {
        Self([capacity; SlotSize::ALL.len()])
    }

    /// Returns the slots of one size.
    pub const fn of(&self, size: SlotSize) -> SlotCapacity {
        self.0[size as usize]
    }

    /// Returns the schedule that `of` makes for the smallest slots that are large enough. All
    /// members get equal slots, as they all use equal sizes.
    pub fn fit(self, of: impl Fn(SlotCapacity) -> Option<Schedule>) -> Option<Schedule> {
        SlotSize::ALL.into_iter().find_map(|size| Some(of(self.of(size))?.for_slots(size)))
    }

    /// Returns the schedule that `of` makes for a block of so many units. If the block fits in no
    /// slot, the schedule processes parts of it in consecutive turns. The places that `of` uses in
    /// the program's buffers are consecutive runs of as many units as it is called with.
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

/// The maximum number of turns for data that fits in no slot; it bounds the schedule.
pub(crate) const TURNS_MAX: usize = 32;

/// The maximum number of processes for a board. It bounds the schedules, in which a member may name
/// all others, and the memory of a board: about 18 MiB of address space for each member.
pub const SIZE_MAX: u32 = 512;

/// Whether the board is usable for an operation in which each member shows `shown` units, and a
/// slot holds `capacity`.
pub(crate) fn fits(member: Member, shown: usize, capacity: usize) -> bool {
    (2..=SIZE_MAX).contains(&member.size) && shown > 0 && shown <= capacity
}

/// The maximum number of pieces of an operation; it bounds the schedule.
const PIECES_MAX: usize = 16;

/// Returns the best number of pieces to show so many bytes. On an oversubscribed machine the reader
/// runs after everything was written anyway.
pub(crate) fn piece_count(member: Member, capacity: SlotCapacity, bytes: usize) -> usize {
    match member.situation.oversubscribed {
        true => 1,
        false => bytes.div_ceil(capacity.piece_bytes.max(1)).clamp(1, PIECES_MAX),
    }
}

/// The minimum length of operands, in bytes, for which each process combines only a share.
const SHARED_BYTES_MIN: usize = 8 << 10;

/// That minimum for two processes: they show each other as much as if each combined everything, and
/// wait once more. However, they read data that the caches do not hold less often.
const PAIR_SHARED_BYTES_MIN: usize = 256 << 10;

/// Whether combining by shares is better than that every process that needs the result combines
/// everything. If only the root needs the result, it combines while the other processes continue.
/// That is equally good if they share its cores, or if there is only one other process.
pub(crate) fn goes_by_shares(member: Member, operands: Operands, takers: Takers) -> bool {
    let is_pair = member.size == 2;
    let least = if is_pair { PAIR_SHARED_BYTES_MIN } else { SHARED_BYTES_MIN };
    let is_shared = takers == Takers::All || !is_pair && !member.situation.oversubscribed;
    is_shared && operands.bytes() >= least && operands.count >= member.size as usize
}

/// The lengths of operands, in bytes, for which one process combines everything when processes take
/// turns on cores. Below, all processes combine everything within the time of a turn. Above, that
/// process would work while cores are idle.
const THROUGH_ONE_BYTES: std::ops::RangeInclusive<usize> = (4 << 10)..=(16 << 10);

/// Whether it is better that one process combines all operands and shows the result. If several
/// processes share a core, each of the others then waits for its turn once instead of twice.
pub(crate) fn goes_through_one(member: Member, operands: Operands) -> bool {
    let is_between = THROUGH_ONE_BYTES.contains(&operands.bytes());
    member.situation.oversubscribed && member.situation.load() > 2 && is_between
}
