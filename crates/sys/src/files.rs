//! Files: transfers with raw memory, locks on ranges, allocation of space.

use std::fs::{File, Metadata};
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::check;

/// A range of bytes in memory.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct MemoryRun(libc::iovec);

impl MemoryRun {
    /// Makes the range of `length` bytes at an address.
    pub fn new(address: *mut u8, length: usize) -> Self {
        Self(libc::iovec { iov_base: address.cast(), iov_len: length })
    }
}

/// The numbers (statfs(2)) of file systems on local disks or in memory: ext2 to ext4, XFS, Btrfs,
/// F2FS, tmpfs, ramfs, overlays.
const LOCAL: [i64; 7] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994, 0x8584_58f6, 0x794c_7630];

/// Whether a file is on a file system that other machines cannot have mounted too.
///
/// # Errors
/// The system's.
pub fn is_local(file: BorrowedFd<'_>) -> io::Result<bool> {
    let mut found = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the place is exclusively borrowed, and has the type that the call fills.
    check(libc::c_long::from(unsafe { libc::fstatfs(file.as_raw_fd(), found.as_mut_ptr()) }))?;
    // SAFETY: the call has succeeded, and so has filled it.
    let kind = unsafe { found.assume_init() }.f_type;
    Ok(LOCAL.contains(&(kind & 0xffff_ffff)))
}

/// The maximum number of ranges of one call (IOV_MAX).
pub const RUNS_MAX: usize = 1024;

/// Reads from byte `offset` of the file into these ranges, one after the other, as far as the
/// system reads at once. Returns how many bytes were read; 0 if the file ends there.
///
/// # Errors
/// The system's.
///
/// # Safety
/// All ranges may be written, and no other code accesses them meanwhile.
pub unsafe fn read_at(file: BorrowedFd<'_>, runs: &[MemoryRun], offset: u64) -> io::Result<usize> {
    let (file, offset) = (file.as_raw_fd(), position(offset)?);
    // SAFETY: the ranges have the layout of iovecs, and the caller guarantees that they may be
    // written.
    let read = unsafe {
        match runs {
            [MemoryRun(run)] => libc::pread(file, run.iov_base, run.iov_len, offset),
            _ => {
                let count = runs.len().min(RUNS_MAX) as libc::c_int;
                libc::preadv(file, runs.as_ptr().cast(), count, offset)
            }
        }
    };
    check(read as libc::c_long).map(|read| read as usize)
}

/// Writes these ranges, one after the other, from byte `offset` of the file on, as far as the
/// system writes at once. Returns how many bytes were written.
///
/// # Errors
/// The system's.
///
/// # Safety
/// All ranges may be read, and no other code writes them meanwhile.
pub unsafe fn write_at(file: BorrowedFd<'_>, runs: &[MemoryRun], offset: u64) -> io::Result<usize> {
    let (file, offset) = (file.as_raw_fd(), position(offset)?);
    // SAFETY: the ranges have the layout of iovecs, and the caller guarantees that they may be
    // read.
    let written = unsafe {
        match runs {
            [MemoryRun(run)] => libc::pwrite(file, run.iov_base, run.iov_len, offset),
            _ => {
                let count = runs.len().min(RUNS_MAX) as libc::c_int;
                libc::pwritev(file, runs.as_ptr().cast(), count, offset)
            }
        }
    };
    check(written as libc::c_long).map(|written| written as usize)
}

/// The kind of lock on a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeLock {
    /// A shared lock, which excludes exclusive locks.
    Shared,
    /// An exclusive lock, which excludes all other locks.
    Exclusive,
    /// No lock: releases the range.
    Released,
}

/// Locks a range of bytes against other open files, in this process and in others, and waits until
/// the lock is granted. The system releases it when the file is closed or the process ends.
///
/// # Errors
/// The system's; `EINTR` if a signal interrupted the wait.
pub fn lock(file: BorrowedFd<'_>, range: Range<u64>, kind: RangeLock) -> io::Result<()> {
    let kind = match kind {
        RangeLock::Shared => libc::F_RDLCK,
        RangeLock::Exclusive => libc::F_WRLCK,
        RangeLock::Released => libc::F_UNLCK,
    };
    // SAFETY: all fields of the structure are integers, for which zero is a valid value.
    let mut wanted: libc::flock = unsafe { std::mem::zeroed() };
    wanted.l_type = kind as libc::c_short;
    wanted.l_whence = libc::SEEK_SET as libc::c_short;
    wanted.l_start = position(range.start)?;
    wanted.l_len = position(range.end.saturating_sub(range.start))?;
    // SAFETY: the kernel only reads the structure.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLKW, &raw const wanted) };
    check(result.into()).map(|_| ())
}

/// Allocates space for the first `length` bytes of a file, whose length afterwards is at least
/// that.
///
/// # Errors
/// The system's.
pub fn allocate(file: BorrowedFd<'_>, length: u64) -> io::Result<()> {
    // SAFETY: takes numbers only.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, position(length)?) } {
        0 => Ok(()),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}

