//! Bytes that another process may write.
//!
//! Why: docs/internals/decisions/0037-shared-memory-behind-pointers.md

use std::fmt;
use std::hint::assert_unchecked;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use crate::kernels::copy_run;

/// Readable bytes that another process may write at any time: a pointer, a length, and a lifetime.
///
/// All data from other processes of the machine is read through this type, and all data for them is
/// written through [`SharedBytesMut`]: rings and lanes, slots of boards, pieces of pools, and the
/// records in them. Bytes of this process alone, such as those received from a socket, may use this
/// type, too, so that there is one parser of packets.
///
/// # What is assumed of other processes
/// *A peer can make results wrong, and nothing else.* Peers that obey the protocols write only
/// while no process reads, and the atomic words of these protocols order both. A peer that violates
/// them may write at any time. So:
/// - There is no Rust reference to the bytes: the compiler must assume nothing about bytes that
///   were read before. They are accessed by pointers, and copied. The only exception is
///   [`Buffer::combine_shared`](crate::Buffer::combine_shared), which states the reason.
/// - Bytes that are interpreted are copied once, and the copy is interpreted: a header is read by
///   [`u64_at`](Self::u64_at), and short data by [`array`](Self::array). Both use volatile
///   accesses, which the compiler does not repeat. A length in a header is compared with the length
///   of these bytes, which is stored in this value and cannot be changed by others.
/// - Bytes that are not interpreted, the data of messages, are copied by any instructions, into
///   memory of this process alone. Any pattern of bits is a valid byte, so any copy is valid.
/// - The mapping is sealed against shrinking, so that the bytes stay mapped.
///
/// A copy that coincides with a write of a faulty peer has bytes from before and after. That two
/// processes access memory at the same time without atomic instructions gives the compiler, which
/// sees one of them, nothing to act upon.
///
/// Each `unsafe` block that creates or uses such bytes relies on these assumptions.
#[derive(Clone, Copy)]
pub struct SharedBytes<'a> {
    base: NonNull<u8>,
    length: usize,
    lifetime: PhantomData<&'a [u8]>,
}

/// Writable bytes that another process may read or write at any time: see [`SharedBytes`]. As with
/// cells, several of these values may refer to one range of bytes.
#[derive(Clone, Copy)]
pub struct SharedBytesMut<'a> {
    base: NonNull<u8>,
    length: usize,
    lifetime: PhantomData<&'a mut [u8]>,
}

/// A word at any address: a volatile access to it needs no alignment, and is one instruction.
#[repr(C, packed)]
#[derive(Clone, Copy)]
struct UnalignedWord(u64);

macro_rules! parts {
    ($name:ident) => {
        impl<'a> $name<'a> {
            /// Creates the `length` bytes at `base`.
            ///
            /// # Safety
            /// For as long as `'a`:
            /// - The bytes exist, at most `isize::MAX` of them, and stay mapped.
            /// - This process has no reference to them, except a shared one to bytes that it only
            ///   reads, and no [`Buffer`](crate::Buffer) of them.
            /// - One thread of this process uses them at a time, and other processes obey their
            ///   protocol, or make results wrong.
            #[inline(always)]
            pub unsafe fn new(base: NonNull<u8>, length: usize) -> Self {
                Self { base, length, lifetime: PhantomData }
            }

            /// Returns the number of bytes.
            #[inline(always)]
            pub fn len(self) -> usize {
                // SAFETY: `new` requires it; for slices the compiler knows it anyway.
                unsafe { assert_unchecked(self.length <= isize::MAX as usize) };
                self.length
            }

            /// Whether there are no bytes.
            #[inline(always)]
            pub fn is_empty(self) -> bool {
                self.length == 0
            }

            /// Returns the `length` bytes from `offset` on; none if they exceed these bytes.
            #[inline(always)]
            pub fn get(self, offset: usize, length: usize) -> Option<Self> {
                let fits = offset <= self.length && length <= self.length - offset;
                // SAFETY: the check above shows that the bytes are some of these; the rest follows
                // from `new`.
                fits.then(|| unsafe { Self::new(self.base.add(offset), length) })
            }

            /// Returns the `length` bytes from `offset` on.
            ///
            /// # Panics
            /// If they exceed these bytes.
            #[inline(always)]
            pub fn part(self, offset: usize, length: usize) -> Self {
                self.get(offset, length).unwrap_or_else(|| outside(offset, length, self.length))
            }

            /// Returns the bytes from `offset` on.
            ///
            /// # Panics
            /// If `offset` exceeds the number of bytes.
            #[inline(always)]
            pub fn rest(self, offset: usize) -> Self {
                self.split_at(offset).1
            }

            /// Returns the first `at` bytes, and the others.
            ///
            /// # Panics
            /// If there are fewer than `at` bytes.
            #[inline(always)]
            pub fn split_at(self, at: usize) -> (Self, Self) {
                if at > self.length {
                    outside(at, 0, self.length);
                }
                // SAFETY: the check above shows that both are parts of these bytes; the rest
                // follows from `new`.
                unsafe {
                    (Self::new(self.base, at), Self::new(self.base.add(at), self.length - at))
                }
            }
        }

        impl fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} bytes", self.length)
            }
        }
    };
}

