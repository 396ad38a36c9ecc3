//! Bytes that another process may write.

use std::fmt;
use std::hint::assert_unchecked;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use crate::copy::copy_run;

/// Bytes to be read that another process may write at any time: a pointer, a length, and how long
/// they are there.
///
/// All that comes from other processes of the machine is read through this type, and all that goes
/// to them is written through [`SharedBytesMut`]: rings and lanes, slots of boards, pieces of
/// pools, and the records in them. Bytes of this process alone, as those that a socket has filled,
/// are such bytes too, so that there is one parser of packets.
///
/// # What is assumed of other processes
/// *A peer can make results wrong, and nothing else.* Peers that obey the protocols write only
/// while nobody here reads, and the atomic words of these protocols order both. One that does not
/// may write whenever it likes. So:
/// - There is no Rust reference to the bytes: the compiler may take nothing for granted that was
///   read before. They are reached by pointers, and copied. The one exception is
///   [`Buffer::combine_shared`](crate::Buffer::combine_shared), which says why.
/// - What is looked at is copied once, and then looked at: a header is read by
///   [`u64_at`](Self::u64_at), and short things by [`array`](Self::array): volatile accesses, which
///   the compiler does not repeat. What the length of a header says is compared with the length of
///   these bytes, which stands here and which nobody else can change.
/// - What is not looked at, the data of messages, is copied by any instructions, into memory that
///   is ours alone. Any pattern of bits is a byte: whatever is there, the copy is one.
/// - The mapping is sealed against shrinking, so that the bytes do not go away.
///
/// A copy that meets a write of a peer that breaks the rules has bytes from before and after. That
/// two processes touch memory at the same time without atomic instructions is nothing that the
/// compiler, which sees one of them, could act upon.
///
/// Each `unsafe` block that makes or uses such bytes argues from here.
#[derive(Clone, Copy)]
pub struct SharedBytes<'a> {
    base: NonNull<u8>,
    length: usize,
    lifetime: PhantomData<&'a [u8]>,
}

/// Bytes to be written that another process may read or write at any time: see [`SharedBytes`]. As
/// with cells, several of them may name the same bytes.
#[derive(Clone, Copy)]
pub struct SharedBytesMut<'a> {
    base: NonNull<u8>,
    length: usize,
    lifetime: PhantomData<&'a mut [u8]>,
}

/// A word at any address: with it, a volatile access needs no alignment, and is one instruction.
#[repr(C, packed)]
#[derive(Clone, Copy)]
struct UnalignedWord(u64);

