//! The sinks of a walk, which pack bytes, unpack them, or pass them as runs.

use std::ops::Range;

use memory::{AddressRange, Displacements, Segment, SharedBytes, SharedBytesMut};

use crate::plan::walk::{Interleaved, RunSink};

/// Defines a sink that copies between memory and the remaining packed bytes, by these functions of
/// [`AddressRange`]: for a run, for equal blocks at a stride, for equal blocks at a list of places,
/// for runs of different lengths, and for blocks that are spread in the packed bytes, too.
macro_rules! copying_sink {
    (
        $(#[$doc:meta])*
        $sink:ident($bytes:ident): $run:ident $strided:ident $listed:ident $runs:ident $spread:ident
    ) => {
        $(#[$doc])*
        pub(crate) struct $sink<'a> {
            pub memory: &'a AddressRange,
            pub rest: $bytes<'a>,
        }

        impl<'a> $sink<'a> {
            #[inline]
            fn next(&mut self, length: usize) -> $bytes<'a> {
                let (next, rest) = self.rest.split_at(length);
                self.rest = rest;
                next
            }
        }

        impl RunSink for $sink<'_> {
            const INTERLEAVES: bool = true;

            #[inline]
            fn run(&mut self, displacement: isize, length: usize) -> bool {
                let packed = self.next(length);
                self.memory.$run(displacement, packed);
                true
            }

            #[inline]
            fn strided(&mut self, first: isize, stride: isize, block: usize, count: usize) -> bool {
                let packed = self.next(block * count);
                self.memory.$strided(first, stride, block, packed);
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
                let packed = self.next(block * range.len());
                self.memory.$listed(origin, places, range, block, packed);
                true
            }

            #[inline]
            fn runs(&mut self, origin: isize, displacements: &[isize], starts: &[usize]) -> bool {
                let packed = self.next(starts[displacements.len()] - starts[0]);
                self.memory.$runs(origin, displacements, starts, packed);
                true
            }

            #[inline]
            fn interleaved(&mut self, runs: Interleaved) {
                let Interleaved { displacement, stride, block, count, start, packed_stride } = runs;
                let packed = self.rest.rest(start);
                self.memory.$spread(displacement, stride, block, count, packed, packed_stride);
            }

            fn advance(&mut self, length: usize) {
                self.next(length);
            }
        }
    };
}

copying_sink! {
    /// Copies from memory to the remaining packed bytes.
    Packer(SharedBytesMut): read gather gather_listed gather_runs gather_spread
}

copying_sink! {
    /// Copies to memory from the remaining packed bytes.
    Unpacker(SharedBytes): write scatter scatter_listed scatter_runs scatter_spread
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
        unreachable!("runs are listed in packed order");
    }

    fn advance(&mut self, _: usize) {
        unreachable!("runs are listed in packed order");
    }
}