parts!(SharedBytes);
parts!(SharedBytesMut);

#[cold]
#[inline(never)]
fn outside(offset: usize, length: usize, there: usize) -> ! {
    panic!("{length} bytes from {offset} of {there} that processes share")
}

impl<'a, T: AsRef<[u8]> + ?Sized> From<&'a T> for SharedBytes<'a> {
    /// Wraps bytes that nothing writes.
    #[inline(always)]
    fn from(bytes: &'a T) -> Self {
        let bytes = bytes.as_ref();
        // SAFETY: the borrow, which lasts as long as `'a`, keeps the bytes alive and excludes
        // writes; no buffer has bytes that are borrowed elsewhere.
        unsafe { Self::new(NonNull::from(bytes).cast(), bytes.len()) }
    }
}

impl Default for SharedBytes<'_> {
    /// Returns no bytes.
    fn default() -> Self {
        Self::from(&[])
    }
}

impl<'a> SharedBytes<'a> {
    /// Returns the address of the first byte, for copies that other code makes.
    #[inline(always)]
    pub fn pointer(self) -> *const u8 {
        self.base.as_ptr()
    }

    /// Returns the little-endian number at `at`, read once.
    ///
    /// # Panics
    /// If it exceeds the bytes.
    #[inline(always)]
    pub fn u64_at(self, at: usize) -> u64 {
        let word = self.part(at, size_of::<u64>()).base.cast::<UnalignedWord>();
        // SAFETY: the eight bytes are some of these, and the type requires no alignment. The
        // documentation of `SharedBytes` explains which processes may write them meanwhile, and why
        // that is harmless.
        let word = unsafe { word.as_ptr().read_volatile() };
        u64::from_le(word.0)
    }

    /// Copies all bytes to `out`.
    ///
    /// # Panics
    /// If `out` has another length.
    #[inline(always)]
    pub fn copy_to(self, out: &mut [u8]) {
        assert!(self.length == out.len(), "as many bytes as there is room for");
        // SAFETY: both have one length; `out` is borrowed exclusively, so it is not shared memory.
        unsafe { copy_run(self.pointer(), out.as_mut_ptr(), self.length) }
    }

    /// Returns the `BYTES` bytes from `offset` on, each read once.
    ///
    /// # Panics
    /// If they exceed the bytes.
    #[inline(always)]
    pub fn array<const BYTES: usize>(self, offset: usize) -> [u8; BYTES] {
        let part = self.part(offset, BYTES);
        let mut bytes = [0; BYTES];
        let (words, rest) = bytes.as_chunks_mut();
        for (number, word) in words.iter_mut().enumerate() {
            *word = part.u64_at(number * size_of::<u64>()).to_le_bytes();
        }
        for (byte, at) in rest.iter_mut().rev().zip((0..BYTES).rev()) {
            // SAFETY: the byte is one of these; the rest follows as in `u64_at`.
            *byte = unsafe { part.base.add(at).as_ptr().read_volatile() };
        }
        bytes
    }

    /// Returns a copy of all bytes.
    pub fn to_vec(self) -> Vec<u8> {
        let mut copy = Vec::with_capacity(self.length);
        self.append_to(&mut copy);
        copy
    }

    /// Copies all bytes to the end of `copy`.
    pub fn append_to(self, copy: &mut Vec<u8>) {
        copy.reserve(self.length);
        let end = copy.len();
        // SAFETY: there is room for this many bytes behind the last one, in memory of this vector
        // alone; the copy initializes them.
        unsafe {
            ptr::copy_nonoverlapping(self.pointer(), copy.as_mut_ptr().add(end), self.length);
            copy.set_len(end + self.length);
        }
    }
}

