//! One machine of the job, reached by system calls: the processes of this machine, or the
//! connection to an agent.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::time::Instant;

use sys::process::{End, Interest};

use crate::agent_connection::AgentConnection;
use crate::job::JobEvent;
use crate::local_processes::LocalProcesses;
use crate::protocol::{AgentOrder, AgentReport, ConnectionEvent};

/// A machine.
pub(super) enum Machine {
    /// This machine, with its index among the hosts of the job.
    Local(usize, Box<LocalProcesses>),
    /// Another machine, with its index and the connection to its agent; none: the agent of yet
    /// another machine has it.
    Remote(usize, Option<Box<AgentConnection>>),
}

impl Machine {
    /// Returns the connection to its agent, if it is another machine.
    pub(super) fn connection(&mut self) -> Option<&mut AgentConnection> {
        match self {
            Self::Local(..) => None,
            Self::Remote(_, connection) => connection.as_deref_mut(),
        }
    }

    /// Returns the process of this machine that has the terminal of the launcher, if one has.
    pub(super) fn at_terminal(&self) -> Option<i32> {
        match self {
            Self::Local(_, processes) => processes.at_terminal(),
            Self::Remote(..) => None,
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
            Self::Remote(_, Some(connection)) => connection.watched(list),
            Self::Remote(_, None) => {}
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
            Self::Remote(host, Some(connection)) => {
                let mut happened = Vec::new();
                connection.serve(ready, &mut happened);
                events.extend(of_connection(*host, happened));
            }
            Self::Remote(_, None) => {}
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
            Self::Remote(host, Some(connection)) => {
                let mut happened = Vec::new();
                let is_known = connection.record_exit(process, end, &mut happened);
                events.extend(of_connection(*host, happened));
                is_known
            }
            Self::Remote(_, None) => false,
        }
    }

    /// Returns when the processes of this machine must be checked.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Local(_, processes) => processes.deadline(),
            Self::Remote(..) => None,
        }
    }
}

/// Returns reports of the processes of this machine, the host with index `host`, as events.
fn to_events(host: usize, reports: Vec<AgentReport>) -> impl Iterator<Item = JobEvent> {
    reports.into_iter().map(move |report| JobEvent::Report(host, report))
}

/// Returns what has happened to the connection to the agent of this host as events.
fn of_connection(host: usize, happened: Vec<ConnectionEvent>) -> impl Iterator<Item = JobEvent> {
    happened.into_iter().map(move |event| JobEvent::Connection(host, event))
}
