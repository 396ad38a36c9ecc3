//! The runs of a process in a domain, as it sends them to the aggregator: in their order; equal
//! runs at equal distances form one group.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use base::Result;
use datatype::{ArgumentForm, Construction, Datatype, Predefined, StructBlock};
use memory::Layout;

/// `count` runs of `length` bytes, `gap` bytes apart; the first run begins `skip` bytes behind the
/// end of the previous group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RunGroup {
    skip: u64,
    length: u64,
    count: u64,
    gap: u64,
}

/// Encodes runs as groups.
#[derive(Debug, Default)]
pub(crate) struct RunWriter {
    bytes: Vec<u8>,
    /// The end of the last group in the file.
    end: u64,
    open: Option<RunGroup>,
    /// The end of the open group in the file.
    open_end: u64,
}

impl RunWriter {
    /// Adds a run behind all others.
    pub fn add(&mut self, offset: u64, length: u64) {
        if let Some(group) = &mut self.open
            && group.length == length
        {
            let gap = offset - self.open_end;
            if group.count == 1 || group.gap == gap {
                (group.count, group.gap) = (group.count + 1, gap);
                self.open_end = offset + length;
                return;
            }
        }
        self.close();
        self.open = Some(RunGroup { skip: offset - self.end, length, count: 1, gap: 0 });
        self.open_end = offset + length;
    }

    fn close(&mut self) {
        if let Some(RunGroup { skip, length, count, gap }) = self.open.take() {
            for number in [skip, length, count, gap] {
                wire::push_number(number, &mut self.bytes);
            }
            self.end = self.open_end;
        }
    }

    /// Returns the encoded runs.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.close();
        self.bytes
    }
}

/// Decodes runs from the first one on.
#[derive(Debug, Default)]
pub(crate) struct RunReader {
    bytes: Vec<u8>,
    /// The offset of the next group in `bytes`.
    next: usize,
    /// The end of the last group in the file.
    end: u64,
    /// The remainder of a group: the offset of its first run in the file, the group, and how many
    /// bytes of that run were taken.
    open: Option<(u64, RunGroup, u64)>,
}

/// The runs of one process in a window.
#[derive(Debug, Default)]
pub(crate) struct WindowPieces {
    groups: Vec<WindowGroup>,
    pub bytes: usize,
}

/// `count` runs of `length` bytes, which begin `stride` bytes apart.
#[derive(Clone, Copy, Debug)]
struct WindowGroup {
    offset: u64,
    length: u64,
    count: u64,
    stride: u64,
}

/// More groups are encoded as a list of runs.
const GROUPS_MAX: usize = 16;

impl RunReader {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, ..Self::default() }
    }

    /// Returns the current group.
    fn peek(&mut self) -> Option<&mut (u64, RunGroup, u64)> {
        if self.open.is_none() {
            let mut rest = self.bytes.get(self.next..)?;
            let before = rest.len();
            let mut number = || wire::take_number(&mut rest);
            let (skip, length, count, gap) = (number()?, number()?, number()?, number()?);
            self.next += before - rest.len();
            let start = self.end.checked_add(skip)?;
            start.checked_add(length).filter(|_| length > 0 && count > 0)?;
            self.open = Some((start, RunGroup { skip, length, count, gap }, 0));
        }
        self.open.as_mut()
    }

    /// Skips `count` runs of the group, or a part of the first one.
    fn take(&mut self, count: u64, part: u64) {
        let Some((start, group, taken)) = &mut self.open else { return };
        if part > 0 && *taken + part < group.length {
            *taken += part;
            return;
        }
        let (count, stride) = (count.max(1), group.length.saturating_add(group.gap));
        let last = start.saturating_add(stride.saturating_mul(count - 1));
        if count >= group.count {
            self.end = last.saturating_add(group.length);
            self.open = None;
            return;
        }
        // A malformed group ends behind all windows.
        *start = last.saturating_add(stride).min(u64::MAX - group.length);
        *taken = 0;
        group.count -= count;
    }

    /// Removes and returns the runs before offset `end`, except those already taken. None of them
    /// lies before `start`, if the list is well-formed.
    pub fn take_before(&mut self, start: u64, end: u64) -> WindowPieces {
        let mut pieces = WindowPieces::default();
        while let Some(&mut (first, group, taken)) = self.peek() {
            let offset = first + taken;
            if offset >= end {
                break;
            }
            let stride = group.length.saturating_add(group.gap);
            let is_whole = taken == 0 && group.length <= end - offset;
            let (count, length) = if is_whole {
                (group.count.min((end - offset - group.length) / stride + 1), group.length)
            } else {
                (1, (group.length - taken).min(end - offset))
            };
            if offset >= start {
                pieces.groups.push(WindowGroup { offset, length, count, stride });
                pieces.bytes += (count * length) as usize;
            }
            self.take(count, if is_whole { 0 } else { length });
        }
        pieces
    }
}

