//! The domains: which process reads and writes which part of a file for all processes.

use std::ops::Range;

use crate::preferences::Choice;
use crate::storage::Direction;

/// The request of a process in a collective transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccessExtent {
    /// Its range: from its first byte up to behind its last one; empty if it transfers nothing.
    pub start: u64,
    pub end: u64,
    /// The average length of its runs, in bytes.
    pub run_bytes: u64,
    /// The total length of its runs, in bytes.
    pub bytes: u64,
}

/// The properties that decide, equal on all processes.
#[derive(Clone, Debug)]
pub(crate) struct DomainSituation {
    pub direction: Direction,
    /// Whether all processes are on one machine, whose page cache serves all of them.
    pub near: bool,
    /// The number of bytes whose transfer costs as much as a system call, as measured by rank 0.
    pub call_bytes: u64,
    /// The number of bytes that can be sent to another process of the machine in the time of a
    /// system call.
    pub sent_bytes: u64,
    /// Whether bytes are sent to aggregators.
    pub choice: Choice,
    /// The aggregators, if bytes are sent to them.
    pub aggregators: Vec<u32>,
    /// The number of bytes that each of them transfers at once.
    pub window_bytes: u64,
    /// Domains begin at multiples of this many bytes.
    pub alignment: u64,
}

/// A part of the file that one process reads and writes for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileDomain {
    pub aggregator: u32,
    pub range: Range<u64>,
    window_bytes: u64,
}

wire::codec!(AccessExtent { start, end, run_bytes, bytes });

/// Processes of several machines do better without aggregators, even if their runs alternate, if a
/// run costs this many times as much as a call. Processes of one machine do so if sending a run
/// takes longer than a call.
const ALONE_CALLS: u64 = 8;

/// Processes of one machine read without aggregators, including the holes between their runs, if
/// all of them read at most this many times the bytes of their runs: that costs less than messages.
const READ_TIMES_MAX: u64 = 4;

impl AccessExtent {
    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// Returns the part of the request before the end of the file.
    pub fn before(self, end: u64) -> Self {
        Self { end: self.end.min(end), ..self }
    }
}

impl DomainSituation {
    /// Decides how a transfer is divided; none: each process transfers its own bytes.
    pub fn share(&self, extents: &[AccessExtent]) -> Option<Vec<FileDomain>> {
        let mut wanted: Vec<AccessExtent> =
            extents.iter().copied().filter(|extent| !extent.is_empty()).collect();
        if wanted.len() < 2 || self.aggregators.is_empty() {
            return None;
        }
        wanted.sort_by_key(|extent| extent.start);
        let pays = || {
            let alternate = wanted.windows(2).any(|pair| pair[1].start < pair[0].end);
            let alone_min = if self.near {
                self.sent_bytes
            } else {
                self.call_bytes.saturating_mul(ALONE_CALLS)
            };
            let spans: u64 = wanted.iter().map(|extent| extent.end - extent.start).sum();
            let bytes: u64 = wanted.iter().map(|extent| extent.bytes).sum();
            let is_read_alone = self.direction == Direction::Read
                && self.near
                && spans <= bytes.saturating_mul(READ_TIMES_MAX);
            alternate && !is_read_alone && wanted.iter().any(|extent| extent.run_bytes < alone_min)
        };
        match self.choice {
            Choice::Never => return None,
            Choice::Automatic if !pays() => return None,
            _ => {}
        }
        let low = wanted[0].start;
        let high = wanted.iter().map(|extent| extent.end).max().unwrap_or(low);
        Some(self.divide(low..high))
    }

    fn divide(&self, whole: Range<u64>) -> Vec<FileDomain> {
        let number = self.aggregators.len() as u64;
        let each = (whole.end - whole.start).div_ceil(number);
        let bound = |index: u64| match index {
            0 => whole.start,
            _ if index == number => whole.end,
            _ => {
                let at = whole.start + index * each;
                at.next_multiple_of(self.alignment).clamp(whole.start, whole.end)
            }
        };
        let domain = |(index, &aggregator)| {
            let range = bound(index)..bound(index + 1);
            FileDomain { aggregator, range, window_bytes: self.window_bytes }
        };
        (0..).zip(&self.aggregators).map(domain).collect()
    }
}

impl FileDomain {
    /// Returns the number of its windows.
    pub fn window_count(&self) -> u64 {
        (self.range.end - self.range.start).div_ceil(self.window_bytes)
    }

    /// Returns the size of the largest of its windows, in bytes.
    pub fn room(&self) -> usize {
        (self.range.end - self.range.start).min(self.window_bytes) as usize
    }

    /// Returns one of its windows.
    pub fn window(&self, number: u64) -> Range<u64> {
        let start = self.range.start + number * self.window_bytes;
        start..self.range.end.min(start + self.window_bytes)
    }

    /// Whether the range of a request meets it.
    pub fn involves(&self, extent: &AccessExtent) -> bool {
        !extent.is_empty() && extent.start < self.range.end && extent.end > self.range.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn situation(choice: Choice) -> DomainSituation {
        let (direction, near, aggregators) = (Direction::Write, false, vec![0, 2]);
        DomainSituation {
            direction,
            near,
            call_bytes: 4 << 10,
            sent_bytes: 4 << 10,
            choice,
            aggregators,
            window_bytes: 1000,
            alignment: 4096,
        }
    }

    #[test]
    fn what_alternates_in_small_runs_is_shared() {
        let extent = |start, end, run_bytes| AccessExtent { start, end, run_bytes, bytes: 4500 };
        let alternating = [extent(0, 9000, 8), extent(8, 9008, 8), extent(5, 5, 8)];
        let domains = situation(Choice::Automatic).share(&alternating).unwrap();
        let [first, second] = &domains[..] else { panic!("{domains:?}") };
        assert_eq!((first.range.clone(), second.range.clone()), (0..8192, 8192..9008));
        assert_eq!((first.window_count(), first.window(8)), (9, 8000..8192));
        assert!(!second.involves(&extent(0, 8192, 8)) && second.involves(&alternating[0]));
        let behind_each_other = [extent(0, 9000, 8), extent(9000, 18000, 8)];
        assert_eq!(situation(Choice::Automatic).share(&behind_each_other), None);
        assert!(situation(Choice::Always).share(&behind_each_other).is_some());
        assert_eq!(situation(Choice::Never).share(&alternating), None);
        let large = [extent(0, 9_000_000, 1 << 20), extent(1 << 20, 9_000_000, 1 << 20)];
        assert_eq!(situation(Choice::Automatic).share(&large), None);
        let near =
            |direction| DomainSituation { direction, near: true, ..situation(Choice::Automatic) };
        assert_eq!(near(Direction::Read).share(&alternating), None);
        let pages = [extent(0, 1 << 20, 4096), extent(4096, 2 << 20, 4096)];
        assert_eq!(near(Direction::Write).share(&pages), None);
        let dear_calls = DomainSituation { sent_bytes: 5 << 10, ..near(Direction::Write) };
        assert!(dear_calls.share(&pages).is_some());
        assert!(near(Direction::Write).share(&alternating).is_some());
    }
}
