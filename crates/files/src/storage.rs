//! The interface to the system calls that transfers consist of.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memory::LentBuffer;
use spans::SpanTrack;
use sys::files::{self, RangeLock};

use crate::costs::{CallKind, MountCosts};

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the file to memory.
    Read,
    /// From memory to the file.
    Write,
}

impl Direction {
    /// Returns the verb for messages to users.
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Direction::Read => "read",
            Direction::Write => "write",
        }
    }
}

/// An open file. Each function is one system call: it may transfer less than requested, and may be
/// interrupted.
pub(crate) trait Storage: Send + Sync + fmt::Debug {
    /// Reads from `offset` on; 0 at the end of the file.
    fn read(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes from `offset` on.
    fn write(&self, from: &[u8], offset: u64) -> io::Result<usize>;

    /// Transfers `length` packed bytes of `memory` from `at` on, from or to the file from `offset`
    /// on.
    fn move_memory(
        &self,
        direction: Direction,
        memory: &LentBuffer,
        at: usize,
        length: usize,
        offset: u64,
    ) -> io::Result<usize>;

    /// Returns the number of bytes whose transfer costs as much as a call, at `offset`.
    fn call_bytes(&self, direction: Direction, offset: u64) -> u64;

    /// Returns the number of bytes that can be sent to another process of the machine in the time
    /// of a call at `offset`.
    fn sent_bytes(&self, direction: Direction, offset: u64) -> u64;

    /// Returns the size of the file in bytes.
    fn size(&self) -> io::Result<u64>;

    /// Truncates or extends the file; an extension reads as zeros.
    fn set_size(&self, size: u64) -> io::Result<()>;

    /// Allocates space for the first `size` bytes.
    fn allocate(&self, size: u64) -> io::Result<()>;

    /// Waits until all writes have reached the device.
    fn sync(&self) -> io::Result<()>;

    /// Locks a range against other open files, or unlocks it.
    fn lock(&self, range: Range<u64>, kind: RangeLock) -> io::Result<()>;
}

/// A file of the system, and the costs of calls on its mount.
#[derive(Debug)]
pub(crate) struct SystemFile {
    file: File,
    costs: Arc<MountCosts>,
    /// A lower bound of the file's size; other processes may have extended it since.
    known_end: AtomicU64,
}

impl SystemFile {
    /// Wraps a file with `size` bytes.
    pub fn new(file: File, size: u64, costs: Arc<MountCosts>) -> Self {
        Self { file, costs, known_end: AtomicU64::new(size) }
    }

    fn kind(&self, direction: Direction, offset: u64) -> CallKind {
        match direction {
            Direction::Read => CallKind::Read,
            Direction::Write if offset < self.known_end.load(Ordering::Relaxed) => {
                CallKind::Overwrite
            }
            Direction::Write => CallKind::Extend,
        }
    }

    /// Makes a call for at most `length` bytes at `offset`.
    fn make(
        &self,
        direction: Direction,
        length: usize,
        offset: u64,
        call: impl FnOnce(usize) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let kind = self.kind(direction, offset);
        let begun = spans::begin();
        let outcome = self.costs.observe(kind, length, call);
        if let Some(begun) = begun {
            let bytes = outcome.as_ref().map_or(0, |moved| *moved as u64);
            spans::end(begun, SpanTrack::Files, direction.verb(), None, bytes);
        }
        let moved = outcome?;
        if kind == CallKind::Extend {
            self.known_end.fetch_max(offset + moved as u64, Ordering::Relaxed);
        }
        Ok(moved)
    }
}

impl Storage for SystemFile {
    fn read(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let room = into.len();
        let call = |length| self.file.read_at(&mut into[..length], offset);
        self.make(Direction::Read, room, offset, call)
    }

    fn write(&self, from: &[u8], offset: u64) -> io::Result<usize> {
        let call = |length| self.file.write_at(&from[..length], offset);
        self.make(Direction::Write, from.len(), offset, call)
    }

    fn move_memory(
        &self,
        direction: Direction,
        memory: &LentBuffer,
        at: usize,
        length: usize,
        offset: u64,
    ) -> io::Result<usize> {
        self.make(direction, length, offset, |length| match direction {
            Direction::Read => memory.read_file(at, length, &self.file, offset),
            Direction::Write => memory.write_file(at, length, &self.file, offset),
        })
    }

    fn call_bytes(&self, direction: Direction, offset: u64) -> u64 {
        self.costs.call_bytes(self.kind(direction, offset))
    }

    fn sent_bytes(&self, direction: Direction, offset: u64) -> u64 {
        self.costs.sent_bytes(self.kind(direction, offset))
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.file.set_len(size)?;
        self.known_end.store(size, Ordering::Relaxed);
        Ok(())
    }

    fn allocate(&self, size: u64) -> io::Result<()> {
        files::allocate(self.file.as_fd(), size)
    }

    fn sync(&self) -> io::Result<()> {
        let begun = spans::begin();
        let outcome = self.file.sync_data();
        begun.into_iter().for_each(|begun| spans::end(begun, SpanTrack::Files, "sync", None, 0));
        outcome
    }

    fn lock(&self, range: Range<u64>, kind: RangeLock) -> io::Result<()> {
        files::lock(self.file.as_fd(), range, kind)
    }
}

/// Repeats a call as long as signals interrupt it.
pub(crate) fn repeated<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// Repeats a call that may transfer less than requested, until all is done or the file ends.
/// Returns the number of bytes done, and the error that ended the loop.
pub(crate) fn in_full(
    length: usize,
    mut call: impl FnMut(usize) -> io::Result<usize>,
) -> (usize, Option<io::Error>) {
    let mut done = 0;
    while done < length {
        match repeated(|| call(done)) {
            Ok(0) => break,
            Ok(more) => done += more,
            Err(error) => return (done, Some(error)),
        }
    }
    (done, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_whole_though_its_first_transfers_tell_what_calls_cost() {
        let private = tempfile::tempdir().unwrap();
        let path = private.path().join("costs");
        let file =
            File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        let storage = SystemFile::new(file, 1 << 20, Arc::default());
        let bytes: Vec<u8> = (0..1 << 20).map(|at: u32| (at % 251) as u8).collect();
        for direction in [Direction::Write, Direction::Read] {
            let mut back = vec![0; bytes.len()];
            let mut calls = 0;
            let (done, error) = in_full(bytes.len(), |done| {
                calls += 1;
                match direction {
                    Direction::Write => storage.write(&bytes[done..], done as u64),
                    Direction::Read => storage.read(&mut back[done..], done as u64),
                }
            });
            assert_eq!((done, error.is_none()), (bytes.len(), true));
            assert!(calls > 1, "no short calls were made");
            assert!(direction == Direction::Write || back == bytes);
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn writes_behind_the_end_cost_more_until_it_is_known() {
        let private = tempfile::tempdir().unwrap();
        let path = private.path().join("end");
        let file = File::create(&path).unwrap();
        let storage = SystemFile::new(file, 0, Arc::default());
        let cost = |offset| storage.call_bytes(Direction::Write, offset);
        let (behind, inside) = (cost(0), storage.call_bytes(Direction::Read, 0));
        assert!(behind > inside);
        storage.write(&[1; 10], 5).unwrap();
        assert_eq!([cost(0), cost(14), cost(15)], [inside, inside, behind]);
        storage.set_size(3).unwrap();
        assert_eq!([cost(2), cost(3)], [inside, behind]);
        std::fs::remove_file(path).unwrap();
    }
}
