//! How a job comes to its end: failures, and what they mean for the ranks that still run.

use std::time::{Duration, Instant};

use sys::process::{self, End, signal};

use super::host::Host;
use super::messages;
use super::{CODE_NOT_STARTED, Ending, GRACE, GRACE_ASKED, START_TIME_MAX, Supervisor};
use crate::protocol::Order;
use crate::server::Speaks;

/// How often ranks are killed before a host that does not tell of their end is given up.
const KILLS_MAX: u32 = 3;

impl Supervisor<'_> {
    /// Goes on without a host: its processes are ended, or will be by its agent.
    pub(super) fn abandon(&mut self, host: usize) {
        self.hosts[host].cut();
        self.hosts[host].dismiss();
        for member in self.members.iter_mut().filter(|member| member.host == host) {
            member.vanish(End::Signal(signal::SIGKILL), &mut self.outlets);
        }
    }

    /// Ends some processes because of a failure among them; the others go on.
    pub(super) fn end_some(&mut self, by: u32, ranks: &[u32], code: i32) {
        self.code = if self.code == 0 { code_of_abort(code) } else { self.code };
        self.tell(&messages::ended_alone(by, ranks));
        for &number in ranks {
            let member = &mut self.members[number as usize];
            member.doomed.get_or_insert(Instant::now() + GRACE);
            // The one that asked ends by itself.
            if member.end.is_none() && number != by {
                let host = member.host;
                self.order(host, Order::Signal(Some(number), signal::SIGTERM));
                self.order(host, Order::Signal(Some(number), signal::SIGCONT));
            }
        }
    }

    pub(super) fn signal_all(&mut self, number: i32) {
        for host in 0..self.hosts.len() {
            self.order(host, Order::Signal(None, number));
        }
    }

    /// Asks all ranks to end; after some time they are killed.
    pub(super) fn end_all(&mut self, number: i32, grace: Duration) {
        self.ending.get_or_insert(Ending { deadline: Instant::now() + grace, kills: 0 });
        self.starting = None;
        for host in 0..self.hosts.len() {
            if self.hosts[host].is_waiting() {
                self.abandon(host);
            }
        }
        self.signal_all(number);
        // Those that are stopped have to run in order to end.
        self.signal_all(signal::SIGCONT);
    }

    /// Whether the end of a process is a failure of the job.
    pub(super) fn judge(&mut self, rank: u32, end: End) {
        let is_inside_mpi = self.server.speaks(rank) == Speaks::Now;
        let Some((what, code)) = messages::failure(end, is_inside_mpi) else { return };
        let member = &self.members[rank as usize];
        if self.ending.is_some() || member.doomed.is_some() {
            return;
        }
        let others = self.members.iter().filter(|member| member.end.is_none()).count();
        let host = &self.hosts[member.host].name;
        let last_lines = member.last_lines();
        let message = messages::death(rank, member.process, host, &what, others, &last_lines);
        self.fail(code, Some(message));
    }

    /// Ends the job because of a failure, of which only the first is told.
    pub(super) fn fail(&mut self, code: i32, message: Option<String>) {
        if self.ending.is_some() {
            return;
        }
        self.code = code;
        if let Some(message) = message {
            self.tell(&message);
        }
        self.end_all(signal::SIGTERM, GRACE);
    }

    /// Ends the job, as not all hosts have started in time.
    pub(super) fn tell_of_late_hosts(&mut self) {
        let late = || self.hosts.iter().filter(|host| !host.has_started());
        let names: Vec<&str> = late().map(|host| host.name.as_str()).collect();
        let complaint = late().next().map(Host::complaint).unwrap_or_default();
        let message = messages::late(START_TIME_MAX, &names, &complaint);
        self.fail(CODE_NOT_STARTED, Some(message));
    }

    /// Kills the ranks that were asked to end and have not.
    pub(super) fn kill_all(&mut self) {
        if let Some(&number) = self.asked.first() {
            self.tell(&messages::killed(number, GRACE_ASKED, &self.alive()));
        }
        self.signal_all(signal::SIGKILL);
        let kills = self.ending.as_ref().map_or(0, |ending| ending.kills) + 1;
        self.ending = Some(Ending { deadline: Instant::now() + GRACE, kills });
        if kills < KILLS_MAX {
            return;
        }
        // A host that does not do even that cannot be reached any more.
        for host in 0..self.hosts.len() {
            let mut members = self.members.iter().filter(|member| member.host == host);
            if !self.hosts[host].is_here() && members.any(|member| member.end.is_none()) {
                self.tell(&messages::out_of_reach(&self.hosts[host].name));
                self.abandon(host);
            }
        }
    }

    /// The ranks that have not ended, and what they are doing.
    pub(super) fn alive(&self) -> Vec<messages::Alive> {
        let members = (0..).zip(&self.members).filter(|(_, member)| member.end.is_none());
        let alive = members.map(|(rank, member)| {
            let host = &self.hosts[member.host];
            let state = || process::state(member.process).unwrap_or("ended");
            messages::Alive {
                rank,
                process: member.process,
                host: (self.hosts.len() > 1).then(|| host.name.clone()),
                state: host.is_here().then(state),
                speaks: self.server.speaks(rank),
            }
        });
        alive.collect()
    }
}

/// The exit code of a job that was aborted with this code: never success.
pub(super) fn code_of_abort(code: i32) -> i32 {
    if code & 0xff == 0 { 1 } else { code & 0xff }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aborted_job_never_succeeds() {
        // A process's exit code has eight bits.
        let cases = [(9, 9), (255, 255), (0, 1), (256, 1), (-256, 1), (257, 1), (-1, 255)];
        for (code, expected) in cases {
            assert_eq!(code_of_abort(code), expected, "MPI_Abort({code})");
        }
    }
}
