//! How a job comes to its end: failures, and what they mean for the ranks that still run.

use std::time::{Duration, Instant};

use sys::process::{self, End, signal};

use super::host::JobHost;
use super::messages::{self, Consequence, FailedProcess, HostPhase};
use super::{
    CODE_NOT_STARTED, CODE_TIMEOUT, KILL_DELAY, KILL_DELAY_AFTER_SIGNAL, Supervisor, Termination,
};
use crate::protocol::{AgentOrder, START_TIME_MAX};

/// How often ranks are killed before a host that does not tell of their end is given up.
const KILLS_MAX: u32 = 3;

impl Supervisor<'_> {
    /// Goes on without a host: its processes are ended, or will be by its agent.
    pub(super) fn give_up_host(&mut self, host: usize) {
        self.hosts[host].disconnect();
        self.hosts[host].mark_closed();
        for rank_state in self.ranks.iter_mut().filter(|rank_state| rank_state.host == host) {
            rank_state.mark_lost(End::Signal(signal::SIGKILL), &mut self.outlets);
        }
    }

    /// Ends some processes because of a failure among them; the others go on.
    pub(super) fn end_ranks(&mut self, by: u32, ranks: &[u32], code: i32) {
        self.code = if self.code == 0 { code_of_abort(code) } else { self.code };
        self.print_message(&messages::ended_alone(by, ranks));
        for &number in ranks {
            let rank_state = &mut self.ranks[number as usize];
            rank_state.kill_deadline.get_or_insert(Instant::now() + KILL_DELAY);
            // The one that asked ends by itself.
            if rank_state.end.is_none() && number != by {
                let host = rank_state.host;
                self.send(host, AgentOrder::Signal(Some(number), signal::SIGTERM));
                self.send(host, AgentOrder::Signal(Some(number), signal::SIGCONT));
            }
        }
    }

    /// Ends the job as a process asks for it, by MPI_Abort or by an error that is fatal. One that
    /// gives no reason has told it by itself.
    pub(super) fn abort(&mut self, rank: u32, code: i32, reason: Option<String>) {
        let code = code_of_abort(code);
        match reason {
            // Several may fail at the same time, of which the first need not be the cause.
            Some(reason) if self.termination.is_some() => {
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

    /// Asks all ranks to end; after some time they are killed.
    pub(super) fn end_all(&mut self, number: i32, grace: Duration) {
        self.termination.get_or_insert(Termination { deadline: Instant::now() + grace, kills: 0 });
        self.starting = None;
        for host in 0..self.hosts.len() {
            if self.hosts[host].is_waiting() {
                self.give_up_host(host);
            }
        }
        self.signal_all(number);
        // Those that are stopped have to run in order to end.
        self.signal_all(signal::SIGCONT);
    }

    /// Whether the end of a process is a failure of the job.
    pub(super) fn check_exit(&mut self, rank: u32, end: End) {
        let mpi_state = self.server.mpi_state(rank);
        let Some((what, code)) = messages::failure(end, mpi_state) else { return };
        let rank_state = &self.ranks[rank as usize];
        if self.termination.is_some() || rank_state.kill_deadline.is_some() {
            return;
        }
        let others = self.ranks.iter().filter(|rank_state| rank_state.end.is_none()).count();
        let failed = FailedProcess {
            rank,
            process: rank_state.process,
            host: &self.hosts[rank_state.host].name,
            last_lines: &rank_state.last_lines(),
        };
        let consequence = self.consequence(HostPhase::Running);
        let message = messages::death(&failed, &what, others, consequence);
        self.handle_failure(code, message, consequence);
    }

    /// What follows from a failure. One before the processes run ends the job in any case.
    pub(super) fn consequence(&self, phase: HostPhase) -> Consequence {
        if self.plan.keep_going && phase == HostPhase::Running {
            Consequence::JobGoesOn
        } else {
            Consequence::JobEnds
        }
    }

    /// Ends the job because of a failure, or notes it where the job goes on.
    pub(super) fn handle_failure(&mut self, code: i32, message: String, consequence: Consequence) {
        if consequence == Consequence::JobEnds {
            return self.fail(code, Some(message));
        }
        if self.termination.is_some() {
            return;
        }
        self.failures += 1;
        if self.failures <= messages::NAMED_MAX as u32 {
            self.print_message(&message);
        }
        if self.failures == 1 {
            self.code = if self.code == 0 { code } else { self.code };
            self.first_failure = message;
        }
    }

    /// Ends the job because of a failure, of which only the first is told.
    pub(super) fn fail(&mut self, code: i32, message: Option<String>) {
        if self.termination.is_some() {
            return;
        }
        self.code = code;
        if let Some(message) = message {
            self.print_message(&message);
        }
        self.end_all(signal::SIGTERM, KILL_DELAY);
    }

    /// Ends the job, as its time limit has passed.
    pub(super) fn end_at_limit(&mut self) {
        let limit = self.plan.timeout.unwrap_or_default();
        let message = messages::timeout(limit, &self.running());
        self.fail(CODE_TIMEOUT, Some(message));
    }

    /// Ends the job, as not all hosts have started in time.
    pub(super) fn fail_late_hosts(&mut self) {
        let late = || self.hosts.iter().filter(|host| !host.has_started());
        let names: Vec<&str> = late().map(|host| host.name.as_str()).collect();
        let detail = late().next().map(JobHost::start_failure).unwrap_or_default();
        let message = messages::late(START_TIME_MAX, &names, &detail);
        self.fail(CODE_NOT_STARTED, Some(message));
    }

    /// Kills the ranks that were asked to end and have not.
    pub(super) fn kill_all(&mut self) {
        if let Some(&number) = self.interrupts.first() {
            self.print_message(&messages::killed(number, KILL_DELAY_AFTER_SIGNAL, &self.running()));
        }
        self.signal_all(signal::SIGKILL);
        let kills = self.termination.as_ref().map_or(0, |ending| ending.kills) + 1;
        self.termination = Some(Termination { deadline: Instant::now() + KILL_DELAY, kills });
        if kills < KILLS_MAX {
            return;
        }
        // A host that does not do even that cannot be reached any more.
        for host in 0..self.hosts.len() {
            let mut rank_states = self.ranks.iter().filter(|rank_state| rank_state.host == host);
            if !self.hosts[host].is_local()
                && rank_states.any(|rank_state| rank_state.end.is_none())
            {
                self.print_message(&messages::out_of_reach(&self.hosts[host].name));
                self.give_up_host(host);
            }
        }
    }

    /// The ranks that have not ended, and what they are doing.
    pub(super) fn running(&self) -> Vec<messages::RunningRank> {
        let rank_states = (0..).zip(&self.ranks).filter(|(_, rank_state)| rank_state.end.is_none());
        let running = rank_states.map(|(rank, rank_state)| {
            let host = &self.hosts[rank_state.host];
            let number = rank_state.process;
            // Without /proc nothing is known of it but whether it is there.
            let ended = || process::has_ended(number).then_some("ended");
            let state = || process::state(number).or_else(ended);
            messages::RunningRank {
                rank,
                process: rank_state.process,
                host: (self.hosts.len() > 1).then(|| host.name.clone()),
                state: host.is_local().then(state).flatten(),
                mpi_state: self.server.mpi_state(rank),
            }
        });
        running.collect()
    }
}

/// The exit code of a job that was aborted with this code. `MPI_Abort` with 0 is how some programs
/// end as they should (STOP in Fortran with coarrays), and success under other launchers, too; any
/// other code does not become success, although an exit code has eight bits only.
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
