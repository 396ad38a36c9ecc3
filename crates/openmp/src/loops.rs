//! How the iterations of a loop are shared among the threads of a team.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::environment::LoopKind;
use crate::slots::Slot;
use crate::thread::Thread;

/// A loop. Its iterations have numbers from 0; the values of its variable are computed from them in
/// 64 bits that wrap around, so that loops over signed and unsigned variables are alike.
#[derive(Clone, Copy, Debug)]
pub struct Iterations {
    pub first: u64,
    pub end: u64,
    pub step: u64,
    pub count: u64,
    pub kind: LoopKind,
    /// In iterations; 0 is one chunk for each thread, of a static loop.
    pub chunk: u64,
}

impl Default for Iterations {
    fn default() -> Self {
        Self { first: 0, end: 0, step: 1, count: 0, kind: LoopKind::Static, chunk: 0 }
    }
}

/// Up to so many iterations, adding chunks for each thread does not wrap around.
const ADDABLE: u64 = 1 << 40;

impl Iterations {
    /// A loop over a signed variable.
    pub fn signed(first: i64, end: i64, step: i64, kind: LoopKind, chunk: u64) -> Self {
        let count = match step {
            1.. if first < end => (end.abs_diff(first) - 1) / step.unsigned_abs() + 1,
            ..=-1 if first > end => (first.abs_diff(end) - 1) / step.unsigned_abs() + 1,
            _ => 0,
        };
        Self { first: first as u64, end: end as u64, step: step as u64, count, kind, chunk }
            .bounded()
    }

    /// A loop over an unsigned variable, which grows if `is_up`.
    pub fn unsigned(
        (is_up, first, end, step): (bool, u64, u64, u64),
        kind: LoopKind,
        chunk: u64,
    ) -> Self {
        let count = match is_up {
            true if first < end && step != 0 => (end - first - 1) / step + 1,
            false if first > end && step != 0 => (first - end - 1) / step.wrapping_neg() + 1,
            _ => 0,
        };
        Self { first, end, step, count, kind, chunk }.bounded()
    }

    /// Chunks have at least one iteration, and at most all.
    fn bounded(mut self) -> Self {
        if self.kind == LoopKind::Auto {
            (self.kind, self.chunk) = (LoopKind::Static, 0);
        }
        if self.kind != LoopKind::Static {
            self.chunk = self.chunk.max(1);
        }
        self.chunk = self.chunk.min(self.count.max(1));
        self
    }

    /// The values of the loop's variable at the begin and the end of some iterations.
    pub fn values(&self, (begin, end): (u64, u64)) -> (u64, u64) {
        let value = |number: u64| self.first.wrapping_add(number.wrapping_mul(self.step));
        (value(begin), if end == self.count { self.end } else { value(end) })
    }

    /// Part `trip` of thread `id` of `threads` in a static loop.
    fn static_part(&self, trip: u64, id: u64, threads: u64) -> Option<(u64, u64)> {
        let (begin, end) = if self.chunk == 0 {
            if trip > 0 {
                return None;
            }
            // The first threads have one iteration more, as in loops that the compiler divides.
            let (share, rest) = (self.count / threads, self.count % threads);
            let begin = share * id + id.min(rest);
            (begin, begin + share + u64::from(id < rest))
        } else {
            let begin = trip.checked_mul(threads)?.checked_add(id)?.checked_mul(self.chunk)?;
            (begin, begin.saturating_add(self.chunk).min(self.count))
        };
        (begin < end).then_some((begin, end))
    }

    fn dynamic_part(&self, next: &AtomicU64) -> Option<(u64, u64)> {
        let begin = if self.count < ADDABLE {
            if next.load(Ordering::Relaxed) >= self.count {
                return None;
            }
            next.fetch_add(self.chunk, Ordering::Relaxed)
        } else {
            self.taken(next, |_| self.chunk)?
        };
        let end = begin.saturating_add(self.chunk).min(self.count);
        (begin < end).then_some((begin, end))
    }

