//! Times and calls of both libraries, side by side.

use std::fmt::Write;

use super::tally::MeasuredRun;

/// The number of calls to show: those that take longest.
const CALLS_MAX: usize = 12;

/// A job shorter than this many seconds consists largely of its start.
const SHORT: f64 = 10.0;

/// The table of all runs. Neither list of runs may be empty.
pub fn table(one: &[MeasuredRun], other: &[MeasuredRun], processes: u32) -> String {
    let mut text = head(one, other);
    let compared = times(&mut text, "MPI_Init to MPI_Finalize", [one, other], |run| run.seconds);
    row(&mut text, "whole job", [one, other], |run| run.whole, median);
    row(&mut text, "in calls, all processes", [one, other], MeasuredRun::inside, median);
    let share = |runs: &[MeasuredRun]| {
        let of = |run: &MeasuredRun| 100.0 * run.inside() / (run.seconds * f64::from(processes));
        format!("{:.0} %", median(&sorted(runs, of)))
    };
    _ = writeln!(text, "  part of the time{:>32}{:>20}", share(one), share(other));
    _ = writeln!(text, "\n{compared}");
    _ = writeln!(text, "\n{:<28}{:>10}{:>10}{:>20}", "call", "number", "seconds", "seconds");
    for (call, count) in longest(one, other) {
        let of = |runs: &[MeasuredRun]| {
            let in_call = |run: &MeasuredRun| {
                let found = run.calls.iter().find(|(known, _, _)| *known == call);
                found.map_or(0.0, |(_, _, seconds)| *seconds)
            };
            seconds(median(&sorted(runs, in_call)))
        };
        _ = writeln!(text, "{call:<28}{count:>10}{:>10}{:>20}", of(one), of(other));
    }
    text
}

/// The table of runs of which only the duration is known.
pub fn table_of_jobs(one: &[MeasuredRun], other: &[MeasuredRun]) -> String {
    let mut text = head(one, other);
    let compared = times(&mut text, "whole job, with its start", [one, other], |run| run.whole);
    let is_short = [one, other].iter().any(|runs| median(&sorted(runs, |run| run.whole)) < SHORT);
    let hint = match is_short {
        true => "The times of jobs this short consist mostly of their start: use longer runs.\n",
        false => "",
    };
    text + &format!(
        "\n{compared}\n{hint}Calls are counted in programs of MPI's standard ABI only: those of Combray's mpicc, or \
         of MPICH's mpicc_abi.\n"
    )
}

fn head(one: &[MeasuredRun], other: &[MeasuredRun]) -> String {
    format!("{:<28}{:>20}{:>20}\n", "", name(one), name(other))
}

/// Adds a row with the figure of both sides. Returns the two figures.
fn row(
    text: &mut String,
    label: &str,
    sides: [&[MeasuredRun]; 2],
    of: fn(&MeasuredRun) -> f64,
    choose: fn(&[f64]) -> f64,
) -> [f64; 2] {
    let values = sides.map(|runs| choose(&sorted(runs, of)));
    let [a, b] = values.map(seconds);
    _ = writeln!(text, "{label:<28}{a:>20}{b:>20}");
    values
}

/// Adds a row of the medians of a time, and rows of its extremes. Returns the verdict on the
/// medians.
fn times(
    text: &mut String,
    label: &str,
    sides: [&[MeasuredRun]; 2],
    of: fn(&MeasuredRun) -> f64,
) -> String {
    let [a, b] = row(text, label, sides, of, median);
    row(text, "  fastest run", sides, of, |all| all[0]);
    row(text, "  slowest run", sides, of, |all| all[all.len() - 1]);
    let [one, other] = sides.map(|runs| spread(runs, of));
    verdict(a, b, one.max(other))
}

