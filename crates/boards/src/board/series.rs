//! The series of operations on a board, and the division of its memory among them.

use base::SlotSize;
use base::limits::CACHE_LINE;
use base::slots::SLOT_HEAD_BYTES;

const LINE: usize = CACHE_LINE;
/// The size of the two words at the beginning of a slot.
pub const HEADER: usize = SLOT_HEAD_BYTES;

/// A series: operations that are numbered together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series(u16);

/// The operations that have one order on all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesOrder {
    /// Operations whose calls wait for their completion.
    Blocking,
    /// Operations that the program begins, and waits for later.
    Begun,
    /// The runs of one operation, which has the reserved series with this number.
    Reserved(u8),
}

impl Series {
    /// Returns the size of the slots of a reserved series, and its number among those of this size;
    /// none if it is not reserved.
    pub(super) fn reserved(self) -> Option<(SlotSize, u8)> {
        let sizes = SlotSize::ALL.into_iter().rev();
        let mut sizes = sizes.map(|slots| (slots, FIRST_RESERVED[slots as usize]));
        let (slots, first) = sizes.find(|(_, first)| *first <= self.index())?;
        Some((slots, (self.index() - first) as u8))
    }

    /// Returns its index among all series.
    #[inline]
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the series of operations with such an order that have slots of this size.
    ///
    /// # Panics
    /// If there is no such reserved series.
    #[inline]
    pub const fn new(order: SeriesOrder, slots: SlotSize) -> Self {
        let size = slots as usize;
        Self(match order {
            SeriesOrder::Blocking => size as u16,
            SeriesOrder::Begun => (SlotSize::ALL.len() + size) as u16,
            SeriesOrder::Reserved(number) => {
                assert!((number as usize) < RESERVED[size], "there are not so many of that size");
                (FIRST_RESERVED[size] + number as usize) as u16
            }
        })
    }
}

/// The number of series that are shared by many operations.
const SHARED_SERIES: usize = 8;

/// The number of reserved series, by the size of their slots. A word has a bit for each, which is
/// set while it is free.
pub const RESERVED: [usize; SlotSize::ALL.len()] = [64, 64, 16, 2];

/// The index of the first reserved series, by the size of their slots.
const FIRST_RESERVED: [usize; SlotSize::ALL.len()] = {
    let [tiny, small, medium, _] = RESERVED;
    let first = SHARED_SERIES;
    [first, first + tiny, first + tiny + small, first + tiny + small + medium]
};

/// The number of all series.
pub const SERIES: usize = FIRST_RESERVED[3] + RESERVED[3];

/// The division of the memory of a series.
#[derive(Clone, Copy, Debug)]
pub struct SeriesMemory {
    /// The number of slots of each member.
    pub slots: usize,
    /// The number of data bytes in a slot.
    pub bytes: usize,
    /// The bytes per member that the series before it take: the series begins at this many bytes
    /// times the number of members.
    pub before: usize,
}

/// The number of slots of a reserved series, by their size. One operation needs few: its next run
/// begins when the previous one is complete, and few members can be far ahead.
const RESERVED_SLOTS: [usize; SlotSize::ALL.len()] = [16, 8, 2, 2];

/// The number of members up to which a board has all slots. On larger boards each member has fewer
/// middle slots, so that the middle slots of a series take at most 64 MiB, or 256 KiB for each
/// member if that is more.
const ALL_SLOTS_MEMBERS_MAX: u32 = 32;

/// The smallest number of middle slots of a series that many operations share.
const MEDIUM_SLOTS_MIN: usize = 4;

/// Returns the number of middle slots of each member on a board with so many members, where a small
/// board has `all`.
const fn medium_slots(all: usize, members: u32) -> usize {
    let times = members.div_ceil(ALL_SLOTS_MEMBERS_MAX).next_power_of_two() as usize;
    if all / times > MEDIUM_SLOTS_MIN { all / times } else { MEDIUM_SLOTS_MIN }
}

/// Returns the memory of each series, by its index, on a board with so many members; the numbers of
/// slots are powers of two. Many small operations may be underway in a row, for example if the root
/// of broadcasts runs ahead of processes that wait for a core; and many nonblocking ones.
pub const fn divisions(members: u32) -> [SeriesMemory; SERIES] {
    let [tiny, small, medium, large] = SlotSize::ALL;
    let shared = [
        SeriesMemory { slots: 256, bytes: tiny.bytes(), before: 0 },
        SeriesMemory { slots: 64, bytes: small.bytes(), before: 0 },
        SeriesMemory { slots: medium_slots(32, members), bytes: medium.bytes(), before: 0 },
        SeriesMemory { slots: 2, bytes: large.bytes(), before: 0 },
        SeriesMemory { slots: 256, bytes: tiny.bytes(), before: 0 },
        SeriesMemory { slots: 64, bytes: small.bytes(), before: 0 },
        SeriesMemory { slots: medium_slots(16, members), bytes: medium.bytes(), before: 0 },
        SeriesMemory { slots: 2, bytes: large.bytes(), before: 0 },
    ];
    let mut all = [shared[0]; SERIES];
    let mut series = 0;
    while series < SERIES {
        all[series] = if series < SHARED_SERIES {
            shared[series]
        } else {
            let mut size = 0;
            while series >= FIRST_RESERVED[size] + RESERVED[size] {
                size += 1;
            }
            let bytes = SlotSize::ALL[size].bytes();
            SeriesMemory { slots: RESERVED_SLOTS[size], bytes, before: 0 }
        };
        series += 1;
    }
    let mut series = 1;
    while series < SERIES {
        all[series].before = all[series - 1].before + all[series - 1].member_stride();
        series += 1;
    }
    all
}

impl SeriesMemory {
    /// Returns the distance of slots: an odd number of lines, so that not all slots begin in one
    /// cache set.
    pub const fn slot_stride(&self) -> usize {
        (HEADER + self.bytes).next_multiple_of(LINE)
    }

    /// Returns the distance of members: a line for completion, then the slots.
    pub const fn member_stride(&self) -> usize {
        LINE + self.slots * self.slot_stride()
    }
}

// Completion must be published before slots run out, and slots must begin in different cache sets.
const _: () = {
    let boards = [divisions(2), divisions(u32::MAX)];
    let (mut board, mut series) = (0, 0);
    while board < boards.len() {
        while series < SERIES {
            let division = boards[board][series];
            assert!(division.slots.is_power_of_two() && division.slots > 1);
            assert!((division.slot_stride() / LINE) % 2 == 1);
            series += 1;
        }
        (board, series) = (board + 1, 0);
    }
};
