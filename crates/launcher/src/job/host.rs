//! One machine of the job, whose processes are started by this process or by an agent.

use super::actions::{Action, Actions};
use super::agent_link::{AgentAccess, AgentLink};
use crate::protocol::{
    AgentOrder, AgentReport, ConnectionOrder, OrderRules, OutputStream, ReportRules, Start,
};

/// A machine to be used.
#[derive(Clone, Debug)]
pub struct HostSetup {
    /// Its name, as shown to users.
    pub name: String,
    /// What it must start.
    pub start: Start,
    /// How its agent is reached; none: it is this machine.
    pub agent: Option<AgentAccess>,
    /// The index of the host whose agent starts its agent; none: the launcher does.
    pub parent: Option<usize>,
}

/// A machine.
pub(super) struct JobHost {
    /// Its name, as shown to users.
    pub name: String,
    /// Its ranks, in ascending order.
    pub ranks: Vec<u32>,
    /// Its index among the hosts of the job.
    number: usize,
    link: HostLink,
    state: HostState,
    /// The rules of which orders may be sent to it.
    order_rules: OrderRules,
    /// The number of bytes of output received from it for each target for which no new credit was
    /// granted.
    to_grant: [u32; 2],
}

enum HostLink {
    /// This machine, with the rules for the reports of its processes.
    Local(ReportRules),
    Remote(Box<AgentLink>),
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
    /// Creates the state of a machine, which has this index.
    pub(super) fn new(number: usize, setup: HostSetup) -> Self {
        let HostSetup { name, start, agent, parent: _ } = setup;
        let ranks: Vec<u32> = start.ranks.iter().map(|pair| pair.0).collect();
        let link = match agent {
            Some(access) => HostLink::Remote(Box::new(AgentLink::new(access, &ranks))),
            None => {
                let mut rules = ReportRules::new(ranks.iter().copied());
                rules.greet();
                HostLink::Local(rules)
            }
        };
        let (state, order_rules) = (HostState::Waiting(start), OrderRules::default());
        Self { name, ranks, number, link, state, order_rules, to_grant: [0; 2] }
    }

    pub(super) fn is_local(&self) -> bool {
        matches!(self.link, HostLink::Local(_))
    }

    /// Returns the state of its agent, if it is another machine that is still used.
    pub(super) fn agent(&mut self) -> Option<&mut AgentLink> {
        match &mut self.link {
            HostLink::Remote(agent) if !matches!(self.state, HostState::Closed) => Some(agent),
            _ => None,
        }
    }

    /// Whether it can accept the order to start its processes.
    pub(super) fn is_ready(&self) -> bool {
        match &self.link {
            HostLink::Local(_) => true,
            HostLink::Remote(agent) => agent.has_greeted(),
        }
    }

    /// Whether the order to start its processes was not sent yet.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, HostState::Waiting(_))
    }

    pub(super) fn has_started(&self) -> bool {
        matches!(self.state, HostState::Started)
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, HostState::Closed)
    }

    /// Records that its processes run.
    pub(super) fn mark_started(&mut self) {
        self.state = HostState::Started;
    }

    /// Closes the connection, if it is another machine. No more reports are expected from it.
    pub(super) fn close(&mut self, actions: &mut Actions) {
        self.disconnect(actions);
        self.state = HostState::Closed;
    }

    /// Kills the command that reaches it, if it is another machine, which closes the connection.
    pub(super) fn disconnect(&mut self, actions: &mut Actions) {
        let number = self.number;
        if let Some(agent) = self.agent() {
            agent.close();
            if !agent.has_ended() {
                actions.push(Action::Connection(number, ConnectionOrder::KillCommand));
            }
        }
    }

    /// Forgets the connection to its agent, so that another one can be opened.
    pub(super) fn renew_agent(&mut self) {
        if let HostLink::Remote(agent) = &mut self.link {
            **agent = AgentLink::new(agent.access().clone(), &self.ranks);
        }
    }

    /// Forgets the connection to its agent, which was not reached, for another attempt.
    pub(super) fn begin_attempt(&mut self) {
        if let HostLink::Remote(agent) = &mut self.link {
            agent.renew(&self.ranks);
        }
    }

    /// Orders it to start its processes, if that was not done yet.
    ///
    /// # Errors
    /// The order is too long.
    pub(super) fn begin(&mut self, actions: &mut Actions) -> Result<(), String> {
        match std::mem::replace(&mut self.state, HostState::StartSent) {
            HostState::Waiting(start) => self.send(AgentOrder::Start(start), actions),
            other => {
                self.state = other;
                Ok(())
            }
        }
    }

    /// Sends an order.
    ///
    /// # Errors
    /// The order is too long to be sent to that machine, or may not be sent now.
    pub(super) fn send(&mut self, order: AgentOrder, actions: &mut Actions) -> Result<(), String> {
        if matches!(self.state, HostState::Waiting(_) | HostState::Closed) {
            return Ok(());
        }
        self.order_rules
            .follow(&order)
            .map_err(|what| format!("the launcher gave {} a wrong order: {what}", self.name))?;
        match &mut self.link {
            HostLink::Local(rules) => {
                rules.note_order(&order);
                actions.push(Action::Execute(self.number, order));
            }
            HostLink::Remote(agent) if agent.is_closed() => {}
            HostLink::Remote(agent) => {
                let mut bytes = Vec::new();
                agent.emit(&order, &mut bytes)?;
                actions.push(Action::Connection(self.number, ConnectionOrder::Send(bytes)));
            }
        }
        Ok(())
    }

    /// Fails if the processes of this machine send a report that is not allowed now. Reports of
    /// another machine were checked when they arrived.
    pub(super) fn check(&mut self, report: &AgentReport) -> Result<(), String> {
        match &mut self.link {
            HostLink::Local(rules) => rules.follow(report),
            HostLink::Remote(_) => Ok(()),
        }
    }

    /// Records that `length` bytes of output were received from it.
    pub(super) fn note_output(&mut self, target: OutputStream, length: usize) {
        let to_grant = &mut self.to_grant[target as usize];
        *to_grant = to_grant.saturating_add(length as u32);
    }

    /// Grants new credit for the received output of this target.
    pub(super) fn grant_output(&mut self, target: OutputStream, actions: &mut Actions) {
        let bytes = std::mem::take(&mut self.to_grant[target as usize]);
        if bytes > 0 {
            // This order is never too long, and comes after the one to start processes.
            let _ = self.send(AgentOrder::OutputCredit(target, bytes), actions);
        }
    }

    /// Returns the error message about its connection, which has ended.
    pub(super) fn connection_error(&self) -> String {
        match &self.link {
            HostLink::Remote(agent) => agent.connection_error(&self.name),
            HostLink::Local(_) => String::new(),
        }
    }

    /// Returns the error message for the case that it is not ready in time.
    pub(super) fn start_failure(&self) -> String {
        match &self.link {
            HostLink::Local(_) => String::new(),
            HostLink::Remote(agent) => agent.start_failure(&self.name),
        }
    }
}
