//! Bytes of this library that it holds for the program, or until the program wants them.

use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::rc::Rc;

use crate::buffer::Buffer;
use crate::shared_bytes::SharedBytes;

/// The bytes of a message that has arrived, at an address that does not change, aligned for words.
/// The program may write them as long as they are lent to it.
pub struct HeldBytes {
    base: NonNull<u64>,
    length: usize,
}

impl HeldBytes {
    /// Copies bytes.
    pub fn copy_of(bytes: SharedBytes<'_>) -> Self {
        let length = bytes.len();
        let mut words = Box::<[u64]>::new_uninit_slice(words_for(length));
        if let Some(last) = words.last_mut() {
            last.write(0);
        }
        let base = Box::into_raw(words).cast::<u64>();
        // SAFETY: a box is never at the null address.
        let held = Self { base: unsafe { NonNull::new_unchecked(base) }, length };
        // SAFETY: both have `length` bytes, and the second ones are new, so they do not overlap.
        unsafe { ptr::copy_nonoverlapping(bytes.pointer(), held.base.as_ptr().cast(), length) };
        held
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the address of the first byte.
    pub fn address(&self) -> usize {
        self.base.as_ptr().expose_provenance()
    }

    /// Returns the bytes, to be read.
    pub fn shared(&self) -> SharedBytes<'_> {
        // SAFETY:
        // - The bytes exist as long as this value, which is borrowed, and are initialized.
        // - Nothing has a reference to them. The value belongs to one thread, and the program,
        //   which may write them while they are lent to it, calls the library meanwhile at most.
        unsafe { SharedBytes::new(self.base.cast(), self.length) }
    }

    /// Returns a buffer of the bytes.
    pub fn into_buffer(self) -> Buffer {
        if self.is_empty() {
            return Buffer::empty();
        }
        let (base, length) = (self.base.as_ptr().cast(), self.length);
        // SAFETY: the buffer holds the owner of the bytes, which nothing else uses.
        unsafe { Buffer::owned(base, length, Rc::new(self)) }
    }
}

fn words_for(length: usize) -> usize {
    length.div_ceil(size_of::<u64>())
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        let words = ptr::slice_from_raw_parts_mut(
            self.base.as_ptr().cast::<MaybeUninit<u64>>(),
            words_for(self.length),
        );
        // SAFETY: `copy_of` has taken a box of so many words apart.
        drop(unsafe { Box::from_raw(words) });
    }
}

impl fmt::Debug for HeldBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} held bytes", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_kept_at_an_aligned_address() {
        for length in [0, 1, 7, 8, 9, 64, 4097] {
            let bytes: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
            let held = HeldBytes::copy_of((&*bytes).into());
            let address = held.address();
            assert!(address.is_multiple_of(8) && held.len() == length);
            assert_eq!(held.is_empty(), length == 0);
            let moved = Box::new(held);
            assert_eq!((moved.address(), moved.shared().to_vec()), (address, bytes.clone()));
            let buffer = moved.into_buffer();
            let mut read = vec![1; length];
            buffer.read(0, &mut read);
            assert_eq!(read, bytes);
            assert!(buffer.is_empty() || buffer.base_address() == address);
        }
    }
}
