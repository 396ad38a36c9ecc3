//! The comparison of a job with its earlier runs, on process 0.

use std::collections::HashSet;

use profiles::JobProfile;
use profiles::history::PastRun;
use runtime::configuration;
use runtime::histories::{HistoryFolder, key_of_job, since_1970};

/// Compares a job with earlier runs of the program, and keeps its durations, unless the user has
/// forbidden that. A folder that cannot be written is reported.
pub(super) fn compare_and_keep(job: &mut JobProfile) {
    if !configuration::keeps_history() {
        return;
    }
    let Some(folder) = HistoryFolder::of_user() else { return };
    let hosts: HashSet<&str> = job.ranks.iter().map(|rank| &*rank.host).collect();
    let key = key_of_job(job.ranks.len() as u32, hosts.len() as u32);
    let earlier = folder.runs(&key);
    let run = PastRun::of(key, job, since_1970().0);
    job.history = Some(run.compared(&earlier));
    if let Err(reason) = folder.add(&run) {
        eprintln!("combray: the durations of this run are not kept: {reason}");
    }
}
