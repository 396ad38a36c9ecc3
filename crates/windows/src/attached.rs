//! Memory attached to dynamic windows, accessed by other processes of one machine. Each process
//! publishes in shared words which regions (`super::reach`) its attached memory is. An origin finds
//! there the region that holds the accessed bytes, and the system copies. For memory that is not
//! published, the origin sends messages.
//!
//! Each entry has one writer, the process that owns the memory, and many readers. A counter of its
//! changes is odd during a change (a sequence lock): a reader uses what it read if the counter was
//! even before and is unchanged afterwards. The region may be detached a moment later, but then it
//! is revoked and its token is invalid.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use base::RegionToken;
use memory::{Buffer, Segment, SharedMemory};
use mpi::{Process, RegionAccess, Team};

use super::action::WindowAccess;
use super::{locks, mailboxes, reach};

/// The largest number of regions that each process can publish.
const ANNOUNCED_REGIONS_MAX: usize = 8;

/// The number of words of an entry: a cache line.
const WORDS: usize = locks::WORDS;

/// The indices of the fields in an entry; each field after the first one takes two words.
const CHANGES: usize = 0;
const BASE: usize = 1;
const LENGTH: usize = 3;
const PLACE: usize = 5;
const SECRET: usize = 7;

/// Returns the number of words of a window with this many processes, mailboxes included.
pub(super) fn words(size: usize) -> usize {
    mailboxes::words(size) + size * ANNOUNCED_REGIONS_MAX * WORDS
}

/// The attached memory of all processes of a dynamic window on one machine.
pub(super) struct AttachedRegions {
    memory: Rc<SharedMemory>,
    rank: u32,
    size: u32,
    /// The published regions of this process, by entry.
    own: RefCell<[Option<OwnRegion>; ANNOUNCED_REGIONS_MAX]>,
    /// By rank: whether the system can copy from and to its memory, once that was tried.
    reached: Box<[Cell<Option<bool>>]>,
}

/// Attached memory that was declared as a region.
#[derive(Clone, Copy, Debug)]
struct OwnRegion {
    address: usize,
    token: RegionToken,
}

/// The content of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AnnouncedRegion {
    base: u64,
    /// The length in bytes; 0 if the entry is empty.
    length: u64,
    token: RegionToken,
}

impl AnnouncedRegion {
    const NONE: Self = Self { base: 0, length: 0, token: RegionToken { place: 0, secret: 0 } };

    /// Returns the offset of these bytes in the region; none if the region does not hold all of
    /// them.
    fn offset_of(&self, run: Segment) -> Option<usize> {
        let offset = (run.displacement as u64).checked_sub(self.base)?;
        (offset.checked_add(run.length as u64)? <= self.length).then_some(offset as usize)
    }
}

/// The words of one entry.
#[derive(Clone, Copy)]
struct Entry<'a> {
    memory: &'a SharedMemory,
    first: usize,
}

impl<'a> Entry<'a> {
    fn of(memory: &'a SharedMemory, size: u32, rank: u32, index: usize) -> Self {
        let index = rank as usize * ANNOUNCED_REGIONS_MAX + index;
        Self { memory, first: mailboxes::words(size as usize) + index * WORDS }
    }

    fn word(self, index: usize) -> &'a AtomicU32 {
        self.memory.word(self.first + index)
    }

    fn read(self) -> Option<AnnouncedRegion> {
        let changes = self.word(CHANGES).load(Ordering::Acquire);
        let value = |index| {
            let half = |index| u64::from(self.word(index).load(Ordering::Relaxed));
            half(index) | half(index + 1) << u32::BITS
        };
        let token = RegionToken { place: value(PLACE), secret: value(SECRET) };
        let announced = AnnouncedRegion { base: value(BASE), length: value(LENGTH), token };
        fence(Ordering::Acquire);
        let unchanged = self.word(CHANGES).load(Ordering::Relaxed) == changes;
        (changes.is_multiple_of(2) && unchanged && announced.length > 0).then_some(announced)
    }

    fn write(self, announced: AnnouncedRegion) {
        let changes = self.word(CHANGES).load(Ordering::Relaxed) & !1;
        self.word(CHANGES).store(changes.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        let values = [
            (BASE, announced.base),
            (LENGTH, announced.length),
            (PLACE, announced.token.place),
            (SECRET, announced.token.secret),
        ];
        for (index, value) in values {
            self.word(index).store(value as u32, Ordering::Relaxed);
            self.word(index + 1).store((value >> u32::BITS) as u32, Ordering::Relaxed);
        }
        self.word(CHANGES).store(changes.wrapping_add(2), Ordering::Release);
    }
}

impl AttachedRegions {
    /// Creates the table over the words that all processes of a window share, for the process with
    /// this rank.
    pub(super) fn new(memory: Rc<SharedMemory>, rank: u32, size: u32) -> Self {
        let reached = (0..size).map(|_| Cell::default()).collect();
        Self { memory, rank, size, own: RefCell::default(), reached }
    }

    /// Clears the entries of this process, as the words may have been used before.
    pub(super) fn reset(memory: &SharedMemory, rank: u32, size: u32) {
        for index in 0..ANNOUNCED_REGIONS_MAX {
            Entry::of(memory, size, rank, index).write(AnnouncedRegion::NONE);
        }
    }

