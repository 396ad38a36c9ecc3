//! Memory that several processes map, for windows of one-sided communication and for boards.

use std::ffi::CStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::AtomicU32;

use sys::mapping::{Mapping, create_memory_file, is_sealed_against_shrinking};

use crate::buffer::{Buffer, Owner};

/// A memory file as mapped by this process: words that all users change atomically, and after them
/// bytes for buffers. Both are zero at first. The file is freed with its last user.
pub struct SharedMemory {
    mapping: Mapping,
    words: usize,
    length: usize,
}

/// Random bytes at the beginning of the file, by which a process that maps it verifies that it is
/// the right one.
pub type Nonce = [u8; NONCE_BYTES];

const NONCE_BYTES: usize = 16;
/// The offset of the words.
const WORDS_OFFSET: usize = 64;
/// The bytes for buffers begin at a multiple of this.
const PAGE: usize = 4096;

const _: () = assert!(NONCE_BYTES <= WORDS_OFFSET);

impl SharedMemory {
    /// What the system shows as the name of the files.
    pub const LABEL: &CStr = c"combray-shared";

    /// Creates memory with this many words and this many bytes for buffers. Other processes map it
    /// through the file, which must be kept open until they have.
    ///
    /// # Errors
    /// There is not enough memory, or the size exceeds the address space.
    pub fn create(words: usize, length: usize) -> io::Result<(Rc<Self>, File)> {
        let bytes = bytes_of(words, length).ok_or(io::ErrorKind::OutOfMemory)?;
        let file = create_memory_file(Self::LABEL, bytes)?;
        let mapping = Mapping::new(&file, bytes)?;
        let mut nonce: Nonce = [0; NONCE_BYTES];
        sys::random::fill(&mut nonce)?;
        // SAFETY: the mapping is new, nothing else uses it, and it is longer than the nonce.
        unsafe { mapping.base().cast::<Nonce>().write(nonce) };
        Ok((Rc::new(Self { mapping, words, length }), file))
    }

    /// Maps the file that another process created, with its sizes and its nonce.
    ///
    /// # Errors
    /// `InvalidData` if the file is another one; the system's error if it cannot be mapped.
    pub fn map(file: &File, nonce: Nonce, words: usize, length: usize) -> io::Result<Rc<Self>> {
        let bytes = bytes_of(words, length).ok_or(io::ErrorKind::InvalidData)?;
        let there = file.metadata().map(|data| data.len()).unwrap_or(0);
        if there != bytes as u64 || !is_sealed_against_shrinking(file) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let memory = Self { mapping: Mapping::new(file, bytes)?, words, length };
        if memory.nonce() != nonce {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Rc::new(memory))
    }

    /// Maps the file with this many words that this process inherited or created itself: nothing
    /// about it but its size needs to be verified.
    ///
    /// # Errors
    /// `InvalidData` if the file can shrink or is too short; the system's error if it cannot be
    /// mapped.
    pub fn open(file: &File, words: usize) -> io::Result<Rc<Self>> {
        let there = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        let length =
            there.checked_sub(data_offset(words)).filter(|_| is_sealed_against_shrinking(file));
        let length = length.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Rc::new(Self { mapping: Mapping::new(file, there)?, words, length }))
    }

    /// Maps the first words of a file that this process inherited, opened or created itself, and
    /// none of the bytes after them.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn open_words(file: &File, words: usize) -> io::Result<Rc<Self>> {
        let there = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        let bytes = data_offset(words);
        if there < bytes || !is_sealed_against_shrinking(file) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Rc::new(Self { mapping: Mapping::new(file, bytes)?, words, length: 0 }))
    }

    /// Returns the nonce, which identifies this memory.
    pub fn nonce(&self) -> Nonce {
        // SAFETY: the mapping is longer than the nonce, which never changes once other processes
        // can map it.
        unsafe { self.mapping.base().cast::<Nonce>().read() }
    }

    /// Returns one of the words.
    ///
    /// # Panics
    /// If `index` is not below the number of words.
    #[inline(always)]
    pub fn word(&self, index: usize) -> &AtomicU32 {
        assert!(index < self.words, "word {index} of {}", self.words);
        // SAFETY:
        // - The word lies inside the mapping, which lives as long as the borrow, and is aligned.
        // - All users of the file touch these bytes as atomic words only.
        unsafe {
            self.mapping.base().byte_add(WORDS_OFFSET).cast::<AtomicU32>().add(index).as_ref()
        }
    }

    /// Returns the number of bytes for buffers.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a caller knows how much it asked for")]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns the address of the first byte for buffers, at the beginning of a page.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        // SAFETY: the words are inside the mapping, and these bytes follow them.
        unsafe { self.mapping.base().add(data_offset(self.words)) }
    }

    /// Returns a buffer of the bytes `offset .. offset + length` of those for buffers.
    ///
    /// # Panics
    /// If the range exceeds them.
    pub fn buffer(self: &Rc<Self>, offset: usize, length: usize) -> Buffer {
        let fits = offset <= self.length && length <= self.length - offset;
        assert!(fits, "{length} bytes from {offset} of {}", self.length);
        let owner: Owner = Rc::<Self>::clone(self);
        // SAFETY:
        // - The range was just checked to lie inside the mapping, behind the words; the owner keeps
        //   the mapping.
        // - The program must order the accesses to these bytes, as for its own memory (MPI 5.0,
        //   section 12.7).
        unsafe {
            let base = self.base().as_ptr().add(offset);
            Buffer::owned(base, length, owner)
        }
    }
}

impl fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedMemory({} words, {} bytes)", self.words, self.length)
    }
}

fn data_offset(words: usize) -> usize {
    (WORDS_OFFSET + words * size_of::<AtomicU32>()).next_multiple_of(PAGE)
}

/// Returns the length of the file; none if it exceeds the address space.
fn bytes_of(words: usize, length: usize) -> Option<usize> {
    data_offset(words).checked_add(length).filter(|bytes| *bytes <= isize::MAX as usize)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "asks the system")]
    fn all_users_see_the_same_words_and_bytes() {
        let (one, file) = SharedMemory::create(20, 10_000).unwrap();
        let other = SharedMemory::map(&file, one.nonce(), 20, 10_000).unwrap();
        one.word(19).store(7, Ordering::Relaxed);
        one.buffer(9_990, 10).write(0, b"0123456789");
        assert_eq!(other.word(19).load(Ordering::Relaxed), 7);
        let mut seen = [0; 12];
        other.buffer(9_988, 12).read(0, &mut seen);
        assert_eq!(&seen, b"\0\x000123456789");
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the system")]
    fn what_does_not_fit_is_refused() {
        let (one, file) = SharedMemory::create(1, 100).unwrap();
        let refused = |nonce, length| {
            let refused = SharedMemory::map(&file, nonce, 1, length).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        };
        refused(one.nonce(), 101);
        let mut nonce = one.nonce();
        nonce[3] ^= 1;
        refused(nonce, 100);
        assert_eq!(SharedMemory::open(&file, 1).unwrap().len(), 100);
        let short = SharedMemory::open(&file, 10_000).unwrap_err();
        assert_eq!(short.kind(), io::ErrorKind::InvalidData);
        assert!(SharedMemory::create(1, usize::MAX - 5).is_err());
        assert!(SharedMemory::create(1, 1 << 62).is_err());
    }
}
