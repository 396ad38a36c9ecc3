//! What ranks do, without the times of their waits: computations, and messages with their
//! dependencies. A simulator computes the waits anew; [`Skeleton::ideal_ns`] is one, for a network
//! on which messages take no time.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use crate::alignment::{AlignedTrace, MessageName, message_name};
use crate::findings::WaitKind;
use crate::{TraceEvent, TracedExchange, TracedMessage, TracedOperation, WaitCause};

/// The actions of all ranks.
#[derive(Debug)]
pub(crate) struct Skeleton {
    /// By rank.
    pub ranks: Vec<Vec<Action>>,
}

/// What a rank does after its action before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
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

/// Which time of a rank counts as computing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// All but its waits.
    All,
    /// The time outside of MPI.
    Useful,
}

/// A blocking collective operation: its members, whether all of them exchange messages in it, and
/// its function.
#[derive(Debug, Default)]
struct Operation {
    /// Which of them awaited which other, if they did.
    members: BTreeMap<u32, Option<u32>>,
    has_messages: bool,
    function: String,
    root: Option<u32>,
    /// When each member entered it.
    entered: BTreeMap<u32, u64>,
    /// When the last member entered it, and which one that is.
    last: (u64, u32),
}

/// Returns how long messages for which a rank waited took from their submission to their match, in
/// nanoseconds: the median; `None` if there are none.
pub(crate) fn latency_ns(traces: &[AlignedTrace]) -> Option<u64> {
    let ends = MessageEnds::of(traces);
    let mut latencies = Vec::new();
    for trace in traces {
        let waits = waits_of(trace);
        for (time, event) in &trace.events {
            let TraceEvent::Matched(message) = event else { continue };
            let began = ends.sent.get(&matched_name(trace.rank, message));
            let wait = waits.partition_point(|(_, end)| *end < *time);
            if let (Some(began), Some((since, _))) = (began, waits.get(wait))
                && since <= began
                && began <= time
            {
                latencies.push(time - began);
            }
        }
    }
    let middle = latencies.len() / 2;
    (!latencies.is_empty()).then(|| *latencies.select_nth_unstable(middle).1)
}

impl Skeleton {
    pub(crate) fn of(traces: &[AlignedTrace], work: Work) -> Self {
        let size = traces.iter().map(|trace| trace.rank + 1).max().unwrap_or(0);
        let begun = traces.iter().filter_map(|trace| trace.events.first()).map(|event| event.0);
        let mut builder = Builder {
            work,
            begun: begun.min().unwrap_or(0),
            ends: MessageEnds::of(traces),
            operations: operations(traces),
            latency: latency_ns(traces).unwrap_or(0),
            answers: HashMap::new(),
            tags: HashMap::new(),
        };
        builder.find_late_receivers(traces);
        let mut ranks = vec![Vec::new(); size as usize];
        for trace in traces {
            ranks[trace.rank as usize] = builder.actions(trace);
        }
        Self { ranks }
    }

    /// Returns how long the job takes if messages take no time, in nanoseconds.
    pub(crate) fn ideal_ns(&self) -> u64 {
        let mut clocks = vec![0_u64; self.ranks.len()];
        let mut places = vec![0; self.ranks.len()];
        let mut underway: HashMap<(u32, u32, u32), VecDeque<u64>> = HashMap::new();
        let mut ready: Vec<usize> = (0..self.ranks.len()).collect();
        // Ranks that wait for a message of a rank with a tag.
        let mut waiting: HashMap<(u32, u32, u32), usize> = HashMap::new();
        loop {
            let Some(rank) = ready.pop() else {
                // A trace without its beginning can have receives whose message is missing.
                let Some(name) = waiting.keys().min().copied() else { break };
                let rank = waiting.remove(&name).unwrap_or(0);
                places[rank] += 1;
                ready.push(rank);
                continue;
            };
            while let Some(action) = self.ranks[rank].get(places[rank]) {
                match *action {
                    Action::Compute { ns } => clocks[rank] = clocks[rank].saturating_add(ns),
                    Action::Send { peer, tag, .. } => {
                        let name = (rank as u32, peer, tag);
                        underway.entry(name).or_default().push_back(clocks[rank]);
                        ready.extend(waiting.remove(&name));
                    }
                    Action::Receive { peer, tag, .. } => {
                        let name = (peer, rank as u32, tag);
                        let Some(sent) = underway.get_mut(&name).and_then(VecDeque::pop_front)
                        else {
                            waiting.insert(name, rank);
                            break;
                        };
                        clocks[rank] = clocks[rank].max(sent);
                    }
                }
                places[rank] += 1;
            }
        }
        clocks.into_iter().max().unwrap_or(0)
    }
}

/// When the messages of which both ends are in the trace were sent and matched.
#[derive(Debug, Default)]
struct MessageEnds {
    sent: HashMap<MessageName, u64>,
    matched: HashMap<MessageName, u64>,
}

