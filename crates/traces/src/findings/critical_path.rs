//! The critical path: the chain of work that determined how long the job took. It is followed from
//! the end: a rank that waited continues at the rank that it waited for.

use std::collections::HashMap;

use serde::Serialize;

use super::{RankSummary, Wait, seconds};
use crate::alignment::AlignedTrace;
use crate::{TraceEvent, TracedPlace};

/// The time that a rank contributes to the critical path in one activity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathShare {
    /// The rank.
    pub rank: u32,
    /// The function of MPI, or "computing".
    pub activity: String,
    /// The caller of the function. For computing, the call that ends it, with its caller:
    /// `MPI_Allreduce in main (a.c:32)`. Empty if nothing is known.
    pub place: String,
    /// The time in seconds.
    pub seconds: f64,
}

impl PathShare {
    /// Returns what the rank did, for users.
    pub(crate) fn described(&self) -> String {
        let Self { activity, place, .. } = self;
        match (place.as_str(), activity.as_str()) {
            ("", _) => activity.clone(),
            (_, COMPUTING) => format!("{activity} until {place}"),
            _ => format!("{activity} in {place}"),
        }
    }
}

/// The activity of a rank outside of calls.
const COMPUTING: &str = "computing";

/// Waits that last less do not move the path to another rank, in nanoseconds.
const WAIT_MIN: u64 = 1000;

/// A part of the critical path on one rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathStep {
    /// The index of the rank's trace.
    pub index: usize,
    pub begun: u64,
    pub ended: u64,
}

/// Follows the critical path. Returns its steps, the last one first.
pub(super) fn follow(
    traces: &[AlignedTrace],
    summaries: &[RankSummary],
    (begun, ended): (u64, u64),
) -> Vec<PathStep> {
    let index_of: HashMap<u32, usize> =
        traces.iter().enumerate().map(|(index, trace)| (trace.rank, index)).collect();
    let last = traces.iter().enumerate().max_by_key(|(_, trace)| trace.events.last().map(|e| e.0));
    let Some((mut index, _)) = last else { return Vec::new() };
    let mut steps = Vec::new();
    let mut end = ended;
    while end > begun {
        let wait = last_wait(&summaries[index].waits, end, &index_of);
        let start = wait.map_or(begun, |wait| wait.ended.min(end).max(begun));
        steps.push(PathStep { index, begun: start, ended: end });
        let Some(wait) = wait else { break };
        // The awaited rank worked until the wait ended. The path always moves back, also if waits
        // of two ranks for each other end at one time.
        end = start.min(end - 1);
        if let Some(next) = wait.awaited.and_then(|rank| index_of.get(&rank)) {
            index = *next;
        }
    }
    steps
}

/// Adds up the critical path by rank, activity and place.
pub(super) fn shares(traces: &[AlignedTrace], steps: &[PathStep]) -> Vec<PathShare> {
    let activities: Vec<Activities> = traces.iter().map(Activities::of).collect();
    // By the index of the rank's trace, whether it computes, and the place of the call.
    let mut sums: HashMap<(usize, bool, Option<u32>), u64> = HashMap::new();
    for step in steps {
        activities[step.index].split(step.begun, step.ended, |computes, place, ns| {
            *sums.entry((step.index, computes, place)).or_default() += ns;
        });
    }
    let share = |((index, computes, place), ns): ((usize, bool, Option<u32>), u64)| {
        let AlignedTrace { rank, places, .. } = &traces[index];
        let place = place.and_then(|place| places.get(place as usize)).cloned();
        let TracedPlace { function, caller } = place.unwrap_or_default();
        let (activity, place) = match (computes, function.as_str(), caller.as_str()) {
            (true, "", _) => (COMPUTING.to_owned(), caller),
            (true, _, "") => (COMPUTING.to_owned(), function),
            (true, ..) => (COMPUTING.to_owned(), format!("{function} in {caller}")),
            (false, "", _) => ("MPI".to_owned(), caller),
            (false, ..) => (function, caller),
        };
        PathShare { rank: *rank, activity, place, seconds: seconds(ns) }
    };
    let mut all: Vec<PathShare> = sums.into_iter().map(share).collect();
    all.sort_by(|one, other| {
        let name = |one: &PathShare| (one.rank, one.activity.clone(), one.place.clone());
        other.seconds.total_cmp(&one.seconds).then_with(|| name(one).cmp(&name(other)))
    });
    all
}

/// Returns the last wait for another known rank that ended by `end`.
fn last_wait<'a>(waits: &'a [Wait], end: u64, known: &HashMap<u32, usize>) -> Option<&'a Wait> {
    let before = waits.partition_point(|wait| wait.ended <= end);
    waits[..before].iter().rev().find(|wait| {
        wait.ended - wait.begun >= WAIT_MIN
            && wait.awaited.is_some_and(|rank| known.contains_key(&rank))
    })
}

/// What the first thread of a rank did: the outermost calls in their order.
pub(super) struct Activities {
    /// Beginning, end and place of each call.
    pub calls: Vec<(u64, u64, u32)>,
}

impl Activities {
    pub(super) fn of(trace: &AlignedTrace) -> Self {
        let mut calls = Vec::new();
        let (mut main, mut depth, mut begun) = (None, 0, (0, 0));
        for (time, event) in &trace.events {
            match *event {
                TraceEvent::CallBegan { thread, place, .. }
                    if *main.get_or_insert(thread) == thread =>
                {
                    if depth == 0 {
                        begun = (*time, place);
                    }
                    depth += 1;
                }
                TraceEvent::CallEnded { thread } if main == Some(thread) && depth > 0 => {
                    depth -= 1;
                    if depth == 0 {
                        calls.push((begun.0, *time, begun.1));
                    }
                }
                _ => {}
            }
        }
        if depth > 0 {
            calls.push((begun.0, u64::MAX, begun.1));
        }
        Self { calls }
    }

    /// Divides a time into calls and computing. `add` gets whether the rank computes, the place of
    /// the call or of the one that follows, and the time.
    pub(super) fn split(&self, start: u64, end: u64, mut add: impl FnMut(bool, Option<u32>, u64)) {
        let first = self.calls.partition_point(|(_, ended, _)| *ended <= start);
        let mut at = start;
        for (begun, ended, place) in &self.calls[first..] {
            if *begun > at {
                let until = (*begun).min(end);
                add(true, Some(*place), until - at);
                at = until;
            }
            if *begun >= end {
                break;
            }
            let until = (*ended).min(end);
            add(false, Some(*place), until.saturating_sub(at));
            at = until.max(at);
        }
        if end > at {
            add(true, None, end - at);
        }
    }
}
