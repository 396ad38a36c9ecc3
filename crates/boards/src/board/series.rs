//! The series of operations on a board, and how its memory is divided among them.

use base::SlotSize;
use base::limits::CACHE_LINE;
use base::slots::SLOT_HEAD_BYTES;

const LINE: usize = CACHE_LINE;
/// The two words at the beginning of a slot.
pub const HEADER: usize = SLOT_HEAD_BYTES;

/// The operations that count together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series(u16);

/// What is in one order on all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesOrder {
    /// Operations that the program waits for at once.
    Blocking,
    /// Those that it begins, and waits for later.
    Begun,
    /// The runs of one operation, which has a series of its own: the one with this number.
    Reserved(u8),
}

impl Series {
    /// The size of the slots of a reserved series, and its number among those.
    pub(super) fn reserved(self) -> Option<(SlotSize, u8)> {
        let sizes = SlotSize::ALL.into_iter().rev();
        let mut sizes = sizes.map(|slots| (slots, FIRST_RESERVED[slots as usize]));
        let (slots, first) = sizes.find(|(_, first)| *first <= self.index())?;
        Some((slots, (self.index() - first) as u8))
    }

    /// Its place among all.
    #[inline]
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }

    /// The series of operations that are in such an order, and for which these slots are large
    /// enough.
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

/// How many series there are that many operations share.
const SHARED_SERIES: usize = 8;

/// How many reserved series there are, by the size of their slots. Bits of a word tell which are
/// free.
pub const RESERVED: [usize; SlotSize::ALL.len()] = [64, 64, 16, 2];

/// The first of them, by the size of their slots.
const FIRST_RESERVED: [usize; SlotSize::ALL.len()] = {
    let [tiny, small, medium, _] = RESERVED;
    let first = SHARED_SERIES;
    [first, first + tiny, first + tiny + small, first + tiny + small + medium]
};

/// How many series there are.
pub const SERIES: usize = FIRST_RESERVED[3] + RESERVED[3];

/// How the memory of a series is divided.
#[derive(Clone, Copy, Debug)]
pub struct SeriesMemory {
    /// How many slots each member has.
    pub slots: usize,
    /// How many bytes each of them holds.
    pub bytes: usize,
    /// Where the series begins, as a multiple of the number of members.
    pub before: usize,
}

/// What a reserved series has, by the size of its slots. Those of one operation are few: its next
/// run begins when the one before is over, and few of its members can be far ahead.
const RESERVED_SLOTS: [usize; SlotSize::ALL.len()] = [16, 8, 2, 2];

/// By the index of the series; the numbers of slots are powers of two. Of small operations many may
/// be underway in a row, as where the root of broadcasts runs ahead of processes that wait for
/// their turn on a core; and so of those that are not blocking.
pub const DIVISIONS: [SeriesMemory; SERIES] = {
    let shared = [
        SeriesMemory { slots: 256, bytes: SlotSize::Tiny.bytes(), before: 0 },
        SeriesMemory { slots: 64, bytes: SlotSize::Small.bytes(), before: 0 },
        SeriesMemory { slots: 32, bytes: SlotSize::Medium.bytes(), before: 0 },
        SeriesMemory { slots: 2, bytes: SlotSize::Large.bytes(), before: 0 },
        SeriesMemory { slots: 256, bytes: SlotSize::Tiny.bytes(), before: 0 },
        SeriesMemory { slots: 64, bytes: SlotSize::Small.bytes(), before: 0 },
        SeriesMemory { slots: 16, bytes: SlotSize::Medium.bytes(), before: 0 },
        SeriesMemory { slots: 2, bytes: SlotSize::Large.bytes(), before: 0 },
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
};

impl SeriesMemory {
    /// An odd number of lines, so that not all slots begin in one set of the caches.
    pub const fn slot_stride(&self) -> usize {
        (HEADER + self.bytes).next_multiple_of(LINE)
    }

    /// A line for completion, then the slots.
    pub const fn member_stride(&self) -> usize {
        LINE + self.slots * self.slot_stride()
    }
}

// Completion is told before slots run out.
const _: () = {
    let mut series = 0;
    while series < SERIES {
        let slots = DIVISIONS[series].slots;
        assert!(slots.is_power_of_two() && slots > 1);
        series += 1;
    }
};
const _: () = {
    let mut series = 0;
    while series < SERIES {
        assert!((DIVISIONS[series].slot_stride() / LINE) % 2 == 1);
        series += 1;
    }
};
