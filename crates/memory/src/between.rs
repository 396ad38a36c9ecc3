//! From one buffer to another: copying, and combining the data of both.

use std::slice;

use crate::buffer::Buffer;
use crate::shared_bytes::SharedBytes;

/// The size of pieces that pass through the stack where data cannot be copied directly: they stay
/// in the nearest cache.
const PIECE_BYTES: usize = 4096;

/// A smaller piece, for a few bytes that should not pay for clearing a large one.
const SMALL_PIECE_BYTES: usize = 64;

/// The size of pieces of memory that the processor does not address: a copy to or from it costs
/// microseconds, whatever its size is.
const DISTANT_PIECE_BYTES: usize = 1 << 20;

/// If runs have at least this many bytes on average, it is cheaper to copy them one by one to the
/// other layout than through a piece on the stack.
const DIRECT_RUN_BYTES_MIN: usize = 2048;

impl Buffer {
    /// Copies all data to `to`, whose layout may differ, and returns how many bytes were copied:
    /// the shorter of the two lengths.
    pub fn copy_to(&self, to: &Buffer) -> usize {
        let length = self.len().min(to.len());
        self.copy_range(0, to, 0, length);
        length
    }

    /// Copies the packed bytes `from .. from + length` to `at .. at + length` of `to`, whose layout
    /// may differ.
    ///
    /// # Panics
    /// If one of the two has fewer bytes.
    pub fn copy_range(&self, from: usize, to: &Buffer, at: usize, length: usize) {
        self.check_range(from, length);
        to.check_range(at, length);
        if self.is_contiguous() && to.is_contiguous() {
            return self.memory.copy_to(from as isize, &to.memory, at as isize, length);
        }
        let (reads, writes) = (self.average_run_bytes(), to.average_run_bytes());
        if reads.max(writes) < DIRECT_RUN_BYTES_MIN || !self.is_apart_from(to) {
            return self.copy_by_pieces(from, to, at, length);
        }
        let mut done = 0;
        if reads >= writes {
            self.pointers(from, length, &mut |run, length| {
                // SAFETY: by the invariant of `Buffer` the run lies in memory that its creator
                // vouched for. Nothing writes it meanwhile: only `to` is written, which lies apart,
                // and layouts, which are `Send`, have no buffer.
                let run = unsafe { slice::from_raw_parts(run, length) };
                to.write(at + done, run);
                done += length;
                true
            });
        } else {
            to.pointers(at, length, &mut |run, length| {
                // SAFETY: by the invariant of `Buffer` the run lies in memory that its creator
                // vouched for. Nothing else touches it meanwhile: only this buffer is read, which
                // lies apart, and layouts, which are `Send`, have no buffer.
                let run = unsafe { slice::from_raw_parts_mut(run, length) };
                self.read(from + done, run);
                done += length;
                true
            });
        }
    }

    fn copy_by_pieces(&self, from: usize, to: &Buffer, at: usize, length: usize) {
        if self.is_addressable() && to.is_addressable() {
            self.copy_through(&mut [0; PIECE_BYTES], from, (to, at), length);
        } else {
            let mut piece = vec![0; DISTANT_PIECE_BYTES.min(length)];
            self.copy_through(&mut piece, from, (to, at), length);
        }
    }

    fn copy_through(
        &self,
        piece: &mut [u8],
        from: usize,
        (to, at): (&Buffer, usize),
        length: usize,
    ) {
        let mut done = 0;
        while done < length {
            let piece_bytes = piece.len().min(length - done);
            let part = &mut piece[..piece_bytes];
            self.read(from + done, part);
            to.write(at + done, part);
            done += piece_bytes;
        }
    }

    /// Calls `combine` with the data of `from` and the data of this buffer, which `combine`
    /// replaces by the result. Combines as many bytes as the shorter of the two has, all at once or
    /// in pieces that are multiples of `grain` bytes.
    ///
    /// # Panics
    /// If `grain` is 0 or does not fit in a piece.
    pub fn combine_with(
        &self,
        from: &Buffer,
        grain: usize,
        combine: impl FnMut(&[u8], &mut [u8]) + Send,
    ) {
        let length = self.len().min(from.len());
        self.combine_range(0, (from, 0), length, grain, combine);
    }

    /// Does what [`Buffer::combine_with`] does, for `length` bytes from a packed offset on, in this
    /// buffer and in the other.
    ///
    /// # Panics
    /// If one of the two has fewer bytes, or as [`Buffer::combine_with`] does.
    #[inline]
    pub fn combine_range(
        &self,
        offset: usize,
        (from, from_offset): (&Buffer, usize),
        length: usize,
        grain: usize,
        mut combine: impl FnMut(&[u8], &mut [u8]) + Send,
    ) {
        for (buffer, offset) in [(self, offset), (from, from_offset)] {
            assert!(offset <= buffer.len() && length <= buffer.len() - offset);
        }
        if length == 0 {
            return;
        }
        let into = self.run(offset, length);
        let given = from.run(from_offset, length);
        let apart = into.zip(given).filter(|(into, given)| is_apart(*into, *given, length));
        if let Some((into, given)) = apart {
            // SAFETY: by the invariant of `Buffer` both runs lie in memory that its creator vouched
            // for. They do not overlap, and nothing else touches them during the call: `combine` is
            // `Send`, so it has no buffer to touch them.
            let (given, into) = unsafe {
                (slice::from_raw_parts(given, length), slice::from_raw_parts_mut(into, length))
            };
            combine(given, into);
        } else {
            let is_addressable = self.is_addressable() && from.is_addressable();
            let read = |done, given: &mut [u8]| from.read(from_offset + done, given);
            with_pieces(length, is_addressable, |pieces| {
                self.combine_by_pieces(pieces, (offset, length), grain, read, combine);
            });
        }
    }

