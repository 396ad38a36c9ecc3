//! How a job ends: failures, and what follows for the ranks that still run.

use std::time::Duration;

use base::variables::HOST_TIMEOUT_DEFAULT;
use sys::process::{End, signal};

use super::host::JobHost;
use super::messages::{self, Consequence, FailedProcess, HostPhase};
use super::{
    CODE_NOT_STARTED, CODE_TIMEOUT, Deadline, JobState, KILL_DELAY, KILL_DELAY_AFTER_SIGNAL,
};
use crate::protocol::{AgentOrder, START_TIME_MAX};

/// How many times the ranks of a host are killed at least before the host counts as unreachable.
const KILLS_MIN: u32 = 3;

impl JobState<'_> {
    /// Continues without a host and those below it, whose processes have ended, or will be ended
    /// by their agents.
    pub(super) fn give_up_host(&mut self, host: usize) {
        for below in self.actions.tree.below(host).into_iter().rev() {
            self.give_up_alone(below);
        }
        self.give_up_alone(host);
    }

    fn give_up_alone(&mut self, host: usize) {
        self.hosts[host].close(&mut self.actions);
        self.deadlines.clear(Deadline::Silence(host));
        self.deadlines.clear(Deadline::CommandEnd(host));
        for &rank in &self.hosts[host].ranks {
            let rank_state = &mut self.ranks[rank as usize];
            rank_state.mark_lost(End::Signal(signal::SIGKILL), &mut self.actions);
            self.spawned.lose_slots_of(rank);
            self.deadlines.clear(Deadline::Kill(rank));
        }
        self.lose_spawned(|job| job.link.0 == host);
    }

    /// Ends some processes because one of them requested it; the others go on.
    pub(super) fn end_ranks(&mut self, by: u32, ranks: &[u32], code: i32) {
        self.note_code(code_of_abort(code));
        self.print_message(&messages::ended_alone(by, ranks));
        for &number in ranks {
            let rank_state = &mut self.ranks[number as usize];
            rank_state.is_unneeded = true;
            if rank_state.end.is_some() {
                continue;
            }
            let host = rank_state.host;
            self.deadlines.set_first(Deadline::Kill(number), self.now + KILL_DELAY);
            // The process that requested it ends by itself.
            if number != by {
                self.send(host, AgentOrder::Signal(Some(number), signal::SIGTERM));
                self.send(host, AgentOrder::Signal(Some(number), signal::SIGCONT));
            }
        }
    }

    /// Ends the job because a process requested it, by MPI_Abort or after a fatal error. A process
    /// that gives no reason has printed it itself.
    pub(super) fn abort(&mut self, rank: u32, code: i32, reason: Option<String>) {
        let code = code_of_abort(code);
        match reason {
            // Several processes may fail at about one time, and the first one need not be the
            // cause.
            Some(reason) if self.kills.is_some() => {
                self.late_reasons += 1;
                if self.late_reasons < messages::NAMED_MAX as u32 {
                    self.print_message(&reason);
                }
            }
            Some(reason) => self.fail(code, Some(reason)),
            None => {
                self.fail(code, Some(format!("rank {rank} ended the job with exit code {code}")))
            }
        }
    }

    pub(super) fn signal_all(&mut self, number: i32) {
        for host in 0..self.hosts.len() {
            self.send(host, AgentOrder::Signal(None, number));
        }
    }

    /// Requests all ranks to end. After `grace` they are killed.
    pub(super) fn end_all(&mut self, number: i32, grace: Duration) {
        if self.kills.is_none() {
            self.kills = Some(0);
            self.deadlines.set(Deadline::KillAll, self.now + grace);
        }
        self.deadlines.clear(Deadline::Start);
        for host in 0..self.hosts.len() {
            if self.hosts[host].is_waiting() {
                self.give_up_host(host);
            }
        }
        self.signal_all(number);
        // Stopped processes must run in order to end.
        self.signal_all(signal::SIGCONT);
    }

    /// Checks whether the end of a process is a failure of the job.
    pub(super) fn check_exit(&mut self, rank: u32, end: End) {
        let mpi_state = self.server.mpi_state(rank);
        let Some((what, code)) = messages::failure(end, mpi_state) else { return };
        let rank_state = &self.ranks[rank as usize];
        if self.kills.is_some() || rank_state.is_unneeded {
            return;
        }
        let others = self.ranks.iter().filter(|rank_state| rank_state.end.is_none()).count();
        let last = rank_state.last_lines(self.outlet.is_that_of_output);
        // In a small job, they stand just before the message.
        let is_seen = last.are_with_messages && self.ranks.len() <= messages::NAMED_MAX;
        let failed = FailedProcess {
            rank,
            process: rank_state.process,
            host: &self.hosts[rank_state.host].name,
            // Others have probably crashed for the same reason.
            crash: rank_state.crash.as_deref().filter(|_| self.failures == 0),
            last_lines: if is_seen { &[] } else { &last.lines },
        };
        let consequence = self.consequence(HostPhase::Running);
        let message = messages::death(&failed, &what, others, consequence);
        self.handle_failure(code, message, consequence);
    }

    /// Returns what follows from a failure. A failure before the processes run always ends the job.
    pub(super) fn consequence(&self, phase: HostPhase) -> Consequence {
        if self.plan.keep_going && phase == HostPhase::Running {
            Consequence::JobGoesOn
        } else {
            Consequence::JobEnds
        }
    }

    /// Ends the job because of a failure, or records the failure where the job goes on.
    pub(super) fn handle_failure(&mut self, code: i32, message: String, consequence: Consequence) {
        if consequence == Consequence::JobEnds {
            return self.fail(code, Some(message));
        }
        if self.kills.is_some() {
            return;
        }
        self.failures += 1;
        if self.failures <= messages::NAMED_MAX as u32 {
            self.print_message(&message);
        }
        if self.failures == 1 {
            self.note_code(code);
            self.first_failure = message;
        }
    }

    /// Ends the job because of a failure. Only the first failure is reported.
    pub(super) fn fail(&mut self, code: i32, message: Option<String>) {
        if self.kills.is_some() {
            return;
        }
        self.note_code(code);
        if let Some(message) = message {
            self.print_message(&message);
            self.start_failure = Some(message).filter(|_| code == CODE_NOT_STARTED);
        }
        self.end_all(signal::SIGTERM, KILL_DELAY);
    }

    /// Ends the job because its output cannot be written. A job that is already ending, as after
    /// `MPI_Abort` with 0, does not succeed without its output. Only the first loss is reported.
    pub(super) fn lose_output(&mut self, code: i32, message: Option<String>) {
        let is_first = !std::mem::replace(&mut self.has_lost_output, true);
        self.end_spawned(signal::SIGTERM, KILL_DELAY);
        let message = message.filter(|_| is_first);
        if self.kills.is_none() {
            return self.fail(code, message);
        }
        self.note_code(code);
        message.into_iter().for_each(|message| self.print_message(&message));
    }

    /// Records an exit code; that of the first failure stays.
    pub(super) fn note_code(&mut self, code: i32) {
        if self.code == 0 {
            self.code = code;
        }
    }

    /// Ends the job because its time limit has passed.
    pub(super) fn end_at_limit(&mut self) {
        let limit = self.plan.timeout.unwrap_or_default();
        let message = messages::timeout(limit, &self.running());
        self.fail(CODE_TIMEOUT, Some(message));
        self.end_spawned(signal::SIGTERM, KILL_DELAY);
    }

    /// Ends the job because not all hosts have started in time.
    pub(super) fn fail_late_hosts(&mut self) {
        // Hosts that only wait for others, or for the agent above them, are not the cause.
        let is_awaited = |host: &usize| {
            let parent = self.actions.tree.parent(*host);
            !self.hosts[*host].is_ready() && parent.is_none_or(|above| self.hosts[above].is_ready())
        };
        let mut late: Vec<usize> = (0..self.hosts.len()).filter(is_awaited).collect();
        if late.is_empty() {
            late = (0..self.hosts.len()).filter(|&host| !self.hosts[host].has_started()).collect();
        }
        let late: Vec<&JobHost> = late.into_iter().map(|host| &self.hosts[host]).collect();
        let names: Vec<&str> = late.iter().map(|host| host.name.as_str()).collect();
        let detail = late.first().map(|host| host.start_failure()).unwrap_or_default();
        let message = messages::late(START_TIME_MAX, &names, &detail);
        self.fail(CODE_NOT_STARTED, Some(message));
    }

    /// Kills the ranks that were requested to end and have not.
    pub(super) fn kill_all(&mut self) {
        if let Some(&number) = self.interrupts.first() {
            self.print_message(&messages::killed(number, KILL_DELAY_AFTER_SIGNAL, &self.running()));
        }
        self.signal_all(signal::SIGKILL);
        let kills = self.kills.unwrap_or_default() + 1;
        self.kills = Some(kills);
        self.deadlines.set(Deadline::KillAll, self.now + KILL_DELAY);
        // A host that does not report the end of killed ranks counts as unreachable after the time
        // after which a silent host does, but not at once, and not later than usual: a long
        // timeout is for hosts whose ranks the job still needs.
        let limit = self.plan.host_timeout.unwrap_or(HOST_TIMEOUT_DEFAULT);
        if KILL_DELAY * kills <= limit.min(HOST_TIMEOUT_DEFAULT).max(KILL_DELAY * KILLS_MIN) {
            return;
        }
        for host in 0..self.hosts.len() {
            let is_running = |rank: &u32| self.ranks[*rank as usize].end.is_none();
            if !self.hosts[host].is_local() && self.hosts[host].ranks.iter().any(is_running) {
                self.note_code(1);
                self.print_message(&messages::out_of_reach(&self.hosts[host].name));
                self.give_up_host(host);
            }
        }
    }

    /// Returns the ranks that have not ended, with their states.
    pub(super) fn running(&self) -> Vec<messages::RunningRank> {
        let rank_states = (0..).zip(&self.ranks).filter(|(_, rank_state)| rank_state.end.is_none());
        let running = rank_states.map(|(rank, rank_state)| {
            let host = &self.hosts[rank_state.host];
            let number = rank_state.process;
            messages::RunningRank {
                rank,
                process: rank_state.process,
                host: (self.hosts.len() > 1).then(|| host.name.clone()),
                state: host.is_local().then(|| (self.probes.process_state)(number)).flatten(),
                mpi_state: self.server.mpi_state(rank),
            }
        });
        running.collect()
    }
}

/// Returns the exit code of a job that was aborted with `code`. Some programs end normally with
/// `MPI_Abort` and 0 (STOP in Fortran with coarrays), which other launchers treat as success, too.
/// Any other code does not become success, although an exit code has only eight bits.
pub(super) fn code_of_abort(code: i32) -> i32 {
    match code & 0xff {
        0 if code != 0 => 1,
        low => low,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aborted_job_succeeds_only_with_the_code_0() {
        let cases = [(9, 9), (255, 255), (0, 0), (256, 1), (-256, 1), (257, 1), (-1, 255)];
        for (code, expected) in cases {
            assert_eq!(code_of_abort(code), expected, "MPI_Abort({code})");
        }
    }
}
