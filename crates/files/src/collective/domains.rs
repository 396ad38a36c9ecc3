//! Who reads and writes which part of a file for all processes.

use std::ops::Range;

use crate::preferences::Choice;
use crate::transfer::Direction;

/// What a process wants of a collective transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    /// From its first byte up to behind its last one; empty if it wants nothing.
    pub start: u64,
    pub end: u64,
    /// The bytes of its runs, on average.
    pub run_bytes: u64,
    /// The bytes of all its runs.
    pub bytes: u64,
}

/// What decides, the same on all processes.
#[derive(Clone, Debug)]
pub(crate) struct DomainSituation {
    pub direction: Direction,
    /// Whether all processes are on one machine, which keeps for all what one has read.
    pub near: bool,
    /// As many bytes as cost what a call costs, as the process with rank 0 has found out.
    pub call_bytes: u64,
    /// As many as go to another process of the machine meanwhile.
    pub sent_bytes: u64,
    /// Whether bytes go by messages.
    pub choice: Choice,
    /// The processes that read and write for others, if bytes do.
    pub aggregators: Vec<u32>,
    /// Bytes that each of them moves at once.
    pub window_bytes: u64,
    /// Domains begin at multiples of so many bytes.
    pub alignment: u64,
}

/// The parts of the file, and whose they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Domains {
    pub aggregators: Vec<u32>,
    /// Where each begins, and where the last one ends.
    bounds: Vec<u64>,
    window_bytes: u64,
}

/// Processes of several machines do better alone, also where their runs alternate, if a run costs
/// so many times what a call does; those of one machine, if sending it takes longer than a call.
const ALONE_CALLS: u64 = 8;

/// Processes of one machine read alone, with the holes between their runs, if all together read not
/// more than so many times what they want: that costs less than messages.
const READ_TIMES_MAX: u64 = 4;

impl Wish {
    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// What is left of it before the end of the file.
    pub fn before(self, end: u64) -> Self {
        Self { end: self.end.min(end), ..self }
    }
}

impl DomainSituation {
    /// How a transfer is shared; none: each process moves its own bytes.
    pub fn share(&self, wishes: &[Wish]) -> Option<Domains> {
        let mut wanted: Vec<Wish> =
            wishes.iter().copied().filter(|wish| !wish.is_empty()).collect();
        if wanted.len() < 2 || self.aggregators.is_empty() {
            return None;
        }
        wanted.sort_by_key(|wish| wish.start);
        let pays = || {
            let alternate = wanted.windows(2).any(|pair| pair[1].start < pair[0].end);
            let alone_min = if self.near {
                self.sent_bytes
            } else {
                self.call_bytes.saturating_mul(ALONE_CALLS)
            };
            let spans: u64 = wanted.iter().map(|wish| wish.end - wish.start).sum();
            let bytes: u64 = wanted.iter().map(|wish| wish.bytes).sum();
            let is_read_alone = self.direction == Direction::Read
                && self.near
                && spans <= bytes.saturating_mul(READ_TIMES_MAX);
            alternate && !is_read_alone && wanted.iter().any(|wish| wish.run_bytes < alone_min)
        };
        match self.choice {
            Choice::Never => return None,
            Choice::Automatic if !pays() => return None,
            _ => {}
        }
        let low = wanted[0].start;
        let high = wanted.iter().map(|wish| wish.end).max().unwrap_or(low);
        Some(self.divide(low..high))
    }

    fn divide(&self, whole: Range<u64>) -> Domains {
        let number = self.aggregators.len() as u64;
        let each = (whole.end - whole.start).div_ceil(number);
        let aligned = |at: u64| at.next_multiple_of(self.alignment).clamp(whole.start, whole.end);
        let inner = (1..number).map(|index| aligned(whole.start + index * each));
        let bounds =
            std::iter::once(whole.start).chain(inner).chain(std::iter::once(whole.end)).collect();
        Domains { aggregators: self.aggregators.clone(), bounds, window_bytes: self.window_bytes }
    }
}

impl Domains {
    /// The part of an aggregator.
    pub fn domain(&self, index: usize) -> Range<u64> {
        self.bounds[index]..self.bounds[index + 1]
    }

    /// How many windows the part of an aggregator has.
    pub fn window_count(&self, index: usize) -> u64 {
        let domain = self.domain(index);
        (domain.end - domain.start).div_ceil(self.window_bytes)
    }

    /// The bytes of the largest of them.
    pub fn room(&self, index: usize) -> usize {
        let domain = self.domain(index);
        (domain.end - domain.start).min(self.window_bytes) as usize
    }

    /// One of them.
    pub fn window(&self, index: usize, number: u64) -> Range<u64> {
        let domain = self.domain(index);
        let start = domain.start + number * self.window_bytes;
        start..domain.end.min(start + self.window_bytes)
    }

    /// Whether a process may want something of the part of an aggregator.
    pub fn involves(&self, index: usize, wish: &Wish) -> bool {
        let domain = self.domain(index);
        !wish.is_empty() && wish.start < domain.end && wish.end > domain.start
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
        let wish = |start, end, run_bytes| Wish { start, end, run_bytes, bytes: 4500 };
        let alternating = [wish(0, 9000, 8), wish(8, 9008, 8), wish(5, 5, 8)];
        let domains = situation(Choice::Automatic).share(&alternating).unwrap();
        assert_eq!((domains.domain(0), domains.domain(1)), (0..8192, 8192..9008));
        assert_eq!((domains.window_count(0), domains.window(0, 8)), (9, 8000..8192));
        assert!(!domains.involves(1, &wish(0, 8192, 8)) && domains.involves(1, &alternating[0]));
        let behind_each_other = [wish(0, 9000, 8), wish(9000, 18000, 8)];
        assert_eq!(situation(Choice::Automatic).share(&behind_each_other), None);
        assert!(situation(Choice::Always).share(&behind_each_other).is_some());
        assert_eq!(situation(Choice::Never).share(&alternating), None);
        let large = [wish(0, 9_000_000, 1 << 20), wish(1 << 20, 9_000_000, 1 << 20)];
        assert_eq!(situation(Choice::Automatic).share(&large), None);
        let near =
            |direction| DomainSituation { direction, near: true, ..situation(Choice::Automatic) };
        assert_eq!(near(Direction::Read).share(&alternating), None);
        let pages = [wish(0, 1 << 20, 4096), wish(4096, 2 << 20, 4096)];
        assert_eq!(near(Direction::Write).share(&pages), None);
        let dear_calls = DomainSituation { sent_bytes: 5 << 10, ..near(Direction::Write) };
        assert!(dear_calls.share(&pages).is_some());
        assert!(near(Direction::Write).share(&alternating).is_some());
    }
}