/// Compares the medians. If the runs of one side differ by more than the medians do, the verdict is
/// that there is no clear difference.
fn verdict(one: f64, other: f64, spread: f64) -> String {
    let (least, most) = if one <= other { (one, other) } else { (other, one) };
    let ratio = most / least.max(f64::MIN_POSITIVE);
    if ratio - 1.0 <= spread {
        return format!(
            "The difference is not larger than between runs of one library ({:.0} %).",
            100.0 * spread
        );
    }
    if one <= other {
        return format!("The other library takes {ratio:.2} times as long as Combray.");
    }
    format!("Combray takes {ratio:.2} times as long as the other library.")
}

/// The distance between the quartiles of the runs, relative to their median.
fn spread(runs: &[MeasuredRun], of: fn(&MeasuredRun) -> f64) -> f64 {
    let all = sorted(runs, of);
    let quarter = all.len() / 4;
    (all[all.len() - 1 - quarter] - all[quarter]) / median(&all).max(f64::MIN_POSITIVE)
}

fn sorted(runs: &[MeasuredRun], of: impl Fn(&MeasuredRun) -> f64) -> Vec<f64> {
    let mut all: Vec<f64> = runs.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    all
}

fn median(all: &[f64]) -> f64 {
    (all[(all.len() - 1) / 2] + all[all.len() / 2]) / 2.0
}

/// The calls that take longest with either library, and how often they are made.
fn longest(one: &[MeasuredRun], other: &[MeasuredRun]) -> Vec<(String, u64)> {
    let mut calls: Vec<(String, u64, f64)> = Vec::new();
    for (name, count, seconds) in one[0].calls.iter().chain(&other[0].calls) {
        match calls.iter_mut().find(|(known, _, _)| known == name) {
            Some((_, _, most)) => *most = most.max(*seconds),
            None => calls.push((name.clone(), *count, *seconds)),
        }
    }
    calls.sort_by(|a, b| b.2.total_cmp(&a.2));
    calls.truncate(CALLS_MAX);
    calls.into_iter().map(|(name, count, _)| (name, count)).collect()
}

/// The first words of the library's version text.
fn name(runs: &[MeasuredRun]) -> String {
    let text = runs[0].library.split(',').next().unwrap_or_default().replace("Version:", "");
    let words: Vec<&str> = text.split_whitespace().take(3).collect();
    words.join(" ").chars().take(18).collect()
}

fn seconds(value: f64) -> String {
    format!("{value:.4} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(library: &str, times: &[f64]) -> Vec<MeasuredRun> {
        let run = |seconds: &f64| MeasuredRun {
            library: library.into(),
            seconds: *seconds,
            whole: seconds + 0.1,
            calls: vec![("MPI_Send".into(), 4, seconds / 10.0), ("MPI_Recv".into(), 4, *seconds)],
        };
        times.iter().map(run).collect()
    }

    #[test]
    fn medians_stand_side_by_side() {
        let (one, other) = (
            runs("Combray 0.2.0, MPI", &[1.0, 1.01, 3.0]),
            runs("MPICH Version:  5.0", &[2.0, 2.0, 2.1]),
        );
        let text = table(&one, &other, 2);
        assert!(
            text.lines().next().unwrap().ends_with("Combray 0.2.0           MPICH 5.0"),
            "{text}"
        );
        assert!(text.contains("1.0100 s            2.0000 s"), "{text}");
        assert!(text.find("MPI_Recv") < text.find("MPI_Send"), "{text}");
        let text = table_of_jobs(&one, &other);
        assert!(
            text.contains("1.1100 s            2.1000 s") && !text.contains("MPI_Send"),
            "{text}"
        );
    }

    #[test]
    fn small_differences_are_none() {
        assert!(verdict(1.0, 2.0, 0.1).contains("other library takes 2.00 times"));
        assert!(verdict(3.0, 2.0, 0.1).contains("Combray takes 1.50 times"));
        assert!(verdict(1.0, 1.05, 0.1).contains("is not larger"));
        assert!(spread(&runs("x", &[1.0, 1.0, 1.0, 1.0, 9.0]), |run| run.seconds) < 1e-9);
    }
}
