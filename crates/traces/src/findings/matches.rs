//! When messages were matched with their receives: from then on they are transferred, and nobody
//! waits for the other rank.

use std::collections::HashMap;

use crate::TraceEvent;
use crate::alignment::AlignedTrace;

/// The times of all matches.
#[derive(Debug, Default)]
pub(super) struct Matches {
    /// By receiver, in their order.
    of_receivers: HashMap<u32, Vec<u64>>,
    /// By sender and receiver, in their order.
    of_pairs: HashMap<(u32, u32), Vec<u64>>,
}

impl Matches {
    pub(super) fn of(traces: &[AlignedTrace]) -> Self {
        let mut all = Self::default();
        for trace in traces {
            for (time, event) in &trace.events {
                if let TraceEvent::Matched(message) = event {
                    all.of_receivers.entry(trace.rank).or_default().push(*time);
                    all.of_pairs.entry((message.peer, trace.rank)).or_default().push(*time);
                }
            }
        }
        // Threads of a rank may record at one time.
        all.of_receivers.values_mut().for_each(|times| times.sort_unstable());
        all.of_pairs.values_mut().for_each(|times| times.sort_unstable());
        all
    }

    /// Returns when a rank received its last message until `time`.
    pub(super) fn last_of_receiver(&self, rank: u32, time: u64) -> Option<u64> {
        last_until(self.of_receivers.get(&rank)?, time)
    }

    /// Returns when the receiver matched its last message of the sender until `time`.
    pub(super) fn last_of_pair(&self, sender: u32, receiver: u32, time: u64) -> Option<u64> {
        last_until(self.of_pairs.get(&(sender, receiver))?, time)
    }
}

fn last_until(times: &[u64], time: u64) -> Option<u64> {
    times[..times.partition_point(|one| *one <= time)].last().copied()
}
