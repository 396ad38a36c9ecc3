//! Message buffers in which every byte is checked.

use std::fmt;
use std::sync::Arc;

use fastrand::Rng;
use memory::{Buffer, Layout, Segment};

/// The memory of a message, contiguous or with gaps, between margins that must not be touched.
#[derive(Clone)]
pub(crate) struct SimulatedRegion {
    /// The message's bytes.
    pub buffer: Buffer,
    /// The whole memory, with margins and gaps.
    whole: Buffer,
    shape: RegionShape,
}

/// How the bytes of a message lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegionShape {
    Contiguous,
    /// In pieces with gaps between them.
    Scattered,
}

impl RegionShape {
    /// Returns the shape of one more region: one in four is scattered.
    pub(crate) fn random(rng: &mut Rng) -> Self {
        if rng.u8(..4) == 0 { Self::Scattered } else { Self::Contiguous }
    }
}

/// The content of memory into which nothing was received.
const BLANK: u8 = 0xee;
/// The content of a send buffer after its send is complete.
const REUSED: u8 = 0x55;
const MARGIN: usize = 8;

impl fmt::Debug for SimulatedRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = match self.shape {
            RegionShape::Contiguous => "contiguous",
            RegionShape::Scattered => "scattered",
        };
        write!(f, "{} {shape} bytes", self.buffer.len())
    }
}

impl SimulatedRegion {
    pub(crate) fn new(length: usize, shape: RegionShape) -> Self {
        let span = match shape {
            RegionShape::Contiguous => length,
            RegionShape::Scattered => Gaps::span(length),
        };
        let size = 2 * MARGIN + span;
        let whole = Buffer::zeroed(size);
        whole.write(0, &vec![BLANK; size]);
        let origin = MARGIN as isize;
        let buffer = match shape {
            RegionShape::Contiguous => whole.contiguous_part(origin, length),
            RegionShape::Scattered => whole.laid_out_part(origin, Arc::new(Gaps), length),
        };
        Self { buffer, whole, shape }
    }

    /// Overwrites the memory, as programs do once a send is complete.
    pub(crate) fn reuse(&self) {
        self.whole.write(0, &vec![REUSED; self.whole.len()]);
    }

    /// Compares the memory with its expected state after `data`, and nothing else, was received.
    /// Returns the first difference: the position, the expected byte and the actual byte.
    pub(crate) fn difference(&self, data: &[u8]) -> Option<(usize, u8, u8)> {
        let mut is = vec![0; self.whole.len()];
        self.whole.read(0, &mut is);
        let mut should = vec![BLANK; is.len()];
        if self.shape == RegionShape::Scattered {
            Gaps::each(0, data.len(), &mut |at, segment| {
                let to = MARGIN + segment.displacement as usize;
                should[to..to + segment.length].copy_from_slice(&data[at..at + segment.length]);
                true
            });
        } else {
            should[MARGIN..MARGIN + data.len()].copy_from_slice(data);
        }
        let at = (0..is.len()).find(|&at| is[at] != should[at])?;
        Some((at, should[at], is[at]))
    }
}

/// The bytes of message number `id`.
pub(crate) fn pattern(id: usize, length: usize) -> Vec<u8> {
    let byte = |i: usize| (id * 31 + (id >> 8) * 3 + i * 7 + i / 251) as u8;
    (0..length).map(byte).collect()
}

/// A layout of one-byte elements, in runs of 40 bytes with gaps of 24.
#[derive(Debug)]
struct Gaps;

impl Gaps {
    const RUN: usize = 40;
    const STRIDE: usize = 64;

    fn span(length: usize) -> usize {
        length.div_ceil(Self::RUN) * Self::STRIDE
    }

    fn each(offset: usize, length: usize, each: &mut dyn FnMut(usize, Segment) -> bool) {
        let mut done = 0;
        while done < length {
            let (run, within) = ((offset + done) / Self::RUN, (offset + done) % Self::RUN);
            let part = (Self::RUN - within).min(length - done);
            let displacement = (run * Self::STRIDE + within) as isize;
            if !each(done, Segment { displacement, length: part }) {
                return;
            }
            done += part;
        }
    }
}

impl Layout for Gaps {
    fn size(&self) -> usize {
        1
    }

    fn bounds(&self, count: usize) -> (isize, isize) {
        (0, Self::span(count) as isize)
    }

    fn segment_count(&self, count: usize) -> usize {
        count.div_ceil(Self::RUN)
    }

    fn segments(
        &self,
        _count: usize,
        offset: usize,
        length: usize,
        each: &mut dyn FnMut(Segment) -> bool,
    ) {
        Self::each(offset, length, &mut |_, segment| each(segment));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_out_of_place_is_seen() {
        for shape in [RegionShape::Contiguous, RegionShape::Scattered] {
            let region = SimulatedRegion::new(100, shape);
            let data = pattern(3, 90);
            region.buffer.write(0, &data);
            assert_eq!(region.difference(&data), None);
            assert!(region.difference(&data[..89]).is_some());
            region.buffer.write(95, &[1]);
            assert!(region.difference(&data).is_some());
        }
    }
}
