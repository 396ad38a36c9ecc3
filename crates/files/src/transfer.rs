//! Transfers of one process on its own: bytes of its stream from and to memory.
//!
//! Runs that lie close together are read together with the holes between them (data sieving). They
//! are written together only where no other process can write into the holes meanwhile.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use memory::LentBuffer;
use parking_lot::Mutex;
use sys::files::RangeLock;

use crate::fault::Fault;
use crate::storage::{Direction, Storage, in_full, repeated};
use crate::view::View;

/// How one process treats the holes between runs, and excludes other processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SieveSettings {
    /// Runs are read together with the holes between them, at most this many bytes at once; 0:
    /// never.
    pub read_together: usize,
    /// Runs are written together with the bytes read from the holes, at most this many bytes at
    /// once; 0: never.
    pub write_together: usize,
    /// Whether each range is locked while it is written, as other processes may write runs with
    /// holes there.
    pub locks_writes: bool,
    /// Whether the whole range of each transfer is locked.
    pub atomic: bool,
}

/// The progress of a transfer.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The number of bytes of the stream transferred, from its beginning.
    pub bytes: u64,
    pub fault: Option<Fault>,
}

/// How any thread of this process accesses a file.
#[derive(Clone)]
pub(crate) struct FileAccess {
    pub storage: Arc<dyn Storage>,
    pub sieve_settings: SieveSettings,
    /// Excludes other threads during atomic transfers.
    pub exclusion: Arc<Mutex<()>>,
}

impl FileAccess {
    /// Does what [`transfer`] does, without other threads if it must be atomic.
    pub fn transfer(
        &self,
        view: &View,
        position: u64,
        memory: &LentBuffer,
        direction: Direction,
    ) -> Progress {
        let _exclusion = self.sieve_settings.atomic.then(|| self.exclusion.lock());
        transfer(&*self.storage, view, position, memory, direction, self.sieve_settings)
    }
}

/// Transfers the bytes of the stream from `position` on, as many as `memory` has.
pub(crate) fn transfer(
    storage: &dyn Storage,
    view: &View,
    position: u64,
    memory: &LentBuffer,
    direction: Direction,
    sieve_settings: SieveSettings,
) -> Progress {
    let length = memory.len() as u64;
    if length == 0 {
        return Progress::default();
    }
    if !sieve_settings.atomic {
        return move_runs(storage, view, position, memory, direction, sieve_settings);
    }
    let range = view.range(position, length);
    let kind = match direction {
        Direction::Read => RangeLock::Shared,
        Direction::Write => RangeLock::Exclusive,
    };
    let start = range.start;
    let work = || move_runs(storage, view, position, memory, direction, sieve_settings);
    while_locked(storage, range, kind, work)
        .unwrap_or_else(|error| Progress { bytes: 0, fault: Some(Fault::of(start, &error)) })
}

/// Calls `work` while a range is locked. The system unlocks the range if the process is killed
/// meanwhile.
///
/// # Errors
/// The system's, if the range cannot be locked; then `work` is not called.
pub(crate) fn while_locked<T>(
    storage: &dyn Storage,
    range: Range<u64>,
    kind: RangeLock,
    work: impl FnOnce() -> T,
) -> io::Result<T> {
    repeated(|| storage.lock(range.clone(), kind))?;
    let outcome = work();
    // A lock that cannot be released now is released when the file is closed.
    let _ = repeated(|| storage.lock(range.clone(), RangeLock::Released));
    Ok(outcome)
}

/// Transfers a run, given by its offset in the file and its length, from or to packed bytes of
/// memory from `at` on. Returns the number of bytes transferred, and the error.
pub(crate) fn move_run(
    storage: &dyn Storage,
    memory: &LentBuffer,
    at: usize,
    (offset, length): (u64, u64),
    direction: Direction,
) -> (u64, Option<Fault>) {
    let length = length as usize;
    let (done, error) = in_full(length, |done| {
        let (at, left, offset) = (at + done, length - done, offset + done as u64);
        storage.move_memory(direction, memory, at, left, offset)
    });
    let done = done as u64;
    (done, error.map(|error| Fault::of(offset + done, &error)))
}

fn move_runs(
    storage: &dyn Storage,
    view: &View,
    position: u64,
    memory: &LentBuffer,
    direction: Direction,
    sieve_settings: SieveSettings,
) -> Progress {
    let together = match direction {
        Direction::Read => sieve_settings.read_together,
        Direction::Write => sieve_settings.write_together,
    };
    let mut mover = Mover {
        storage,
        memory,
        direction,
        together: together as u64,
        step_max: storage.call_bytes(direction, view.offset_of(position)),
        locks: sieve_settings.locks_writes && direction == Direction::Write,
        runs: Vec::new(),
        staging: Vec::new(),
        progress: Progress::default(),
    };
    let goes_on =
        view.runs(position, memory.len() as u64, &mut |offset, length| mover.add(offset, length));
    if goes_on {
        mover.flush();
    }
    mover.progress
}