impl WindowPieces {
    /// Returns the offset in the file and the length of each run.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> {
        self.groups.iter().flat_map(|group| {
            let WindowGroup { offset, length, count, stride } = *group;
            (0..count).map(move |index| (offset + index * stride, length))
        })
    }

    /// Returns the layout of the runs in memory that holds the file from offset `base` on; none if
    /// they are one run that begins there.
    ///
    /// # Errors
    /// `Arg` if they exceed the address space.
    pub fn layout(&self, base: u64) -> Result<Option<Arc<dyn Layout>>> {
        let byte = Datatype::named(Predefined::Byte).borrowed();
        let construction = if self.groups.len() <= GROUPS_MAX {
            let block = |group: &WindowGroup| {
                let WindowGroup { offset, length, count, stride } = *group;
                let (count, block_length, stride) = (count as i64, length as i64, stride as i64);
                let of = byte.clone();
                let vector = Construction::Hvector { count, block_length, stride, of };
                let of = Datatype::create(vector, ArgumentForm::Large)?.borrowed();
                Ok(StructBlock { length: 1, displacement: (offset - base) as i64, of })
            };
            Construction::Struct(self.groups.iter().map(block).collect::<Result<_>>()?)
        } else {
            let displacements = self.runs().map(|(offset, _)| (offset - base) as i64).collect();
            let block_lengths = self.runs().map(|(_, length)| length as i64).collect();
            Construction::Hindexed { block_lengths, displacements, of: byte }
        };
        Ok(Datatype::create(construction, ArgumentForm::Large)?.layout(1))
    }
}

/// Returns the union of several lists of runs, each in the order of offsets, as runs that do not
/// touch.
pub(crate) fn united<I: Iterator<Item = (u64, u64)>>(
    lists: impl Iterator<Item = I>,
) -> Vec<(u64, u64)> {
    let mut lists: Vec<I> = lists.collect();
    // The next run of each list, the lowest first.
    let mut next: BinaryHeap<Reverse<(u64, u64, usize)>> = BinaryHeap::new();
    for (index, list) in lists.iter_mut().enumerate() {
        next.extend(list.next().map(|(offset, length)| Reverse((offset, length, index))));
    }
    let mut all: Vec<(u64, u64)> = Vec::new();
    while let Some(mut lowest) = next.peek_mut() {
        let Reverse((offset, length, index)) = *lowest;
        match all.last_mut() {
            Some((start, before)) if offset <= *start + *before => {
                *before = (*before).max(offset + length - *start);
            }
            _ => all.push((offset, length)),
        }
        match lists[index].next() {
            Some((offset, length)) => *lowest = Reverse((offset, length, index)),
            None => {
                PeekMut::pop(lowest);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_come_as_they_were_told_cut_at_windows(
            steps in prop::collection::vec((1_u64..4, 1_u64..5), 0..60),
            window in 1_u64..40,
        ) {
            let mut writer = RunWriter::default();
            let mut expected = Vec::new();
            let mut end = 0;
            for (gap, length) in steps {
                writer.add(end + gap, length);
                expected.extend(end + gap..end + gap + length);
                end += gap + length;
            }
            let mut reader = RunReader::new(writer.into_bytes());
            let (mut bytes, mut start) = (Vec::new(), 0);
            while start <= end {
                let pieces = reader.take_before(start, start + window);
                prop_assert!(pieces.runs().all(|run| run.0 + run.1 <= start + window));
                let there = pieces.runs().flat_map(|run| run.0..run.0 + run.1);
                bytes.extend(there);
                start += window;
            }
            prop_assert_eq!(bytes, expected);
        }

        #[test]
        fn united_lists_have_the_bytes_of_each(
            lists in prop::collection::vec(
                prop::collection::vec((0_u64..9, 1_u64..9), 0..9), 0..5),
        ) {
            let mut bytes = [false; 200];
            let lists: Vec<Vec<_>> = lists.iter().map(|list| {
                let mut end = 0;
                let place = |(gap, length): &(u64, u64)| {
                    let at = end + gap;
                    end = at + length;
                    bytes[at as usize..end as usize].fill(true);
                    (at, *length)
                };
                list.iter().map(place).collect()
            }).collect();
            let mut last = None;
            let mut found = [false; 200];
            for (offset, length) in united(lists.into_iter().map(Vec::into_iter)) {
                prop_assert!(last.is_none_or(|last| last < offset));
                last = Some(offset + length);
                found[offset as usize..(offset + length) as usize].fill(true);
            }
            prop_assert_eq!(found, bytes);
        }
    }

    #[test]
    fn equal_runs_take_few_bytes_and_nonsense_ends() {
        let mut writer = RunWriter::default();
        (0..100_000).for_each(|run| writer.add(run * 32, 8));
        assert!(writer.into_bytes().len() < 20);
        let mut nonsense = RunReader::new(vec![0xff; 7]);
        assert_eq!(nonsense.take_before(0, u64::MAX).bytes, 0);
    }
}
