//! Processes of the job that end while the others go on.
//!
//! What involves such a process fails with `MPIX_ERR_PROC_FAILED` as soon as this one knows: over a
//! network when the connection is lost, else when it has waited for half a second in vain, or
//! the launcher tells.

use std::thread;
use std::time::{Duration, Instant};

use base::{Error, ErrorClass, GateId};
use engine::FailedMember;

use super::Process;
use crate::communicator::Communicator;
use crate::errors::revoked;

impl Process {
    /// Looks for processes that have ended. If the job does not go on without them, it ends: some
    /// launchers do not see to that. Until this process has finalized, none of those that
    /// initialized MPI as it did may end.
    #[cold]
    pub(super) fn look_for_failures(&self) {
        if !self.is_initialized() || self.is_finalized() {
            return;
        }
        self.ask_for_failures();
        loop {
            let ended = self.runtime().ended_peer();
            let Some(gate) = ended else { break };
            if !self.runtime().goes_on_without(gate) {
                // Most launchers end the job themselves, and know better what happened.
                self.room.lock.without(|| thread::sleep(LAUNCHER_TIME_MAX));
                if !self.runtime().goes_on_without(gate) {
                    self.runtime().end_job_without(gate);
                }
            }
            self.runtime().fail(gate);
        }
        self.note_failures();
    }

    /// Asks the launcher, from time to time, for those with which there is no connection that would
    /// be lost, and whose process is not known.
    fn ask_for_failures(&self) {
        let started = self.started();
        let now = Instant::now();
        if self.asks_next.get().is_some_and(|next| now < next) {
            return;
        }
        self.asks_next.set(Some(now + ASKING_PERIOD));
        if !started.job.lacks_processes() {
            return;
        }
        for gate in (0..started.map.size()).map(GateId) {
            let is_known = self.runtime().failed().contains(&gate);
            if !is_known && started.job.has_ended(gate.0) {
                self.runtime().fail(gate);
            }
        }
    }

    /// No collective operation can take place any more on communicators that processes have failed
    /// of.
    pub(crate) fn note_failures(&self) {
        let failed = self.runtime().failed().to_vec();
        if self.failures_noted.replace(failed.len()) == failed.len() {
            return;
        }
        for communicator in self.contexts().communicators() {
            let members = communicator.everyone();
            if let Some(member) = failed.iter().find_map(|&gate| members.rank_of(gate)) {
                communicator.cache.note_failure(member);
            }
        }
    }

    /// Whether processes of the job have ended while the others go on, as far as can be known.
    pub fn has_lost_processes(&self) -> bool {
        !self.runtime().failed().is_empty() || self.started().job.lacks_processes()
    }

    /// `ProcFailed` if the process that a receive or probe would get a message from has failed, or
    /// if any of the communicator's has, which was not acknowledged, and any would do; `Revoked` if
    /// the communicator was revoked.
    pub fn failure_of_source(
        &self,
        communicator: &Communicator,
        source: Option<u32>,
    ) -> Option<Error> {
        if communicator.is_revoked() {
            return Some(communicator.explained(revoked()));
        }
        let runtime = self.runtime();
        let is_source = |one: &FailedMember| match source {
            None => !one.acknowledged,
            Some(rank) => rank == one.rank,
        };
        let mut failed = runtime.failed_members(communicator.point_to_point_context());
        let failed = failed.find(is_source)?.gate;
        Some(Error::new(
            ErrorClass::ProcFailed,
            format!("rank {} of the job, which the message may come from, has failed", failed.0),
        ))
    }
}

/// So long a launcher may take to end a job that has lost a process.
const LAUNCHER_TIME_MAX: Duration = Duration::from_secs(1);

/// How often the launcher is asked at most.
const ASKING_PERIOD: Duration = Duration::from_secs(2);
