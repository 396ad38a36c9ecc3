//! One machine of the job: the processes here, or an agent's.

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
    /// Its name, for people.
    pub name: String,
    link: HostLink,
    stage: HostState,
    /// Which orders may be sent to it.
    order_rules: OrderRules,
    /// How much output was taken from it, for each target, and has not been granted again.
    to_grant: [u32; 2],
}

enum HostLink {
    /// With the rules for what they report.
    Local(Box<LocalProcesses>, ReportRules),
    Remote(Box<AgentConnection>),
}

/// How far a machine has come.
enum HostState {
    /// These processes are not asked for yet.
    Waiting(Start),
    /// They are asked for.
    StartSent,
    /// They run or have run.
    Started,
    /// Nothing more is received from it.
    Closed,
}

impl JobHost {
    /// This machine.
    pub(super) fn local(name: String, processes: LocalProcesses, start: Start) -> Self {
        let mut rules = ReportRules::new(start.ranks.iter().map(|pair| pair.0));
        rules.greet();
        Self::new(name, HostLink::Local(Box::new(processes), rules), start)
    }

    /// Another machine.
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

    /// Whether it can be asked to start its processes.
    pub(super) fn is_ready(&self) -> bool {
        match &self.link {
            HostLink::Local(..) => true,
            HostLink::Remote(remote) => remote.has_greeted(),
        }
    }

    /// Whether it was not asked to start its processes yet.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.stage, HostState::Waiting(_))
    }

    pub(super) fn has_started(&self) -> bool {
        matches!(self.stage, HostState::Started)
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.stage, HostState::Closed)
    }

    /// Notes that its processes run.
    pub(super) fn mark_started(&mut self) {
        self.stage = HostState::Started;
    }

    /// Notes that nothing more is expected from it.
    pub(super) fn mark_closed(&mut self) {
        self.stage = HostState::Closed;
    }

    /// Asks it to start its processes, if it was not asked yet.
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

    /// Gives an order.
    ///
    /// # Errors
    /// It is too long for the way to the machine, or may not be sent now.
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

    /// Appends the descriptors to watch; returns how many.
    pub(super) fn watched(&mut self, list: &mut Vec<(RawFd, Interest)>) -> usize {
        let before = list.len();
        match &mut self.link {
            HostLink::Local(processes, _) => processes.watched(list),
            HostLink::Remote(remote) => remote.watched(list),
        }
        list.len() - before
    }

    /// Moves on what is ready, in the order of [`watched`](Self::watched).
    pub(super) fn serve(&mut self, ready: &[bool], reports: &mut Vec<AgentReport>) {
        match &mut self.link {
            HostLink::Local(processes, _) => processes.serve(ready, reports),
            HostLink::Remote(remote) => remote.serve(ready, reports),
        }
    }

    /// Fails if the processes of this machine report what may not be sent now. What another machine
    /// reports was checked when it came.
    pub(super) fn check(&mut self, report: &AgentReport) -> Result<(), String> {
        match &mut self.link {
            HostLink::Local(_, rules) => rules.follow(report),
            HostLink::Remote(_) => Ok(()),
        }
    }

    /// A child of this process has ended; false if it has nothing to do with this machine.
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

    /// Notes that so much output was taken from it.
    pub(super) fn note_output(&mut self, target: OutputStream, length: usize) {
        self.to_grant[target as usize] += length as u32;
    }

    /// Grants again what was taken, where the launcher's own output can take more.
    pub(super) fn grant_output(&mut self, outlets: &Outlets) {
        for target in [OutputStream::Output, OutputStream::Errors] {
            if self.to_grant[target as usize] > 0 && !outlets.is_full(target) {
                let bytes = std::mem::take(&mut self.to_grant[target as usize]);
                // Neither is this order too long, nor does it bring reports.
                let _ = self.send(AgentOrder::OutputCredit(target, bytes), &mut Vec::new());
            }
        }
    }

    /// Ends the connection, if it is another machine.
    pub(super) fn disconnect(&mut self) {
        if let HostLink::Remote(remote) = &mut self.link {
            remote.kill();
        }
    }

    /// Why the connection to it has ended, if it has.
    pub(super) fn connection_error(&self) -> Option<String> {
        match &self.link {
            HostLink::Remote(remote) if remote.has_closed() => {
                Some(remote.connection_error(&self.name))
            }
            _ => None,
        }
    }

    /// The error message about it if it is not ready in time.
    pub(super) fn start_failure(&self) -> String {
        match &self.link {
            HostLink::Local(..) => String::new(),
            HostLink::Remote(remote) => remote.start_failure(&self.name),
        }
    }

    /// Does what it is time for.
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

    /// When to look again, though nothing may have happened.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.link {
            HostLink::Remote(remote) if !self.is_closed() => remote.deadline(),
            HostLink::Local(processes, _) => processes.deadline(),
            HostLink::Remote(_) => None,
        }
    }
}
