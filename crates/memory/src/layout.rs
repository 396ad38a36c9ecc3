//! How the bytes of a message lie in memory.

use std::fmt;

use crate::copy::AddressRange;
use crate::shared_bytes::{SharedBytes, SharedBytesMut};

/// A run of bytes at a displacement from a buffer's base, both in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where the run begins, relative to the base; may be negative.
    pub displacement: isize,
    /// The number of bytes.
    pub length: usize,
}

/// How the bytes of one element lie around a base address, and how elements follow each other.
///
/// "Packed offset" counts bytes of data, in the order of the type map, from the first byte of the
/// first of `count` elements. All methods can start and stop at any packed offset, also in the
/// middle of a basic element, and need at most O(log n) steps to get there.
pub trait Layout: Send + Sync + fmt::Debug {
    /// Returns the number of data bytes in one element.
    fn size(&self) -> usize;

    /// Returns the range of displacements that `count` elements touch: lowest byte, one past the
    /// highest. (0, 0) if they touch nothing.
    fn bounds(&self, count: usize) -> (isize, isize);

    /// Returns an upper bound of the number of maximal runs of bytes in `count` elements.
    fn segment_count(&self, count: usize) -> usize;

    /// Calls `each` on successive runs from packed offset `offset` on, until `length` bytes are
    /// covered or `each` returns false. Runs are never empty, and never longer than the remaining
    /// bytes.
    fn segments(
        &self,
        count: usize,
        offset: usize,
        length: usize,
        each: &mut dyn FnMut(Segment) -> bool,
    );

    /// Copies the packed bytes `offset .. offset + out.len()` of `count` elements at `memory` to
    /// `out`: run by run, unless the layout has a faster implementation.
    fn pack(&self, memory: &AddressRange, count: usize, offset: usize, out: SharedBytesMut<'_>) {
        let mut done = 0;
        self.segments(count, offset, out.len(), &mut |segment| {
            memory.read(segment.displacement, out.part(done, segment.length));
            done += segment.length;
            true
        });
    }

    /// Copies `data` to the packed bytes `offset .. offset + data.len()` of `count` elements at
    /// `memory`: run by run, unless the layout has a faster implementation.
    fn unpack(&self, memory: &AddressRange, count: usize, offset: usize, data: SharedBytes<'_>) {
        let mut done = 0;
        self.segments(count, offset, data.len(), &mut |segment| {
            memory.write(segment.displacement, data.part(done, segment.length));
            done += segment.length;
            true
        });
    }
}
