//! The rules of which messages may be sent in which state of the protocol between launcher and
//! agent.
//!
//! Sender and receiver apply these rules. The receiver does because the other end may be any
//! program. The sender does so that tests on one machine find mistakes, too.

use super::{AgentOrder, AgentReport, OUTPUT_BYTES_MAX, TRACE_BYTES_MAX, TRACE_PART_BYTES_MAX};
use crate::spawned::MESSAGE_BYTES_MAX;

/// The state of an agent after its last report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgentState {
    /// It has sent nothing yet; other programs may have printed something.
    Connecting,
    /// It has sent its version.
    Greeted,
    /// Its processes run or have run.
    Started,
    /// It has started no processes and will send no more.
    Failed,
}

/// The state of the launcher after its last order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LauncherState {
    /// No processes were ordered to start yet.
    Idle,
    /// The order to start the processes was sent.
    StartSent,
}

/// The rule of one kind of message.
struct Rule<S: 'static> {
    /// The message, as named in a sentence for users.
    name: &'static str,
    /// The states of its sender in which it may be sent.
    states: &'static [S],
    /// The state that follows; none: the state does not change.
    next: Option<S>,
}

const fn rule<S>(name: &'static str, states: &'static [S], next: Option<S>) -> Rule<S> {
    Rule { name, states, next }
}

/// The table of the rules of reports.
fn rule_of_report(report: &AgentReport) -> Rule<AgentState> {
    use AgentState::{Failed, Greeted, Started};
    const RUNNING: &[AgentState] = &[Started];
    match report {
        AgentReport::Heartbeat => rule("a heartbeat", &[Greeted, Started], None),
        AgentReport::Started(_) => rule("the start of its processes", &[Greeted], Some(Started)),
        AgentReport::StartFailed(_) => rule("a failure to start", &[Greeted], Some(Failed)),
        AgentReport::Output(..) => rule("output of a rank", RUNNING, None),
        AgentReport::OutputClosed(..) => rule("the end of a rank's output", RUNNING, None),
        AgentReport::PmiData(..) => rule("a PMI request of a rank", RUNNING, None),
        AgentReport::PmiClosed(_) => rule("the end of a rank's PMI connection", RUNNING, None),
        AgentReport::Crashed(..) => rule("the crash of a rank", RUNNING, None),
        AgentReport::Ended(..) => rule("the end of a rank", RUNNING, None),
        AgentReport::InputTaken(_) => rule("an acknowledgement of input", RUNNING, None),
        AgentReport::Answer(..) => rule("an answer of a rank", RUNNING, None),
        AgentReport::FromSpawned(..) => rule("a message of a spawned job", RUNNING, None),
        AgentReport::SpawnedClosed(_) => rule("the end of a spawned job", RUNNING, None),
        AgentReport::TracePart(..) => rule("a part of a trace", RUNNING, None),
        AgentReport::Connection(..) => {
            rule("an event of another agent", &[Greeted, Started, Failed], None)
        }
    }
}

/// The table of the rules of orders.
fn rule_of_order(order: &AgentOrder) -> Rule<LauncherState> {
    use LauncherState::{Idle, StartSent};
    const AFTER_START: &[LauncherState] = &[StartSent];
    match order {
        AgentOrder::Heartbeat => rule("a heartbeat", &[Idle, StartSent], None),
        AgentOrder::Start(_) => rule("the order to start processes", &[Idle], Some(StartSent)),
        AgentOrder::Input(_) => rule("input of rank 0", AFTER_START, None),
        AgentOrder::Answer(..) => rule("a PMI answer to a rank", AFTER_START, None),
        AgentOrder::ClosePmi(_) => rule("the order to close a PMI connection", AFTER_START, None),
        AgentOrder::Signal(..) => rule("a signal for the ranks", AFTER_START, None),
        AgentOrder::OutputCredit(..) => rule("room for more output", AFTER_START, None),
        AgentOrder::Ask => rule("a question to the ranks", AFTER_START, None),
        AgentOrder::SendTrace(..) => rule("a request for a trace", AFTER_START, None),
        AgentOrder::PublishFailures(_) => rule("the number of failures", AFTER_START, None),
        AgentOrder::ToSpawned(..) => rule("a message to a spawned job", AFTER_START, None),
        AgentOrder::Close => rule("the order to end", AFTER_START, None),
        AgentOrder::Connection(..) => rule("an order for another agent", &[Idle, StartSent], None),
    }
}

impl<S: Copy + PartialEq> Rule<S> {
    /// Advances `state`, if the message may be sent in it.
    fn follow(&self, state: &mut S, when: impl Fn(S) -> &'static str) -> Result<(), String> {
        if !self.states.contains(state) {
            return Err(format!("{} was sent {}", self.name, when(*state)));
        }
        *state = self.next.unwrap_or(*state);
        Ok(())
    }

    /// Fails unless the contents of the message make sense.
    fn expect(&self, makes_sense: bool, what: &str) -> Result<(), String> {
        if makes_sense { Ok(()) } else { Err(format!("{} was sent {what}", self.name)) }
    }
}

/// The state of the reports of one agent.
#[derive(Debug)]
pub(crate) struct ReportRules {
    state: AgentState,
    /// The ranks on its machine in ascending order, and whether each has ended.
    ranks: Vec<(u32, bool)>,
    /// How many bytes of input were sent to it whose reading it has not reported.
    unread_input: u64,
}

