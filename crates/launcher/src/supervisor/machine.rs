//! One machine of the job, reached by system calls: the processes of this machine, or the
//! connection to an agent.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::time::Instant;

use sys::process::{End, Interest};

use crate::agent_connection::AgentConnection;
use crate::job::JobEvent;
use crate::local_processes::LocalProcesses;
use crate::protocol::AgentOrder;

/// A machine, with its index among the hosts of the job.
pub(super) struct Machine {
    host: usize,
    link: MachineLink,
}

enum MachineLink {
    Local(Box<LocalProcesses>),
    Remote(Box<AgentConnection>),
}

impl Machine {
    /// Creates the state of this machine.
    pub(super) fn local(host: usize, processes: LocalProcesses) -> Self {
        Self { host, link: MachineLink::Local(Box::new(processes)) }
    }

    /// Creates the state of another machine.
    pub(super) fn remote(host: usize, connection: AgentConnection) -> Self {
        Self { host, link: MachineLink::Remote(Box::new(connection)) }
    }

    fn remote_link(&mut self) -> Option<&mut AgentConnection> {
        match &mut self.link {
            MachineLink::Local(_) => None,
            MachineLink::Remote(connection) => Some(connection),
        }
    }

    /// Executes an order, if it is this machine, and appends the events that follow.
    pub(super) fn execute(&mut self, order: AgentOrder, events: &mut VecDeque<JobEvent>) {
        if let MachineLink::Local(processes) = &mut self.link {
            let mut reports = Vec::new();
            processes.execute(order, &mut reports);
            events.extend(reports.into_iter().map(|report| JobEvent::Report(self.host, report)));
        }
    }

    /// Sends bytes to its agent.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.remote_link().into_iter().for_each(|link| link.send(bytes));
    }

    /// Sends heartbeats to its agent from now on.
    pub(super) fn begin_heartbeats(&mut self) {
        self.remote_link().into_iter().for_each(|link| link.begin_heartbeats());
    }

    /// Closes the connection to its agent.
    pub(super) fn disconnect(&mut self) {
        self.remote_link().into_iter().for_each(AgentConnection::close);
    }

    /// Kills the command that reaches its agent.
    pub(super) fn kill(&mut self) {
        self.remote_link().into_iter().for_each(AgentConnection::kill);
    }

    /// Appends the descriptors to watch; returns their number.
    pub(super) fn watched(&mut self, list: &mut Vec<(RawFd, Interest)>) -> usize {
        let before = list.len();
        match &mut self.link {
            MachineLink::Local(processes) => processes.watched(list),
            MachineLink::Remote(connection) => connection.watched(list),
        }
        list.len() - before
    }

    /// Serves the descriptors that are ready, in the order of [`watched`](Self::watched).
    pub(super) fn serve(&mut self, ready: &[bool], events: &mut Vec<JobEvent>) {
        match &mut self.link {
            MachineLink::Local(processes) => {
                let mut reports = Vec::new();
                processes.serve(ready, &mut reports);
                processes.check_for_answers(&mut reports);
                events
                    .extend(reports.into_iter().map(|report| JobEvent::Report(self.host, report)));
            }
            MachineLink::Remote(connection) => connection.serve(ready, events),
        }
    }

    /// Records the end of a child of this process. Returns false if the child does not belong to
    /// this machine.
    pub(super) fn record_exit(
        &mut self,
        process: i32,
        end: End,
        events: &mut Vec<JobEvent>,
    ) -> bool {
        match &mut self.link {
            MachineLink::Local(processes) => {
                let mut reports = Vec::new();
                let is_known = processes.record_exit(process, end, &mut reports);
                events
                    .extend(reports.into_iter().map(|report| JobEvent::Report(self.host, report)));
                is_known
            }
            MachineLink::Remote(connection) => connection.record_exit(process, end, events),
        }
    }

    /// Returns when to check for answers of the processes of this machine.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.link {
            MachineLink::Local(processes) => processes.deadline(),
            MachineLink::Remote(_) => None,
        }
    }
}
