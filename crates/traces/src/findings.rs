//! What a trace shows: which waits cost most, for whom and at which place; how efficiently the
//! ranks were used; and the critical path.
//!
//! The kinds of waits have the names of Scalasca's patterns; the efficiencies are those of the POP
//! methodology (<https://pop-coe.eu/node/69>).

mod critical_path;
mod efficiency;
mod library;
mod matches;
mod operations;
mod page;
mod phases;
mod picture;
mod wrong_order;

use std::collections::HashMap;

use profiles::CollectiveKind;
use serde::Serialize;

use crate::alignment::AlignedTrace;
use crate::{TraceEvent, TracedPlace, WaitCause};

pub use critical_path::PathShare;
pub use efficiency::Efficiency;
pub use library::{CallFinding, CounterFinding, RailFinding, WorkFinding};
use matches::Matches;
use operations::Operations;
pub(crate) use page::bytes;
pub use phases::PhaseFinding;

/// What the trace of a job shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Findings {
    /// The number of ranks and of hosts.
    pub ranks: usize,
    /// The number of hosts.
    pub hosts: usize,
    /// The number of events.
    pub events: usize,
    /// The number of the oldest events that were dropped.
    pub dropped: u64,
    /// From the first event to the last one, in seconds.
    pub seconds: f64,
    /// The efficiencies.
    pub efficiency: Efficiency,
    /// The waits, the most expensive first.
    pub waits: Vec<WaitFinding>,
    /// The shares of the critical path, the largest first.
    pub critical_path: Vec<PathShare>,
    /// The phases that the program has named, in the order in which they began.
    pub phases: Vec<PhaseFinding>,
    /// The functions that were called, those with the longest time first.
    pub calls: Vec<CallFinding>,
    /// What the rails carried.
    pub rails: Vec<RailFinding>,
    /// The work beside the calls: copies, file calls, the helper, other threads.
    pub work: Vec<WorkFinding>,
    /// The highest values of the counters.
    pub counters: Vec<CounterFinding>,
    /// The timeline, an SVG.
    #[serde(skip)]
    pub picture: String,
}

/// The waits of one kind at one place, of one rank for one other rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WaitFinding {
    /// The kind.
    pub kind: WaitKind,
    /// The function in which the rank waited.
    pub function: String,
    /// The caller, with its file and line if they are known; empty if nothing is known.
    pub place: String,
    /// The rank that waited.
    pub rank: u32,
    /// The rank that it waited for, if that is one and known.
    pub awaited: Option<u32>,
    /// The number of waits.
    pub waits: u64,
    /// Their time, in seconds.
    pub seconds: f64,
}

/// The kinds of waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// A receive waited for a message that was sent later.
    LateSender,
    /// A receive waited for a message that was sent later, while another one, which was sent before
    /// the wait and is received after it, was there.
    WrongOrder,
    /// A send waited for a receive that was posted later.
    LateReceiver,
    /// A barrier waited for the last member.
    WaitAtBarrier,
    /// An operation in which all members need data of all waited for the last member.
    #[serde(rename = "wait_at_n_x_n")]
    WaitAtNxN,
    /// The root of a reduction or gather waited for the last member.
    EarlyReduce,
    /// Members of a broadcast or scatter waited for the root.
    LateBroadcast,
    /// Another collective operation waited for the last member.
    LateMember,
    /// One-sided communication waited for the owner of a window, or for its lock.
    WaitForWindow,
    /// Any other wait.
    Other,
}

impl WaitKind {
    /// The name for users.
    pub fn name(self) -> &'static str {
        match self {
            WaitKind::LateSender => "late sender",
            WaitKind::WrongOrder => "wrong order",
            WaitKind::LateReceiver => "late receiver",
            WaitKind::WaitAtBarrier => "wait at barrier",
            WaitKind::WaitAtNxN => "wait at N x N",
            WaitKind::EarlyReduce => "early reduce",
            WaitKind::LateBroadcast => "late broadcast",
            WaitKind::LateMember => "late member",
            WaitKind::WaitForWindow => "wait for window",
            WaitKind::Other => "other wait",
        }
    }

    /// Returns the kind of a wait in a function.
    fn of(cause: WaitCause, function: &str) -> Self {
        match cause {
            WaitCause::LateSender => WaitKind::LateSender,
            WaitCause::LateReceiver => WaitKind::LateReceiver,
            WaitCause::Window => WaitKind::WaitForWindow,
            WaitCause::Other => WaitKind::Other,
            WaitCause::Members => Self::of_operation(function),
        }
    }

    /// Returns the kind of the waits in a collective operation.
    pub(crate) fn of_operation(function: &str) -> Self {
        match CollectiveKind::of(function) {
            Some(CollectiveKind::Barrier) => WaitKind::WaitAtBarrier,
            Some(CollectiveKind::AllToAll) => WaitKind::WaitAtNxN,
            Some(CollectiveKind::AllToOne) => WaitKind::EarlyReduce,
            Some(CollectiveKind::OneToAll) => WaitKind::LateBroadcast,
            Some(CollectiveKind::Other) | None => WaitKind::LateMember,
        }
    }
}

