//! Agents that are reached through other agents, as in the launch tree of a job.

use launcher::job::JobEvent;
use launcher::protocol::{AgentReport, ConnectionEvent, ConnectionOrder};
use sys::process::{End, signal};

use super::machine::SimulatedAgent;
use super::setting::{HOST_TIMEOUT, MILLISECOND, SECOND};
use super::world::{EffectScope, JobWorld, TIME_MAX, Wake};

impl JobWorld<'_> {
    /// The launcher, or the agent of the machine `holder`, executes an order for its connection to
    /// the agent of `host`.
    pub(super) fn execute_order(
        &mut self,
        host: usize,
        order: ConnectionOrder,
        holder: Option<usize>,
    ) {
        if let ConnectionOrder::Open(_) = order {
            return self.reach(host, holder);
        }
        if self.machines[host].agent.as_ref().is_none_or(|agent| agent.holder != holder) {
            return;
        }
        match order {
            ConnectionOrder::Open(_) => {}
            ConnectionOrder::Send(bytes) => self.send_to_agent(host, bytes),
            ConnectionOrder::BeginHeartbeats => {
                self.wake(self.now + HOST_TIMEOUT / 5, Wake::LauncherBeat(host));
            }
            ConnectionOrder::Disconnect => self.hang_up(host),
            ConnectionOrder::KillCommand => {
                self.hang_up(host);
                self.wake(self.now + 1, Wake::EndCommand(host, End::Signal(signal::SIGKILL)));
            }
        }
    }

    /// Begins the command that reaches the agent of a machine, in the launcher or on the machine
    /// `holder`.
    pub(super) fn reach(&mut self, host: usize, holder: Option<usize>) {
        let Some(agent) = &mut self.machines[host].agent else { return };
        self.counts.reached_directly += u64::from(agent.is_opened && holder.is_none());
        *agent = SimulatedAgent {
            arrivals: agent.arrivals,
            loses: agent.loses,
            holder,
            is_opened: true,
            ..SimulatedAgent::default()
        };
        let busy = self.busy.entry(holder).or_default();
        *busy = self.now.max(*busy) + self.setting.time_per_agent;
        let begun = *busy;
        match self.setting.connects[host] {
            Ok(after) => {
                if after > TIME_MAX {
                    // Each level of the tree has this time.
                    let late = 61 * SECOND * (1 + self.machines.len() as u64);
                    let late = self.now + late + self.pauses();
                    self.add_effect(vec![2], Some(late), EffectScope::Job);
                }
                self.wake(begun + after, Wake::Connect(host));
            }
            Err(code) => {
                if holder.is_none() {
                    let noticed = self.now + 2 * SECOND + self.pauses();
                    self.add_effect(vec![2], Some(noticed), EffectScope::Job);
                }
                self.wake(self.now + MILLISECOND, Wake::EndCommand(host, End::Code(code)));
            }
        }
    }

    /// Something happens to the connection to the agent of a machine.
    pub(super) fn happen(&mut self, host: usize, event: ConnectionEvent) {
        match self.machines[host].agent.as_ref().and_then(|agent| agent.holder) {
            None => self.inbox.push_back(JobEvent::Connection(host, event)),
            Some(holder) => self.wake(self.now, Wake::Relayed(holder, host, event)),
        }
    }

    /// An agent reports what has happened to its connection to another one.
    pub(super) fn relay(&mut self, holder: usize, host: usize, event: ConnectionEvent) {
        let now = self.now;
        let is_running = self.machines[holder].agent.as_ref().is_some_and(|agent| agent.is_running);
        let Some(agent) = self.machines[host].agent.as_mut() else { return };
        if !is_running || agent.holder != Some(holder) {
            return;
        }
        let event = match event {
            ConnectionEvent::Received(bytes) => {
                agent.heard = now;
                ConnectionEvent::Received(agent.forwarded.receive(&bytes))
            }
            other => other,
        };
        let has_ended = matches!(event, ConnectionEvent::CommandEnded(_));
        if event != ConnectionEvent::Received(Vec::new()) {
            self.report(holder, AgentReport::Connection(host as u32, event));
        }
        if has_ended {
            self.finish(holder);
        }
    }

    /// Ends the agent of a machine, if it was ordered to end and all agents below it have ended.
    pub(super) fn finish(&mut self, host: usize) {
        let is_closing = self.machines[host].agent.as_ref().is_some_and(|agent| agent.is_closing);
        let is_alone = self.held_by(host).into_iter().all(|below| {
            self.machines[below].agent.as_ref().is_none_or(|agent| agent.has_command_ended)
        });
        if is_closing && is_alone && !self.setting.linger[host] {
            self.end_agent(host, End::Code(0));
        }
    }

    /// Returns the machines whose connection the agent of this one has.
    fn held_by(&self, holder: usize) -> Vec<usize> {
        let is_held = |host: &usize| {
            let agent = self.machines[*host].agent.as_ref();
            agent.is_some_and(|agent| agent.holder == Some(holder))
        };
        (0..self.machines.len()).filter(is_held).collect()
    }

    /// Returns the machines that are reached through this one.
    pub(super) fn below(&self, host: usize) -> Vec<usize> {
        let mut below = self.held_by(host);
        let mut next = 0;
        while let Some(&host) = below.get(next) {
            below.extend(self.held_by(host));
            next += 1;
        }
        below
    }

    /// Returns a machine and those through which it is reached.
    pub(super) fn path(&self, host: usize) -> Vec<usize> {
        let above = |host: &usize| self.machines[*host].agent.as_ref()?.holder;
        std::iter::successors(Some(host), above).collect()
    }

    /// Returns how long bytes travel at most between the launcher and a machine.
    pub(super) fn latency(&self, host: usize) -> u64 {
        self.path(host).into_iter().map(|host| self.setting.latencies[host]).sum()
    }

    /// The agent of a machine has ended, and with it the commands that it has started.
    pub(super) fn drop_held(&mut self, host: usize) {
        for below in self.held_by(host) {
            self.hang_up(below);
            if let Some(agent) = &mut self.machines[below].agent {
                agent.has_command_ended = true;
            }
        }
    }

    /// An agent checks whether those below it have sent something.
    pub(super) fn watch_below(&mut self, host: usize) {
        for below in self.held_by(host) {
            let now = self.now;
            let Some(agent) = self.machines[below].agent.as_mut() else { continue };
            let is_watched = agent.is_connected && agent.forwarded.has_greeted();
            if is_watched && now >= agent.heard + HOST_TIMEOUT && !agent.is_silent {
                agent.is_silent = true;
                let silent = AgentReport::Connection(below as u32, ConnectionEvent::Silent);
                self.report(host, silent);
            }
        }
    }
}