macro_rules! parts {
    ($name:ident) => {
        impl<'a> $name<'a> {
            /// The `length` bytes at `base`.
            ///
            /// # Safety
            /// For as long as `'a`:
            /// - The bytes are there, at most `isize::MAX` of them, and stay mapped.
            /// - This process touches them by no reference, save by a shared one what it only
            ///   reads, and by no [`Buffer`](crate::Buffer).
            /// - One thread of this process uses them at a time, and other processes obey their
            ///   protocol, or make results wrong.
            #[inline(always)]
            pub unsafe fn new(base: NonNull<u8>, length: usize) -> Self {
                Self { base, length, lifetime: PhantomData }
            }

            /// How many bytes there are.
            #[inline(always)]
            pub fn len(self) -> usize {
                // SAFETY: as `new` says; of slices the compiler knows it by itself.
                unsafe { assert_unchecked(self.length <= isize::MAX as usize) };
                self.length
            }

            /// Whether there are none.
            #[inline(always)]
            pub fn is_empty(self) -> bool {
                self.length == 0
            }

            /// The `length` bytes from `offset` on, if they are there.
            #[inline(always)]
            pub fn get(self, offset: usize, length: usize) -> Option<Self> {
                let fits = offset <= self.length && length <= self.length - offset;
                // SAFETY: the bytes are some of these, as was just seen; for the rest see `new`.
                fits.then(|| unsafe { Self::new(self.base.add(offset), length) })
            }

            /// The `length` bytes from `offset` on.
            ///
            /// # Panics
            /// If they are not all there.
            #[inline(always)]
            pub fn part(self, offset: usize, length: usize) -> Self {
                self.get(offset, length).unwrap_or_else(|| outside(offset, length, self.length))
            }

            /// The bytes from `offset` on.
            ///
            /// # Panics
            /// If it is more than there are.
            #[inline(always)]
            pub fn rest(self, offset: usize) -> Self {
                self.split_at(offset).1
            }

            /// The first `at` bytes, and the others.
            ///
            /// # Panics
            /// If there are fewer.
            #[inline(always)]
            pub fn split_at(self, at: usize) -> (Self, Self) {
                if at > self.length {
                    outside(at, 0, self.length);
                }
                // SAFETY: both are a part of these bytes, as was just seen; for the rest see `new`.
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
    /// Bytes that nobody writes.
    #[inline(always)]
    fn from(bytes: &'a T) -> Self {
        let bytes = bytes.as_ref();
        // SAFETY: the borrow, which lasts as long as `'a`, keeps the bytes, and keeps all others
        // from writing them; buffers have no bytes that anybody else has borrowed.
        unsafe { Self::new(NonNull::from(bytes).cast(), bytes.len()) }
    }
}

impl Default for SharedBytes<'_> {
    /// No bytes.
    fn default() -> Self {
        Self::from(&[])
    }
}

impl<'a> SharedBytes<'a> {
    pub(crate) fn pointer(self) -> *const u8 {
        self.base.as_ptr()
    }

    /// The little-endian number at `at`, read once.
    ///
    /// # Panics
    /// If it is not all there.
    #[inline(always)]
    pub fn u64_at(self, at: usize) -> u64 {
        let word = self.part(at, size_of::<u64>()).base.cast::<UnalignedWord>();
        // SAFETY: the eight bytes are some of these, and the type asks for no alignment; that they
        // may be written meanwhile, by whom and why that is no harm is told by the type.
        let word = unsafe { word.as_ptr().read_volatile() };
        u64::from_le(word.0)
    }

    /// Copies all bytes to `out`.
    ///
    /// # Panics
    /// If that has another length.
    #[inline(always)]
    pub fn copy_to(self, out: &mut [u8]) {
        assert!(self.length == out.len(), "as many bytes as there is room for");
        // SAFETY: both have so many bytes; `out` is exclusively ours, and nothing of what is
        // shared.
        unsafe { copy_run(self.pointer(), out.as_mut_ptr(), self.length) }
    }

    /// The bytes from `offset` on, of which there are so many, each read once.
    ///
    /// # Panics
    /// If they are not all there.
    #[inline(always)]
    pub fn array<const BYTES: usize>(self, offset: usize) -> [u8; BYTES] {
        let part = self.part(offset, BYTES);
        let mut bytes = [0; BYTES];
        let (words, rest) = bytes.as_chunks_mut();
        for (number, word) in words.iter_mut().enumerate() {
            *word = part.u64_at(number * size_of::<u64>()).to_le_bytes();
        }
        for (byte, at) in rest.iter_mut().rev().zip((0..BYTES).rev()) {
            // SAFETY: the byte is one of these; for the rest see `u64_at`.
            *byte = unsafe { part.base.add(at).as_ptr().read_volatile() };
        }
        bytes
    }

    /// A copy of all bytes.
    pub fn to_vec(self) -> Vec<u8> {
        let mut copy = Vec::with_capacity(self.length);
        self.append_to(&mut copy);
        copy
    }

    /// Copies all bytes to the end of `copy`.
    pub fn append_to(self, copy: &mut Vec<u8>) {
        copy.reserve(self.length);
        let end = copy.len();
        // SAFETY: there is room for so many bytes after the last, which is ours alone; then they
        // are initialized.
        unsafe {
            ptr::copy_nonoverlapping(self.pointer(), copy.as_mut_ptr().add(end), self.length);
            copy.set_len(end + self.length);
        }
    }
}

/// By what they hold at the time.
impl PartialEq for SharedBytes<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.to_vec() == other.to_vec()
    }
}

impl Eq for SharedBytes<'_> {}

impl<'a, T: AsMut<[u8]> + ?Sized> From<&'a mut T> for SharedBytesMut<'a> {
    /// Bytes that nobody else has.
    #[inline(always)]
    fn from(bytes: &'a mut T) -> Self {
        let bytes = bytes.as_mut();
        let length = bytes.len();
        // SAFETY: the borrow, which lasts as long as `'a`, keeps the bytes, and keeps all others
        // from touching them; buffers have no bytes that anybody else has borrowed.
        unsafe { Self::new(NonNull::from(bytes).cast(), length) }
    }
}

impl<'a> SharedBytesMut<'a> {
    pub(crate) fn pointer(self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// The same bytes, to be read.
    #[inline(always)]
    pub fn to_read(self) -> SharedBytes<'a> {
        // SAFETY: what was vouched for these bytes to be written is more than is needed.
        unsafe { SharedBytes::new(self.base, self.length) }
    }

    /// Writes a number at `at`, little-endian.
    ///
    /// # Panics
    /// If there is no room for it.
    #[inline(always)]
    pub fn put_u64(self, at: usize, value: u64) {
        let word = self.part(at, size_of::<u64>()).pointer().cast::<u64>();
        // SAFETY: the eight bytes are some of these; unaligned access is asked for explicitly.
        unsafe { word.write_unaligned(value.to_le()) }
    }

    /// Writes `data` over the bytes.
    ///
    /// # Panics
    /// If it has another length.
    #[inline]
    pub fn copy_from<'b>(self, data: impl Into<SharedBytes<'b>>) {
        let data = data.into();
        assert!(self.length == data.length, "as many bytes as there is room for");
        // SAFETY: both have so many bytes; `ptr::copy` allows overlap.
        unsafe { ptr::copy(data.pointer(), self.pointer(), self.length) }
    }

    /// Writes one byte over all of them.
    #[inline]
    pub fn fill(self, byte: u8) {
        // SAFETY: they are these bytes.
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
