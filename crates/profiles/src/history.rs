//! Durations of earlier runs of a program on one kind of machine, and what has become slower since.
//!
//! Durations scatter, and some runs are disturbed. So the present duration is compared with the
//! median of earlier runs, and the spread is the median absolute deviation, which a few disturbed
//! runs do not change.

pub(crate) mod listing;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{JobProfile, RankProfile};
pub use listing::{details, list};

/// What is common to runs whose durations are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunKey {
    /// The path of the program of rank 0.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The number of ranks.
    pub ranks: u32,
    /// The number of machines.
    pub hosts: u32,
    /// The processor and the number of cores of rank 0's machine.
    pub machine: String,
}

/// The durations of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PastRun {
    version: u32,
    /// What it has in common with the runs that it is compared with.
    pub key: RunKey,
    /// When it ended, in seconds since 1970.
    pub ended: u64,
    /// What was timed: the whole run, computing, phases, and calls by size.
    pub items: Vec<TimedItem>,
}

/// Something whose duration was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedItem {
    /// What it is.
    pub subject: TimedSubject,
    /// How often it was done: by the slowest rank, or on average by each rank for calls.
    pub times: f64,
    /// How long it took each time on average, in seconds.
    pub seconds: f64,
}

/// What was timed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimedSubject {
    /// The time from `MPI_Init` to `MPI_Finalize`.
    Run,
    /// The time of a rank outside of MPI, on average.
    Computing,
    /// A phase of this name, on the rank that was in it longest.
    Phase(String),
    /// Calls.
    Call {
        /// The function, such as `MPI_Recv`.
        function: String,
        /// The function of the program that calls it, and its file.
        caller: Option<String>,
        /// The calls have at most so many bytes of data, and more than half of it; 0 if the
        /// arguments do not say how many.
        bytes_max: u64,
    },
}

/// Something that took longer than in earlier runs, beyond their spread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowerItem {
    /// What it is.
    pub subject: TimedSubject,
    /// How often it was done, and the median of earlier runs.
    pub times: f64,
    /// The median of that number in earlier runs.
    pub times_before: f64,
    /// How long it took each time on average, in seconds.
    pub seconds: f64,
    /// The median of earlier runs, in seconds.
    pub before: f64,
    /// The standard deviation that the median absolute deviation of earlier runs corresponds to,
    /// in seconds.
    pub spread: f64,
    /// The time that it costs the run, in seconds.
    pub cost: f64,
}

/// A run beside the earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunComparison {
    /// The number of earlier runs.
    pub runs: u32,
    /// What was slower than in these runs, the most expensive first.
    pub slower: Vec<SlowerItem>,
}

/// A program with its runs, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProgramHistory {
    /// What the runs have in common.
    pub key: RunKey,
    /// The runs.
    pub runs: Vec<PastRun>,
    /// The number of files of runs that are damaged or of another version.
    pub unusable: u32,
}

/// The version of the format of [`PastRun`].
const VERSION: u32 = 1;

/// The maximum number of calls, and of phases, of which a run keeps the durations: those that took
/// longest.
const ITEMS_MAX: usize = 64;

/// The minimum number of earlier runs that something is compared with. The spread of fewer is not
/// known.
pub const RUNS_MIN: usize = 5;

/// Something is slower if it exceeds the median by so many spreads, as in [`beyond`].
const SPREADS: f64 = 3.0;

/// Something is slower if it exceeds the median by this share, too.
const SLOWER_MIN: f64 = 0.1;

/// Something slower is reported if it costs this share of the run.
const WORTH: f64 = 0.02;

/// The standard deviation of a normal distribution divided by its median absolute deviation.
const DEVIATION_PER_MAD: f64 = 1.4826;

impl PastRun {
    /// Returns the durations of a job that has ended at `ended`, in seconds since 1970.
    pub fn of(key: RunKey, job: &JobProfile, ended: u64) -> Self {
        let ranks = job.ranks.len().max(1) as f64;
        let once = |subject, seconds| TimedItem { subject, times: 1.0, seconds };
        let computing = job.times.iter().map(|time| time.computing).sum::<f64>() / ranks;
        let mut items =
            vec![once(TimedSubject::Run, job.seconds), once(TimedSubject::Computing, computing)];
        items.extend(longest(phases(&job.ranks)));
        items.extend(longest(calls(&job.ranks)));
        Self { version: VERSION, key, ended, items }
    }

    /// Parses a run that [`to_json`](Self::to_json) has made. `None` if the text is damaged, or of
    /// another version.
    pub fn from_json(text: &str) -> Option<Self> {
        let run: Self = serde_json::from_str(text).ok()?;
        let is_time = |time: f64| time.is_finite() && time >= 0.0;
        let are_times = run.items.iter().all(|item| is_time(item.seconds) && is_time(item.times));
        (run.version == VERSION && are_times && run.items.len() <= 2 + 2 * ITEMS_MAX).then_some(run)
    }

