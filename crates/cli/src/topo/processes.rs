//! The processes of a running job, and the hardware threads on which each may run.

use std::fs;

use base::variables;
use launcher::binding::Cpuset;
use serde_json::{Value, json};
use threads::census::Census;
use topology::{CpuSet, Kind, ObjectId, Topology};

/// A process.
pub struct ShownProcess {
    /// The host on which it runs, if several hosts are shown.
    pub host: Option<String>,
    /// The process number.
    pub number: i32,
    /// Its rank, if a launcher gave it one.
    pub rank: Option<u32>,
    /// The hardware threads on which its first thread may run.
    pub allowed: CpuSet,
    /// All its threads, and the hardware threads on which each may run.
    pub threads: Vec<(i32, CpuSet)>,
    /// The census of its threads of combray_threads.h, if requested.
    pub workers: Vec<Census>,
}

impl ShownProcess {
    /// The name in pictures and tables.
    pub fn name(&self) -> String {
        self.rank.map_or_else(|| format!("p{}", self.number), |rank| rank.to_string())
    }

    /// The machine on which it runs.
    pub fn machine(&self, topology: &Topology) -> ObjectId {
        let machines = topology.of_kind(Kind::Machine).into_iter();
        let mut same = machines.filter(|id| self.host.is_some() && topology[*id].name == self.host);
        same.next().unwrap_or(topology.root())
    }

    /// The cpuset to which it is bound on a machine; `None` if it is not bound.
    pub fn cpuset(&self, topology: &Topology, machine: ObjectId) -> Cpuset {
        let all = &topology[machine].threads;
        let allowed = self.allowed.intersection(all);
        (allowed != *all).then_some(allowed)
    }

    /// Queries the census of its threads of combray_threads.h.
    pub fn ask(&mut self) {
        self.workers = u32::try_from(self.number).map_or(Vec::new(), Census::of_process);
    }

    /// Everything as JSON, for another process that shows it.
    pub fn to_json(&self) -> Value {
        let threads = self.threads.iter();
        let threads: Vec<Value> = threads
            .map(|(number, threads)| json!({ "number": number, "threads": threads.to_string() }))
            .collect();
        json!({
            "host": self.host,
            "rank": self.rank,
            "process": self.number,
            "threads": self.allowed.to_string(),
            "of": threads,
            "workers": self.workers,
        })
    }

    /// Parses the output of [`to_json`](Self::to_json) for a process on a host.
    pub fn from_json(value: &Value, host: &str) -> Option<Self> {
        let set = |value: &Value| CpuSet::from_list(value.as_str()?);
        let number = |value: &Value| i32::try_from(value.as_i64()?).ok();
        let thread = |one: &Value| Some((number(&one["number"])?, set(&one["threads"])?));
        Some(Self {
            host: Some(host.to_owned()),
            number: number(&value["process"])?,
            rank: value["rank"].as_u64().and_then(|rank| u32::try_from(rank).ok()),
            allowed: set(&value["threads"])?,
            threads: value["of"].as_array()?.iter().map(thread).collect::<Option<_>>()?,
            workers: serde_json::from_value(value["workers"].clone()).ok()?,
        })
    }
}

/// The maximum number of threads of a process that are read.
const THREADS_MAX: usize = 4096;

/// The processes with a rank among a process and its descendants; if none has a rank, all of them.
///
/// # Errors
/// There is no such process.
pub fn of_job(job: i32) -> Result<Vec<ShownProcess>, String> {
    let numbers = std::iter::once(job).chain(sys::process::descendants(job));
    let all: Vec<ShownProcess> = numbers.filter_map(process).collect();
    if all.is_empty() {
        return Err(format!("there is no process {job} that this user may inspect"));
    }
    let (mut ranks, others): (Vec<ShownProcess>, Vec<ShownProcess>) =
        all.into_iter().partition(|process| process.rank.is_some());
    ranks.sort_by_key(|process| (process.rank, process.number));
    // Children of a rank's process inherit the rank.
    ranks.dedup_by_key(|process| process.rank);
    Ok(if ranks.is_empty() { others } else { ranks })
}

/// The name of the job to which a process or one of its descendants belongs.
pub fn name_of_job(job: i32) -> Option<String> {
    let mut numbers = std::iter::once(job).chain(sys::process::descendants(job));
    numbers.find_map(|number| variable(number, variables::JOB))
}

/// The processes of this machine that belong to the job of this name, in the order of their ranks.
pub fn of_job_named(name: &str) -> Vec<ShownProcess> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_member = |number: &i32| variable(*number, variables::JOB).as_deref() == Some(name);
    let mut all: Vec<ShownProcess> = numbers.filter(is_member).filter_map(process).collect();
    all.retain(|process| process.rank.is_some());
    all.sort_by_key(|process| (process.rank, process.number));
    all.dedup_by_key(|process| process.rank);
    all
}

/// The value of a variable in the environment of a process.
fn variable(number: i32, name: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{number}/environ")).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables.find_map(|one| one.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

fn process(number: i32) -> Option<ShownProcess> {
    let allowed = allowed(&format!("/proc/{number}/status"))?;
    let rank = variable(number, variables::RANK).and_then(|digits| digits.parse().ok());
    let entries = fs::read_dir(format!("/proc/{number}/task")).ok()?.flatten().take(THREADS_MAX);
    let thread = |entry: fs::DirEntry| {
        let thread = entry.file_name().to_str()?.parse().ok()?;
        Some((thread, self::allowed(entry.path().join("status").to_str()?)?))
    };
    Some(ShownProcess {
        host: None,
        number,
        rank,
        allowed,
        threads: entries.filter_map(thread).collect(),
        workers: Vec::new(),
    })
}

fn allowed(path: &str) -> Option<CpuSet> {
    let text = fs::read_to_string(path).ok()?;
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    CpuSet::from_list(list)
}