/// A wait inside a call.
#[derive(Clone, Copy, Debug)]
struct Wait {
    kind: WaitKind,
    /// The place of the call.
    place: u32,
    begun: u64,
    ended: u64,
    /// When the rank went on: at the end, or later.
    resumed: u64,
    awaited: Option<u32>,
}

/// What a rank did, extracted from its events.
#[derive(Debug, Default)]
struct RankSummary {
    /// The time outside of MPI, in nanoseconds.
    computing: u64,
    /// In the order of their ends.
    waits: Vec<Wait>,
}

impl Findings {
    /// Analyses the traces of all ranks of a job.
    pub fn of(traces: &[AlignedTrace]) -> Self {
        let begun = traces.iter().filter_map(|trace| trace.events.first()).map(|event| event.0);
        let ended = traces.iter().filter_map(|trace| trace.events.last()).map(|event| event.0);
        let (begun, ended) = (begun.min().unwrap_or(0), ended.max().unwrap_or(0));
        let causes = Causes { operations: Operations::of(traces), matches: Matches::of(traces) };
        let mut summaries: Vec<RankSummary> =
            traces.iter().map(|trace| summary(trace, (begun, ended), &causes)).collect();
        wrong_order::mark(traces, &mut summaries);
        let mut hosts: Vec<&str> = traces.iter().map(|trace| trace.host.as_str()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let path = critical_path::follow(traces, &summaries, (begun, ended));
        Self {
            ranks: traces.len(),
            hosts: hosts.len(),
            events: traces.iter().map(|trace| trace.events.len()).sum(),
            dropped: traces.iter().fold(0, |sum, trace| sum.saturating_add(trace.dropped)),
            seconds: seconds(ended - begun),
            efficiency: Efficiency::of(traces, &summaries, ended - begun),
            waits: waits(traces, &summaries),
            critical_path: critical_path::shares(traces, &path),
            phases: phases::of(traces, &summaries, ended),
            calls: library::calls(traces),
            rails: library::rails(traces),
            work: library::work(traces),
            counters: library::counters(traces),
            picture: picture::svg(traces, &summaries, &path, (begun, ended)),
        }
    }

    /// Returns the most important findings as text for a terminal.
    pub fn page(&self) -> String {
        page::text(self)
    }

    /// Returns the findings as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

/// What ends waits.
#[derive(Debug)]
struct Causes {
    operations: Operations,
    matches: Matches,
}

impl Causes {
    /// Ends a wait, of a rank in the call that it entered at a time, when the awaited rank came, if
    /// that is known: what that rank does then, such as copying, is no wait for it.
    fn end(&self, wait: &mut Wait, cause: WaitCause, (rank, entered): (u32, u64)) {
        let &mut Wait { begun, resumed: ended, awaited, .. } = wait;
        let came = match cause {
            WaitCause::LateSender => self.matches.last_sent_to(rank, ended),
            WaitCause::LateReceiver => {
                awaited.and_then(|peer| self.matches.last_of_pair(rank, peer, ended))
            }
            WaitCause::Members => {
                let Some(came) = self.operations.members_until((rank, entered), ended) else {
                    return;
                };
                let awaited_one = came.iter().find(|(_, member)| Some(*member) == awaited);
                let last = came.last().filter(|(time, _)| *time > begun);
                match (awaited_one.filter(|(time, _)| *time > begun), last) {
                    (Some((time, _)), _) => Some(*time),
                    // The awaited member itself waited, maybe for the root.
                    (None, Some(_))
                        if awaited.is_some() && wait.kind == WaitKind::LateBroadcast =>
                    {
                        None
                    }
                    (None, Some((time, member))) => {
                        wait.awaited = Some(*member);
                        Some(*time)
                    }
                    // All had come, and the rank waited for data.
                    (None, None) => {
                        wait.kind = WaitKind::Other;
                        None
                    }
                }
            }
            WaitCause::Window | WaitCause::Other => None,
        };
        wait.ended = came.filter(|came| *came > begun && *came < ended).unwrap_or(ended);
    }
}

/// Extracts what the analysis needs from the events of a rank; `span`: the first and the last
/// moment of the job. Time before the first call and after the last one is computing.
fn summary(trace: &AlignedTrace, (begun, ended): (u64, u64), causes: &Causes) -> RankSummary {
    let mut all = RankSummary::default();
    let mut open: HashMap<u64, Vec<(u64, u32)>> = HashMap::new();
    // The program computes while its first thread is outside; other threads are not counted.
    let mut main = None;
    let mut outside_since = begun;
    for (time, event) in &trace.events {
        match *event {
            TraceEvent::CallBegan { thread, place, .. } => {
                let calls = open.entry(thread).or_default();
                if calls.is_empty() && *main.get_or_insert(thread) == thread {
                    all.computing += time.saturating_sub(outside_since);
                }
                calls.push((*time, place));
            }
            TraceEvent::CallEnded { thread } => {
                let calls = open.entry(thread).or_default();
                calls.pop();
                if calls.is_empty() && main == Some(thread) {
                    outside_since = *time;
                }
            }
            TraceEvent::Waited { thread, cause, peer, lasted } => {
                let call = open.get(&thread).and_then(|calls| calls.last());
                let Some(&(entered, place)) = call else { continue };
                let function = trace.places.get(place as usize).map_or("", |one| &one.function);
                let kind = WaitKind::of(cause, function);
                let begun = time.saturating_sub(lasted);
                let (ended, resumed) = (*time, *time);
                let mut wait = Wait { kind, place, begun, ended, resumed, awaited: peer };
                causes.end(&mut wait, cause, (trace.rank, entered));
                all.waits.push(wait);
            }
            TraceEvent::Waiting { .. }
            | TraceEvent::Sent(_)
            | TraceEvent::Matched(_)
            | TraceEvent::PhaseBegan { .. }
            | TraceEvent::PhaseEnded
            | TraceEvent::Exchanged(_)
            | TraceEvent::Ran(_)
            | TraceEvent::Posted(_)
            | TraceEvent::Counted { .. } => {}
        }
    }
    let is_inside = main.and_then(|main| open.get(&main)).is_some_and(|calls| !calls.is_empty());
    if !is_inside {
        all.computing += ended.saturating_sub(outside_since);
    }
    // Waits of several threads overlap, and some end before their calls went on.
    all.waits.sort_by_key(|wait| wait.ended);
    all
}

/// The rank that waits, the kind, the place and the awaited rank.
type WaitName = (u32, WaitKind, u32, Option<u32>);

/// Adds up the waits of one kind at one place, of one rank for another one.
fn waits(traces: &[AlignedTrace], summaries: &[RankSummary]) -> Vec<WaitFinding> {
    let mut sums: HashMap<WaitName, (u64, u64)> = HashMap::new();
    for (trace, summary) in traces.iter().zip(summaries) {
        for wait in &summary.waits {
            let key = (trace.rank, wait.kind, wait.place, wait.awaited);
            let (count, ns) = sums.entry(key).or_default();
            *count += 1;
            *ns = ns.saturating_add(wait.ended - wait.begun);
        }
    }
    let places: HashMap<u32, &[TracedPlace]> =
        traces.iter().map(|trace| (trace.rank, trace.places.as_slice())).collect();
    let finding = |((rank, kind, place, awaited), (waits, ns))| {
        let place = places.get(&rank).and_then(|places| places.get(place as usize)).cloned();
        let TracedPlace { function, caller: place } = place.unwrap_or_default();
        WaitFinding { kind, function, place, rank, awaited, waits, seconds: seconds(ns) }
    };
    let mut all: Vec<WaitFinding> = sums.into_iter().map(finding).collect();
    all.sort_by(|one, other| {
        let place = |one: &WaitFinding| (one.rank, one.awaited, one.place.clone());
        other.seconds.total_cmp(&one.seconds).then_with(|| place(one).cmp(&place(other)))
    });
    all
}

fn seconds(ns: u64) -> f64 {
    ns as f64 * 1e-9
}

#[cfg(test)]
mod tests;
