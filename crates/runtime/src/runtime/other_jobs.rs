//! Processes of other jobs as peers.

use std::collections::HashSet;

use base::{GateId, RailId};
use driver::{DriverError, PeerEnd};

use super::Runtime;
use crate::instruments::journal::EventKind;
use crate::other_jobs::{GateOffer, GateStage, GlobalProcess, JobId, ProcessContact};
use crate::{rail_localities, wire_up};

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

    /// Prepares to connect processes of other jobs on other machines.
    ///
    /// # Errors
    /// The configuration names no network over which jobs connect, or makes no sense, or the system
    /// refuses sockets.
    pub fn reach_other_jobs_elsewhere(&mut self) -> Result<(), DriverError> {
        if !self.rails.has_networks() {
            self.add_networks()?;
        }
        match self.rails.has_network_to_other_jobs() {
            true => Ok(()),
            false => Err(DriverError {
                message:
                    "jobs on different machines connect over TCP, which COMBRAY_NET excludes: \
                          add it, as in COMBRAY_NET=ofi,tcp, for the processes of both jobs"
                        .to_owned(),
            }),
        }
    }

    /// Adds the networks that a job on one machine does not need.
    fn add_networks(&mut self) -> Result<(), DriverError> {
        let Self { rails, own, fatal, engine, .. } = self;
        let before = engine.rails().len();
        let places_matter = rail_localities::has_several_nodes();
        wire_up::add_networks(rails, *own, (fatal.job(), &fatal.other_jobs), places_matter)?;
        rails.extend_doorbell();
        engine.add_rails(rails.profiles().split_off(before));
        self.watches |= self.rails.has_networks();
        if places_matter {
            let rail_localities = wire_up::place(&mut self.rails, self.own.0);
            self.set_rail_localities(Box::new(rail_localities));
        }
        Ok(())
    }

    /// Whether a process that this process meets has a gate without a meeting: it is of this job,
    /// and what leaves the machine need not be encrypted.
    ///
    /// # Errors
    /// Those of [`job_id`](Self::job_id).
    pub fn has_gate(
        &mut self,
        process: GlobalProcess,
        is_encrypted: bool,
    ) -> Result<bool, DriverError> {
        let is_of_job = process.job == self.job_id()?;
        Ok(is_of_job && (!is_encrypted || process.rank == self.own.0))
    }

    /// Offers gates for a process of another job that this process meets; `None` for a process of
    /// this job, which has a gate. If what leaves the machine must be encrypted, other processes
    /// of this job get gates, too, beside those of their ranks. The offer must be
    /// [decided](Self::decide_gate) or [withdrawn](Self::withdraw_gates).
    ///
    /// # Errors
    /// Those of [`job_id`](Self::job_id).
    pub fn offer_gates(
        &mut self,
        process: GlobalProcess,
        is_encrypted: bool,
    ) -> Result<Option<GateOffer>, DriverError> {
        let has_gate = self.has_gate(process, is_encrypted)?;
        Ok((!has_gate).then(|| self.fatal.other_jobs.offer(process, is_encrypted)))
    }

    /// Returns the gate by which the process of another job behind `gate` names this process.
    pub fn gate_of_this_at(&self, gate: GateId) -> Option<GateId> {
        self.fatal.other_jobs.pair(gate).map(|pair| pair.own_gate)
    }

    /// Decides which of the offered gates both processes use, and returns it. `contact` says how
    /// the process is reached by its new gate; `None`: both processes have offered an open gate.
    pub fn decide_gate(&mut self, offer: GateOffer, contact: Option<ProcessContact>) -> GateId {
        self.fatal.other_jobs.decide(offer, contact)
    }

    /// Withdraws an offer of a meeting that has failed.
    pub fn withdraw_gates(&mut self, offer: GateOffer) {
        self.fatal.other_jobs.withdraw(offer);
    }

    /// Ends a meeting that has failed, although this process had decided for a new gate.
    pub fn abandon_gate(&mut self, gate: GateId) {
        self.fatal.other_jobs.abandon(gate);
    }

    /// Ends a meeting, after which the gate that was decided for is closed when it is not used.
    pub fn end_meeting(&mut self, gate: GateId) {
        self.fatal.other_jobs.end_meeting(gate);
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

    /// Whether a gate belongs, or belonged, to a process of another job.
    pub fn is_of_other_job(&self, gate: GateId) -> bool {
        self.fatal.other_jobs.has(gate)
    }

    /// Whether a process was lost because something between it and this one changed encrypted data.
    pub fn was_tampered_with(&self, gate: GateId) -> bool {
        self.rails.was_tampered_with(gate)
    }

    /// Whether this process has ever met processes of other jobs.
    pub fn has_met_other_jobs(&self) -> bool {
        !self.fatal.other_jobs.is_empty()
    }

    /// Records that a process of another job on this machine has failed, if it has ended.
    pub fn notice_end(&mut self, gate: GateId) {
        if self.is_of_other_job(gate) && self.rails.has_ended(gate) && !self.has_failed(gate) {
            // Its last messages may have come just before its end.
            self.progress();
            self.fail(gate);
        }
    }

    /// Records that the processes of other jobs on this machine that have ended while they were
    /// connected have failed.
    pub fn notice_ends(&mut self) {
        for (gate, stage) in self.fatal.other_jobs.unmet() {
            if stage == GateStage::Open {
                self.notice_end(gate);
            }
        }
    }

    /// Closes the gates of processes of other jobs that are not used any more, as far as that is
    /// possible now: each of the two processes sends the other a last record, and releases what it
    /// has for the connection when it has received that of the other. Returns how many could not be
    /// closed yet, because messages are underway.
    pub fn close_unused(&mut self, uses: &GateUses) -> usize {
        let mut busy = 0;
        for (gate, stage) in self.fatal.other_jobs.unmet() {
            match stage {
                GateStage::Open if uses.in_communicators.contains(&gate) => {}
                GateStage::Open if !self.engine.is_quiet(gate) => busy += 1,
                GateStage::Open => self.begin_closing(gate),
                GateStage::Abandoned if self.engine.is_quiet(gate) => self.retire(gate),
                GateStage::Abandoned => {}
                GateStage::Closing => self.end_closing_despite_end(gate),
                GateStage::Closed => match &uses.in_groups {
                    Some(groups) if !groups.contains(&gate) => self.fatal.other_jobs.free(gate),
                    _ => {}
                },
            }
        }
        self.leave_to_others();
        busy
    }

    /// Releases the connections whose other ends have been closed. Returns how many are left that
    /// are closed on this end only.
    pub fn end_closings(&mut self) -> usize {
        let closing = self.fatal.other_jobs.unmet();
        let closing = closing.into_iter().filter(|(_, stage)| *stage == GateStage::Closing);
        let gates: Vec<GateId> = closing.map(|(gate, _)| gate).collect();
        gates.iter().for_each(|gate| self.end_closing(*gate));
        gates.into_iter().filter(|gate| self.fatal.other_jobs.is_closing(*gate)).count()
    }

    fn begin_closing(&mut self, gate: GateId) {
        // The other process waits for the last record, too.
        let is_reached = self.try_connect(gate).is_ok() && self.engine.is_connected(gate);
        if !is_reached || self.engine.has_failed(gate) {
            return self.retire(gate);
        }
        self.engine.close_gate(gate);
        self.fatal.other_jobs.set_stage(gate, GateStage::Closing);
        self.flush_gate(gate);
    }

    fn end_closing(&mut self, gate: GateId) {
        if self.engine.has_failed(gate) {
            // The number stays in the engine's list of failed ones.
            self.retire(gate);
        } else if self.engine.is_closed(gate) {
            let backlog = |rail: &RailId| self.rails.backlog(gate, *rail);
            if self.engine.rails_of(gate).iter().map(backlog).sum::<u64>() > 0 {
                return;
            }
            self.forget(gate, PeerEnd::Closed);
            self.fatal.other_jobs.set_stage(gate, GateStage::Closed);
        } else if !self.engine.is_connected(gate) {
            self.retire(gate);
        }
    }

    /// Like [`end_closing`](Self::end_closing), but does not wait for a process that has ended.
    fn end_closing_despite_end(&mut self, gate: GateId) {
        let has_ended = self.rails.has_ended(gate);
        if has_ended {
            // Its last record may have come just before its end.
            self.progress();
        }
        self.end_closing(gate);
        if has_ended && self.fatal.other_jobs.is_closing(gate) {
            self.retire(gate);
        }
    }

    /// Forgets a process that has failed, has ended, or cannot be reached.
    fn retire(&mut self, gate: GateId) {
        // A message of it may be underway, which has begun after this process has closed its end.
        if !self.engine.is_quiet(gate) {
            self.fail(gate);
        }
        self.forget(gate, PeerEnd::Unknown);
        self.fatal.other_jobs.retire(gate);
    }

    fn forget(&mut self, gate: GateId, end: PeerEnd) {
        self.restoring.retain(|(of, _)| *of != gate);
        self.deferred.forget(gate);
        self.rails.forget(gate, end);
        self.engine.forget_gate(gate);
        self.instruments.journal.note(EventKind::PeerForgotten, &[gate.0.into()]);
    }
}

/// The gates that a process uses.
#[derive(Clone, Debug, Default)]
pub struct GateUses {
    /// The members of its communicators, windows and files.
    pub in_communicators: HashSet<GateId>,
    /// The members of groups that the program has, which name processes and need no connection.
    /// None: they are not known.
    pub in_groups: Option<HashSet<GateId>>,
}
