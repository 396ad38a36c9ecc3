//! A buffer's memory lent to vectored I/O.

use std::io::{IoSlice, IoSliceMut};
use std::slice;

use crate::buffer::Buffer;

/// Runs lent at once.
const SLICES_MAX: usize = 64;

/// Below this many bytes per run on average, copying is cheaper than lending run by run.
const RUN_BYTES_MIN: usize = 512;

impl Buffer {
    /// Whether the runs of the data are long enough to be lent one by one.
    pub fn is_worth_lending(&self) -> bool {
        self.len() / self.segment_count().max(1) >= RUN_BYTES_MIN
    }

    /// Calls `write` with `before`, if there is any, and the first runs of the packed bytes
    /// `offset .. offset + length`, and returns what it returns.
    ///
    /// # Panics
    /// If the bytes are not in the buffer.
    pub fn lend<R>(
        &self,
        before: &[u8],
        offset: usize,
        length: usize,
        write: impl FnOnce(&[IoSlice<'_>]) -> R,
    ) -> R {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        if !before.is_empty() {
            slices[0] = IoSlice::new(before);
            count = 1;
        }
        self.check_range(offset, length);
        self.runs(offset, length, &mut |address, length| {
            // SAFETY:
            // - Whoever made the buffer vouched that these bytes are readable, and that nobody
            //   writes them as long as it is used; the runs lie in it, as the range was checked.
            // - The slice is used during the call of `write` only, while the buffer is borrowed.
            let run = unsafe {
                slice::from_raw_parts(std::ptr::with_exposed_provenance(address), length)
            };
            slices[count] = IoSlice::new(run);
            count += 1;
            count < SLICES_MAX
        });
        write(&slices[..count])
    }

    /// Calls `read` with the first runs of the packed bytes `offset .. offset + length`, to be
    /// filled, and returns what it returns.
    ///
    /// # Panics
    /// If the bytes are not in the buffer.
    pub fn lend_mut<R>(
        &self,
        offset: usize,
        length: usize,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> R,
    ) -> R {
        let mut slices = [const { None }; SLICES_MAX];
        let mut count = 0;
        self.check_range(offset, length);
        self.runs(offset, length, &mut |address, length| {
            // SAFETY:
            // - Whoever made the buffer vouched that these bytes are writable, and that nobody else
            //   touches them as long as it is used; the runs lie in it, as the range was checked,
            //   and runs of a buffer that is received into do not overlap (the rule that MPI sets).
            // - The slice is used during the call of `read` only, while the buffer is borrowed.
            let run = unsafe {
                slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(address), length)
            };
            slices[count] = Some(IoSliceMut::new(run));
            count += 1;
            count < SLICES_MAX
        });
        let mut lent: Vec<IoSliceMut<'_>> = slices.into_iter().flatten().collect();
        read(&mut lent)
    }

    pub(crate) fn check_range(&self, offset: usize, length: usize) {
        let end = offset.checked_add(length);
        assert!(end.is_some_and(|end| end <= self.len()), "the bytes are in the buffer");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::{Read, Write};
    use std::sync::Arc;

    use crate::Scratch;

    #[test]
    fn what_is_lent_is_the_memory() {
        let scratch = Arc::new(Scratch::zeroed(100));
        let buffer = Buffer::of_scratch(&scratch, 0, 100);
        let data: Vec<u8> = (0..100).collect();
        let count = buffer.lend_mut(0, 100, |slices| (&data[..]).read_vectored(slices).unwrap());
        assert_eq!(count, 100);
        let mut out = Vec::new();
        buffer.lend(b"head", 10, 20, |slices| out.write_vectored(slices).unwrap());
        assert_eq!(out, [b"head", &data[10..30]].concat());
    }
}