    fn entry(&self, rank: u32, index: usize) -> Entry<'_> {
        Entry::of(&self.memory, self.size, rank, index)
    }

    /// Publishes memory that was attached, if there is a free entry.
    pub(super) fn add(&self, process: &Process, memory: &Buffer) {
        let mut own = self.own.borrow_mut();
        let Some(index) = own.iter().position(Option::is_none) else { return };
        if memory.is_empty() {
            return;
        }
        let declare = || process.runtime().regions().declare(memory, RegionAccess::ReadAndWrite);
        let Some(token) = declare() else { return };
        let address = memory.base_address();
        own[index] = Some(OwnRegion { address, token });
        let announced =
            AnnouncedRegion { base: address as u64, length: memory.len() as u64, token };
        self.entry(self.rank, index).write(announced);
    }

    /// Ends the region of memory that was attached with this address.
    pub(super) fn remove(&self, process: &Process, address: usize) {
        self.end_those(process, |region| region.address == address);
    }

    /// Ends all regions of this process.
    pub(super) fn end(&self, process: &Process) {
        self.end_those(process, |_| true);
    }

    fn end_those(&self, process: &Process, is_it: impl Fn(&OwnRegion) -> bool) {
        for (index, place) in self.own.borrow_mut().iter_mut().enumerate() {
            if let Some(region) = place.take_if(|region| is_it(region)) {
                self.entry(self.rank, index).write(AnnouncedRegion::NONE);
                reach::revoke(process, Some(region.token));
            }
        }
    }

    /// Puts or gets data that lies in one region of another process. Returns false if nothing was
    /// done; the origin must then send a request to the target.
    pub(super) fn apply(
        &self,
        process: &Process,
        communicator: &Team,
        target: u32,
        access: &WindowAccess,
        run: Segment,
    ) -> bool {
        if target == self.rank || !reach::may_copy(access) {
            return false;
        }
        let Some((token, offset)) = self.find(target, run) else { return false };
        let Some(gate) = communicator.gate(target) else { return false };
        let reached = &self.reached[target as usize];
        let asked = || process.runtime().reaches_regions_of(gate);
        let reaches = reached.get().unwrap_or_else(asked);
        reached.set(Some(reaches));
        reaches && reach::copy(process, (gate, token), access, (offset, run.length)).is_ok()
    }

    /// Returns the region of a process that holds these bytes, and their offset in it.
    fn find(&self, target: u32, run: Segment) -> Option<(RegionToken, usize)> {
        (0..ANNOUNCED_REGIONS_MAX).find_map(|index| {
            let announced = self.entry(target, index).read()?;
            announced.offset_of(run).map(|offset| (announced.token, offset))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn announced(base: u64, length: u64) -> AnnouncedRegion {
        let token = RegionToken { place: base ^ 5, secret: !base };
        AnnouncedRegion { base, length, token }
    }

    fn run(displacement: isize, length: usize) -> Segment {
        Segment { displacement, length }
    }

    #[test]
    fn bytes_are_found_in_the_region_that_holds_them_all() {
        let (memory, _file) = SharedMemory::create(words(3), 0).unwrap();
        let of = |rank| AttachedRegions::new(Rc::clone(&memory), rank, 3);
        let (one, other) = (of(1), of(2));
        one.entry(1, 0).write(announced(1 << 33, 100));
        one.entry(1, 7).write(announced(5000, 50));
        let found = |displacement, length| {
            other.find(1, run(displacement, length)).map(|(token, offset)| (token.place, offset))
        };
        assert_eq!(found((1 << 33) + 20, 80), Some((1 << 33 ^ 5, 20)));
        assert_eq!(found(5000, 50), Some((5000 ^ 5, 0)));
        for (displacement, length) in [((1 << 33) + 21, 80), (4999, 2), (5049, 2), (0, 1), (-1, 1)]
        {
            assert_eq!(found(displacement, length), None);
        }
        assert_eq!(other.find(0, run(5000, 1)), None);
        one.entry(1, 7).write(AnnouncedRegion::NONE);
        assert_eq!(found(5000, 50), None);
        AttachedRegions::reset(&memory, 1, 3);
        assert_eq!(found((1 << 33) + 20, 80), None);
    }

    #[test]
    fn an_entry_that_changes_is_read_whole_or_not_at_all() {
        let (memory, file) = SharedMemory::create(words(2), 0).unwrap();
        let nonce = memory.nonce();
        let writer = thread::spawn(move || {
            let memory = SharedMemory::map(&file, nonce, words(2), 0).unwrap();
            for value in 1..20_000 {
                Entry::of(&memory, 2, 0, 3).write(announced(value << 31 | value, value));
            }
        });
        let mut seen = 0;
        while !writer.is_finished() {
            if let Some(found) = Entry::of(&memory, 2, 0, 3).read() {
                assert_eq!(found, announced(found.length << 31 | found.length, found.length));
                assert!(found.length >= seen);
                seen = found.length;
            }
        }
        writer.join().unwrap();
        assert_eq!(Entry::of(&memory, 2, 0, 3).read().unwrap().length, 19_999);
    }
}
