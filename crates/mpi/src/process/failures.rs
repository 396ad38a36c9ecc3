//! Failures of processes of the job while the others continue.
//!
//! Operations that involve a failed process fail with `MPIX_ERR_PROC_FAILED` as soon as this
//! process knows of the failure. Over a network it knows when the connection is lost; else when
//! it has waited for half a second without result, or when the launcher reports the failure.

use std::thread;
use std::time::{Duration, Instant};

use base::{Error, ErrorClass, GateId};
use engine::FailedMember;

use super::Process;
use crate::errors::revoked;
use crate::team::Team;

impl Process {
    /// Checks for processes that have failed. While the world is in use, no process of the job may
    /// end: one that has ended has failed. In a program that uses sessions only, processes may end
    /// one by one, and only the launcher knows which of them have failed.
    #[cold]
    pub(super) fn check_for_failures(&self) {
        let is_world_used = self.is_initialized() && !self.is_finalized();
        if !is_world_used && (self.open_sessions() == 0 || self.left.get()) {
            return;
        }
        self.ask_for_failures();
        match is_world_used {
            true => self.check_for_ends(),
            false => self.runtime().notice_ends(),
        }
        self.note_failures();
    }

    /// Checks for processes that have ended. If the job cannot continue without them, ends the
    /// job, because some launchers do not.
    fn check_for_ends(&self) {
        loop {
            let ended = self.runtime().ended_peer();
            let Some(gate) = ended else { break };
            if !self.runtime().goes_on_without(gate) {
                // Most launchers end the job themselves, and can report the reason better.
                self.wait_state.lock.without(|| thread::sleep(LAUNCHER_TIME_MAX));
                if !self.runtime().goes_on_without(gate) {
                    self.runtime().end_job_without(gate);
                }
            }
            self.runtime().fail(gate);
        }
    }

    /// Asks the launcher for failed processes. This finds the failures of processes whose
    /// identifier is unknown and to which there is no connection that could be lost. Our own
    /// launcher is asked only when the number of failures that it publishes in memory has changed,
    /// others at most once in [`ASKING_PERIOD`].
    fn ask_for_failures(&self) {
        match self.started().questions.published_failures() {
            Some(count) if self.failures_asked.replace(count) == count => return,
            Some(_) => {}
            None if !self.is_asking_due() || !self.job().lacks_processes() => return,
            None => {}
        }
        for gate in self.job().ended_ranks().into_iter().map(GateId) {
            self.runtime().fail(gate);
        }
    }

    /// Whether [`ASKING_PERIOD`] has passed since this returned true.
    fn is_asking_due(&self) -> bool {
        let now = Instant::now();
        let is_due = self.asks_next.get().is_none_or(|next| now >= next);
        if is_due {
            self.asks_next.set(Some(now + ASKING_PERIOD));
        }
        is_due
    }

    /// Makes collective operations fail on communicators with failed members, and reports new
    /// failures to the members of other jobs.
    pub(crate) fn note_failures(&self) {
        let failed = self.runtime().failed().to_vec();
        let noted = self.failures_noted.replace(failed.len());
        if noted == failed.len() {
            return;
        }
        for team in self.teams().living() {
            let members = team.all_members();
            if let Some(member) = failed.iter().find_map(|&gate| members.rank_of(gate)) {
                team.cache.note_failure(member);
                self.report_failures(&team, &failed[noted..]);
            }
        }
    }

    /// Returns an error if no message can arrive for a receive or probe from `source`.
    /// `ProcFailed` means that the source has failed; for any source, that a member of the
    /// communicator has failed and the failure is not acknowledged. `Revoked` means that the
    /// communicator was revoked.
    pub fn failure_of_source(&self, team: &Team, source: Option<u32>) -> Option<Error> {
        if team.is_revoked() {
            return Some(team.explained(revoked()));
        }
        let runtime = self.runtime();
        let is_source = |one: &FailedMember| match source {
            None => !one.acknowledged,
            Some(rank) => rank == one.rank,
        };
        let mut failed = runtime.failed_members(team.point_to_point_context());
        let failed = failed.find(is_source)?.gate;
        Some(Error::new(
            ErrorClass::ProcFailed,
            format!("rank {} of the job, which the message may come from, has failed", failed.0),
        ))
    }
}

/// The time that a launcher may take to end a job that has lost a process.
const LAUNCHER_TIME_MAX: Duration = Duration::from_secs(1);

/// The minimum time between two questions to a launcher that does not publish failures.
const ASKING_PERIOD: Duration = Duration::from_secs(2);
