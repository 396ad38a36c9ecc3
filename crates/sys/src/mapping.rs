//! Shared memory: anonymous files (memfd) and their mappings.

mod packs;

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::{self, NonNull};

/// Creates an anonymous file of `length` zero bytes, which has no name in any file system and is
/// freed when its last user closes it. `label` is shown in /proc.
///
/// The file cannot shrink afterwards, so a mapping of it never faults.
pub fn create_memory_file(label: &CStr, length: usize) -> io::Result<File> {
    check_file_size(length)?;
    // SAFETY: `label` is a valid C string for the whole call.
    let fd =
        unsafe { libc::memfd_create(label.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    crate::check(libc::c_long::from(fd)).map_err(|cause| crate::refused("memfd_create", &cause))?;
    // SAFETY: the descriptor was just created and no other code owns it.
    let file = unsafe { File::from_raw_fd(fd) };
    file.set_len(length as u64)?;
    // SAFETY: F_ADD_SEALS takes the descriptor, which is open, and an integer.
    let sealed =
        unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL) };
    crate::check(libc::c_long::from(sealed))?;
    Ok(file)
}

/// Whether this process may map less memory than `bytes` in all (`ulimit -v`).
pub fn has_less_address_space(bytes: u64) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is exclusively borrowed.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    result == 0 && limit.rlim_cur < bytes
}

/// Checks that a file may have so many bytes. A process that makes a larger file is killed by
/// SIGXFSZ.
///
/// # Errors
/// If the limit is lower; the error names the limit.
pub fn check_file_size(length: usize) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is exclusively borrowed.
    crate::check(libc::c_long::from(unsafe {
        libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit)
    }))?;
    if limit.rlim_cur == libc::RLIM_INFINITY || length as u64 <= limit.rlim_cur {
        return Ok(());
    }
    let most = limit.rlim_cur;
    let message = format!(
        "memory that processes share is a file of {length} bytes, but this process may not make \
         files of more than {most}; raise the limit of the size of files (ulimit -f)"
    );
    Err(io::Error::new(io::ErrorKind::FileTooLarge, message))
}

/// Whether `file` is an anonymous memory file that can never shrink below its present length.
pub fn is_sealed_against_shrinking(file: &File) -> bool {
    // SAFETY: F_GET_SEALS takes only the descriptor, which is open.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    seals >= 0 && seals & libc::F_SEAL_SHRINK != 0
}

/// A readable and writable mapping of a memory file, shared with all other processes that map the
/// file. Unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    length: usize,
    /// Whether it lies in a place of a pack.
    is_packed: bool,
}

// SAFETY: a mapping is a range of addresses valid in every thread; the code that reads and writes
// through it is responsible for data races.
unsafe impl Send for Mapping {}
// SAFETY: the methods only read the two fields.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `length` bytes of `file`.
    pub fn new(file: &File, length: usize) -> io::Result<Self> {
        Self::of_range(file, 0..length)
    }

    /// Maps a range of the bytes of `file`, which begins on a page.
    pub fn of_range(file: &File, range: Range<usize>) -> io::Result<Self> {
        // SAFETY: requests fresh addresses; no existing mapping is affected.
        let base = unsafe { map(ptr::null_mut(), file, &range, 0) }?;
        Ok(Self { base, length: range.len(), is_packed: false })
    }

    /// Maps the first `length` bytes of `file`, next to other packed mappings of as many bytes.
    /// Neighbours share pages of page tables, which have 4 KiB for 2 MiB of addresses each, so
    /// that a small mapping of which some pages are used costs a fraction of such a page.
    pub fn packed(file: &File, length: usize) -> io::Result<Self> {
        let Some(place) = packs::claim(length)? else {
            return Self::new(file, length);
        };
        // SAFETY: the place is a reserved range of addresses that nothing else uses while it is
        // claimed.
        let mapped = unsafe { map(place.as_ptr().cast(), file, &(0..length), libc::MAP_FIXED) };
        let base = mapped.inspect_err(|_| packs::release(place, length))?;
        Ok(Self { base, length, is_packed: true })
    }

    /// Returns the first address.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Allocates and maps the pages of `length` bytes from `offset` on at once, so that their first
    /// use causes no page faults. The range must consist of whole pages. It is a hint: older
    /// systems ignore it.
    pub fn populate(&self, offset: usize, length: usize) {
        assert!(offset <= self.length && length <= self.length - offset, "the range is mapped");
        // SAFETY: the range is inside the mapping; populating changes no byte.
        unsafe {
            let start = self.base.as_ptr().add(offset).cast();
            libc::madvise(start, length, libc::MADV_POPULATE_WRITE);
        }
    }

    /// Returns how many bytes are mapped.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.is_packed {
            packs::release(self.base, self.length);
        } else {
            // SAFETY: the range was mapped by `of_range` and no code may use it after the
            // mapping's end.
            unsafe {
                libc::munmap(self.base.as_ptr().cast(), self.length);
            }
        }
    }
}

/// Maps a range of the bytes of `file` at `address`, or anywhere if that is null.
///
/// # Safety
/// With `MAP_FIXED`, nothing else uses as many bytes from `address` on.
unsafe fn map(
    address: *mut libc::c_void,
    file: &File,
    range: &Range<usize>,
    flags: libc::c_int,
) -> io::Result<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | flags;
    let offset = range.start as libc::off_t;
    // SAFETY: the caller vouches for the addresses.
    let base = unsafe { libc::mmap(address, range.len(), access, flags, file.as_raw_fd(), offset) };
    mapped(base)
}

/// Converts the result of `mmap`.
fn mapped(base: *mut libc::c_void) -> io::Result<NonNull<u8>> {
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap returned address zero"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_of_a_file_show_the_same_bytes() {
        let file = create_memory_file(c"test", 4096).unwrap();
        assert!(is_sealed_against_shrinking(&file));
        assert!(file.set_len(10).is_err());
        let one = Mapping::new(&file, 4096).unwrap();
        let other = Mapping::new(&file, 4096).unwrap();
        // SAFETY: both addresses are inside mappings that only this test uses.
        unsafe {
            one.base().as_ptr().add(100).write_volatile(7);
            assert_eq!(other.base().as_ptr().add(100).read_volatile(), 7);
        }
    }

    #[test]
    fn a_range_of_a_file_begins_at_its_offset() {
        let page = crate::pages::page_bytes();
        let file = create_memory_file(c"test", 3 * page).unwrap();
        let whole = Mapping::new(&file, 3 * page).unwrap();
        let end = Mapping::of_range(&file, page..3 * page).unwrap();
        assert_eq!(end.len(), 2 * page);
        // SAFETY: both addresses are inside mappings that only this test uses.
        unsafe {
            whole.base().as_ptr().add(page + 5).write_volatile(9);
            assert_eq!(end.base().as_ptr().add(5).read_volatile(), 9);
        }
    }
}
