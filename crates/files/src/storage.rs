//! What the system does with a file: the calls that transfers are made of.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use memory::LentBuffer;
use sys::files::{self, RangeLock};

/// An open file. Each call is one of the system: it may do less than it was asked for, and may be
/// interrupted.
pub(crate) trait Storage: Send + Sync + fmt::Debug {
    /// Reads from `offset` on; none: the file ends there.
    fn read(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes from `offset` on.
    fn write(&self, from: &[u8], offset: u64) -> io::Result<usize>;

    /// Reads from `offset` on to `length` packed bytes of `memory` from `at` on.
    fn read_memory(
        &self,
        memory: &LentBuffer,
        at: usize,
        length: usize,
        offset: u64,
    ) -> io::Result<usize>;

    /// Writes `length` packed bytes of `memory` from `at` on, from `offset` on.
    fn write_memory(
        &self,
        memory: &LentBuffer,
        at: usize,
        length: usize,
        offset: u64,
    ) -> io::Result<usize>;

    /// How many bytes the file has.
    fn size(&self) -> io::Result<u64>;

    /// Cuts the file, or lets it end in zeros.
    fn set_size(&self, size: u64) -> io::Result<()>;

    /// Makes sure that there is space for so many bytes.
    fn allocate(&self, size: u64) -> io::Result<()>;

    /// Waits until the device has what was written.
    fn sync(&self) -> io::Result<()>;

    /// Locks a range against other open files, or gives it back.
    fn lock(&self, range: Range<u64>, kind: RangeLock) -> io::Result<()>;
}

/// A file of the system.
#[derive(Debug)]
pub(crate) struct SystemFile(pub File);

impl Storage for SystemFile {
    fn read(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(into, offset)
    }

    fn write(&self, from: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(from, offset)
    }

    fn read_memory(
        &self,
        memory: &LentBuffer,
        at: usize,
        length: usize,
        offset: u64,
    ) -> io::Result<usize> {
        memory.read_file(at, length, &self.0, offset)
    }

    fn write_memory(
        &self,
        memory: &LentBuffer,
        at: usize,
        length: usize,
        offset: u64,
    ) -> io::Result<usize> {
        memory.write_file(at, length, &self.0, offset)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.0.set_len(size)
    }

    fn allocate(&self, size: u64) -> io::Result<()> {
        files::allocate(self.0.as_fd(), size)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn lock(&self, range: Range<u64>, kind: RangeLock) -> io::Result<()> {
        files::lock(self.0.as_fd(), range, kind)
    }
}

/// Repeats a call that signals interrupt.
pub(crate) fn repeated<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// Repeats a call that may do less than it was asked for, until all is done or there is no more;
/// how much was done, and what went wrong then.
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
