//! Transfers of one process on its own: bytes of its stream from and to memory.
//!
//! Runs that lie close together are read together with the holes between them (data sieving). They
//! are written together, with the bytes read from the holes, only while all other writers are
//! excluded (`sieving.rs`).

use std::io;
use std::ops::Range;
use std::sync::Arc;

use base::limits::CACHE_LINE;
use memory::LentBuffer;
use parking_lot::Mutex;
use sys::files::RangeLock;

use crate::fault::Fault;
use crate::storage::{Direction, Storage, in_full, repeated};
use crate::view::View;

/// How a process excludes other writers while it writes. A process that fills holes (data sieving)
/// reads a range, changes bytes of it and writes it back: bytes that another writer wrote there
/// meanwhile would be lost. So every writer must exclude the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WriteGuard {
    /// No writer fills holes, or the whole transfer is locked already.
    #[default]
    None,
    /// Other threads of this process are excluded; no other process has the file open.
    Threads,
    /// Other threads are excluded, and other open files by a lock of the range.
    Locks,
}

/// How one process treats the holes between runs, and excludes other writers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SieveSettings {
    /// Runs are read together with the holes between them, at most this many bytes at once; 0:
    /// never.
    pub read_together: usize,
    /// Runs are written together with the bytes read from the holes, at most this many bytes at
    /// once; 0: never.
    pub write_together: usize,
    /// Whether runs are read together even if separate calls are expected to be faster.
    pub forces_reads: bool,
    /// Whether runs are written together even if separate calls are expected to be faster.
    pub forces_writes: bool,
    pub guard: WriteGuard,
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
    /// Excludes other threads during atomic transfers and guarded writes; locks of ranges do not.
    pub exclusion: Arc<Mutex<()>>,
}

impl FileAccess {
    /// Transfers the bytes of the stream from `position` on, as many as `memory` has; without other
    /// threads and processes if it must be atomic.
    pub fn transfer(
        &self,
        view: &View,
        position: u64,
        memory: &LentBuffer,
        direction: Direction,
    ) -> Progress {
        let length = memory.len() as u64;
        if length == 0 {
            return Progress::default();
        }
        let work = || move_runs(self, view, position, memory, direction);
        if !self.sieve_settings.atomic {
            return work();
        }
        let _exclusion = self.exclusion.lock();
        let range = view.range(position, length);
        let kind = match direction {
            Direction::Read => RangeLock::Shared,
            Direction::Write => RangeLock::Exclusive,
        };
        let start = range.start;
        while_locked(&*self.storage, range, kind, work)
            .unwrap_or_else(|error| Progress { bytes: 0, fault: Some(Fault::of(start, &error)) })
    }

    /// Calls `work`, which writes into `range`, while other writers are excluded as
    /// [`SieveSettings::guard`] requires.
    ///
    /// # Errors
    /// The system's, if the range cannot be locked; then `work` is not called.
    pub fn while_guarded<T>(&self, range: Range<u64>, work: impl FnOnce() -> T) -> io::Result<T> {
        match self.sieve_settings.guard {
            WriteGuard::None => Ok(work()),
            WriteGuard::Threads => {
                let _exclusion = self.exclusion.lock();
                Ok(work())
            }
            WriteGuard::Locks => {
                let _exclusion = self.exclusion.lock();
                while_locked(&*self.storage, range, RangeLock::Exclusive, work)
            }
        }
    }
}

/// Calls `work` while a range is locked. The system unlocks the range if the process is killed
/// meanwhile.
///
/// # Errors
/// The system's, if the range cannot be locked; then `work` is not called.
fn while_locked<T>(
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
    access: &FileAccess,
    view: &View,
    position: u64,
    memory: &LentBuffer,
    direction: Direction,
) -> Progress {
    let settings = access.sieve_settings;
    let (together, is_forced) = match direction {
        Direction::Read => (settings.read_together, settings.forces_reads),
        Direction::Write => (settings.write_together, settings.forces_writes),
    };
    let is_guarded = direction == Direction::Write && settings.guard != WriteGuard::None;
    let mut mover = Mover {
        access,
        storage: &*access.storage,
        memory,
        direction,
        together: together as u64,
        batch_bytes: if together == 0 && is_guarded { GUARDED_BYTES } else { together as u64 },
        is_forced,
        step_max: 0,
        runs: Vec::new(),
        staging: Vec::new(),
        staged_at: 0,
        progress: Progress::default(),
    };
    mover.measure(view.offset_of(position));
    let goes_on =
        view.runs(position, memory.len() as u64, &mut |offset, length| mover.add(offset, length));
    if goes_on {
        mover.flush();
    }
    mover.progress
}

