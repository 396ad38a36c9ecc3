//! What the library did: calls with their data, packets by rail, copies, file calls, other threads,
//! and the highest values of the counters.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::seconds;
use crate::alignment::AlignedTrace;
use crate::{
    TraceCounter, TraceEvent, TracedContent, TracedExchange, TracedMessage, TracedPacket,
    TracedSpan,
};

/// The calls of one function by all ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CallFinding {
    /// The function.
    pub function: String,
    /// The number of calls that have ended.
    pub calls: u64,
    /// Their time, in seconds.
    pub seconds: f64,
    /// The number of messages that were submitted in them.
    pub messages: u64,
    /// The bytes of these messages.
    pub message_bytes: u64,
    /// For collective operations: the bytes that members contributed.
    pub bytes_sent: u64,
    /// For collective operations: the bytes of the results that members got.
    pub bytes_received: u64,
}

/// What ranks sent over the rails with one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RailFinding {
    /// The name of the rail.
    pub rail: String,
    /// The number of packets.
    pub packets: u64,
    /// How many of them had more than one record.
    pub aggregated: u64,
    /// The number of parts of large messages that were sent outside of packets.
    pub parts: u64,
    /// How many packets and parts were sent again, because they were lost with a rail.
    pub again: u64,
    /// The bytes of all of them.
    pub bytes: u64,
    /// The number of whole messages.
    pub messages: u64,
    /// The number of announcements of large messages.
    pub announcements: u64,
    /// The number of pieces of large messages in packets.
    pub pieces: u64,
    /// The number of records for the engine of the receiver.
    pub controls: u64,
}

/// The work of one kind beside the calls.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkFinding {
    /// The kind, such as "copy".
    pub kind: &'static str,
    /// What it was, such as a way of copying or the name of a thread.
    pub name: String,
    /// How often.
    pub times: u64,
    /// The time, in seconds.
    pub seconds: f64,
    /// The bytes that it moved.
    pub bytes: u64,
}

/// The highest value of a counter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CounterFinding {
    /// The name.
    pub name: &'static str,
    /// The value.
    pub highest: u64,
    /// The rank that had it.
    pub rank: u32,
    /// When, in seconds since the first event of the job.
    pub at: f64,
}

/// Adds up the calls by function.
pub(super) fn calls(traces: &[AlignedTrace]) -> Vec<CallFinding> {
    let mut all: BTreeMap<&str, (CallFinding, u64)> = BTreeMap::new();
    for trace in traces {
        // The calls that each thread is in: the function, and when it began.
        let mut open: HashMap<u64, Vec<(&str, u64)>> = HashMap::new();
        for (time, event) in &trace.events {
            let thread = match event {
                TraceEvent::CallBegan { thread, place, .. } => {
                    let place = trace.places.get(*place as usize);
                    let function = place.map_or("MPI", |place| place.function.as_str());
                    open.entry(*thread).or_default().push((function, *time));
                    continue;
                }
                TraceEvent::CallEnded { thread } => *thread,
                TraceEvent::Sent(TracedMessage { thread, .. })
                | TraceEvent::Exchanged(TracedExchange { thread, .. }) => *thread,
                _ => continue,
            };
            let Some(calls) = open.get_mut(&thread) else { continue };
            let Some((function, began)) = calls.last().copied() else { continue };
            let (found, ns) = all.entry(function).or_default();
            match event {
                TraceEvent::Sent(message) => {
                    found.messages += 1;
                    found.message_bytes = found.message_bytes.saturating_add(message.bytes);
                }
                TraceEvent::Exchanged(one) => {
                    found.bytes_sent = found.bytes_sent.saturating_add(one.sent);
                    found.bytes_received = found.bytes_received.saturating_add(one.received);
                }
                _ => {
                    calls.pop();
                    found.calls += 1;
                    *ns += time.saturating_sub(began);
                }
            }
        }
    }
    let finding = |(function, (found, ns)): (&str, (CallFinding, u64))| CallFinding {
        function: function.to_owned(),
        seconds: seconds(ns),
        ..found
    };
    let mut all: Vec<CallFinding> = all.into_iter().map(finding).collect();
    all.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    all
}

/// Adds up the packets by the names of their rails.
pub(super) fn rails(traces: &[AlignedTrace]) -> Vec<RailFinding> {
    let mut all: BTreeMap<&str, RailFinding> = BTreeMap::new();
    for trace in traces {
        for (_, event) in &trace.events {
            let TraceEvent::Posted(TracedPacket { rail, bytes, content, .. }) = event else {
                continue;
            };
            let name = trace.names.get(*rail as usize).map_or("", |name| name);
            let found = all.entry(name).or_default();
            found.bytes = found.bytes.saturating_add(*bytes);
            match *content {
                TracedContent::Records { messages, announcements, pieces, controls } => {
                    let records = [messages, announcements, pieces, controls].map(u64::from);
                    found.packets += 1;
                    found.aggregated += u64::from(records.iter().sum::<u64>() > 1);
                    found.messages += records[0];
                    found.announcements += records[1];
                    found.pieces += records[2];
                    found.controls += records[3];
                }
                TracedContent::Part(_) => found.parts += 1,
                TracedContent::Again => found.again += 1,
            }
        }
    }
    all.into_iter().map(|(rail, found)| RailFinding { rail: rail.to_owned(), ..found }).collect()
}

/// Adds up the work beside the calls by kind and name.
pub(super) fn work(traces: &[AlignedTrace]) -> Vec<WorkFinding> {
    let mut all: BTreeMap<(&'static str, &str), (u64, u64, u64)> = BTreeMap::new();
    for trace in traces {
        for (_, event) in &trace.events {
            let TraceEvent::Ran(TracedSpan { track, name, bytes, lasted, .. }) = event else {
                continue;
            };
            let name = trace.names.get(*name as usize).map_or("", |name| name);
            let (times, ns, sum) = all.entry((track.kind(), name)).or_default();
            *times += 1;
            *ns = ns.saturating_add(*lasted);
            *sum = sum.saturating_add(*bytes);
        }
    }
    let finding = |((kind, name), (times, ns, bytes)): ((&'static str, &str), (u64, u64, u64))| {
        WorkFinding { kind, name: name.to_owned(), times, seconds: seconds(ns), bytes }
    };
    let mut all: Vec<WorkFinding> = all.into_iter().map(finding).collect();
    all.sort_by(|one, other| one.kind.cmp(other.kind).then(other.seconds.total_cmp(&one.seconds)));
    all
}

/// Returns the highest value of each counter that is ever above 0.
pub(super) fn counters(traces: &[AlignedTrace]) -> Vec<CounterFinding> {
    let begun = traces.iter().filter_map(|trace| trace.events.first()).map(|event| event.0).min();
    let mut all: BTreeMap<TraceCounter, CounterFinding> = BTreeMap::new();
    for trace in traces {
        for (time, event) in &trace.events {
            let &TraceEvent::Counted { counter, value } = event else { continue };
            if value > all.get(&counter).map_or(0, |known| known.highest) {
                let at = seconds(time.saturating_sub(begun.unwrap_or(0)));
                let (name, highest, rank) = (counter.name(), value, trace.rank);
                all.insert(counter, CounterFinding { name, highest, rank, at });
            }
        }
    }
    all.into_values().collect()
}
