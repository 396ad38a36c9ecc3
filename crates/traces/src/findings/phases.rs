//! The phases of a program: how long they took, how evenly the ranks computed in them, and how much
//! they waited.

use std::collections::HashMap;

use serde::Serialize;

use super::critical_path::Activities;
use super::{RankSummary, seconds};
use crate::TraceEvent;
use crate::alignment::AlignedTrace;

/// A phase of the program on all ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseFinding {
    /// The name that the program gave.
    pub name: String,
    /// How often a rank was in it: the largest number of all ranks.
    pub times: u64,
    /// How long a rank was in it: the longest time of all ranks, in seconds.
    pub seconds: f64,
    /// The mean of the ranks' computing times in it, divided by the longest.
    pub load_balance: f64,
    /// The rank that computed longest in it.
    pub slowest: u32,
    /// The share of the time of all ranks in it that they waited.
    pub waiting: f64,
}

/// What one rank did in a phase, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct RankShare {
    times: u64,
    lasted: u64,
    computing: u64,
    waiting: u64,
}

pub(super) fn of(
    traces: &[AlignedTrace],
    summaries: &[RankSummary],
    ended: u64,
) -> Vec<PhaseFinding> {
    let mut names: Vec<&str> = Vec::new();
    let mut shares: HashMap<&str, Vec<(u32, RankShare)>> = HashMap::new();
    for (trace, summary) in traces.iter().zip(summaries) {
        for (name, share) in shares_of(trace, summary, ended) {
            let all = shares.entry(name).or_default();
            if all.is_empty() {
                names.push(name);
            }
            all.push((trace.rank, share));
        }
    }
    names.into_iter().filter_map(|name| finding(name, shares.get(name)?)).collect()
}

fn finding(name: &str, shares: &[(u32, RankShare)]) -> Option<PhaseFinding> {
    let (slowest, longest) = shares.iter().max_by_key(|(_, share)| share.computing)?;
    let sum = |part: fn(&RankShare) -> u64| -> f64 {
        shares.iter().map(|(_, one)| part(one) as f64).sum()
    };
    let ratio = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 1.0 };
    let mean = sum(|share| share.computing) / shares.len() as f64;
    let lasted = sum(|share| share.lasted);
    Some(PhaseFinding {
        name: name.to_owned(),
        times: shares.iter().map(|(_, share)| share.times).max()?,
        seconds: seconds(shares.iter().map(|(_, share)| share.lasted).max()?),
        load_balance: ratio(mean, longest.computing as f64),
        slowest: *slowest,
        waiting: if lasted > 0.0 { sum(|share| share.waiting) / lasted } else { 0.0 },
    })
}

/// Returns what a rank did in each of its phases, in the order in which they began.
fn shares_of<'a>(
    trace: &'a AlignedTrace,
    summary: &RankSummary,
    ended: u64,
) -> Vec<(&'a str, RankShare)> {
    let activities = Activities::of(trace);
    let mut all: Vec<(&str, RankShare)> = Vec::new();
    for (name, begun, end) in intervals(trace, ended) {
        let known = all.iter().position(|(one, _)| *one == name);
        let index = known.unwrap_or_else(|| {
            all.push((name, RankShare::default()));
            all.len() - 1
        });
        let share = &mut all[index].1;
        share.times += 1;
        share.lasted += end - begun;
        activities.split(begun, end, |computes, _, ns| {
            share.computing += if computes { ns } else { 0 };
        });
        let first = summary.waits.partition_point(|wait| wait.ended <= begun);
        let waits = summary.waits[first..].iter().take_while(|wait| wait.ended <= end);
        let waits = waits.map(|wait| wait.ended.saturating_sub(wait.begun.max(begun)));
        share.waiting = waits.fold(share.waiting, u64::saturating_add);
    }
    all
}

/// Returns the phases of a rank, with their names.
fn intervals(trace: &AlignedTrace, ended: u64) -> Vec<(&str, u64, u64)> {
    let mut all = Vec::new();
    let mut open = None;
    for (time, event) in &trace.events {
        match event {
            TraceEvent::PhaseBegan { name } => {
                open = trace.names.get(*name as usize).map(|name| (name.as_str(), *time));
            }
            TraceEvent::PhaseEnded => {
                all.extend(open.take().map(|(name, begun)| (name, begun, *time)));
            }
            _ => {}
        }
    }
    all.extend(open.map(|(name, begun)| (name, begun, ended.max(begun))));
    all
}
