//! The end of a job that cannot continue, and the launcher's word on peers that have ended.

use std::process;
use std::time::{Duration, Instant};

use base::GateId;
use driver::DriverError;
use launch::Job;

use crate::configuration::Configuration;
use crate::other_jobs::OtherJobs;

/// The interval between two queries of the launcher for a report that must come soon.
const NEWS_PERIOD: Duration = Duration::from_millis(20);

/// Ends the whole job when it cannot continue.
pub(crate) struct Fatal {
    job: Job,
    rank: u32,
    keeps_going: bool,
    pub(crate) other_jobs: OtherJobs,
}

impl Fatal {
    pub(crate) fn new(job: Job, configuration: Configuration, other_jobs: OtherJobs) -> Self {
        Self { rank: job.rank(), job, keeps_going: configuration.keeps_going(), other_jobs }
    }

    /// Whether the job continues without a peer that has ended: it always does if failures are
    /// survived, or if the peer belongs to another job; otherwise it does if the launcher
    /// reports within `limit` that this peer was ended alone.
    pub(crate) fn is_survived(&self, gate: GateId, limit: Duration) -> bool {
        self.keeps_going || self.other_jobs.has(gate) || self.was_ended(gate, limit)
    }

    /// The connection to the launcher.
    pub(crate) fn job(&self) -> &Job {
        &self.job
    }

    fn was_ended(&self, gate: GateId, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            if self.job.has_ended(gate.0) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(NEWS_PERIOD);
        }
    }

    /// Warns the user and continues.
    pub(crate) fn warn(&self, message: &str) {
        eprintln!("combray: rank {}: {}", self.rank, base::without_error_numbers(message));
    }

    /// Reports the reason to the user and ends the job.
    pub(crate) fn end(&self, message: &str) -> ! {
        let reason = format!("rank {} (process {}): {message}", self.rank, process::id());
        self.job.abort(1, &reason);
        process::exit(1)
    }
}

/// Returns the sentence for users about a peer that is not reached.
pub(crate) fn cannot_reach(gate: GateId, error: &DriverError) -> String {
    format!("rank {} cannot be reached: {error}", gate.0)
}
