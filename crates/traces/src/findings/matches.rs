//! When messages were sent, and when they were matched with their receives.

use std::collections::HashMap;

use crate::TraceEvent;
use crate::alignment::{AlignedTrace, message_name};

/// The times of all matches.
#[derive(Debug, Default)]
pub(super) struct Matches {
    /// By receiver, in their order, each with the time at which the message was sent.
    of_receivers: HashMap<u32, Vec<(u64, Option<u64>)>>,
    /// By sender and receiver, in their order.
    of_pairs: HashMap<(u32, u32), Vec<u64>>,
}

impl Matches {
    pub(super) fn of(traces: &[AlignedTrace]) -> Self {
        let mut sent = HashMap::new();
        for trace in traces {
            for (time, event) in &trace.events {
                if let TraceEvent::Sent(message) = event {
                    sent.insert(message_name(trace.rank, message.peer, message), *time);
                }
            }
        }
        let mut all = Self::default();
        for trace in traces {
            for (time, event) in &trace.events {
                if let TraceEvent::Matched(message) = event {
                    let name = message_name(message.peer, trace.rank, message);
                    let of_receiver = all.of_receivers.entry(trace.rank).or_default();
                    of_receiver.push((*time, sent.get(&name).copied()));
                    all.of_pairs.entry((message.peer, trace.rank)).or_default().push(*time);
                }
            }
        }
        // Threads of a rank may record at one time.
        all.of_receivers.values_mut().for_each(|times| times.sort_unstable());
        all.of_pairs.values_mut().for_each(|times| times.sort_unstable());
        all
    }

    /// Returns when the last message was sent that a rank received until `time`.
    pub(super) fn last_sent_to(&self, rank: u32, time: u64) -> Option<u64> {
        let times = self.of_receivers.get(&rank)?;
        times[..times.partition_point(|(matched, _)| *matched <= time)].last()?.1
    }

    /// Returns when the receiver matched its last message of the sender until `time`.
    pub(super) fn last_of_pair(&self, sender: u32, receiver: u32, time: u64) -> Option<u64> {
        let times = self.of_pairs.get(&(sender, receiver))?;
        times[..times.partition_point(|matched| *matched <= time)].last().copied()
    }
}
