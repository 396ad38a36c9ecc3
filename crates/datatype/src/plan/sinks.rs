//! The sinks of a walk, which pack bytes, unpack them, or pass them as runs.

use std::ops::Range;

use memory::{AddressRange, Displacements, Segment, SharedBytes, SharedBytesMut};

use crate::plan::walk::{Interleaved, RunSink};

/// Copies from memory to the remaining packed bytes.
pub(crate) struct Packer<'a> {
    pub memory: &'a AddressRange,
    pub rest: SharedBytesMut<'a>,
}

impl<'a> Packer<'a> {
    #[inline]
    fn next(&mut self, length: usize) -> SharedBytesMut<'a> {
        let (next, rest) = self.rest.split_at(length);
        self.rest = rest;
        next
    }
}

impl RunSink for Packer<'_> {
    const INTERLEAVES: bool = true;

    #[inline]
    fn run(&mut self, displacement: isize, length: usize) -> bool {
        let out = self.next(length);
        self.memory.read(displacement, out);
        true
    }

    #[inline]
    fn strided(&mut self, displacement: isize, stride: isize, block: usize, count: usize) -> bool {
        let out = self.next(block * count);
        self.memory.gather(displacement, stride, block, out);
        true
    }

    #[inline]
    fn listed(
        &mut self,
        origin: isize,
        places: &Displacements,
        range: Range<usize>,
        block: usize,
    ) -> bool {
        let out = self.next(block * range.len());
        self.memory.gather_listed(origin, places, range, block, out);
        true
    }

    #[inline]
    fn runs(&mut self, origin: isize, displacements: &[isize], starts: &[usize]) -> bool {
        let out = self.next(starts[displacements.len()] - starts[0]);
        self.memory.gather_runs(origin, displacements, starts, out);
        true
    }

    #[inline]
    fn interleaved(&mut self, runs: Interleaved) {
        let Interleaved { displacement, stride, block, count, start, packed_stride } = runs;
        let out = self.rest.rest(start);
        self.memory.gather_spread(displacement, stride, block, count, out, packed_stride);
    }

    fn advance(&mut self, length: usize) {
        self.next(length);
    }
}

/// Copies to memory from the remaining packed bytes.
pub(crate) struct Unpacker<'a> {
    pub memory: &'a AddressRange,
    pub rest: SharedBytes<'a>,
}

impl<'a> Unpacker<'a> {
    #[inline]
    fn next(&mut self, length: usize) -> SharedBytes<'a> {
        let (next, rest) = self.rest.split_at(length);
        self.rest = rest;
        next
    }
}

impl RunSink for Unpacker<'_> {
    const INTERLEAVES: bool = true;

    #[inline]
    fn run(&mut self, displacement: isize, length: usize) -> bool {
        let data = self.next(length);
        self.memory.write(displacement, data);
        true
    }

    #[inline]
    fn strided(&mut self, displacement: isize, stride: isize, block: usize, count: usize) -> bool {
        let data = self.next(block * count);
        self.memory.scatter(displacement, stride, block, data);
        true
    }

    #[inline]
    fn listed(
        &mut self,
        origin: isize,
        places: &Displacements,
        range: Range<usize>,
        block: usize,
    ) -> bool {
        let data = self.next(block * range.len());
        self.memory.scatter_listed(origin, places, range, block, data);
        true
    }

    #[inline]
    fn runs(&mut self, origin: isize, displacements: &[isize], starts: &[usize]) -> bool {
        let data = self.next(starts[displacements.len()] - starts[0]);
        self.memory.scatter_runs(origin, displacements, starts, data);
        true
    }

    #[inline]
    fn interleaved(&mut self, runs: Interleaved) {
        let Interleaved { displacement, stride, block, count, start, packed_stride } = runs;
        let data = self.rest.rest(start);
        self.memory.scatter_spread(displacement, stride, block, count, data, packed_stride);
    }

    fn advance(&mut self, length: usize) {
        self.next(length);
    }
}

/// Passes each run to a function, until that returns false.
pub(crate) struct RunVisitor<'a> {
    pub each: &'a mut dyn FnMut(Segment) -> bool,
}

impl RunSink for RunVisitor<'_> {
    const INTERLEAVES: bool = false;

    fn run(&mut self, displacement: isize, length: usize) -> bool {
        (self.each)(Segment { displacement, length })
    }

    fn strided(&mut self, displacement: isize, stride: isize, block: usize, count: usize) -> bool {
        (0..count as isize).all(|turn| self.run(displacement + turn * stride, block))
    }

    fn listed(
        &mut self,
        origin: isize,
        places: &Displacements,
        range: Range<usize>,
        block: usize,
    ) -> bool {
        places.list()[range].iter().all(|displacement| self.run(origin + displacement, block))
    }

    fn runs(&mut self, origin: isize, displacements: &[isize], starts: &[usize]) -> bool {
        let lengths = starts.windows(2).map(|pair| pair[1] - pair[0]);
        displacements.iter().zip(lengths).all(|(at, length)| self.run(origin + at, length))
    }

    fn interleaved(&mut self, _: Interleaved) {
        unreachable!("runs are told in packed order");
    }

    fn advance(&mut self, _: usize) {
        unreachable!("runs are told in packed order");
    }
}
