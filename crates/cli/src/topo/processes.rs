//! The processes of a running job, and where the system lets them run.

use std::fs;

use launch::binding::Seat;
use topology::{CpuSet, Topology};

/// A process.
pub struct Process {
    /// The system's number.
    pub number: i32,
    /// Its rank, if a launcher gave it one.
    pub rank: Option<u32>,
    /// Where its first thread may run.
    pub allowed: CpuSet,
    /// All its threads, and where each may run.
    pub threads: Vec<(i32, CpuSet)>,
}

impl Process {
    /// What it is called in pictures and tables.
    pub fn name(&self) -> String {
        self.rank.map_or_else(|| format!("p{}", self.number), |rank| rank.to_string())
    }

    /// Its seat: none if it may run everywhere.
    pub fn seat(&self, topology: &Topology) -> Seat {
        let allowed = self.allowed.intersection(topology.threads());
        (allowed != *topology.threads()).then_some(allowed)
    }
}

/// More threads of a process are not looked at.
const THREADS_MAX: usize = 4096;

/// The processes with a rank that are below a process, or itself; if none has a rank, all of them.
///
/// # Errors
/// There is no such process.
pub fn of_job(job: i32) -> Result<Vec<Process>, String> {
    let numbers = std::iter::once(job).chain(sys::process::descendants(job));
    let all: Vec<Process> = numbers.filter_map(process).collect();
    if all.is_empty() {
        return Err(format!("there is no process {job} that could be looked at"));
    }
    let (mut ranks, others): (Vec<Process>, Vec<Process>) =
        all.into_iter().partition(|process| process.rank.is_some());
    ranks.sort_by_key(|process| (process.rank, process.number));
    // What a process of the job started itself has the same rank.
    ranks.dedup_by_key(|process| process.rank);
    Ok(if ranks.is_empty() { others } else { ranks })
}

fn process(number: i32) -> Option<Process> {
    let allowed = allowed(&format!("/proc/{number}/status"))?;
    let environment = fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
    let mut variables = environment.split(|byte| *byte == 0);
    let rank = variables.find_map(|one| one.strip_prefix(b"COMBRAY_RANK=".as_slice()));
    let rank = rank.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    let entries = fs::read_dir(format!("/proc/{number}/task")).ok()?.flatten().take(THREADS_MAX);
    let thread = |entry: fs::DirEntry| {
        let thread = entry.file_name().to_str()?.parse().ok()?;
        Some((thread, self::allowed(entry.path().join("status").to_str()?)?))
    };
    Some(Process { number, rank, allowed, threads: entries.filter_map(thread).collect() })
}

fn allowed(path: &str) -> Option<CpuSet> {
    let text = fs::read_to_string(path).ok()?;
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    CpuSet::from_list(list)
}