/// Where a process does not write runs together but must guard its writes, one lock covers the runs
/// of a range of at most this many bytes: a lock for each run would cost two calls more.
const GUARDED_BYTES: u64 = 512 << 10;

/// The largest number of runs that are collected, which limits the memory for their list.
const BATCH_RUNS_MAX: usize = 32 << 10;

/// Collects runs in batches, guards each batch that is written, and transfers those of its runs
/// together that lie close to each other.
struct Mover<'a> {
    access: &'a FileAccess,
    storage: &'a dyn Storage,
    memory: &'a LentBuffer,
    direction: Direction,
    /// The largest number of bytes that are transferred together, holes included.
    together: u64,
    /// The largest number of bytes from the first byte of a batch up to behind its last one.
    batch_bytes: u64,
    /// Whether runs are transferred together whatever that costs.
    is_forced: bool,
    /// A hole and the run behind it are transferred with the previous runs if they have at most
    /// this many bytes: that is cheaper than another call.
    step_max: u64,
    /// The offset and the length of each run of the batch, in their order.
    runs: Vec<(u64, u64)>,
    staging: Vec<u8>,
    /// Where in `staging` the bytes of the span begin: at the same place in a cache line as in the
    /// file. The system copies them much slower if their destination lies a few bytes further in a
    /// page than their source.
    staged_at: usize,
    progress: Progress,
}