    /// Takes as many iterations as `size` computes from those that are left.
    fn taken(&self, next: &AtomicU64, size: impl Fn(u64) -> u64) -> Option<u64> {
        let step = |begin: u64| {
            let left = self.count.checked_sub(begin).filter(|left| *left > 0)?;
            Some(begin + size(left).min(left))
        };
        next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).ok()
    }

    fn guided_part(&self, next: &AtomicU64, threads: u64) -> Option<(u64, u64)> {
        let size = |left: u64| left.div_ceil(threads).max(self.chunk);
        let begin = self.taken(next, size)?;
        let left = self.count - begin;
        Some((begin, begin + size(left).min(left)))
    }

    /// The chunk to which an iteration belongs in a loop that posts what it has finished.
    pub fn chunk_of(&self, iteration: u64, threads: u64) -> usize {
        let chunk = match (self.kind, self.chunk) {
            (LoopKind::Static, 0) => {
                let (share, rest) = (self.count / threads, self.count % threads);
                let longer = (share + 1) * rest;
                match iteration < longer {
                    true => iteration / (share + 1),
                    false => rest + (iteration - longer) / share.max(1),
                }
            }
            (LoopKind::Static | LoopKind::Dynamic, chunk) => iteration / chunk,
            // Its chunks are of many sizes.
            (LoopKind::Guided | LoopKind::Auto, _) => iteration,
        };
        chunk as usize
    }

    /// How many chunks such a loop has.
    pub fn chunks(&self, threads: u64) -> usize {
        match self.count {
            0 => 0,
            count => self.chunk_of(count - 1, threads) + 1,
        }
    }
}

/// Gives this thread its next iterations of the loop in a slot.
pub fn next_part(thread: &Thread, slot: &Slot) -> Option<(u64, u64)> {
    let iterations = slot.iterations.get();
    let (id, threads) = (u64::from(thread.id.get()), u64::from(thread.team.get().size()));
    match iterations.kind {
        LoopKind::Static | LoopKind::Auto => {
            let trip = thread.trip.get();
            thread.trip.set(trip + 1);
            iterations.static_part(trip, id, threads)
        }
        LoopKind::Dynamic => iterations.dynamic_part(&slot.next),
        LoopKind::Guided => iterations.guided_part(&slot.next, threads),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All parts of a loop, of all threads in turn.
    fn parts(iterations: &Iterations, threads: u64) -> Vec<(u64, u64)> {
        let next = AtomicU64::new(0);
        let mut found = Vec::new();
        for trip in 0.. {
            let of_threads = (0..threads).filter_map(|id| match iterations.kind {
                LoopKind::Static | LoopKind::Auto => iterations.static_part(trip, id, threads),
                LoopKind::Dynamic => iterations.dynamic_part(&next),
                LoopKind::Guided => iterations.guided_part(&next, threads),
            });
            let before = found.len();
            found.extend(of_threads);
            if found.len() == before {
                break;
            }
        }
        found
    }

    #[test]
    fn each_iteration_is_in_one_part() {
        for kind in [LoopKind::Static, LoopKind::Dynamic, LoopKind::Guided, LoopKind::Auto] {
            for (count, chunk, threads) in
                [(0, 1, 3), (1, 1, 4), (10, 3, 2), (100, 0, 7), (100, 1000, 3), (5, 2, 8)]
            {
                let iterations = Iterations::signed(0, count, 1, kind, chunk);
                let mut numbers: Vec<u64> = parts(&iterations, threads)
                    .into_iter()
                    .flat_map(|(begin, end)| begin..end)
                    .collect();
                numbers.sort_unstable();
                assert_eq!(numbers, (0..count as u64).collect::<Vec<_>>(), "{iterations:?}");
            }
        }
    }

    #[test]
    fn loops_reach_the_limits_of_their_types() {
        let all = Iterations::signed(i64::MIN, i64::MAX, 1, LoopKind::Dynamic, 1 << 62);
        assert_eq!(all.count, u64::MAX);
        let found = parts(&all, 2);
        assert_eq!(found.len(), 4);
        assert_eq!(all.values(found[3]).1, i64::MAX as u64);
        let down = Iterations::signed(i64::MAX, i64::MIN, i64::MIN, LoopKind::Static, 0);
        assert_eq!(down.count, 2);
        let up = (true, 0, u64::MAX, u64::MAX);
        assert_eq!(Iterations::unsigned(up, LoopKind::Static, 0).count, 1);
        let down = (false, 10, 0, 3_u64.wrapping_neg());
        let down = Iterations::unsigned(down, LoopKind::Dynamic, 1);
        assert_eq!((down.count, down.values((3, 4))), (4, (1, 0)));
    }

    #[test]
    fn chunks_know_their_iterations() {
        for (kind, chunk) in [(LoopKind::Static, 0), (LoopKind::Static, 3), (LoopKind::Dynamic, 4)]
        {
            let iterations = Iterations::signed(0, 23, 1, kind, chunk);
            let mut found = parts(&iterations, 5);
            found.sort_unstable();
            assert_eq!(iterations.chunks(5), found.len());
            for (place, (begin, end)) in found.into_iter().enumerate() {
                assert!((begin..end).all(|one| iterations.chunk_of(one, 5) == place), "{kind:?}");
            }
        }
    }
}
