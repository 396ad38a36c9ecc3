//! Processes of other jobs as peers.

use base::GateId;
use driver::DriverError;

use super::Runtime;
use crate::other_jobs::{GlobalProcess, JobId, ProcessContact};
use crate::wire_up;

impl Runtime {
    /// Returns the name of this job, which no other job has. All processes of the job get an equal
    /// name.
    ///
    /// # Errors
    /// The launcher does not return the secret of the job, or the system has no random numbers.
    pub fn job_id(&mut self) -> Result<JobId, DriverError> {
        if self.job_id.is_none() {
            self.job_id = Some(wire_up::job_id(self.fatal.job())?);
        }
        Ok(self.job_id.unwrap_or_default())
    }

    /// Returns the cards by which processes of other jobs reach this process, with the names of
    /// their drivers.
    pub fn cards(&self) -> Vec<(String, String)> {
        let cards = self.rails.cards_for_other_jobs().into_iter();
        cards.map(|(driver, card)| (driver.to_owned(), card)).collect()
    }

    /// Prepares to connect processes of other machines, which a job on one machine does not need.
    ///
    /// # Errors
    /// The configuration of networks makes no sense, or the system refuses sockets.
    pub fn add_networks(&mut self) -> Result<(), DriverError> {
        if self.rails.has_networks() {
            return Ok(());
        }
        let Self { rails, own, fatal, engine, .. } = self;
        let before = engine.rails().len();
        wire_up::add_networks(rails, *own, (fatal.job(), &fatal.other_jobs))?;
        rails.poll_networks_without_doorbell();
        engine.add_rails(rails.profiles().split_off(before));
        self.watches |= self.rails.has_networks();
        Ok(())
    }

    /// Returns the gate of a process of any job. A process of another job that has no gate gets the
    /// next one; [`introduce`](Self::introduce) must be called before anything is sent to it.
    ///
    /// # Errors
    /// Those of [`job_id`](Self::job_id).
    pub fn gate_of(&mut self, process: GlobalProcess) -> Result<GateId, DriverError> {
        match process.job == self.job_id()? {
            true => Ok(GateId(process.rank)),
            false => Ok(self.fatal.other_jobs.gate_of(process)),
        }
    }

    /// Returns the name of the process behind a gate that is valid in all jobs.
    ///
    /// # Errors
    /// Those of [`job_id`](Self::job_id).
    pub fn global_name(&mut self, gate: GateId) -> Result<GlobalProcess, DriverError> {
        match self.fatal.other_jobs.name_of(gate) {
            Some(process) => Ok(process),
            None => Ok(GlobalProcess { job: self.job_id()?, rank: gate.0 }),
        }
    }

    /// Sets how a process of another job is reached, unless that is known from an earlier
    /// connection.
    pub fn introduce(&mut self, gate: GateId, contact: ProcessContact) {
        self.fatal.other_jobs.introduce(gate, contact);
    }

    /// Whether a gate belongs to a process of another job.
    pub fn is_of_other_job(&self, gate: GateId) -> bool {
        self.fatal.other_jobs.has(gate)
    }
}