impl MessageEnds {
    fn of(traces: &[AlignedTrace]) -> Self {
        let mut all = Self::default();
        for trace in traces {
            for (time, event) in &trace.events {
                match event {
                    TraceEvent::Sent(message) => {
                        all.sent.insert(sent_name(trace.rank, message), *time);
                    }
                    TraceEvent::Matched(message) => {
                        all.matched.insert(matched_name(trace.rank, message), *time);
                    }
                    _ => {}
                }
            }
        }
        let Self { sent, matched } = &mut all;
        sent.retain(|name, _| matched.contains_key(name));
        matched.retain(|name, _| sent.contains_key(name));
        all
    }
}

/// Builds the actions of one rank after the other.
struct Builder {
    work: Work,
    begun: u64,
    ends: MessageEnds,
    operations: HashMap<TracedOperation, Operation>,
    /// How long what was awaited takes, in nanoseconds.
    latency: u64,
    /// By rank: the empty messages by which receivers answer senders that wait for them, in the
    /// order of their times.
    answers: HashMap<u32, Vec<(u64, Action)>>,
    /// The tags of messages, by context and tag, or by the communicator of operations.
    tags: HashMap<(u64, Option<i32>), u32>,
}

/// The context of the messages by which receivers answer senders that wait for them.
const ANSWERS: u64 = u64::MAX;

impl Builder {
    /// Finds the messages for whose receive a sender waited: of those to the awaited rank that were
    /// matched during the wait, the last one.
    fn find_late_receivers(&mut self, traces: &[AlignedTrace]) {
        let mut matches: HashMap<(u32, u32), Vec<(u64, MessageName)>> = HashMap::new();
        for (name, time) in &self.ends.matched {
            matches.entry((name.0, name.1)).or_default().push((*time, *name));
        }
        matches.values_mut().for_each(|all| all.sort_unstable());
        let mut answered: HashSet<MessageName> = HashSet::new();
        for trace in traces {
            for (time, event) in &trace.events {
                let &TraceEvent::Waited { cause, peer: Some(peer), lasted, .. } = event else {
                    continue;
                };
                let (begun, found) =
                    (time.saturating_sub(lasted), matches.get(&(trace.rank, peer)));
                let Some(found) = found.filter(|_| cause == WaitCause::LateReceiver) else {
                    continue;
                };
                let before = found.partition_point(|(matched, _)| matched <= time);
                if let Some((matched, name)) = found[..before].last()
                    && *matched >= begun
                    && answered.insert(*name)
                {
                    // The receiver has taken the data when the sender goes on.
                    let sent = time.saturating_sub(self.latency).max(matched.saturating_add(1));
                    let tag = self.tag(ANSWERS, None);
                    let of = |rank: u32| Action::Receive { peer: rank, tag, bytes: 0 };
                    self.answers.entry(trace.rank).or_default().push((*time, of(peer)));
                    let answer = Action::Send { peer: trace.rank, tag, bytes: 0 };
                    self.answers.entry(peer).or_default().push((sent, answer));
                }
            }
        }
        self.answers.values_mut().for_each(|all| all.sort_by_key(|(time, _)| *time));
    }