    /// Does what [`Buffer::combine_with`] does, for data that other processes have written, and the
    /// packed bytes of this buffer from `offset` on.
    ///
    /// # Panics
    /// If this buffer has fewer bytes, or as [`Buffer::combine_with`] does.
    #[inline]
    pub fn combine_shared(
        &self,
        offset: usize,
        from: SharedBytes<'_>,
        grain: usize,
        mut combine: impl FnMut(&[u8], &mut [u8]) + Send,
    ) {
        assert!(offset <= self.len() && from.len() <= self.len() - offset);
        if let Some(into) = self.run(offset, from.len()) {
            // SAFETY:
            // - By the invariant of `Buffer` the run lies in memory that its creator vouched for.
            //   Nothing else touches it during the call: `combine` is `Send`, so it has no buffer
            //   to touch it.
            // - Operands of other processes are the only shared memory to which a reference exists,
            //   for as long as it takes to combine them. Those processes have raised their flags,
            //   and write again only when all have taken their operands. A peer that violates this
            //   makes the result wrong: nothing but elements follows from the bytes read. To copy
            //   the operands first would cost an eighth of the time of an allreduce of 4 KiB, and a
            //   fifth of one of 1 MiB.
            let (given, into) = unsafe {
                (
                    slice::from_raw_parts(from.pointer(), from.len()),
                    slice::from_raw_parts_mut(into, from.len()),
                )
            };
            return combine(given, into);
        }
        let read = |done, given: &mut [u8]| from.part(done, given.len()).copy_to(given);
        with_pieces(from.len(), self.is_addressable(), |pieces| {
            self.combine_by_pieces(pieces, (offset, from.len()), grain, read, combine);
        });
    }

    /// Combines the data that `read` copies from an offset on, in two pieces of equal size.
    #[inline(never)]
    fn combine_by_pieces(
        &self,
        [given, changed]: [&mut [u8]; 2],
        (offset, length): (usize, usize),
        grain: usize,
        read: impl Fn(usize, &mut [u8]),
        mut combine: impl FnMut(&[u8], &mut [u8]) + Send,
    ) {
        let whole = given.len() - given.len() % grain;
        assert!(whole > 0, "{grain} bytes do not fit in a piece of {}", given.len());
        let mut done = 0;
        while done < length {
            let piece = whole.min(length - done);
            let (given, changed) = (&mut given[..piece], &mut changed[..piece]);
            read(done, given);
            self.read(offset + done, changed);
            combine(given, changed);
            self.write(offset + done, changed);
            done += piece;
        }
    }

    /// Returns the address of a range, if the data lies in one run.
    #[inline]
    fn run(&self, offset: usize, length: usize) -> Option<*mut u8> {
        self.is_contiguous().then(|| self.memory.checked(offset as isize, length))
    }

    fn average_run_bytes(&self) -> usize {
        if self.is_contiguous() { usize::MAX } else { self.len() / self.segment_count().max(1) }
    }

    /// Whether the two have no memory in common, gaps included.
    fn is_apart_from(&self, other: &Buffer) -> bool {
        let ((low, high), (other_low, other_high)) = (self.memory.reach(), other.memory.reach());
        high <= other_low || other_high <= low
    }
}

/// Calls `use_them` with two pieces of zero bytes for work on `length` bytes.
#[inline]
fn with_pieces(length: usize, is_addressable: bool, use_them: impl FnOnce([&mut [u8]; 2])) {
    if !is_addressable {
        let bytes = DISTANT_PIECE_BYTES.min(length.next_multiple_of(PIECE_BYTES));
        use_them([&mut vec![0; bytes], &mut vec![0; bytes]]);
    } else if length <= SMALL_PIECE_BYTES {
        use_them([&mut [0; SMALL_PIECE_BYTES], &mut [0; SMALL_PIECE_BYTES]]);
    } else {
        use_them([&mut [0; PIECE_BYTES], &mut [0; PIECE_BYTES]]);
    }
}

/// Whether two runs of `length` bytes do not overlap.
#[inline]
fn is_apart(one: *const u8, other: *const u8, length: usize) -> bool {
    one.addr().abs_diff(other.addr()) >= length
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Segment;
    use crate::segment_list::SegmentList;

    fn add(given: &[u8], changed: &mut [u8]) {
        assert_eq!(given.len() % 3, 0, "elements are combined whole");
        given.iter().zip(changed).for_each(|(one, other)| *other = other.wrapping_add(*one));
    }

    #[test]
    fn what_others_have_written_is_combined_with_any_layout() {
        let halves = [(0, 900), (1000, 900)];
        let segments = halves.map(|(displacement, length)| Segment { displacement, length });
        let layout = Arc::new(SegmentList::new(segments.into_iter()));
        for length in [0, 3, 63, 66, 510, 513, 1020, 1023, 1797] {
            let memory = Buffer::zeroed(2000);
            for buffer in
                [memory.contiguous_part(0, 1800), memory.laid_out_part(0, layout.clone(), 1)]
            {
                let before: Vec<u8> = (0..1800).map(|at| (at % 251) as u8).collect();
                let given: Vec<u8> = (0..length).map(|at| (at % 7) as u8).collect();
                buffer.write(0, &before);
                buffer.combine_shared(3, SharedBytes::from(&given), 3, add);
                let mut expected = before;
                add(&given, &mut expected[3..3 + length]);
                let mut after = vec![0; 1800];
                buffer.read(0, &mut after);
                assert_eq!(after, expected, "{length} bytes");
            }
        }
    }
}
