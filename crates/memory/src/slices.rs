//! Lends a buffer's memory to vectored I/O.

use std::io::{IoSlice, IoSliceMut};
use std::slice;

use crate::buffer::Buffer;

/// The largest number of runs lent at once.
const SLICES_MAX: usize = 64;

/// Below this many bytes per run on average, copying is cheaper than lending run by run.
const RUN_BYTES_MIN: usize = 512;

impl Buffer {
    /// Whether the runs of the data are long enough to be lent one by one.
    pub fn is_worth_lending(&self) -> bool {
        self.len() / self.segment_count().max(1) >= RUN_BYTES_MIN
    }

    /// Calls `write` with `before`, if it is not empty, and the first runs of the packed bytes
    /// `offset .. offset + length`; returns its result.
    ///
    /// # Panics
    /// If the bytes are not in the buffer.
    pub fn lend<R>(
        &self,
        before: &[u8],
        offset: usize,
        length: usize,
        write: impl FnOnce(&[IoSlice<'_>]) -> R + Send,
    ) -> R {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        if !before.is_empty() {
            slices[0] = IoSlice::new(before);
            count = 1;
        }
        self.check_range(offset, length);
        self.pointers(offset, length, &mut |run, length| {
            // SAFETY: by the invariant of `Buffer`:
            // - The run lies in memory that its creator vouched for, and is readable.
            // - The slice is used only during the call of `write`, while this thread waits for it;
            //   as `write` is `Send`, it has no buffer to write these bytes.
            let run = unsafe { slice::from_raw_parts(run, length) };
            slices[count] = IoSlice::new(run);
            count += 1;
            count < SLICES_MAX
        });
        write(&slices[..count])
    }

    /// Calls `read` with the first runs of the packed bytes `offset .. offset + length`, which it
    /// may fill; returns its result.
    ///
    /// # Panics
    /// If the bytes are not in the buffer.
    pub fn lend_mut<R>(
        &self,
        offset: usize,
        length: usize,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> R + Send,
    ) -> R {
        let mut slices = [const { None }; SLICES_MAX];
        let mut count = 0;
        self.check_range(offset, length);
        let mut reached = 0;
        self.pointers(offset, length, &mut |run, length| {
            // Runs that overlap earlier ones, or might, are left for the next call.
            if count > 0 && run.addr() < reached {
                return false;
            }
            reached = run.addr() + length;
            // SAFETY: by the invariant of `Buffer`:
            // - The run lies in memory that its creator vouched for, is writable, and overlaps no
            //   earlier run.
            // - The slice is used only during the call of `read`, while this thread waits for it;
            //   as `read` is `Send`, it has no buffer to touch these bytes.
            let run = unsafe { slice::from_raw_parts_mut(run, length) };
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

    #[test]
    fn what_is_lent_is_the_memory() {
        let buffer = Buffer::zeroed(100);
        let data: Vec<u8> = (0..100).collect();
        let count = buffer.lend_mut(0, 100, |slices| (&data[..]).read_vectored(slices).unwrap());
        assert_eq!(count, 100);
        let mut out = Vec::new();
        buffer.lend(b"head", 10, 20, |slices| out.write_vectored(slices).unwrap());
        assert_eq!(out, [b"head", &data[10..30]].concat());
    }
}