    /// Returns the run as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// Returns how long a subject took each time, in seconds, if it was timed.
    fn item(&self, subject: &TimedSubject) -> Option<&TimedItem> {
        self.items.iter().find(|item| item.subject == *subject)
    }

    /// Compares the run with earlier ones of the same key.
    pub fn compared(&self, earlier: &[PastRun]) -> RunComparison {
        let whole = self.item(&TimedSubject::Run).map_or(0.0, |item| item.seconds);
        let mut slower: Vec<SlowerItem> = self
            .items
            .iter()
            .filter_map(|item| slower(item, earlier))
            .filter(|item| item.cost >= WORTH * whole)
            .collect();
        slower.sort_by(|one, other| other.cost.total_cmp(&one.cost));
        RunComparison { runs: earlier.len() as u32, slower }
    }
}

/// Returns how much slower something is than in earlier runs, if it is beyond their spread.
fn slower(item: &TimedItem, earlier: &[PastRun]) -> Option<SlowerItem> {
    let before: Vec<&TimedItem> =
        earlier.iter().filter_map(|run| run.item(&item.subject)).collect();
    if before.len() < RUNS_MIN {
        return None;
    }
    let (median, spread) = center(before.iter().map(|one| one.seconds).collect());
    let (times_before, _) = center(before.iter().map(|one| one.times).collect());
    let (times, seconds) = (item.times, item.seconds);
    (seconds > beyond(median, spread, before.len())).then(|| SlowerItem {
        subject: item.subject.clone(),
        times,
        times_before,
        seconds,
        before: median,
        spread,
        cost: (seconds - median) * times,
    })
}

/// Returns the duration above which something is slower than `runs` earlier runs with this median
/// and spread. The spread of few runs is often too small by chance.
fn beyond(median: f64, spread: f64, runs: usize) -> f64 {
    let few = 1.0 + RUNS_MIN as f64 / runs as f64;
    median + f64::max(SPREADS * few * spread, SLOWER_MIN * median)
}

/// Returns the median, and the standard deviation that the median absolute deviation corresponds
/// to.
fn center(values: Vec<f64>) -> (f64, f64) {
    let middle = median(values.clone());
    let deviations = values.into_iter().map(|value| (value - middle).abs()).collect();
    (middle, DEVIATION_PER_MAD * median(deviations))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => 0.0,
        count if count.is_multiple_of(2) => values[half - 1].midpoint(values[half]),
        _ => values[half],
    }
}

/// Returns the items that took longest in all.
fn longest(mut items: Vec<TimedItem>) -> Vec<TimedItem> {
    let whole = |item: &TimedItem| item.times * item.seconds;
    items.sort_by(|one, other| whole(other).total_cmp(&whole(one)));
    items.truncate(ITEMS_MAX);
    items
}

/// Returns each phase on the rank that was in it longest.
fn phases(ranks: &[RankProfile]) -> Vec<TimedItem> {
    let mut phases: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for phase in ranks.iter().flat_map(|rank| &rank.phases) {
        let longest = phases.entry(&phase.name).or_default();
        if phase.seconds >= longest.1 {
            *longest = (phase.times as f64, phase.seconds);
        }
    }
    let item = |(name, (times, seconds)): (&str, (f64, f64))| {
        let subject = TimedSubject::Phase(name.to_owned());
        (times > 0.0).then(|| TimedItem { subject, times, seconds: seconds / times })
    };
    phases.into_iter().filter_map(item).collect()
}

/// Returns the calls of all ranks by function, caller and size.
fn calls(ranks: &[RankProfile]) -> Vec<TimedItem> {
    let mut calls: BTreeMap<TimedSubject, (f64, f64)> = BTreeMap::new();
    for call in ranks.iter().flat_map(|rank| &rank.calls) {
        for size in &call.sizes {
            let subject = TimedSubject::Call {
                function: call.function.clone(),
                caller: call.caller.as_deref().map(without_line),
                bytes_max: size.bytes_max,
            };
            let sum = calls.entry(subject).or_default();
            *sum = (sum.0 + size.calls as f64, sum.1 + size.seconds);
        }
    }
    let ranks = ranks.len().max(1) as f64;
    let item = |(subject, (calls, seconds)): (TimedSubject, (f64, f64))| {
        (calls > 0.0).then(|| TimedItem { subject, times: calls / ranks, seconds: seconds / calls })
    };
    calls.into_iter().filter_map(item).collect()
}

/// Removes the numbers of lines from the name of a caller, as they change with the program:
/// `solve (a.c:12)` becomes `solve (a.c)`.
fn without_line(caller: &str) -> String {
    let mut text = String::new();
    let mut rest = caller;
    while let Some((before, after)) = rest.split_once(':') {
        text += before;
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let ends = after.as_bytes().get(digits).is_none_or(|next| *next == b')');
        rest = match digits > 0 && ends {
            true => &after[digits..],
            false => {
                text.push(':');
                after
            }
        };
    }
    text + rest
}

#[cfg(test)]
mod tests;