impl ReportRules {
    /// Creates the state of an agent on whose machine these ranks run, in ascending order.
    pub(crate) fn new(ranks: impl IntoIterator<Item = u32>) -> Self {
        let ranks = ranks.into_iter().map(|rank| (rank, false)).collect();
        Self { state: AgentState::Connecting, ranks, unread_input: 0 }
    }

    pub(crate) fn state(&self) -> AgentState {
        self.state
    }

    /// Records that the agent has sent its version.
    pub(crate) fn greet(&mut self) {
        self.state = AgentState::Greeted;
    }

    /// Records an order that was sent to it, on which later reports depend.
    pub(crate) fn note_order(&mut self, order: &AgentOrder) {
        if let AgentOrder::Input(bytes) = order {
            self.unread_input += bytes.len() as u64;
        }
    }

    /// Applies the rules to a report.
    ///
    /// # Errors
    /// A message for users: the report may not be sent now, or not about this rank.
    pub(crate) fn follow(&mut self, report: &AgentReport) -> Result<(), String> {
        let rule = rule_of_report(report);
        rule.follow(&mut self.state, |state| match state {
            AgentState::Connecting => "before the agent's version",
            AgentState::Greeted => "before the processes were started",
            AgentState::Started => "after the processes were started",
            AgentState::Failed => "though the processes could not be started",
        })?;
        let position = |rank: &u32| self.ranks.binary_search_by_key(rank, |known| known.0).ok();
        let is_ours = |rank: &u32| rule.expect(position(rank).is_some(), ELSEWHERE);
        match report {
            AgentReport::Started(processes) => {
                let is_whole = processes.len() == self.ranks.len();
                let are_valid = processes.iter().all(|&process| process > 1);
                rule.expect(is_whole && are_valid, "for other processes than those of the order")
            }
            AgentReport::Output(rank, _, bytes) => {
                is_ours(rank)?;
                rule.expect(bytes.len() <= OUTPUT_BYTES_MAX as usize, "that is too long")
            }
            AgentReport::TracePart(rank, part) => {
                is_ours(rank)?;
                let end = u64::from(part.offset) + part.bytes.len() as u64;
                let fits = part.bytes.len() <= TRACE_PART_BYTES_MAX
                    && part.total <= TRACE_BYTES_MAX
                    && end <= u64::from(part.total.max(part.offset));
                rule.expect(fits, "that is too long")
            }
            AgentReport::Ended(rank, _) => {
                is_ours(rank)?;
                let had_ended = position(rank).map(|index| &mut self.ranks[index].1);
                let had_ended = had_ended.is_some_and(|ended| std::mem::replace(ended, true));
                rule.expect(!had_ended, "twice")
            }
            AgentReport::OutputClosed(rank, _)
            | AgentReport::PmiData(rank, _)
            | AgentReport::PmiClosed(rank)
            | AgentReport::Crashed(rank, _)
            | AgentReport::Answer(rank, _) => is_ours(rank),
            AgentReport::InputTaken(bytes) => {
                let rest = self.unread_input.checked_sub(u64::from(*bytes));
                self.unread_input = rest.unwrap_or_default();
                rule.expect(rest.is_some(), "for more bytes than the agent had received")
            }
            AgentReport::FromSpawned(_, message) => {
                rule.expect(message.len() <= MESSAGE_BYTES_MAX, "that is too long")
            }
            AgentReport::StartFailed(_)
            | AgentReport::Heartbeat
            | AgentReport::SpawnedClosed(_)
            | AgentReport::Connection(..) => Ok(()),
        }
    }
}

/// The state of the orders to one agent.
#[derive(Debug)]
pub(crate) struct OrderRules {
    state: LauncherState,
    /// The ranks to be started, in ascending order.
    ranks: Vec<u32>,
}

impl Default for OrderRules {
    fn default() -> Self {
        Self { state: LauncherState::Idle, ranks: Vec::new() }
    }
}

impl OrderRules {
    /// Applies the rules to an order.
    ///
    /// # Errors
    /// A message for users: the order may not be sent now, or not for this rank.
    pub(crate) fn follow(&mut self, order: &AgentOrder) -> Result<(), String> {
        let rule = rule_of_order(order);
        rule.follow(&mut self.state, |state| match state {
            LauncherState::Idle => "before the order to start processes",
            LauncherState::StartSent => "twice",
        })?;
        match order {
            AgentOrder::Start(start) => {
                self.ranks = start.ranks.iter().map(|pair| pair.0).collect();
                let has_program = |pair: &(u32, u32)| {
                    pair.0 < start.size && (pair.1 as usize) < start.programs.len()
                };
                let makes_sense = start.ranks.iter().all(has_program) && self.ranks.is_sorted();
                rule.expect(makes_sense, "for ranks or programs that do not exist")
            }
            AgentOrder::Answer(rank, _)
            | AgentOrder::ClosePmi(rank)
            | AgentOrder::SendTrace(rank, _)
            | AgentOrder::Signal(Some(rank), _) => {
                rule.expect(self.ranks.binary_search(rank).is_ok(), ELSEWHERE)
            }
            AgentOrder::Input(_)
            | AgentOrder::Signal(None, _)
            | AgentOrder::OutputCredit(..)
            | AgentOrder::Heartbeat
            | AgentOrder::Ask
            | AgentOrder::PublishFailures(_)
            | AgentOrder::Connection(..)
            | AgentOrder::ToSpawned(..)
            | AgentOrder::Close => Ok(()),
        }
    }

    /// Returns the ranks to be started.
    pub(crate) fn ranks(&self) -> &[u32] {
        &self.ranks
    }
}

const ELSEWHERE: &str = "for a rank of another machine";