fn position(offset: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))
}

/// The reason of a system error, where the standard library's kinds are too coarse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRefusal {
    /// Any other reason.
    Other,
    /// The file system is full, or the file would be too large.
    NoSpace,
    /// The user's disk quota is exhausted.
    Quota,
    /// The file system does not support the operation.
    Unsupported,
    /// The name is too long, or contains a loop of links.
    Name,
    /// A program is running from the file, or it is in use in another way.
    Busy,
}

impl FileRefusal {
    /// Returns the reason of an error.
    pub fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EFBIG) => Self::NoSpace,
            Some(libc::EDQUOT) => Self::Quota,
            Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::ENOLCK) => Self::Unsupported,
            Some(libc::ENAMETOOLONG | libc::ELOOP | libc::ENOTDIR | libc::EISDIR) => Self::Name,
            Some(libc::EBUSY | libc::ETXTBSY) => Self::Busy,
            _ => Self::Other,
        }
    }
}

/// Returns a device error, for tests of error handling.
pub fn device_error() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}

/// Returns the error of a full file system, for tests of error handling.
pub fn no_space() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOSPC)
}

/// Opens, for reading and writing, a file that another process has open (a path below `/proc`), if
/// it is what the caller expects. A different file is not opened, as opening alone may have
/// effects, and the process may have replaced the file meanwhile.
///
/// # Errors
/// The system's; also if there is a different file.
pub fn open_as_expected(
    path: &Path,
    is_expected: impl FnOnce(&Metadata) -> bool,
) -> io::Result<File> {
    let held = File::options().read(true).custom_flags(libc::O_PATH).open(path)?;
    if !is_expected(&held.metadata()?) {
        return Err(io::Error::other("something else is open there"));
    }
    File::options().read(true).write(true).open(format!("/proc/self/fd/{}", held.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn memory_of_a_machine_is_no_file_system_of_several() {
        let in_memory = crate::mapping::create_memory_file(c"test", 1).unwrap();
        assert!(is_local(in_memory.as_fd()).unwrap());
        let of_the_system = File::open("/proc/self/stat").unwrap();
        assert!(!is_local(of_the_system.as_fd()).unwrap());
    }

    #[test]
    fn runs_go_to_a_file_and_come_back_elsewhere() {
        let file = tempfile::tempfile().unwrap();
        let (mut one, mut two) = (*b"gathered ", *b"bytes");
        let runs =
            [MemoryRun::new(one.as_mut_ptr(), 9), MemoryRun::new(two.as_mut_ptr(), two.len())];
        // SAFETY: the arrays are exclusively borrowed.
        assert_eq!(unsafe { write_at(file.as_fd(), &runs, 3) }.unwrap(), 14);
        let mut back = [0; 20];
        let run = [MemoryRun::new(back.as_mut_ptr(), back.len())];
        // SAFETY: the array is exclusively borrowed.
        assert_eq!(unsafe { read_at(file.as_fd(), &run, 0) }.unwrap(), 17);
        assert_eq!(&back[..17], b"\0\0\0gathered bytes");
        // SAFETY: the array is exclusively borrowed.
        assert_eq!(unsafe { read_at(file.as_fd(), &run, 17) }.unwrap(), 0);
        allocate(file.as_fd(), 100).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 100);
    }

    #[test]
    fn a_range_is_locked_against_another_open_file_until_that_is_closed() {
        let one = tempfile::NamedTempFile::new().unwrap();
        let two = one.reopen().unwrap();
        lock(one.as_fd(), 0..10, RangeLock::Exclusive).unwrap();
        lock(two.as_fd(), 10..20, RangeLock::Exclusive).unwrap();
        let waiter = std::thread::spawn(move || {
            lock(two.as_fd(), 5..6, RangeLock::Shared).unwrap();
        });
        drop(one);
        waiter.join().unwrap();
    }

    #[test]
    fn only_what_is_expected_is_opened() {
        use std::io::{Read, Write};

        let private = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&private, "kept").unwrap();
        // A process may hold a file in this form that it may not write to.
        let held = File::options().read(true).custom_flags(libc::O_PATH).open(&private).unwrap();
        let path = format!("/proc/self/fd/{}", held.as_raw_fd());
        let is_pipe = |attributes: &Metadata| {
            std::os::unix::fs::FileTypeExt::is_fifo(&attributes.file_type())
        };
        open_as_expected(Path::new(&path), is_pipe).unwrap_err();
        let (mut reader, writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        let mut pipe = open_as_expected(Path::new(&path), is_pipe).unwrap();
        pipe.write_all(b"x").unwrap();
        let mut byte = [0];
        reader.read_exact(&mut byte).unwrap();
        assert_eq!((byte, std::fs::read_to_string(&private).unwrap().as_str()), (*b"x", "kept"));
    }
}
