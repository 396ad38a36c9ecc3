//! Bytes of this library that it holds for the program, or until the program wants them.

use std::cell::RefCell;
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
        let base = take_block(block_words(length));
        if let Some(last) = words_for(length).checked_sub(1) {
            // SAFETY: the block has at least so many words, and nothing else refers to it.
            unsafe { base.add(last).write(0) };
        }
        let held = Self { base, length };
        // SAFETY: both have `length` bytes. Nothing else refers to the block, so they do not
        // overlap.
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

/// The sizes of blocks that are kept for further messages, in words.
const KEPT_WORDS: [usize; 2] = [8, 16];

/// How many blocks of each size a thread keeps.
const KEPT_BLOCKS_MAX: usize = 1024;

/// Returns how many words the block for so many bytes has.
fn block_words(length: usize) -> usize {
    let words = words_for(length);
    let kept = KEPT_WORDS.into_iter().find(|&kept| words <= kept);
    kept.filter(|_| words > 0).unwrap_or(words)
}

/// The blocks that a thread keeps for further messages, by size: those of many short messages that
/// arrive together are more than the C library keeps for a thread.
///
/// Why: docs/internals/decisions/0177-short-messages-take-blocks-that-their-thread-keeps.md
#[derive(Default)]
struct KeptBlocks([Vec<NonNull<u64>>; KEPT_WORDS.len()]);

thread_local! {
    static KEPT: RefCell<KeptBlocks> = RefCell::default();
}

/// Calls `use_blocks` with the blocks of this size that the thread keeps. Returns nothing if blocks
/// of this size are not kept, or the thread ends.
fn with_kept<T>(words: usize, use_blocks: impl FnOnce(&mut Vec<NonNull<u64>>) -> T) -> Option<T> {
    let size = KEPT_WORDS.iter().position(|&kept| kept == words)?;
    KEPT.try_with(|kept| use_blocks(&mut kept.borrow_mut().0[size])).ok()
}

/// Returns a block of so many words, for [`return_block`].
fn take_block(words: usize) -> NonNull<u64> {
    with_kept(words, Vec::pop).flatten().unwrap_or_else(|| {
        let block = Box::into_raw(Box::<[u64]>::new_uninit_slice(words)).cast::<u64>();
        // SAFETY: a box is never at the null address.
        unsafe { NonNull::new_unchecked(block) }
    })
}

/// Keeps the block that [`take_block`] has returned, or frees it.
///
/// # Safety
/// The block has so many words, and is not used any more.
unsafe fn return_block(block: NonNull<u64>, words: usize) {
    let is_kept = with_kept(words, |kept| {
        let has_room = kept.len() < KEPT_BLOCKS_MAX;
        if has_room {
            kept.push(block);
        }
        has_room
    });
    if is_kept != Some(true) {
        // SAFETY: as the caller vouches for.
        unsafe { free_block(block, words) };
    }
}

/// Frees a block.
///
/// # Safety
/// The block has so many words, and is not used any more.
unsafe fn free_block(block: NonNull<u64>, words: usize) {
    let block = ptr::slice_from_raw_parts_mut(block.as_ptr().cast::<MaybeUninit<u64>>(), words);
    // SAFETY: `take_block` has taken a box of so many words apart.
    drop(unsafe { Box::from_raw(block) });
}

impl Drop for KeptBlocks {
    fn drop(&mut self) {
        for (blocks, words) in self.0.iter().zip(KEPT_WORDS) {
            // SAFETY: nothing uses blocks that are kept, and each is among those of its size.
            blocks.iter().for_each(|block| unsafe { free_block(*block, words) });
        }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        // SAFETY: `copy_of` has taken a block for so many bytes.
        unsafe { return_block(self.base, block_words(self.length)) };
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
    /// Holds a message of so many bytes.
    fn held(length: usize) -> HeldBytes {
        HeldBytes::copy_of((&*vec![7; length]).into())
    }

    #[test]
    fn a_short_message_takes_the_block_of_one_before_it() {
        for (length, next) in [(64, 1), (65, 128)] {
            let address = { held(length) }.address();
            let again = held(next);
            assert_eq!((again.address(), again.shared().to_vec()), (address, vec![7; next]));
        }
    }

    #[test]
    fn a_thread_keeps_a_limited_number_of_blocks() {
        let many: Vec<HeldBytes> = (0..2 * KEPT_BLOCKS_MAX).map(|_| held(64)).collect();
        // Blocks of another thread are kept, too.
        let longer = std::thread::spawn(|| held(128).address()).join().unwrap();
        assert!(longer > 0);
        drop(many);
        assert_eq!(with_kept(KEPT_WORDS[0], |kept| kept.len()), Some(KEPT_BLOCKS_MAX));
        drop(held(129));
        assert_eq!(with_kept(17, |kept| kept.len()), None, "longer ones are not kept");
    }
}
