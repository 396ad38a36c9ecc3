//! Where data lies at a target: a list of runs, in messages and as the layout of a buffer.

use memory::{Layout, Segment};

/// Runs of bytes in the order of the data.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ByteRuns {
    runs: Vec<Segment>,
    /// The packed offset of each run: the number of data bytes before it.
    begins: Vec<usize>,
    length: usize,
}

impl ByteRuns {
    /// Creates a layout of runs; `None` if the sum of their lengths or the end of a run exceeds
    /// `isize::MAX`.
    pub(crate) fn new(runs: Vec<Segment>) -> Option<Self> {
        let mut begins = Vec::with_capacity(runs.len());
        let mut length = 0_usize;
        for run in &runs {
            begins.push(length);
            length = length.checked_add(run.length).filter(|sum| *sum <= isize::MAX as usize)?;
            run.displacement.checked_add(run.length as isize)?;
        }
        Some(Self { runs, begins, length })
    }

    /// Returns the number of data bytes in all runs.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Returns the runs.
    pub(crate) fn list(&self) -> &[Segment] {
        &self.runs
    }

    /// Returns the lowest displacement, and one past the highest; (0, 0) if there is no run.
    pub(crate) fn range(&self) -> (isize, isize) {
        let low = self.runs.iter().map(|run| run.displacement).min();
        let high = self.runs.iter().map(|run| run.displacement + run.length as isize).max();
        low.zip(high).unwrap_or((0, 0))
    }

    /// Returns the runs relative to another base.
    pub(crate) fn shifted(self, by: isize) -> Self {
        let shift = |run: Segment| Segment { displacement: run.displacement - by, ..run };
        Self { runs: self.runs.into_iter().map(shift).collect(), ..self }
    }

    /// Appends runs to a message: for each one the distance from the end of the previous one, and
    /// the length.
    pub(crate) fn encode(runs: &[Segment], message: &mut Vec<u8>) {
        let mut end = 0_isize;
        for run in runs {
            let gap = run.displacement.wrapping_sub(end) as i64;
            wire::push_number(((gap << 1) ^ (gap >> 63)) as u64, message);
            wire::push_number(run.length as u64, message);
            end = run.displacement.wrapping_add(run.length as isize);
        }
    }

    /// Decodes what [`ByteRuns::encode`] wrote; `None` if the bytes are malformed.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Vec<Segment>> {
        let mut runs = Vec::new();
        let mut end = 0_isize;
        while !bytes.is_empty() {
            let zigzag = wire::take_number(&mut bytes)?;
            let gap = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
            let length = usize::try_from(wire::take_number(&mut bytes)?).ok()?;
            let displacement = end.wrapping_add(gap as isize);
            end = displacement.wrapping_add(isize::try_from(length).ok()?);
            runs.push(Segment { displacement, length });
        }
        Some(runs)
    }
}

impl Layout for ByteRuns {
    fn size(&self) -> usize {
        self.length
    }

    fn bounds(&self, count: usize) -> (isize, isize) {
        debug_assert!(count <= 1, "a list of runs is used once");
        self.range()
    }

    fn segment_count(&self, _count: usize) -> usize {
        self.runs.len()
    }

    fn segments(
        &self,
        _count: usize,
        offset: usize,
        length: usize,
        each: &mut dyn FnMut(Segment) -> bool,
    ) {
        let (mut offset, mut left) = (offset, length);
        let mut index = self.begins.partition_point(|begin| *begin <= offset).saturating_sub(1);
        while left > 0 {
            let Segment { displacement, length } = self.runs[index];
            let skipped = offset - self.begins[index];
            let length = (length - skipped).min(left);
            if length > 0 {
                let displacement = displacement + skipped as isize;
                if !each(Segment { displacement, length }) {
                    return;
                }
            }
            offset += length;
            left -= length;
            index += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use memory::Buffer;
    use proptest::prelude::*;

    use super::*;

    fn segment() -> impl Strategy<Value = Segment> {
        let displacement = prop_oneof![any::<isize>(), -300..300_isize];
        let length = prop_oneof![0..isize::MAX as usize, 0..300_usize];
        (displacement, length).prop_map(|(displacement, length)| Segment { displacement, length })
    }

    proptest! {
        #[test]
        fn they_survive_the_way(runs in proptest::collection::vec(segment(), 0..20)) {
            let mut message = Vec::new();
            ByteRuns::encode(&runs, &mut message);
            prop_assert_eq!(ByteRuns::decode(&message), Some(runs));
        }

        #[test]
        fn nonsense_is_harmless(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Some(layout) = ByteRuns::decode(&bytes).and_then(ByteRuns::new) {
                let (low, high) = layout.range();
                prop_assert!(low <= high);
            }
        }

        #[test]
        fn data_goes_where_the_runs_are(
            lengths in proptest::collection::vec((0..4_usize, 0..9_usize), 1..12),
            offset in 0..20_usize,
        ) {
            let mut at = 0;
            let mut places = Vec::new();
            let runs: Vec<Segment> = lengths
                .iter()
                .map(|(gap, length)| {
                    let run = Segment { displacement: (at + gap) as isize, length: *length };
                    places.extend(at + gap..at + gap + length);
                    at += gap + length;
                    run
                })
                .collect();
            let layout = Arc::new(ByteRuns::new(runs).unwrap());
            prop_assert_eq!(layout.len(), places.len());
            let all = Buffer::zeroed(at);
            let laid_out = all.laid_out_part(0, layout, 1);
            let offset = offset.min(places.len());
            let data: Vec<u8> = (1..).take(places.len() - offset).collect();
            laid_out.write(offset, &data);
            let mut seen = vec![0; at];
            all.read(0, &mut seen);
            let mut expected = vec![0; at];
            for (place, byte) in places[offset..].iter().zip(&data) {
                expected[*place] = *byte;
            }
            prop_assert_eq!(seen, expected);
            let mut back = vec![0; data.len()];
            laid_out.read(offset, &mut back);
            prop_assert_eq!(back, data);
        }
    }
}
