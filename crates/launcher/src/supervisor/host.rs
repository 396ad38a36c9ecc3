//! One machine of the job, whose processes are started by this process or by an agent.

use std::os::fd::RawFd;
use std::time::Instant;

use sys::process::{End, Interest};

use crate::LaunchError;
use crate::agent_connection::AgentConnection;
use crate::local_processes::LocalProcesses;
use crate::outlets::Outlets;
use crate::protocol::{AgentOrder, AgentReport, OrderRules, OutputStream, ReportRules, Start};

/// A machine.
pub(super) struct JobHost {
    /// Its name, as shown to users.
    pub name: String,
    link: HostLink,
    stage: HostState,
    /// The rules of which orders may be sent to it.
    order_rules: OrderRules,
    /// The number of bytes of output received from it for each target for which no new credit was
    /// granted.
    to_grant: [u32; 2],
}

enum HostLink {
    /// This machine, with the rules for the reports of its processes.
    Local(Box<LocalProcesses>, ReportRules),
    Remote(Box<AgentConnection>),
}

/// The states of a machine.
enum HostState {
    /// The order to start these processes was not sent yet.
    Waiting(Start),
    /// The order was sent.
    StartSent,
    /// The processes run or have run.
    Started,
    /// No more reports are received from it.
    Closed,
}

impl JobHost {
    /// Creates the state of this machine.
    pub(super) fn local(name: String, processes: LocalProcesses, start: Start) -> Self {
        let mut rules = ReportRules::new(start.ranks.iter().map(|pair| pair.0));
        rules.greet();
        Self::new(name, HostLink::Local(Box::new(processes), rules), start)
    }

    /// Creates the state of another machine.
    pub(super) fn remote(name: String, remote: AgentConnection, start: Start) -> Self {
        Self::new(name, HostLink::Remote(Box::new(remote)), start)
    }

    fn new(name: String, link: HostLink, start: Start) -> Self {
        let (stage, order_rules) = (HostState::Waiting(start), OrderRules::default());
        Self { name, link, stage, order_rules, to_grant: [0; 2] }
    }

    pub(super) fn is_local(&self) -> bool {
        matches!(self.link, HostLink::Local(..))
    }

    /// Whether it can accept the order to start its processes.
    pub(super) fn is_ready(&self) -> bool {
        match &self.link {
            HostLink::Local(..) => true,
            HostLink::Remote(remote) => remote.has_greeted(),
        }
    }

