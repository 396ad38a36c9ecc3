//! What ranks do, without the times of their waits: computations, and messages with their
//! dependencies. A simulator computes the waits anew.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::alignment::AlignedTrace;
use crate::findings::WaitKind;
use crate::{TraceEvent, TracedMessage, TracedOperation, WaitReason};

/// The actions of all ranks.
#[derive(Debug)]
pub(super) struct Skeleton {
    /// By rank.
    pub ranks: Vec<Vec<Action>>,
}

/// What a rank does after its action before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Compute {
        ns: u64,
    },
    /// The message leaves, and the rank goes on.
    Send {
        peer: u32,
        tag: u32,
        bytes: u64,
    },
    /// The rank waits for the message.
    Receive {
        peer: u32,
        tag: u32,
        bytes: u64,
    },
}

/// A message by what its sender and its receiver know: sender, receiver, context, tag, number.
type MessageName = (u32, u32, u64, i32, u32);

/// A blocking collective operation: its members, whether all of them exchange messages in it, and
/// its function.
#[derive(Debug, Default)]
struct Operation {
    /// Which of them awaited which other, if they did.
    members: BTreeMap<u32, Option<u32>>,
    has_messages: bool,
    function: String,
    /// When the last member entered it, and which one that is.
    last: (u64, u32),
}

/// Returns how long what was awaited took from the rank that came late to the one that waited, in
/// nanoseconds: the median of all messages for which a rank waited; `None` if there are none.
pub(super) fn latency_ns(traces: &[AlignedTrace]) -> Option<u64> {
    let mut sent = HashMap::new();
    for trace in traces {
        for (time, event) in &trace.events {
            if let TraceEvent::Sent(message) = event {
                sent.insert(sent_name(trace.rank, message), *time);
            }
        }
    }
    let mut latencies = Vec::new();
    for trace in traces {
        let waits = waits_of(trace);
        for (time, event) in &trace.events {
            let TraceEvent::Matched(message) = event else { continue };
            let began = sent.get(&matched_name(trace.rank, message));
            let wait = waits.partition_point(|(_, end)| *end < *time);
            if let (Some(began), Some((since, end))) = (began, waits.get(wait))
                && since <= began
                && began <= time
            {
                latencies.push(end - began);
            }
        }
    }
    let middle = latencies.len() / 2;
    (!latencies.is_empty()).then(|| *latencies.select_nth_unstable(middle).1)
}

impl Skeleton {
    pub(super) fn of(traces: &[AlignedTrace]) -> Self {
        let size = traces.iter().map(|trace| trace.rank + 1).max().unwrap_or(0);
        let begun = traces.iter().filter_map(|trace| trace.events.first()).map(|event| event.0);
        let mut builder = Builder {
            begun: begun.min().unwrap_or(0),
            whole: whole_messages(traces),
            operations: operations(traces),
            tags: HashMap::new(),
        };
        let mut ranks = vec![Vec::new(); size as usize];
        for trace in traces {
            ranks[trace.rank as usize] = builder.actions(trace);
        }
        Self { ranks }
    }
}

/// Builds the actions of one rank after the other.
struct Builder {
    begun: u64,
    /// The messages of which both ends are in the trace.
    whole: HashSet<MessageName>,
    operations: HashMap<TracedOperation, Operation>,
    /// The tags of messages, by context and tag, or by the communicator of operations.
    tags: HashMap<(u64, Option<i32>), u32>,
}

impl Builder {
    fn actions(&mut self, trace: &AlignedTrace) -> Vec<Action> {
        let waits = waits_of(trace);
        let (mut actions, mut since) = (Vec::new(), self.begun);
        // The operation that each thread is in, and the tag of its messages.
        let mut open: HashMap<u64, (TracedOperation, u32)> = HashMap::new();
        let mut add = |time: u64, more: &[Action]| {
            let ns = busy_between(&waits, since, time);
            since = since.max(time);
            actions.extend((ns > 0).then_some(Action::Compute { ns }));
            actions.extend_from_slice(more);
        };
        for (time, event) in &trace.events {
            match event {
                TraceEvent::Sent(message)
                    if self.whole.contains(&sent_name(trace.rank, message)) =>
                {
                    let tag = self.tag(message.context, Some(message.tag));
                    let (peer, bytes) = (message.peer, message.bytes);
                    add(*time, &[Action::Send { peer, tag, bytes }]);
                }
                TraceEvent::Matched(message)
                    if self.whole.contains(&matched_name(trace.rank, message)) =>
                {
                    let tag = self.tag(message.context, Some(message.tag));
                    let (peer, bytes) = (message.peer, message.bytes);
                    add(*time, &[Action::Receive { peer, tag, bytes }]);
                }
                TraceEvent::CallBegan { thread, operation: Some(operation), .. } => {
                    let tag = self.tag(operation.communicator, None);
                    if let Some(found) = self.operations.get(operation) {
                        let sends = found.sends_of(trace.rank, tag);
                        if !sends.is_empty() {
                            add(*time, &sends);
                        }
                        open.insert(*thread, (*operation, tag));
                    }
                }
                TraceEvent::CallEnded { thread } => {
                    if let Some((operation, tag)) = open.remove(thread) {
                        let found = self.operations.get(&operation);
                        if let Some(peer) = found.and_then(|one| one.awaited_by(trace.rank)) {
                            add(*time, &[Action::Receive { peer, tag, bytes: 0 }]);
                        }
                    }
                }
                _ => {}
            }
        }
        if let Some((end, _)) = trace.events.last() {
            add(*end, &[]);
        }
        actions
    }

