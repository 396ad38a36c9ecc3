//! The memory file with a slot for each process of the machine.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use base::variables::LENDING;
use memory::SharedMemory;

/// The words of the head.
pub(crate) const HEAD_WORDS: usize = 16;
/// How many cores are lent now, in the head.
pub(crate) const IDLE: usize = 0;

/// The words of a slot.
pub(crate) const SLOT_WORDS: usize = 64;
/// The id of the process that has joined; 0: none.
pub(crate) const PROCESS: usize = 0;
/// The number of its threads that are awake: a signed number, as a thread that the counting library
/// does not know may sleep.
pub(crate) const AWAKE: usize = 1;
/// How many cores it has. Stored last when it joins: as long as it is 0, nothing is lent.
pub(crate) const CORES: usize = 2;
/// Whether it has more busy threads than cores.
pub(crate) const WANTS: usize = 3;
/// How many cores of others it uses.
pub(crate) const BORROWS: usize = 4;
/// The word on which it waits for changes, and whether it does.
pub(crate) const CHANGES: usize = 5;
pub(crate) const WATCHES: usize = 6;
/// Since when the number of its idle cores has not changed, in ticks.
pub(crate) const SINCE: usize = 7;
/// The sums for reports, in ticks, of two words each: the lower half and the upper one.
pub(crate) const LENT: usize = 8;
pub(crate) const BORROWED: usize = 10;
/// How often it has lent cores.
pub(crate) const TIMES_LENT: usize = 12;
/// How many of its cores were not used lately, as borrowers have found.
pub(crate) const UNUSED: usize = 13;
/// The set of its cores, a bit for each.
pub(crate) const SET: usize = 32;
const SET_WORDS: usize = SLOT_WORDS - SET;

/// Cores with higher numbers are not lent.
pub(crate) const CORES_MAX: usize = SET_WORDS * 32;

/// The unit of times on the board, in nanoseconds. A word holds half a day.
pub(crate) const TICK_NS: u64 = 10_000;

/// The launcher's handle of the board.
#[derive(Debug)]
pub struct LendingBoard {
    file: File,
}

/// What a process has lent and borrowed until now, in seconds times cores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LendingRecord {
    /// How long cores of this process were lent.
    pub lent: f64,
    /// How often it has lent cores.
    pub times_lent: u32,
    /// How long cores of other processes were available to it.
    pub borrowed: f64,
}

impl LendingBoard {
    /// Creates the board for the processes of a machine.
    ///
    /// # Errors
    /// The system's.
    pub fn create(processes: u32) -> io::Result<Self> {
        let (_, file) = SharedMemory::create(words(processes), 0)?;
        Ok(Self { file })
    }

    /// Returns the file, which processes inherit.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the environment variable by which a process finds the file. The process inherits the
    /// descriptor under the number that it has here.
    pub fn variable(&self) -> (&'static str, String) {
        (LENDING, self.file.as_raw_fd().to_string())
    }
}

/// Returns how many words the memory for so many processes has.
pub(crate) fn words(processes: u32) -> usize {
    HEAD_WORDS + SLOT_WORDS * processes as usize
}

/// Returns a word of the slot of a process.
pub(crate) fn word(memory: &SharedMemory, slot: usize, place: usize) -> &AtomicU32 {
    memory.word(HEAD_WORDS + SLOT_WORDS * slot + place)
}

/// Adds to a sum of two words.
pub(crate) fn add(memory: &SharedMemory, slot: usize, place: usize, more: u64) {
    let low = more as u32;
    let before = word(memory, slot, place).fetch_add(low, SeqCst);
    let carry = u32::from(before.checked_add(low).is_none());
    word(memory, slot, place + 1).fetch_add(((more >> 32) as u32).wrapping_add(carry), SeqCst);
}

/// Returns what the process of a slot has lent and borrowed.
pub(crate) fn record_of(memory: &SharedMemory, slot: usize) -> LendingRecord {
    let value = |place| word(memory, slot, place).load(SeqCst);
    let ticks = |place| u64::from(value(place + 1)) << 32 | u64::from(value(place));
    let seconds = |place| ticks(place) as f64 * TICK_NS as f64 / 1e9;
    LendingRecord {
        lent: seconds(LENT),
        times_lent: value(TIMES_LENT),
        borrowed: seconds(BORROWED),
    }
}

/// Returns how many of its cores a process lends that has so many cores and threads awake.
pub(crate) fn idle(cores: u32, awake: i32) -> u32 {
    cores.saturating_sub(awake.max(0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_lends_the_cores_that_its_threads_leave() {
        assert_eq!([idle(4, 5), idle(4, 4), idle(4, 1), idle(4, 0), idle(4, -3)], [0, 0, 3, 4, 4]);
    }

    #[test]
    fn sums_are_longer_than_a_word() {
        let (memory, _file) = SharedMemory::create(words(2), 0).unwrap();
        for more in [u64::from(u32::MAX), 3, 5 << 32 | 7] {
            add(&memory, 1, LENT, more);
        }
        let ticks = u64::from(u32::MAX) + 3 + (5 << 32 | 7);
        let record = record_of(&memory, 1);
        assert_eq!(record.lent, ticks as f64 * TICK_NS as f64 / 1e9);
        assert_eq!((record.times_lent, record.borrowed), (0, 0.0));
        assert_eq!(record_of(&memory, 0), LendingRecord::default());
    }
}
