//! Histories as text for the user.

use super::{
    PastRun, ProgramHistory, RUNS_MIN, RunComparison, SlowerItem, TimedSubject, beyond, center,
};
use crate::page::table;
use crate::words::{self, percent};

/// The maximum number of rows of the table of what was slower.
const ROWS_MAX: usize = 10;

pub(crate) const SLOWER_HEADER: [&str; 7] =
    ["costs", "each", "before", "spread", "times", "before", "what"];

impl TimedSubject {
    /// Returns the name for users.
    pub fn name(&self) -> String {
        match self {
            TimedSubject::Run => "the whole run".to_owned(),
            TimedSubject::Computing => "computing".to_owned(),
            TimedSubject::Phase(name) => format!("phase {name}"),
            TimedSubject::Call { function, caller, bytes_max } => {
                let place = words::place(function, caller.as_deref());
                match bytes_max {
                    0 => place,
                    _ => format!("{place}, to {}", words::bytes(*bytes_max)),
                }
            }
        }
    }
}

impl SlowerItem {
    /// Returns the row of the table of what was slower.
    pub(crate) fn cells(&self) -> Vec<String> {
        vec![
            words::fine_seconds(self.cost),
            words::fine_seconds(self.seconds),
            words::fine_seconds(self.before),
            percent(self.spread, self.before),
            times(self.times),
            times(self.times_before),
            self.subject.name(),
        ]
    }
}

impl RunComparison {
    /// Returns the title above the table of what was slower, or the sentence in its place.
    pub(crate) fn title(&self) -> String {
        match (self.runs as usize, self.slower.len()) {
            (..RUNS_MIN, _) => format!(
                "History: earlier runs of this program with these arguments on such a machine: {}; \
                 durations are compared from {RUNS_MIN} on",
                self.runs
            ),
            (runs, 0) => format!("Nothing was slower than in {runs} earlier runs"),
            (runs, _) => {
                format!("Slower than in {runs} earlier runs (their median; combray history)")
            }
        }
    }

    /// Returns the rows of the table of what was slower.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        self.slower.iter().take(ROWS_MAX).map(SlowerItem::cells).collect()
    }

    /// Returns the table as text.
    pub(crate) fn text(&self) -> String {
        match self.slower.is_empty() {
            true => format!("\n{}.\n", self.title()),
            false => table(&self.title(), &SLOWER_HEADER, &self.rows()),
        }
    }
}

/// Returns a list of histories, as a table; `now` is the time in seconds since 1970.
pub fn list(histories: &[ProgramHistory], now: u64) -> String {
    let row = |history: &ProgramHistory| {
        let (median, spread) = center(durations(history, &TimedSubject::Run));
        vec![
            history.runs.len().to_string(),
            history.runs.last().map_or(String::new(), |last| ago(now, last.ended)),
            words::fine_seconds(median),
            percent(spread, median),
            format!("{}{}", name(history), unusable(history)),
        ]
    };
    let rows: Vec<Vec<String>> = histories.iter().map(row).collect();
    let text = table("", &["runs", "last", "median", "spread", "program"], &rows);
    text.trim_start_matches('\n').to_owned()
}

/// Returns all durations of a program, as a table.
pub fn details(history: &ProgramHistory, now: u64) -> String {
    let last = history.runs.last();
    let row = |item: &super::TimedItem| {
        let earlier: Vec<f64> = history
            .runs
            .iter()
            .rev()
            .skip(1)
            .filter_map(|run| seconds(run, &item.subject))
            .collect();
        let runs = earlier.len();
        let (median, spread) = center(earlier);
        let compared = match runs {
            ..RUNS_MIN => "",
            _ if item.seconds > beyond(median, spread, runs) => "slower",
            _ => "",
        };
        vec![
            words::fine_seconds(item.seconds),
            if runs > 0 { words::fine_seconds(median) } else { String::new() },
            if runs > 1 { percent(spread, median) } else { String::new() },
            runs.to_string(),
            times(item.times),
            compared.to_owned(),
            item.subject.name(),
        ]
    };
    let rows: Vec<Vec<String>> = last.iter().flat_map(|run| &run.items).map(row).collect();
    let title = format!(
        "{}{}: {} {}, the last {}",
        name(history),
        unusable(history),
        history.runs.len(),
        if history.runs.len() == 1 { "run" } else { "runs" },
        last.map_or(String::new(), |last| ago(now, last.ended)),
    );
    let header = ["last", "median", "spread", "runs", "times", "", "what"];
    table(&title, &header, &rows)
}

fn durations(history: &ProgramHistory, subject: &TimedSubject) -> Vec<f64> {
    history.runs.iter().filter_map(|run| seconds(run, subject)).collect()
}

fn seconds(run: &PastRun, subject: &TimedSubject) -> Option<f64> {
    run.item(subject).map(|item| item.seconds)
}

fn name(history: &ProgramHistory) -> String {
    let key = &history.key;
    let plural = |count: u32, one: &str| match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {one}s"),
    };
    let command = [std::slice::from_ref(&key.program), &key.arguments[..]].concat().join(" ");
    let command: String = command.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    format!(
        "{command} ({} on {}, {})",
        plural(key.ranks, "rank"),
        plural(key.hosts, "machine"),
        key.machine
    )
}

fn unusable(history: &ProgramHistory) -> String {
    match history.unusable {
        0 => String::new(),
        count => format!(" [{count} unusable]"),
    }
}

fn times(number: f64) -> String {
    match number {
        ..9.95 if number.fract() > 0.0 => format!("{number:.1}"),
        _ => words::count(number.round() as u64),
    }
}

/// Returns how long ago a moment was.
fn ago(now: u64, then: u64) -> String {
    let seconds = now.saturating_sub(then);
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}
