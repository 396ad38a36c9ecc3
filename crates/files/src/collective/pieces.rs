//! Which bytes of a domain a process wants, as it tells the aggregator: runs in their order, equal
//! ones at equal distances as one group.

use std::sync::Arc;

use base::Result;
use datatype::{ArgumentForm, Construction, Datatype, Predefined};
use memory::Layout;

/// `count` runs of `length` bytes, `gap` bytes apart, the first of them `skip` bytes behind the end
/// of the last group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RunGroup {
    skip: u64,
    length: u64,
    count: u64,
    gap: u64,
}

/// Runs, told as groups.
#[derive(Debug, Default)]
pub(crate) struct PieceWriter {
    bytes: Vec<u8>,
    /// Where the last group ends.
    end: u64,
    open: Option<RunGroup>,
    /// Where the open group ends.
    open_end: u64,
}

impl PieceWriter {
    /// Adds a run, behind all others.
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
                push_number(number, &mut self.bytes);
            }
            self.end = self.open_end;
        }
    }

    /// All that was added.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.close();
        self.bytes
    }
}

/// Runs that were told, taken from the first on.
#[derive(Debug, Default)]
pub(crate) struct PieceReader {
    bytes: Vec<u8>,
    /// Where the next group begins in `bytes`.
    next: usize,
    /// Where the last group ends in the file.
    end: u64,
    /// What is left of a group: where it begins, and how much of its first run was taken.
    open: Option<(u64, RunGroup, u64)>,
}

/// Runs of one process in a window.
#[derive(Debug, Default)]
pub(crate) struct WindowPieces {
    /// Offset in the file and length.
    pub runs: Vec<(u64, u64)>,
    pub bytes: usize,
}

impl PieceReader {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, ..Self::default() }
    }

    /// The next run, and where it begins.
    fn peek(&mut self) -> Option<(u64, u64)> {
        if self.open.is_none() {
            let mut rest = self.bytes.get(self.next..)?;
            let before = rest.len();
            let mut number = || take_number(&mut rest);
            let (skip, length, count, gap) = (number()?, number()?, number()?, number()?);
            self.next += before - rest.len();
            let start = self.end.checked_add(skip)?;
            start.checked_add(length).filter(|_| length > 0 && count > 0)?;
            self.open = Some((start, RunGroup { skip, length, count, gap }, 0));
        }
        let (start, group, taken) = self.open.as_ref()?;
        Some((start + taken, group.length - taken))
    }

    fn take(&mut self, bytes: u64) {
        let Some((start, group, taken)) = &mut self.open else { return };
        *taken += bytes;
        if *taken < group.length {
            return;
        }
        let end = *start + group.length;
        if group.count <= 1 {
            self.end = end;
            self.open = None;
        } else {
            // Behind all windows, if it is nonsense.
            (*start, *taken) = (end.saturating_add(group.gap).min(u64::MAX - group.length), 0);
            group.count -= 1;
        }
    }

    /// The runs before an offset, as far as they were not taken; none of them lies before `start`,
    /// if the process keeps to what it said.
    pub fn take_before(&mut self, start: u64, end: u64) -> WindowPieces {
        let mut pieces = WindowPieces::default();
        while let Some((offset, length)) = self.peek().filter(|(offset, _)| *offset < end) {
            let length = length.min(end - offset);
            if offset >= start {
                pieces.runs.push((offset, length));
                pieces.bytes += length as usize;
            }
            self.take(length);
        }
        pieces
    }
}

impl WindowPieces {
    /// Where the runs lie in memory that has the file from offset `base` on.
    ///
    /// # Errors
    /// `Arg` if they exceed the address space.
    pub fn layout(&self, base: u64) -> Result<Option<Arc<dyn Layout>>> {
        let of = Arc::clone(Datatype::named(Predefined::Byte));
        let displacements: Vec<i64> =
            self.runs.iter().map(|(offset, _)| (offset - base) as i64).collect();
        let block_lengths: Vec<i64> = self.runs.iter().map(|(_, length)| *length as i64).collect();
        let construction = Construction::Hindexed { block_lengths, displacements, of };
        Ok(Datatype::create(construction, ArgumentForm::Large)?.layout(1))
    }
}

/// The bytes that any of several lists has, each in the order of offsets, as runs that do not
/// touch.
pub(crate) fn united(mut lists: Vec<Vec<(u64, u64)>>) -> Vec<(u64, u64)> {
    while lists.len() > 1 {
        let mut rest = lists.into_iter();
        let mut halved = Vec::new();
        while let Some(one) = rest.next() {
            halved.push(match rest.next() {
                Some(other) => merged(&one, &other),
                None => one,
            });
        }
        lists = halved;
    }
    lists.pop().map_or_else(Vec::new, |only| merged(&only, &[]))
}

fn merged(one: &[(u64, u64)], other: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = Vec::new();
    let (mut left, mut right) = (one.iter().peekable(), other.iter().peekable());
    loop {
        let next = match (left.peek(), right.peek()) {
            (Some(from_left), Some(from_right)) if from_right.0 < from_left.0 => right.next(),
            (Some(_), _) => left.next(),
            (None, _) => right.next(),
        };
        let Some(&(offset, length)) = next else { return all };
        match all.last_mut() {
            Some((start, before)) if offset <= *start + *before => {
                *before = (*before).max(offset + length - *start);
            }
            _ => all.push((offset, length)),
        }
    }
}

/// Seven bits per byte, the lowest first; the highest bit tells that more follow.
fn push_number(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
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
            let mut writer = PieceWriter::default();
            let mut expected = Vec::new();
            let mut end = 0;
            for (gap, length) in steps {
                writer.add(end + gap, length);
                expected.extend(end + gap..end + gap + length);
                end += gap + length;
            }
            let mut reader = PieceReader::new(writer.into_bytes());
            let (mut bytes, mut start) = (Vec::new(), 0);
            while start <= end {
                let pieces = reader.take_before(start, start + window);
                prop_assert!(pieces.runs.iter().all(|run| run.0 + run.1 <= start + window));
                let there = pieces.runs.iter().flat_map(|run| run.0..run.0 + run.1);
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
            for (offset, length) in united(lists) {
                prop_assert!(last.is_none_or(|last| last < offset));
                last = Some(offset + length);
                found[offset as usize..(offset + length) as usize].fill(true);
            }
            prop_assert_eq!(found, bytes);
        }
    }

    #[test]
    fn equal_runs_take_few_bytes_and_nonsense_ends() {
        let mut writer = PieceWriter::default();
        (0..100_000).for_each(|run| writer.add(run * 32, 8));
        assert!(writer.into_bytes().len() < 20);
        let mut nonsense = PieceReader::new(vec![0xff; 7]);
        assert!(nonsense.take_before(0, u64::MAX).runs.is_empty());
    }
}