impl Mover<'_> {
    /// Determines from which distance on runs are transferred separately, for calls at `offset`.
    fn measure(&mut self, offset: u64) {
        let call_bytes = self.storage.call_bytes(self.direction, offset);
        self.step_max = match self.direction {
            // The hole is copied in vain, and the run once more.
            Direction::Read => call_bytes,
            // The hole is read and written; the run is read, and copied once more.
            Direction::Write => call_bytes / 2,
        };
    }

    /// Adds the next run; returns whether the transfer continues.
    fn add(&mut self, offset: u64, length: u64) -> bool {
        let joins = match (self.runs.first(), self.runs.last()) {
            (Some((start, _)), Some(&last)) => {
                offset >= last.0 + last.1
                    && offset + length - start <= self.batch_bytes
                    && self.is_in_block(*start, offset + length - 1)
                    && self.runs.len() < BATCH_RUNS_MAX
                    && (self.direction == Direction::Write || self.is_near(last, (offset, length)))
            }
            _ => true,
        };
        if !joins && !self.flush() {
            return false;
        }
        self.runs.push((offset, length));
        true
    }

    /// Whether the batch that begins at `start` may contain the byte `last`. Batches that are
    /// locked lie in blocks that begin at equal offsets in all processes, so that two processes
    /// that write alternating runs can work in different blocks.
    fn is_in_block(&self, start: u64, last: u64) -> bool {
        let is_locked = self.access.sieve_settings.guard == WriteGuard::Locks;
        self.direction == Direction::Read
            || !is_locked
            || self.batch_bytes == 0
            || start / self.batch_bytes == last / self.batch_bytes
    }

    /// Whether a run must be transferred together with the previous one.
    fn is_near(&self, previous: (u64, u64), (offset, length): (u64, u64)) -> bool {
        let end = previous.0 + previous.1;
        self.together > 0 && (self.is_forced || offset + length - end <= self.step_max)
    }

    /// Transfers the batch; returns whether the transfer continues.
    fn flush(&mut self) -> bool {
        let runs = std::mem::take(&mut self.runs);
        let goes_on = match self.direction {
            Direction::Read => self.read_batch(&runs),
            Direction::Write if runs.is_empty() => true,
            Direction::Write => {
                let (start, end) = span(&runs);
                self.measure(start);
                let access = self.access;
                match access.while_guarded(start..end, || self.write_batch(&runs)) {
                    Ok(goes_on) => goes_on,
                    Err(error) => {
                        self.fail(start, error);
                        false
                    }
                }
            }
        };
        self.runs = runs;
        self.runs.clear();
        goes_on
    }

    fn read_batch(&mut self, runs: &[(u64, u64)]) -> bool {
        match *runs {
            [] => true,
            [(offset, length)] => self.move_one(offset, length),
            _ => self.read_together(runs),
        }
    }

    fn write_batch(&mut self, runs: &[(u64, u64)]) -> bool {
        let mut left = runs;
        while !left.is_empty() {
            let pairs = left.windows(2).take_while(|pair| self.is_near(pair[0], pair[1]));
            let (near, others) = left.split_at(1 + pairs.count());
            left = others;
            let goes_on = if self.pays_off(near) {
                self.write_together(near)
            } else {
                near.iter().all(|&(offset, length)| self.move_one(offset, length))
            };
            if !goes_on {
                return false;
            }
        }
        true
    }

    /// Whether some runs are written faster together, by a call that reads the bytes between them
    /// and one that writes, than by a call each.
    fn pays_off(&self, runs: &[(u64, u64)]) -> bool {
        if runs.len() < 2 || self.is_forced {
            return runs.len() > 1;
        }
        let (start, end) = span(runs);
        let call_bytes = |direction| self.storage.call_bytes(direction, start);
        let (reading, writing) = (call_bytes(Direction::Read), call_bytes(Direction::Write));
        runs.len() as u64 * writing > reading + writing + 2 * (end - start)
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
        if self.staging.len() < length + CACHE_LINE {
            self.staging.resize(length + CACHE_LINE, 0);
        }
        let address = self.staging.as_ptr().addr();
        self.staged_at = (start as usize).wrapping_sub(address) % CACHE_LINE;
        let staging = &mut self.staging[self.staged_at..][..length];
        let (read, error) =
            in_full(length, |done| self.storage.read(&mut staging[done..], start + done as u64));
        (start, read, error)
    }

    fn read_together(&mut self, runs: &[(u64, u64)]) -> bool {
        let (start, read, error) = self.read_span(runs);
        for &(offset, length) in runs {
            let from = (offset - start) as usize;
            let there = read.saturating_sub(from).min(length as usize);
            self.memory.write(self.at(), &self.staging[self.staged_at + from..][..there]);
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

    /// Reads a span, puts the runs into it and writes it. If the span cannot be read or written,
    /// what is left of the runs is written separately: the device may have no room for the holes,
    /// or a bad block there.
    fn write_together(&mut self, runs: &[(u64, u64)]) -> bool {
        let (start, read, error) = self.read_span(runs);
        let end = if error.is_some() { start } else { self.write_span(runs, start, read) };
        runs.iter().all(|&(offset, length)| {
            let written = end.saturating_sub(offset).min(length);
            self.progress.bytes += written;
            written == length || self.move_one(offset + written, length - written)
        })
    }

    /// Puts runs into the span from `start` on, of which the file had `read` bytes, and writes it.
    /// Returns the end of the bytes written.
    fn write_span(&mut self, runs: &[(u64, u64)], start: u64, read: usize) -> u64 {
        let length = (span(runs).1 - start) as usize;
        let mut at = self.at();
        let staging = &mut self.staging[self.staged_at..][..length];
        // Behind the end of the file there are zeros.
        staging[read..].fill(0);
        for &(offset, length) in runs {
            let into = (offset - start) as usize;
            self.memory.read(at, &mut staging[into..][..length as usize]);
            at += length as usize;
        }
        let (done, _) =
            in_full(length, |done| self.storage.write(&staging[done..], start + done as u64));
        start + done as u64
    }
}

/// Returns the range from the first byte of some runs up to behind the last one.
fn span(runs: &[(u64, u64)]) -> (u64, u64) {
    match (runs.first(), runs.last()) {
        (Some((start, _)), Some((last, length))) => (*start, last + length),
        _ => (0, 0),
    }
}
