//! One machine of the job, reached by system calls: the processes of this machine, or the
//! connection to an agent.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::time::Instant;

use sys::process::{End, Interest};

use crate::agent_connection::AgentConnection;
use crate::job::JobEvent;
use crate::local_processes::LocalProcesses;
use crate::protocol::{AgentOrder, AgentReport};

/// A machine.
pub(super) enum Machine {
    /// This machine, with its index among the hosts of the job.
    Local(usize, Box<LocalProcesses>),
    /// Another machine, with the connection to its agent.
    Remote(Box<AgentConnection>),
}

impl Machine {
    /// Returns the connection to its agent, if it is another machine.
    pub(super) fn connection(&mut self) -> Option<&mut AgentConnection> {
        match self {
            Self::Local(..) => None,
            Self::Remote(connection) => Some(connection),
        }
    }

    /// Executes an order, if it is this machine, and appends the events that follow.
    pub(super) fn execute(&mut self, order: AgentOrder, events: &mut VecDeque<JobEvent>) {
        if let Self::Local(host, processes) = self {
            let mut reports = Vec::new();
            processes.execute(order, &mut reports);
            events.extend(to_events(*host, reports));
        }
    }

    /// Appends the descriptors to watch; returns their number.
    pub(super) fn watched(&mut self, list: &mut Vec<(RawFd, Interest)>) -> usize {
        let before = list.len();
        match self {
            Self::Local(_, processes) => processes.watched(list),
            Self::Remote(connection) => connection.watched(list),
        }
        list.len() - before
    }

    /// Serves the descriptors that are ready, in the order of [`watched`](Self::watched).
    pub(super) fn serve(&mut self, ready: &[bool], events: &mut Vec<JobEvent>) {
        match self {
            Self::Local(host, processes) => {
                let mut reports = Vec::new();
                processes.serve(ready, &mut reports);
                processes.handle_time(&mut reports);
                events.extend(to_events(*host, reports));
            }
            Self::Remote(connection) => connection.serve(ready, events),
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
        match self {
            Self::Local(host, processes) => {
                let mut reports = Vec::new();
                let is_known = processes.record_exit(process, end, &mut reports);
                events.extend(to_events(*host, reports));
                is_known
            }
            Self::Remote(connection) => connection.record_exit(process, end, events),
        }
    }

    /// Returns when the processes of this machine must be checked.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Local(_, processes) => processes.deadline(),
            Self::Remote(_) => None,
        }
    }
}

/// Returns reports of the processes of this machine, the host with index `host`, as events.
fn to_events(host: usize, reports: Vec<AgentReport>) -> impl Iterator<Item = JobEvent> {
    reports.into_iter().map(move |report| JobEvent::Report(host, report))
}