    /// Whether the order to start its processes was not sent yet.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.stage, HostState::Waiting(_))
    }

    pub(super) fn has_started(&self) -> bool {
        matches!(self.stage, HostState::Started)
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.stage, HostState::Closed)
    }

    /// Records that its processes run.
    pub(super) fn mark_started(&mut self) {
        self.stage = HostState::Started;
    }

    /// Records that no more reports are expected from it.
    pub(super) fn mark_closed(&mut self) {
        self.stage = HostState::Closed;
    }

    /// Orders it to start its processes, if that was not done yet.
    ///
    /// # Errors
    /// The order is too long.
    pub(super) fn begin(&mut self, reports: &mut Vec<AgentReport>) -> Result<(), LaunchError> {
        match std::mem::replace(&mut self.stage, HostState::StartSent) {
            HostState::Waiting(start) => self.send(AgentOrder::Start(start), reports),
            other => {
                self.stage = other;
                Ok(())
            }
        }
    }

    /// Sends an order.
    ///
    /// # Errors
    /// The order is too long to be sent to that machine, or may not be sent now.
    pub(super) fn send(
        &mut self,
        order: AgentOrder,
        reports: &mut Vec<AgentReport>,
    ) -> Result<(), LaunchError> {
        if matches!(self.stage, HostState::Waiting(_) | HostState::Closed) {
            return Ok(());
        }
        self.order_rules.follow(&order).map_err(|what| {
            LaunchError::new(format!("the launcher gave {} a wrong order: {what}", self.name))
        })?;
        match &mut self.link {
            HostLink::Local(processes, _) => {
                processes.execute(order, reports);
                Ok(())
            }
            HostLink::Remote(remote) => remote.send(&order),
        }
    }

    /// Appends the descriptors to watch; returns their number.
    pub(super) fn watched(&mut self, list: &mut Vec<(RawFd, Interest)>) -> usize {
        let before = list.len();
        match &mut self.link {
            HostLink::Local(processes, _) => processes.watched(list),
            HostLink::Remote(remote) => remote.watched(list),
        }
        list.len() - before
    }

    /// Serves the descriptors that are ready, in the order of [`watched`](Self::watched).
    pub(super) fn serve(&mut self, ready: &[bool], reports: &mut Vec<AgentReport>) {
        match &mut self.link {
            HostLink::Local(processes, _) => processes.serve(ready, reports),
            HostLink::Remote(remote) => remote.serve(ready, reports),
        }
    }

    /// Fails if the processes of this machine send a report that is not allowed now. Reports of
    /// another machine were checked when they arrived.
    pub(super) fn check(&mut self, report: &AgentReport) -> Result<(), String> {
        match &mut self.link {
            HostLink::Local(_, rules) => rules.follow(report),
            HostLink::Remote(_) => Ok(()),
        }
    }

    /// Records the end of a child of this process. Returns false if the child does not belong to
    /// this machine.
    pub(super) fn record_exit(
        &mut self,
        process: i32,
        end: End,
        reports: &mut Vec<AgentReport>,
    ) -> bool {
        match &mut self.link {
            HostLink::Local(processes, _) => processes.record_exit(process, end, reports),
            HostLink::Remote(remote) => remote.record_exit(process, end, reports),
        }
    }

    /// Records that `length` bytes of output were received from it.
    pub(super) fn note_output(&mut self, target: OutputStream, length: usize) {
        self.to_grant[target as usize] += length as u32;
    }

    /// Grants new credit for the received output, if the launcher's own output has room.
    pub(super) fn grant_output(&mut self, outlets: &Outlets) {
        for target in [OutputStream::Output, OutputStream::Errors] {
            if self.to_grant[target as usize] > 0 && !outlets.is_full(target) {
                let bytes = std::mem::take(&mut self.to_grant[target as usize]);
                // This order is not too long, and returns no reports.
                let _ = self.send(AgentOrder::OutputCredit(target, bytes), &mut Vec::new());
            }
        }
    }

    /// Closes the connection, if it is another machine.
    pub(super) fn disconnect(&mut self) {
        if let HostLink::Remote(remote) = &mut self.link {
            remote.kill();
        }
    }

    /// Returns why the connection to it has ended, if it has.
    pub(super) fn connection_error(&self) -> Option<String> {
        match &self.link {
            HostLink::Remote(remote) if remote.has_closed() => {
                Some(remote.connection_error(&self.name))
            }
            _ => None,
        }
    }

    /// Returns the error message for the case that it is not ready in time.
    pub(super) fn start_failure(&self) -> String {
        match &self.link {
            HostLink::Local(..) => String::new(),
            HostLink::Remote(remote) => remote.start_failure(&self.name),
        }
    }

    /// Handles timers that have expired.
    pub(super) fn handle_timers(&mut self) {
        if let HostLink::Remote(remote) = &mut self.link {
            remote.handle_timers();
        }
    }

    /// Reports what ranks on this machine have answered.
    pub(super) fn look_for_answers(&mut self, reports: &mut Vec<AgentReport>) {
        if let HostLink::Local(processes, _) = &mut self.link {
            processes.look_for_answers(reports);
        }
    }

    /// Returns when to poll again, even if no descriptor becomes ready.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.link {
            HostLink::Remote(remote) if !self.is_closed() => remote.deadline(),
            HostLink::Local(processes, _) => processes.deadline(),
            HostLink::Remote(_) => None,
        }
    }
}