/// Compares the current contents.
impl PartialEq for SharedBytes<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.to_vec() == other.to_vec()
    }
}

impl Eq for SharedBytes<'_> {}

impl<'a, T: AsMut<[u8]> + ?Sized> From<&'a mut T> for SharedBytesMut<'a> {
    /// Wraps bytes that are borrowed exclusively.
    #[inline(always)]
    fn from(bytes: &'a mut T) -> Self {
        let bytes = bytes.as_mut();
        let length = bytes.len();
        // SAFETY: the borrow, which lasts as long as `'a`, keeps the bytes alive and excludes all
        // other accesses; no buffer has bytes that are borrowed elsewhere.
        unsafe { Self::new(NonNull::from(bytes).cast(), length) }
    }
}

impl<'a> SharedBytesMut<'a> {
    /// Returns the address of the first byte, for copies that other code makes.
    #[inline(always)]
    pub fn pointer(self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Returns these bytes for reading.
    #[inline(always)]
    pub fn to_read(self) -> SharedBytes<'a> {
        // SAFETY: the guarantees for writable bytes include those for readable ones.
        unsafe { SharedBytes::new(self.base, self.length) }
    }

    /// Writes a number at `at`, little-endian.
    ///
    /// # Panics
    /// If it exceeds the bytes.
    #[inline(always)]
    pub fn put_u64(self, at: usize, value: u64) {
        let word = self.part(at, size_of::<u64>()).pointer().cast::<u64>();
        // SAFETY: the eight bytes are some of these; the access is an unaligned one.
        unsafe { word.write_unaligned(value.to_le()) }
    }

    /// Copies `data` to the bytes.
    ///
    /// # Panics
    /// If it has another length.
    #[inline]
    pub fn copy_from<'b>(self, data: impl Into<SharedBytes<'b>>) {
        let data = data.into();
        assert!(self.length == data.length, "as many bytes as there is room for");
        // SAFETY: both have one length; `ptr::copy` allows overlap.
        unsafe { ptr::copy(data.pointer(), self.pointer(), self.length) }
    }

    /// Sets all bytes to one value.
    #[inline]
    pub fn fill(self, byte: u8) {
        // SAFETY: the pointer and the length are those of these bytes.
        unsafe { self.pointer().write_bytes(byte, self.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_of_a_slice() {
        let bytes: Vec<u8> = (0..20).collect();
        let shared = SharedBytes::from(&bytes);
        assert_eq!(shared.part(3, 5).to_vec(), bytes[3..8]);
        assert_eq!(shared.rest(18).to_vec(), bytes[18..]);
        let (first, second) = shared.split_at(20);
        assert!(first == shared && second.is_empty());
        for (offset, length) in [(21, 0), (20, 1), (0, 21), (usize::MAX, 2), (2, usize::MAX)] {
            assert!(shared.get(offset, length).is_none(), "{length} bytes from {offset}");
        }
        assert_eq!(shared.array::<3>(4), [4, 5, 6]);
        assert_eq!(shared.array::<19>(1), bytes[1..]);
    }

    #[test]
    fn numbers_are_little_endian_at_any_address() {
        let mut bytes = [0; 24];
        for at in 0..=16 {
            let out = SharedBytesMut::from(&mut bytes);
            out.fill(0xff);
            out.put_u64(at, 0x0807_0605_0403_0201);
            assert_eq!(out.to_read().u64_at(at), 0x0807_0605_0403_0201);
            assert_eq!(bytes[at..at + 8], [1, 2, 3, 4, 5, 6, 7, 8]);
            assert_eq!(bytes.iter().filter(|byte| **byte == 0xff).count(), 16);
        }
    }

    #[test]
    fn what_is_written_may_overlap_what_is_read() {
        let mut bytes = *b"0123456789";
        let out = SharedBytesMut::from(&mut bytes);
        out.part(2, 8).copy_from(out.to_read().part(0, 8));
        assert_eq!(&bytes, b"0101234567");
    }

    #[test]
    #[should_panic(expected = "8 bytes from 13 of 20 that processes share")]
    fn a_number_beyond_the_end_is_refused() {
        SharedBytes::from(&[0; 20]).u64_at(13);
    }

    #[test]
    #[should_panic(expected = "as many bytes")]
    fn a_copy_of_another_length_is_refused() {
        SharedBytes::from(&[0; 20]).copy_to(&mut [0; 19]);
    }
}
