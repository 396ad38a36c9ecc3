//! The layout of a message that a program lists run by run.

use crate::layout::{Layout, Segment};

/// Runs one after the other; there is only one element of this layout.
#[derive(Debug)]
pub(crate) struct SegmentList {
    segments: Box<[Segment]>,
    /// The packed offset at which each run begins.
    starts: Box<[usize]>,
    size: usize,
}

impl SegmentList {
    /// Creates the layout of runs that are not empty.
    pub(crate) fn new(segments: impl Iterator<Item = Segment>) -> Self {
        let segments: Box<[Segment]> = segments.collect();
        let mut size = 0;
        let starts = segments.iter().map(|segment| {
            let start = size;
            size += segment.length;
            start
        });
        let starts = starts.collect();
        Self { segments, starts, size }
    }
}

impl Layout for SegmentList {
    fn size(&self) -> usize {
        self.size
    }

    fn bounds(&self, count: usize) -> (isize, isize) {
        let lows = self.segments.iter().map(|segment| segment.displacement);
        let highs = self
            .segments
            .iter()
            .map(|segment| segment.displacement.wrapping_add_unsigned(segment.length));
        match (count, lows.min(), highs.max()) {
            (1.., Some(low), Some(high)) => (low, high),
            _ => (0, 0),
        }
    }

    fn segment_count(&self, count: usize) -> usize {
        self.segments.len() * count
    }

    fn segments(
        &self,
        _count: usize,
        offset: usize,
        length: usize,
        each: &mut dyn FnMut(Segment) -> bool,
    ) {
        let end = offset.saturating_add(length).min(self.size);
        let mut at = offset;
        let mut index = self.starts.partition_point(|start| *start <= offset).saturating_sub(1);
        while at < end {
            let (segment, skipped) = (self.segments[index], at - self.starts[index]);
            let part = Segment {
                displacement: segment.displacement.wrapping_add_unsigned(skipped),
                length: (segment.length - skipped).min(end - at),
            };
            if !each(part) {
                return;
            }
            at += part.length;
            index += 1;
        }
    }
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;

    use crate::Buffer;

    /// Returns runs at distinct places in some memory: the offset and the length of each.
    fn runs() -> impl Strategy<Value = Vec<(usize, usize)>> {
        prop::collection::vec(0..40usize, 0..12).prop_map(|lengths| {
            let mut at = 0;
            let mut runs: Vec<_> = lengths
                .into_iter()
                .map(|length| {
                    at += length + 3;
                    (at - length, length)
                })
                .collect();
            // The order in memory differs from that in the message.
            runs.reverse();
            runs
        })
    }

    proptest! {
        #[test]
        fn gathered_bytes_are_those_of_the_runs(
            runs in runs(),
            from in 0..600usize,
            length in 0..600usize,
        ) {
            let mut memory: Vec<u8> = (0..=255).cycle().take(600).collect();
            let expected: Vec<u8> =
                runs.iter().flat_map(|&(at, length)| memory[at..at + length].to_vec()).collect();
            let base = memory.as_mut_ptr();
            let pieces: Vec<_> =
                runs.iter().map(|&(at, length)| (base.wrapping_add(at), length)).collect();
            // SAFETY: the runs lie in `memory`, which nothing else uses meanwhile.
            let gathered = unsafe { Buffer::gathered(&pieces) };
            prop_assert_eq!(gathered.len(), expected.len());
            let from = from.min(expected.len());
            let length = length.min(expected.len() - from);
            let mut read = vec![0; length];
            gathered.read(from, &mut read);
            prop_assert_eq!(&read, &expected[from..from + length]);

            let turned: Vec<u8> = expected.iter().map(|byte| !byte).collect();
            gathered.write(from, &turned[from..from + length]);
            let copy = Buffer::zeroed(600);
            gathered.copy_range(from, &copy, 0, length);
            copy.read(0, &mut read);
            prop_assert_eq!(&read, &turned[from..from + length]);
            let mut covered = 0;
            gathered.runs(from, length, &mut |_, length| {
                covered += length;
                length > 0
            });
            prop_assert_eq!(covered, length);
        }
    }
}