    fn actions(&mut self, trace: &AlignedTrace) -> Vec<Action> {
        let idle = self.idle_times(trace);
        let answers = self.answers.remove(&trace.rank).unwrap_or_default();
        let mut answers = answers.into_iter().peekable();
        let (mut actions, mut since) = (Vec::new(), self.begun);
        // The operation that each thread is in, and the tag of its messages.
        let mut open: HashMap<u64, (TracedOperation, u32)> = HashMap::new();
        let mut add = |time: u64, more: &[Action]| {
            let ns = busy_between(&idle, since, time);
            since = since.max(time);
            actions.extend((ns > 0).then_some(Action::Compute { ns }));
            actions.extend_from_slice(more);
        };
        for (time, event) in &trace.events {
            while let Some((at, action)) = answers.next_if(|(at, _)| at <= time) {
                add(at, &[action]);
            }
            match event {
                TraceEvent::Sent(message)
                    if self.ends.sent.contains_key(&sent_name(trace.rank, message)) =>
                {
                    let tag = self.tag(message.context, Some(message.tag));
                    let (peer, bytes) = (message.peer, message.bytes);
                    add(*time, &[Action::Send { peer, tag, bytes }]);
                }
                TraceEvent::Matched(message) => {
                    let name = matched_name(trace.rank, message);
                    if !self.ends.matched.contains_key(&name) {
                        continue;
                    }
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
            // A sender may go on after its receiver has ended.
            answers.for_each(|(_, action)| add(*end, &[action]));
        }
        actions
    }

    /// Returns the times in which the first thread of a rank does not compute, in their order; they
    /// do not overlap.
    fn idle_times(&self, trace: &AlignedTrace) -> Vec<(u64, u64)> {
        let mut idle = match self.work {
            Work::Useful => {
                calls_of(trace).into_iter().map(|(begun, end, _)| (begun, end)).collect()
            }
            Work::All => {
                let mut waits = until_matched(trace, waits_of(trace));
                waits.extend(self.short_waits(trace));
                waits
            }
        };
        idle.sort_unstable();
        idle.dedup_by(|next, last| {
            let joins = next.0 <= last.1;
            last.1 = if joins { last.1.max(next.1) } else { last.1 };
            joins
        });
        idle
    }

    /// Returns the waits that follow from the events of other ranks, also those that were too short
    /// to be recorded: a call waits for a message that was sent, and for a member of its operation
    /// that entered, after the call began.
    fn short_waits(&self, trace: &AlignedTrace) -> Vec<(u64, u64)> {
        let calls = calls_of(trace);
        let mut waits = Vec::new();
        for (time, event) in &trace.events {
            let TraceEvent::Matched(message) = event else { continue };
            let Some(sent) = self.ends.sent.get(&matched_name(trace.rank, message)) else {
                continue;
            };
            let call = calls.partition_point(|(_, end, _)| end < time);
            if let Some((begun, ..)) = calls.get(call)
                && begun < sent
                && sent <= time
            {
                waits.push((*begun, *time));
            }
        }
        for (begun, end, operation) in calls {
            let Some(found) = operation.and_then(|one| self.operations.get(&one)) else { continue };
            let awaited = found.awaited_by(trace.rank);
            let came = awaited.and_then(|peer| found.entered.get(&peer));
            if let Some(came) = came.filter(|came| **came > begun) {
                waits.push((begun, came.saturating_add(self.latency).min(end)));
            }
        }
        waits
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
        let last = || Some(self.last.1).filter(|last| *last != rank);
        let awaited = || {
            let awaited = *self.members.get(&rank)?;
            awaited.filter(|awaited| self.members.contains_key(awaited))
        };
        match (WaitKind::of_operation(&self.function), self.root) {
            (WaitKind::LateBroadcast, Some(root)) => {
                Some(root).filter(|root| *root != rank && self.members.contains_key(root))
            }
            (WaitKind::EarlyReduce, Some(root)) if root == rank => last(),
            (WaitKind::EarlyReduce | WaitKind::LateBroadcast, _) => awaited(),
            _ => last(),
        }
    }
}

fn sent_name(rank: u32, message: &TracedMessage) -> MessageName {
    message_name(rank, message.peer, message)
}

fn matched_name(rank: u32, message: &TracedMessage) -> MessageName {
    message_name(message.peer, rank, message)
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
                    found.entered.insert(trace.rank, *time);
                    found.last = found.last.max((*time, trace.rank));
                    open.insert(*thread, (*operation, false));
                }
                TraceEvent::Exchanged(TracedExchange { thread, root, .. }) => {
                    let found = open.get(thread).and_then(|(one, _)| all.get_mut(one));
                    found.into_iter().for_each(|found| found.root = *root);
                }
                TraceEvent::Waited { thread, cause: WaitCause::Members, peer, .. } => {
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

/// Returns the number of the thread that calls MPI first.
fn main_of(trace: &AlignedTrace) -> Option<u64> {
    trace.events.iter().find_map(|(_, event)| match event {
        TraceEvent::CallBegan { thread, .. } => Some(*thread),
        _ => None,
    })
}

/// Returns the waits of the thread that calls MPI first, in their order.
fn waits_of(trace: &AlignedTrace) -> Vec<(u64, u64)> {
    let main = main_of(trace);
    let waits = trace.events.iter().filter_map(|(time, event)| match event {
        TraceEvent::Waited { thread, lasted, .. } if Some(*thread) == main => {
            Some((time.saturating_sub(*lasted), *time))
        }
        _ => None,
    });
    waits.collect()
}

/// Ends each wait when the last message is matched in it: from then on the rank copies.
fn until_matched(trace: &AlignedTrace, mut waits: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let matched = trace.events.iter().filter_map(|(time, event)| match event {
        TraceEvent::Matched(_) => Some(*time),
        _ => None,
    });
    let matched: Vec<u64> = matched.collect();
    for (begun, end) in &mut waits {
        let before = matched.partition_point(|time| time <= end);
        let last = before.checked_sub(1).and_then(|last| matched.get(last));
        if let Some(last) = last.filter(|last| **last > *begun) {
            *end = *last;
        }
    }
    waits
}

/// A call: its beginning, its end, and the collective operation that it is, if it blocks.
type OutermostCall = (u64, u64, Option<TracedOperation>);

/// Returns the outermost calls of the thread that calls MPI first, in their order.
fn calls_of(trace: &AlignedTrace) -> Vec<OutermostCall> {
    let main = main_of(trace);
    let mut calls = Vec::new();
    let mut open: Vec<(u64, Option<TracedOperation>)> = Vec::new();
    for (time, event) in &trace.events {
        match event {
            TraceEvent::CallBegan { thread, operation, .. } if Some(*thread) == main => {
                open.push((*time, *operation));
            }
            TraceEvent::CallEnded { thread } if Some(*thread) == main => {
                if let (Some((begun, operation)), true) = (open.pop(), open.is_empty()) {
                    calls.push((begun, *time, operation));
                }
            }
            _ => {}
        }
    }
    calls.extend(open.first().map(|(begun, operation)| (*begun, u64::MAX, *operation)));
    calls
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
