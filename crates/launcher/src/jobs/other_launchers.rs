//! Jobs that another launcher has started, such as Slurm's `srun` or Hydra. Their processes are
//! found among those of this machine, and asked one by one. Processes on other machines are asked
//! there, and the answers are joined.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hangs::{JobReport, RankReport, Stage};
use launch::questions::{AskedProcess, Completeness};
use sys::process;

use super::JobSummary;
use crate::local_processes::asking::{ANSWER_TIME_MAX, STACK_TIME_MAX};

/// The processes of one job on this machine.
struct LocalPart {
    /// By rank.
    processes: BTreeMap<u32, AskedProcess>,
}

/// The time between two checks for answers.
const CHECK_PERIOD: Duration = Duration::from_millis(20);

/// Returns the jobs with processes on this machine.
pub(super) fn running() -> Vec<JobSummary> {
    parts().iter().map(LocalPart::summary).collect()
}

/// Returns what the processes of a job on this machine do; none: there is no such job.
pub(super) fn ask(job: u32) -> Option<JobReport> {
    parts().into_iter().find(|part| part.number() == job).map(LocalPart::ask)
}

/// Joins the reports about one job from several machines.
///
/// # Errors
/// A message for users: there is nothing to join, or the reports are of several jobs.
pub fn join(reports: Vec<JobReport>) -> Result<JobReport, String> {
    let mut reports = reports.into_iter();
    let mut joined = reports.next().ok_or("there is nothing to join")?;
    for report in reports {
        if report.name != joined.name || report.ranks.len() != joined.ranks.len() {
            return Err(format!(
                "the answers come from two jobs: {} and {}; name the job",
                joined.name, report.name
            ));
        }
        for (known, reported) in joined.ranks.iter_mut().zip(report.ranks) {
            if known.stage == Stage::Elsewhere {
                *known = reported;
            }
        }
    }
    joined.causes = hangs::causes(&joined.ranks);
    Ok(joined)
}

fn parts() -> Vec<LocalPart> {
    // Processes of two users belong to two jobs, whatever they report.
    let mut found: BTreeMap<(u32, String, u32), LocalPart> = BTreeMap::new();
    for one in AskedProcess::all() {
        let key = (one.user, one.identity.job.clone(), one.identity.size);
        let part = found.entry(key).or_insert_with(|| LocalPart { processes: BTreeMap::new() });
        part.processes.insert(one.identity.rank, one);
    }
    found.into_values().collect()
}

impl LocalPart {
    /// Returns the first process of the job on this machine.
    fn first(&self) -> &AskedProcess {
        self.processes.values().next().expect("a part is made for a process")
    }

    /// Returns the number of the job on this machine: the id of its first process.
    fn number(&self) -> u32 {
        self.first().process.unsigned_abs()
    }

    fn seconds(&self) -> f64 {
        let joined = Duration::from_secs(self.first().identity.joined);
        let since = UNIX_EPOCH.checked_add(joined);
        let since = since.and_then(|joined| SystemTime::now().duration_since(joined).ok());
        since.unwrap_or_default().as_secs_f64()
    }

    fn summary(&self) -> JobSummary {
        let identity = &self.first().identity;
        JobSummary {
            job: self.number(),
            program: identity.program.clone(),
            ranks: identity.size,
            hosts: identity.hosts,
            seconds: self.seconds(),
            spawned: Vec::new(),
        }
    }

    fn ask(mut self) -> JobReport {
        let mut answers: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        let mut open: Vec<u32> = Vec::new();
        for (&rank, one) in &mut self.processes {
            let is_stopped = |state: &str| state.starts_with("stopped");
            if !process::state(one.process).is_some_and(is_stopped) && one.ask().is_ok() {
                open.push(rank);
            }
        }
        let begun = Instant::now();
        while !open.is_empty() && begun.elapsed() < ANSWER_TIME_MAX + STACK_TIME_MAX {
            thread::sleep(CHECK_PERIOD);
            open.retain(|rank| match self.processes[rank].answer() {
                Some((completeness, text)) => {
                    answers.insert(*rank, text);
                    completeness == Completeness::MoreComes
                }
                None => begun.elapsed() < ANSWER_TIME_MAX,
            });
        }
        let identity = &self.first().identity;
        let ranks = (0..identity.size).map(|rank| self.report(rank, answers.get(&rank)));
        let ranks: Vec<RankReport> = ranks.collect();
        JobReport {
            job: self.number(),
            name: identity.job.clone(),
            program: identity.program.clone(),
            seconds: self.seconds(),
            causes: hangs::causes(&ranks),
            ranks,
            spawned: Vec::new(),
        }
    }

    fn report(&self, rank: u32, answer: Option<&Vec<u8>>) -> RankReport {
        let identity = &self.first().identity;
        let none = RankReport {
            rank,
            host: String::new(),
            process: 0,
            stage: Stage::Elsewhere,
            state: None,
            system_call: None,
            answer: None,
        };
        let Some(one) = self.processes.get(&rank) else {
            return match identity.here.contains(&rank) {
                true => RankReport {
                    host: identity.host.clone(),
                    stage: Stage::Ended("has ended".to_owned()),
                    ..none
                },
                false => none,
            };
        };
        let answer = answer.and_then(|text| foreign::from_json(text).ok());
        RankReport {
            host: identity.host.clone(),
            process: one.process,
            stage: Stage::Inside,
            state: process::state(one.process).map(str::to_owned),
            system_call: if answer.is_none() { process::waits_in(one.process) } else { None },
            answer,
            ..none
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(name: &str, reported: u32) -> JobReport {
        let rank = |rank| RankReport {
            rank,
            host: "n1".to_owned(),
            process: 7,
            stage: if rank == reported {
                Stage::Ended("has ended".to_owned())
            } else {
                Stage::Elsewhere
            },
            state: None,
            system_call: None,
            answer: None,
        };
        JobReport {
            job: 7,
            name: name.to_owned(),
            program: "./a".to_owned(),
            seconds: 1.0,
            causes: Vec::new(),
            ranks: vec![rank(0), rank(1)],
            spawned: Vec::new(),
        }
    }

    #[test]
    fn answers_from_two_machines_are_one() {
        let joined = join(vec![report("a", 0), report("a", 1)]).unwrap();
        assert!(joined.ranks.iter().all(|rank| rank.stage != Stage::Elsewhere));
        assert!(join(vec![report("a", 0), report("b", 1)]).is_err());
        assert!(join(Vec::new()).is_err());
    }
}
