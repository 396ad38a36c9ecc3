//! Chooses how large messages inside a machine are copied. The kernel copies once, started by the
//! receiver or jointly by both processes. Or both processes copy at the same time, with two copies:
//! through a pipe, which the sender fills with stores through or past its caches, or through the
//! ring.
//!
//! No way is always the fastest. The ring has the shortest start-up. Two near cores that copy
//! concurrently, through a pipe that stays in the cache they share, are two to three times faster
//! than one copy by the kernel. Between far cores it is the other way round, unless the sender
//! writes past its caches. When the sender computes meanwhile, only the kernel copies. In a virtual
//! machine, processes move between cores. So the way that is predicted to be the fastest is used
//! first, where this machine's memory was measured. All ways are timed on the messages themselves.
//! Then the way that was the fastest for the size is used, with a trial of another from time to
//! time.
//!
//! Why: docs/internals/decisions/0015-large-messages-are-piped-through-a-pool.md

use std::sync::Arc;
use std::time::Instant;

use driver::{Copying, Settings};
use memory_costs::CostTable;

use crate::costs::WayCosts;
use crate::expected;
use crate::middle::row;
use crate::protocol::AHEAD_BYTES_MAX;
use crate::sizes::FRAGMENTATION;

/// The measurements so far.
#[derive(Debug, Default)]
pub(crate) struct CopyStatistics {
    /// For messages of similar length, the costs of the ways in the order of [`Copying::ALL`].
    classes: [WayCosts<{ Copying::ALL.len() }>; CLASSES],
    underway: Vec<TimedTransfer>,
    /// The measurements of this machine's memory, for the first choice.
    memory: Option<Arc<CostTable>>,
    /// The way of all messages, if the user configured one.
    given: Option<Copying>,
}

/// A transfer that is being timed.
#[derive(Clone, Copy, Debug)]
struct TimedTransfer {
    token: u64,
    way: Copying,
    length: u64,
    since: Instant,
}

/// The number of size classes: one for each power of two. The last also takes longer messages.
const CLASSES: usize = 32;

/// A way is tried with this many bytes in a row, as it reaches its speed only when its memory has
/// been used before: a lone message of 64 KiB takes twice as long through the pipe.
///
/// Where the sender may use a cell, the row is that of the sender's trials. If it were longer, a
/// trial here would last longer than the next trial of the sender, which would not see what
/// announcements cost.
const TRIAL_BYTES: u64 = 4 << 20;

/// The minimal number of transfers in a row.
const TRIAL_TRANSFERS_MIN: u64 = 4;

impl CopyStatistics {
    pub(crate) fn new(settings: &Settings) -> Self {
        let (memory, given) = (settings.memory.clone(), settings.copying.long);
        Self { memory, given, ..Self::default() }
    }

    /// Chooses the way of a message of `length` bytes and starts timing it. `trial` is the number
    /// of messages for which the sender tries announcements, if it has begun to instead of cells.
    pub(crate) fn begin(
        &mut self,
        token: u64,
        length: u64,
        trial: Option<u64>,
        now: Instant,
    ) -> Copying {
        if length <= AHEAD_BYTES_MAX as u64 {
            return Copying::Piped;
        }
        if let Some(given) = self.given {
            return given;
        }
        let row = if length <= FRAGMENTATION.message_bytes_max as u64 {
            row(length as usize)
        } else {
            (TRIAL_BYTES / length).max(TRIAL_TRANSFERS_MIN)
        };
        let class = &mut self.classes[class_of(length)];
        let memory = self.memory.as_deref();
        class.expect(|| expected::long_costs(memory?, length as usize));
        trial.into_iter().for_each(|messages| class.make_excursion(messages));
        let way = class.choose(row, [true; Copying::ALL.len()]);
        let way = way.map_or(Copying::Once, |way| Copying::ALL[way]);
        self.underway.push(TimedTransfer { token, way, length, since: now });
        way
    }

    /// Whether anything is being timed.
    #[inline]
    pub(crate) fn is_timing(&self) -> bool {
        !self.underway.is_empty()
    }

    /// Records the durations of completed transfers. `changed` is called with each length in bytes
    /// for which another way is the fastest now.
    pub(crate) fn note_complete(
        &mut self,
        now: Instant,
        is_complete: impl Fn(u64) -> bool,
        mut changed: impl FnMut(u64, Copying),
    ) {
        self.underway.retain(|transfer| {
            let complete = is_complete(transfer.token);
            if complete {
                let elapsed_ns = now.duration_since(transfer.since).as_nanos() as u64;
                let class = &mut self.classes[class_of(transfer.length)];
                let before = class.fastest();
                class.learn(transfer.way as usize, elapsed_ns * 1000 / transfer.length.max(1));
                if class.fastest() != before {
                    changed(transfer.length, Copying::ALL[class.fastest()]);
                }
            }
            !complete
        });
    }
}

fn class_of(length: u64) -> usize {
    (length.max(1).ilog2() as usize).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::Duration;

    /// Runs transfers whose costs per byte are `cost`. Returns how many went each way.
    fn run(choice: &mut CopyStatistics, transfers: u32, cost: [u64; 5]) -> [u32; 5] {
        let mut ways = [0; 5];
        for number in 0..transfers {
            let token = u64::from(number);
            let length = 1 << 20;
            let begin = Instant::now();
            let way = choice.begin(token, length, None, begin);
            let now = begin + Duration::from_nanos(cost[way as usize] * length / 1000);
            choice.note_complete(now, |_| true, |_, _| ());
            assert!(!choice.is_timing());
            ways[way as usize] += 1;
        }
        ways
    }

    #[test]
    fn each_way_is_tried_with_enough_bytes_to_show_what_it_can_do() {
        for (length, in_a_row) in [(65 << 10, 16), (512 << 10, 8), (1 << 20, 4), (64 << 20, 4)] {
            let mut choice = CopyStatistics::default();
            let mut way = |token| choice.begin(token, length, None, Instant::now());
            let first = way(0);
            let same = (1..100).take_while(|token| way(*token) == first).count();
            assert_eq!(1 + same, in_a_row, "{length} bytes");
        }
    }

    #[test]
    fn takes_the_fastest_and_follows_a_change() {
        let mut choice = CopyStatistics::default();
        assert!(run(&mut choice, 1000, [50, 100, 100, 100, 100])[0] > 950);
        assert!(run(&mut choice, 4000, [100, 50, 100, 100, 100])[1] > 1800);
        assert!(run(&mut choice, 4000, [100, 100, 50, 100, 100])[2] > 1800);
        assert!(run(&mut choice, 4000, [50, 100, 100, 100, 100])[0] > 1800);
        let ways = run(&mut choice, 4000, [50, 100, 100, 100, 100]);
        assert!(ways.iter().all(|way| *way >= 8), "none is forgotten: {ways:?}");
    }
}
