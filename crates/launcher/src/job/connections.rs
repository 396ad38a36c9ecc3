//! The connections to agents: through the launch tree, and what follows from the loss of one.

use std::time::Instant;

use super::messages::{self, HostPhase};
use super::{
    Action, CODE_NOT_STARTED, COMMAND_END_TIME_MAX, Deadline, JobState, PAUSE_BEFORE_RETRY,
};
use crate::heartbeats::was_stopped;
use crate::protocol::{AgentStart, ConnectionEvent, ConnectionOrder, START_TIME_MAX};

impl JobState<'_> {
    /// Handles an event of the connection to the agent of a host.
    pub(super) fn handle_connection(&mut self, host: usize, event: ConnectionEvent) {
        match event {
            ConnectionEvent::Received(bytes) => self.receive(host, &bytes),
            ConnectionEvent::ErrorOutput(bytes) => {
                if let Some(agent) = self.hosts[host].agent() {
                    agent.note_errors(&bytes);
                }
            }
            ConnectionEvent::Disconnected => self.await_command_end(host),
            ConnectionEvent::CommandEnded(end) => {
                if let Some(agent) = self.hosts[host].agent() {
                    agent.note_end(end);
                    self.lose_host(host);
                }
            }
            ConnectionEvent::Silent => self.note_silence(host, self.now),
        }
    }

    /// Handles what an inner agent reports about the connection to the agent of another host. The
    /// report may have been sent before the launcher connected to that host itself.
    pub(super) fn handle_forwarded(&mut self, from: usize, host: u32, event: ConnectionEvent) {
        let host = host as usize;
        if self.actions.tree.parent(host) == Some(from) {
            self.handle_connection(host, event);
        }
    }

    /// Handles bytes from an agent.
    fn receive(&mut self, host: usize, bytes: &[u8]) {
        let mut reports = Vec::new();
        let Some(agent) = self.hosts[host].agent().filter(|agent| !agent.is_closed()) else {
            return;
        };
        let had_greeted = agent.has_greeted();
        let is_usable = agent.receive(bytes, &mut reports);
        let has_greeted = agent.has_greeted() && !had_greeted;
        // An agent below another one is watched by that one.
        let is_watched = self.actions.tree.parent(host).is_none();
        if let Some(limit) = agent.silence_max().filter(|_| is_watched) {
            self.deadlines.set(Deadline::Silence(host), self.now + limit);
        }
        if has_greeted {
            let begin = ConnectionOrder::BeginHeartbeats;
            self.actions.push(Action::Connection(host, begin));
            self.actions.tree.note_ready(host, self.now - self.begun);
            self.open_below(host);
        }
        reports.into_iter().for_each(|report| self.handle_report(host, report));
        if !is_usable {
            self.actions.push(Action::Connection(host, ConnectionOrder::Disconnect));
            self.await_command_end(host);
        }
    }

    /// Lets the agent of a host, which is ready, start those below it, in the tree that is best by
    /// what was measured so far. The next level has the time that each level has.
    fn open_below(&mut self, host: usize) {
        if self.actions.tree.children(host).is_empty() || !self.is_starting() {
            return;
        }
        if self.measures_tree {
            self.actions.tree.divide_anew(host);
        }
        self.deadlines.set(Deadline::Start, self.now + START_TIME_MAX);
        let below = self.actions.tree.children(host).to_vec();
        below.into_iter().for_each(|host| self.open(host));
    }

    /// Requests a connection to the agent of a host.
    fn open(&mut self, host: usize) {
        let Some(timeout) = self.hosts[host].agent().map(|agent| agent.access().timeout) else {
            return;
        };
        let (name, access) = (self.hosts[host].name.clone(), self.plan.access.clone());
        let start = AgentStart { host: name, access, timeout };
        self.actions.push(Action::Connection(host, ConnectionOrder::Open(start)));
    }

    /// Counts a host as failed, from whose agent nothing was received until this time.
    pub(super) fn note_silence(&mut self, host: usize, due: Instant) {
        if let Some(agent) = self.hosts[host].agent().filter(|agent| !agent.is_closed()) {
            if let Some(limit) = agent.silence_max().filter(|_| was_stopped(due, self.now)) {
                return self.deadlines.set(Deadline::Silence(host), self.now + limit);
            }
            agent.note_silence();
            self.hosts[host].disconnect(&mut self.actions);
            self.await_command_end(host);
        }
    }

    /// Waits for the end of the command that reaches a host, as the connection is closed.
    pub(super) fn await_command_end(&mut self, host: usize) {
        let Some(agent) = self.hosts[host].agent() else { return };
        agent.close();
        self.deadlines.clear(Deadline::Silence(host));
        self.deadlines.set_first(Deadline::CommandEnd(host), self.now + COMMAND_END_TIME_MAX);
    }

    /// Continues without a host whose connection was lost, and without those below it, or ends the
    /// job if one of them is still needed.
    pub(super) fn lose_host(&mut self, host: usize) {
        if self.can_reach_directly(host) {
            return self.reach_directly(host);
        }
        if self.can_retry(host) {
            return self.await_retry(host);
        }
        let below = self.actions.tree.below(host);
        let all = || below.iter().chain([&host]);
        let phase = match all().all(|&host| self.hosts[host].has_started()) {
            true => HostPhase::Running,
            false => HostPhase::Starting,
        };
        let is_lost = |rank: &u32| self.ranks[*rank as usize].end.is_none();
        let of_host = |&host: &usize| self.hosts[host].ranks.iter().copied().filter(is_lost);
        let lost: Vec<u32> = all().flat_map(of_host).collect();
        let cut_off = below.iter().filter(|host| of_host(host).next().is_some()).count();
        let message = self.hosts[host].connection_error();
        let message = messages::with_hosts_below(message, cut_off);
        self.give_up_host(host);
        if !lost.is_empty() {
            let code = if phase == HostPhase::Starting { CODE_NOT_STARTED } else { 1 };
            self.handle_failure(code, message, self.consequence(phase));
        }
        lost.into_iter().for_each(|rank| self.close_pmi(rank));
    }

    /// Whether the launcher can try to reach a host itself which the agent of another host did not
    /// reach: users perhaps may not log in from there.
    fn can_reach_directly(&mut self, host: usize) -> bool {
        let is_below = self.actions.tree.parent(host).is_some();
        let is_unreached = self.hosts[host].agent().is_some_and(|agent| !agent.has_greeted());
        is_below && is_unreached && self.is_starting()
    }

    /// Reaches a host without the agent above it.
    fn reach_directly(&mut self, host: usize) {
        self.hosts[host].disconnect(&mut self.actions);
        self.actions.tree.detach(host);
        self.hosts[host].renew_agent();
        self.deadlines.clear(Deadline::CommandEnd(host));
        self.deadlines.set(Deadline::Start, self.now + START_TIME_MAX);
        self.open(host);
    }

    /// Whether the launcher tries again to reach a host: its name may have no address yet, or its
    /// server may not run yet. That the host has no Combray is final.
    fn can_retry(&mut self, host: usize) -> bool {
        let is_in_time = self.now + PAUSE_BEFORE_RETRY < self.begun + self.plan.host_wait;
        is_in_time
            && self.is_starting()
            && self.hosts[host].agent().is_some_and(|agent| agent.was_not_reached())
    }

    /// Tries again to reach a host, after a pause. The user is told the reason once for each host.
    fn await_retry(&mut self, host: usize) {
        if self.hosts[host].agent().is_some_and(|agent| agent.is_first_attempt()) {
            let message =
                messages::waiting(self.plan.host_wait, self.hosts[host].connection_error());
            self.print_message(&message);
        }
        self.deadlines.clear(Deadline::CommandEnd(host));
        let at = self.now + PAUSE_BEFORE_RETRY;
        self.deadlines.set(Deadline::Retry(host), at);
        self.deadlines.set(Deadline::Start, at + START_TIME_MAX);
    }

    /// Tries again to reach a host.
    pub(super) fn retry(&mut self, host: usize) {
        if self.is_starting() {
            self.hosts[host].begin_attempt();
            self.open(host);
        }
    }
}