    fn tag(&mut self, context: u64, tag: Option<i32>) -> u32 {
        let next = self.tags.len() as u32;
        *self.tags.entry((context, tag)).or_insert(next)
    }
}

impl Operation {
    /// Returns the empty messages that a member sends when it enters the operation: to those that
    /// await it, if the operation is not executed by messages.
    fn sends_of(&self, rank: u32, tag: u32) -> Vec<Action> {
        let members = self.members.keys().copied();
        let waiting = members.filter(|other| self.awaited_by(*other) == Some(rank));
        waiting.map(|peer| Action::Send { peer, tag, bytes: 0 }).collect()
    }

    /// Returns the member without which another one cannot leave the operation, if there is one and
    /// it does not send the other one messages.
    fn awaited_by(&self, rank: u32) -> Option<u32> {
        if self.has_messages {
            return None;
        }
        match WaitKind::of_operation(&self.function) {
            WaitKind::EarlyReduce | WaitKind::LateBroadcast => {
                self.members.get(&rank)?.filter(|awaited| self.members.contains_key(awaited))
            }
            _ => Some(self.last.1).filter(|last| *last != rank),
        }
    }
}

fn sent_name(rank: u32, message: &TracedMessage) -> MessageName {
    (rank, message.peer, message.context, message.tag, message.number)
}

fn matched_name(rank: u32, message: &TracedMessage) -> MessageName {
    (message.peer, rank, message.context, message.tag, message.number)
}

fn whole_messages(traces: &[AlignedTrace]) -> HashSet<MessageName> {
    let (mut sent, mut matched) = (HashSet::new(), HashSet::new());
    for trace in traces {
        for (_, event) in &trace.events {
            match event {
                TraceEvent::Sent(message) => _ = sent.insert(sent_name(trace.rank, message)),
                TraceEvent::Matched(message) => {
                    matched.insert(matched_name(trace.rank, message));
                }
                _ => {}
            }
        }
    }
    sent.intersection(&matched).copied().collect()
}

fn operations(traces: &[AlignedTrace]) -> HashMap<TracedOperation, Operation> {
    let mut all: HashMap<TracedOperation, Operation> = HashMap::new();
    for trace in traces {
        // The operation that each thread is in, and whether it exchanges messages there.
        let mut open: HashMap<u64, (TracedOperation, bool)> = HashMap::new();
        for (time, event) in &trace.events {
            match event {
                TraceEvent::CallBegan { thread, place, operation: Some(operation) } => {
                    let found = all.entry(*operation).or_insert_with(|| {
                        let place = trace.places.get(*place as usize);
                        let function = place.map_or(String::new(), |place| place.function.clone());
                        Operation { has_messages: true, function, ..Operation::default() }
                    });
                    found.members.insert(trace.rank, None);
                    found.last = found.last.max((*time, trace.rank));
                    open.insert(*thread, (*operation, false));
                }
                TraceEvent::Waited { thread, reason: WaitReason::Members, peer, .. } => {
                    if let Some((operation, _)) = open.get(thread) {
                        let members = all.get_mut(operation).map(|one| &mut one.members);
                        members.and_then(|members| members.insert(trace.rank, *peer));
                    }
                }
                TraceEvent::Sent(TracedMessage { thread, .. })
                | TraceEvent::Matched(TracedMessage { thread, .. }) => {
                    open.entry(*thread).and_modify(|(_, has_messages)| *has_messages = true);
                }
                TraceEvent::CallEnded { thread } => {
                    if let Some((operation, false)) = open.remove(thread)
                        && let Some(found) = all.get_mut(&operation)
                    {
                        found.has_messages = false;
                    }
                }
                _ => {}
            }
        }
    }
    all
}

/// Returns the waits of the thread that calls MPI first, in their order.
fn waits_of(trace: &AlignedTrace) -> Vec<(u64, u64)> {
    let main = trace.events.iter().find_map(|(_, event)| match event {
        TraceEvent::CallBegan { thread, .. } => Some(*thread),
        _ => None,
    });
    let waits = trace.events.iter().filter_map(|(time, event)| match event {
        TraceEvent::Waited { thread, lasted, .. } if Some(*thread) == main => {
            Some((time.saturating_sub(*lasted), *time))
        }
        _ => None,
    });
    waits.collect()
}

/// Returns the time between two moments that is in none of the waits.
fn busy_between(waits: &[(u64, u64)], from: u64, to: u64) -> u64 {
    let mut busy = to.saturating_sub(from);
    let first = waits.partition_point(|(_, end)| *end <= from);
    for (begin, end) in waits[first..].iter().take_while(|(begin, _)| *begin < to) {
        busy = busy.saturating_sub((*end).min(to).saturating_sub((*begin).max(from)));
    }
    busy
}
