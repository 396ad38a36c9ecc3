//! `combray ps`: the jobs of this machine, and the state of the ranks of one job.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;

use base::variables;
use launcher::jobs;

use crate::output::{print, print_page};
use crate::raster;

/// The options of `combray ps`.
#[derive(clap::Args)]
pub struct PsOptions {
    /// The job, by the process number of its launcher; without it, the only job that runs
    #[arg(value_parser = job_number)]
    job: Option<u32>,
    /// Prints JSON: one line
    #[arg(long)]
    json: bool,
    /// Joins what combray ps --json printed on several machines, read from standard input
    #[arg(long, conflicts_with = "job")]
    join: bool,
    /// Also draws which rank waits for which: .svg, or .png
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Writes what the ranks have recorded until now, if the job runs with --trace, to a file for
    /// Perfetto, instead of the state of the job
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "join", "picture"])]
    trace: Option<PathBuf>,
    /// With --trace: only the last seconds
    #[arg(long, value_name = "SECONDS", requires = "trace", value_parser = seconds)]
    last: Option<u64>,
}

/// Parses a number of seconds to nanoseconds.
fn seconds(text: &str) -> Result<u64, String> {
    variables::trace_last(text).ok_or_else(|| "not a number of seconds".to_owned())
}

/// Parses the process number of a launcher.
pub fn job_number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "it is not the number of a job; combray ps lists them".to_owned())
}

/// Prints the state of a job. Returns the exit code, which is 1 if there is no job.
///
/// # Errors
/// A message for the user: there is no such job, or it does not answer.
pub fn run(options: &PsOptions) -> Result<i32, String> {
    if options.join {
        return show(&joined()?, options).map(|()| 0);
    }
    let (running, silent) = match options.job {
        Some(_) => (Vec::new(), 0),
        None => jobs::running(),
    };
    if silent > 0 {
        eprintln!("combray: {silent} more jobs of this machine did not answer");
    }
    let top = not_spawned(&running);
    let job = match (options.job, top.as_slice()) {
        (Some(job), _) => job,
        (None, [only]) => only.job,
        (None, []) => return none_runs(options),
        (None, _) => {
            match options.json {
                true => print(&(text(&running)? + "\n"))?,
                false => list(&top)?,
            }
            return Ok(0);
        }
    };
    let answered = match &options.trace {
        Some(file) => jobs::write_trace(job, file, options.last),
        None => jobs::ask(job).and_then(|report| show(&report, options)),
    };
    match answered {
        // The only job has ended since it was found.
        Err(_) if options.job.is_none() && is_over(job) => none_runs(options),
        answered => answered.map(|()| 0),
    }
}

fn is_over(job: u32) -> bool {
    jobs::running().0.iter().all(|one| one.job != job)
}

/// Reports that there is no job. Returns the exit code.
fn none_runs(options: &PsOptions) -> Result<i32, String> {
    match options.json {
        true => print("[]\n")?,
        false => eprintln!(
            "combray: no job of this user runs on this machine; run combray ps where the launcher \
             of the job runs, or, if that launcher is not Combray's, where the processes of the \
             job run"
        ),
    }
    Ok(1)
}

/// Joins the reports of several machines from standard input, one per line. Other lines are
/// ignored.
fn joined() -> Result<jobs::JobReport, String> {
    let reported = io::stdin().lines().map_while(Result::ok);
    jobs::join(reported.filter_map(|line| jobs::read_report(line.as_bytes()).ok()).collect())
}

fn show(report: &jobs::JobReport, options: &PsOptions) -> Result<(), String> {
    if let Some(file) = &options.picture {
        raster::write(file, jobs::picture(report))?;
    }
    match options.json {
        true => print(&(text(report)? + "\n")),
        false => print_page(&jobs::table(report)),
    }
}

/// Returns the jobs that none of the others has spawned: spawned ones are shown below them.
pub fn not_spawned(running: &[jobs::JobSummary]) -> Vec<&jobs::JobSummary> {
    let mut below = HashSet::new();
    running.iter().for_each(|one| collect(&one.spawned, &mut below));
    let here = launcher::host_name();
    running.iter().filter(|one| !below.contains(&(one.job, here.as_str()))).collect()
}

fn list(running: &[&jobs::JobSummary]) -> Result<(), String> {
    let mut lines =
        format!("{:>8}  {:>6}  {:>6}  {:>8}  program\n", "job", "ranks", "hosts", "seconds");
    for one in running {
        let jobs::JobSummary { job, program, ranks, hosts, seconds, spawned } = one;
        lines += &format!("{job:>8}  {ranks:>6}  {hosts:>6}  {seconds:>8.0}  {program}\n");
        add_spawned(&mut lines, spawned, 1);
    }
    print(&lines)
}

/// Collects the number and host of each spawned job.
fn collect<'a>(spawned: &'a [jobs::SpawnedReport], found: &mut HashSet<(u32, &'a str)>) {
    for one in spawned {
        found.insert((one.job, one.host.as_str()));
        collect(&one.spawned, found);
    }
}

/// Appends a line for each spawned job, and those that it has spawned.
fn add_spawned(lines: &mut String, spawned: &[jobs::SpawnedReport], depth: usize) {
    for one in spawned {
        *lines += &format!("{}spawned {}\n", "  ".repeat(depth + 4), one.line());
        add_spawned(lines, &one.spawned, depth + 1);
    }
}

fn text(value: &impl serde::Serialize) -> Result<String, String> {
    serde_json::to_string(value).map_err(|error| error.to_string())
}