/// Collects runs that are transferred together.
struct Mover<'a> {
    storage: &'a dyn Storage,
    memory: &'a LentBuffer,
    direction: Direction,
    together: u64,
    /// A hole and the run behind it, which is copied once more, are transferred with the previous
    /// runs if they have at most this many bytes: that is cheaper than another call.
    step_max: u64,
    /// Whether the range is locked during the transfer.
    locks: bool,
    /// The offset and the length of each run, in their order.
    runs: Vec<(u64, u64)>,
    staging: Vec<u8>,
    progress: Progress,
}

impl Mover<'_> {
    /// Adds the next run; returns whether the transfer continues.
    fn add(&mut self, offset: u64, length: u64) -> bool {
        let joins = match (self.runs.first(), self.runs.last()) {
            (Some((start, _)), Some((last, before))) => {
                let end = last + before;
                offset >= end
                    && offset - end + length <= self.step_max
                    && offset + length - start <= self.together
            }
            _ => true,
        };
        if !joins && !self.flush() {
            return false;
        }
        self.runs.push((offset, length));
        true
    }

    /// Transfers the collected runs; returns whether the transfer continues.
    fn flush(&mut self) -> bool {
        let runs = std::mem::take(&mut self.runs);
        let goes_on = if self.locks && !runs.is_empty() {
            let (start, end) = span(&runs);
            let storage = self.storage;
            let work = || self.move_collected(&runs);
            match while_locked(storage, start..end, RangeLock::Exclusive, work) {
                Ok(goes_on) => goes_on,
                Err(error) => {
                    self.fail(start, error);
                    false
                }
            }
        } else {
            self.move_collected(&runs)
        };
        self.runs = runs;
        self.runs.clear();
        goes_on
    }

    fn move_collected(&mut self, runs: &[(u64, u64)]) -> bool {
        match (runs, self.direction) {
            ([], _) => true,
            (&[(offset, length)], _) => self.move_one(offset, length),
            (_, Direction::Read) => self.read_together(runs),
            (_, Direction::Write) => self.write_together(runs),
        }
    }

    fn at(&self) -> usize {
        self.progress.bytes as usize
    }

    fn fail(&mut self, offset: u64, error: io::Error) {
        self.progress.fault = Some(Fault::of(offset, &error));
    }

    fn move_one(&mut self, offset: u64, length: u64) -> bool {
        let (at, run) = (self.at(), (offset, length));
        let (done, fault) = move_run(self.storage, self.memory, at, run, self.direction);
        self.progress.bytes += done;
        self.progress.fault = fault;
        done == length
    }

    /// Reads the bytes from the first of some runs up to behind the last, as far as the file has
    /// them. Returns the offset, the number of bytes read, and the error.
    fn read_span(&mut self, runs: &[(u64, u64)]) -> (u64, usize, Option<io::Error>) {
        let (start, end) = span(runs);
        let length = (end - start) as usize;
        if self.staging.len() < length {
            self.staging.resize(length, 0);
        }
        let staging = &mut self.staging[..length];
        let (read, error) =
            in_full(length, |done| self.storage.read(&mut staging[done..], start + done as u64));
        (start, read, error)
    }

    fn read_together(&mut self, runs: &[(u64, u64)]) -> bool {
        let (start, read, error) = self.read_span(runs);
        for &(offset, length) in runs {
            let from = (offset - start) as usize;
            let there = read.saturating_sub(from).min(length as usize);
            self.memory.write(self.at(), &self.staging[from..from + there]);
            self.progress.bytes += there as u64;
            if there < length as usize {
                break;
            }
        }
        let is_whole = error.is_none() && start + read as u64 == span(runs).1;
        if let Some(error) = error {
            self.fail(start + read as u64, error);
        }
        is_whole
    }

    /// Reads a span, puts the runs into it and writes it.
    fn write_together(&mut self, runs: &[(u64, u64)]) -> bool {
        let (start, read, error) = self.read_span(runs);
        if let Some(error) = error {
            self.fail(start + read as u64, error);
            return false;
        }
        let length = (span(runs).1 - start) as usize;
        // Behind the end of the file there are zeros.
        self.staging[read..length].fill(0);
        let mut at = self.at();
        for &(offset, length) in runs {
            let into = (offset - start) as usize;
            self.memory.read(at, &mut self.staging[into..into + length as usize]);
            at += length as usize;
        }
        let staging = &self.staging[..length];
        let (done, error) =
            in_full(length, |done| self.storage.write(&staging[done..], start + done as u64));
        let written = |&(offset, length): &(u64, u64)| {
            (start + done as u64).saturating_sub(offset).min(length)
        };
        self.progress.bytes += runs.iter().map(written).sum::<u64>();
        if let Some(error) = error {
            self.fail(start + done as u64, error);
        }
        done == length
    }
}

/// Returns the range from the first byte of some runs up to behind the last one.
fn span(runs: &[(u64, u64)]) -> (u64, u64) {
    match (runs.first(), runs.last()) {
        (Some((start, _)), Some((last, length))) => (*start, last + length),
        _ => (0, 0),
    }
}
