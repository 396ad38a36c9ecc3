//! Connects peers, and handles rails to them that are lost or restored.

use std::time::Duration;

use base::{GateId, RailId};
use driver::DriverError;
use drivers::PeerConnection;

use super::Runtime;
use crate::fatal::cannot_reach;
use crate::instruments::journal::EventKind;

/// How long to wait, after a peer was lost, for the launcher to end the whole job, or to report
/// that the peer was ended alone.
const LAST_WORD: Duration = Duration::from_secs(1);

/// The timeout for peers that do not take leave.
const LEAVE_MAX: Duration = Duration::from_secs(1);

impl Runtime {
    /// Connects a peer now, and returns the error if that fails.
    ///
    /// # Errors
    /// The peer cannot be reached.
    pub(crate) fn try_connect(&mut self, gate: GateId) -> Result<(), DriverError> {
        if !self.engine.is_connected(gate) && !self.engine.has_failed(gate) {
            let PeerConnection { rails, fetches } = self.rails.connect(gate)?;
            self.engine.connect(gate, &rails);
            if fetches {
                self.engine.fetch_from(gate);
            }
            if let Some(fragmentation) = self.rails.fragmentation(&rails) {
                self.engine.fragment_to(gate, fragmentation);
            }
            self.instruments.runtime.peers.add(1);
            self.instruments
                .journal
                .note(EventKind::PeerConnected, &[gate.0.into(), fetches.into()]);
        }
        Ok(())
    }

    /// Connects a peer. If that fails, the peer has failed, or the job ends, since messages to it
    /// or from it would be lost.
    #[cold]
    pub fn connect(&mut self, gate: GateId) {
        if let Err(error) = self.try_connect(gate) {
            if !self.fatal.is_survived(gate, LAST_WORD) {
                self.fatal.end(&cannot_reach(gate, &error));
            }
            self.fail(gate);
        }
    }

    /// Continues without a rail to a peer. If it was the last one, the peer has failed or the job
    /// ends.
    #[cold]
    pub(super) fn lose(&mut self, gate: GateId, rail: RailId, why: &DriverError) {
        if !self.engine.is_connected(gate) || !self.engine.rails_of(gate).contains(&rail) {
            return;
        }
        self.rails.give_up(gate, rail);
        let has_others = self.engine.lose_rail(gate, rail);
        if self.engine.is_closing(gate) {
            // The process of another job was faster to forget this one, or has ended. If a message
            // of it is underway, it will not arrive.
            if !has_others && !self.engine.let_go(gate) {
                self.fail(gate);
            }
            return;
        }
        if !has_others {
            if self.rails.has_departed(gate) && self.engine.let_go(gate) {
                return;
            }
            // If the peer was ended with the whole job, another process has reported the reason.
            if !self.fatal.is_survived(gate, LAST_WORD) {
                self.fatal.end(&cannot_reach(gate, why));
            }
            self.fail(gate);
            return;
        }
        self.restoring.push((gate, rail));
        self.rails.restore(gate, rail);
        self.instruments.journal.note(EventKind::RailLost, &[gate.0.into(), rail.0.into()]);
        // One of the two peers reports it.
        if !self.warned && self.own < gate {
            self.warned = true;
            let rank = self.own.0;
            eprintln!(
                "combray: rank {rank}: {} can no longer be reached {why}; the job goes on over the other interfaces",
                self.fatal.other_jobs.describe(gate)
            );
        }
    }

    /// Uses a lost rail again, which works now.
    #[cold]
    pub(super) fn regain(&mut self, gate: GateId, rail: RailId) {
        self.restoring.retain(|one| *one != (gate, rail));
        if !self.engine.restore_rail(gate, rail) {
            return self.rails.give_up(gate, rail);
        }
        let numbers = [gate.0.into(), rail.0.into()];
        self.instruments.journal.note(EventKind::RailRestored, &numbers);
        if self.warned && self.restoring.is_empty() {
            self.warned = false;
            eprintln!("combray: rank {}: all interfaces are used again", self.own.0);
        }
    }

    /// Ends the job, because the process behind `gate` ended without `MPI_Finalize`.
    pub fn end_job_without(&self, gate: GateId) -> ! {
        self.fatal.end(&format!(
            "rank {} has ended without MPI_Finalize, and the launcher goes on. The job ends, because other ranks would wait for it forever",
            gate.0
        ))
    }

    /// Ends the job, because of `why`.
    pub fn end_job(&self, why: &str) -> ! {
        self.fatal.end(why)
    }

    /// Takes leave of the peers on other machines: waits until they have received all data, and
    /// until they take leave too or the timeout has passed.
    pub fn leave(&mut self) {
        let Self { rails, deferred, engine, fatal, instruments, .. } = self;
        rails.leave(&mut deferred.receiver(engine, fatal, instruments), LEAVE_MAX);
        for (gate, _, why) in self.deferred.lost() {
            if !self.rails.has_departed(gate) && !self.fatal.is_survived(gate, Duration::ZERO) {
                self.fatal.warn(&format!(
                    "rank {} can no longer be reached {why}; the last messages to it may be lost",
                    gate.0
                ));
            }
        }
    }
}
