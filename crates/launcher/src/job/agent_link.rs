//! What a job knows about the agent of another host, and about the command that reaches it, such
//! as ssh.

use std::path::PathBuf;
use std::time::Duration;

use sys::process::{End, signal};

use crate::protocol::{AgentOrder, AgentReport, ReportParser};

/// How an agent is reached.
#[derive(Clone, Debug)]
pub struct AgentAccess {
    /// The command that reaches the host, as shown to users.
    pub command: String,
    /// Where Combray must be on the host.
    pub own_path: PathBuf,
    /// After how long without received bytes the agent counts as failed.
    pub timeout: Duration,
}

impl AgentAccess {
    /// Returns the first word of the command.
    pub(crate) fn command_name(&self) -> &str {
        self.command.split(' ').next().unwrap_or_default()
    }
}

/// The state of the connection to an agent.
#[derive(Debug)]
pub(super) struct AgentLink {
    access: AgentAccess,
    parser: ReportParser,
    /// The last part of what the command wrote to its error output.
    error_output: Vec<u8>,
    state: LinkState,
    /// How many times the launcher has tried to reach the host.
    attempts: u32,
}

/// The states of a connection.
#[derive(Debug)]
enum LinkState {
    /// Reports can arrive.
    Open,
    /// No more reports can arrive, for this reason if the job closed the connection.
    Closed(Option<AgentFault>),
    /// The command has ended, too: nothing more can be learned about the reason.
    Ended(Option<AgentFault>, End),
}

/// What makes an agent useless.
#[derive(Debug)]
enum AgentFault {
    /// It sent what the protocol does not allow, as this message says.
    Protocol(String),
    /// It sent nothing for too long.
    Silence,
}

/// How many bytes of the command's messages are kept, and how many lines are shown.
const ERROR_OUTPUT_BYTES_MAX: usize = 4096;
const LINES_MAX: usize = 10;

impl AgentLink {
    /// Creates the state of a connection to a host where these ranks must run.
    pub(super) fn new(access: AgentAccess, ranks: &[u32]) -> Self {
        Self {
            access,
            parser: ReportParser::new(ranks),
            error_output: Vec::new(),
            state: LinkState::Open,
            attempts: 1,
        }
    }

    /// Forgets the connection, for another attempt to reach the host.
    pub(super) fn renew(&mut self, ranks: &[u32]) {
        let attempts = self.attempts + 1;
        *self = Self { attempts, ..Self::new(self.access.clone(), ranks) };
    }

    pub(super) fn is_first_attempt(&self) -> bool {
        self.attempts == 1
    }

    /// Whether the command has ended without reaching the host.
    pub(super) fn was_not_reached(&self) -> bool {
        let has_shell = matches!(self.end(), Some(End::Code(126 | 127)));
        !self.has_greeted() && self.fault().is_none() && self.has_ended() && !has_shell
    }

    pub(super) fn access(&self) -> &AgentAccess {
        &self.access
    }

    pub(super) fn has_greeted(&self) -> bool {
        self.parser.has_greeted()
    }

    pub(super) fn is_closed(&self) -> bool {
        !matches!(self.state, LinkState::Open)
    }

    /// Whether the command has ended: nothing more can be learned about the reason.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state, LinkState::Ended(..))
    }

    /// Returns after how long a silent agent counts as failed. Until the agent has started its
    /// processes, the time in which all hosts must start applies.
    pub(super) fn silence_max(&self) -> Option<Duration> {
        (!self.is_closed() && self.parser.has_started()).then_some(self.access.timeout)
    }

    /// Appends an order to `bytes`.
    ///
    /// # Errors
    /// The order is too long.
    pub(super) fn emit(&mut self, order: &AgentOrder, bytes: &mut Vec<u8>) -> Result<(), String> {
        self.parser.note_order(order);
        match order.emit(bytes) {
            true => Ok(()),
            false => {
                Err("the arguments and variables are too long to be sent to another host".into())
            }
        }
    }

    /// Handles bytes from the agent: returns the reports that are complete now, and whether the
    /// connection is usable.
    pub(super) fn receive(&mut self, bytes: &[u8], reports: &mut Vec<AgentReport>) -> bool {
        if self.is_closed() {
            return true;
        }
        let Err(what) = self.parser.receive(bytes, reports) else { return true };
        self.state = LinkState::Closed(Some(AgentFault::Protocol(what)));
        false
    }

    /// Keeps what the command wrote to its error output.
    pub(super) fn note_errors(&mut self, bytes: &[u8]) {
        self.error_output.extend_from_slice(bytes);
        let excess = self.error_output.len().saturating_sub(ERROR_OUTPUT_BYTES_MAX);
        self.error_output.drain(..excess);
    }

    /// Records that the agent has sent nothing for too long.
    pub(super) fn note_silence(&mut self) {
        self.state = LinkState::Closed(Some(AgentFault::Silence));
    }

    /// Records the end of the command, after which no more reports can arrive.
    pub(super) fn note_end(&mut self, end: End) {
        let fault = match std::mem::replace(&mut self.state, LinkState::Open) {
            LinkState::Open => None,
            LinkState::Closed(fault) | LinkState::Ended(fault, _) => fault,
        };
        self.state = LinkState::Ended(fault, end);
    }

    /// Records that no more reports can arrive.
    pub(super) fn close(&mut self) {
        if !self.is_closed() {
            self.state = LinkState::Closed(None);
        }
    }

    /// Returns how the command ended, once it has.
    fn end(&self) -> Option<End> {
        match self.state {
            LinkState::Open | LinkState::Closed(_) => None,
            LinkState::Ended(_, end) => Some(end),
        }
    }

    /// Returns why the job closed the connection, if it did.
    fn fault(&self) -> Option<&AgentFault> {
        match &self.state {
            LinkState::Open => None,
            LinkState::Closed(fault) | LinkState::Ended(fault, _) => fault.as_ref(),
        }
    }

    /// Returns the error message for a connection that was lost, or never established.
    pub(super) fn connection_error(&self, host: &str) -> String {
        match self.fault() {
            Some(AgentFault::Protocol(what)) => {
                let beginning = if self.parser.has_started() {
                    format!("the connection to {host} was lost")
                } else {
                    format!("{host} cannot be used")
                };
                return format!("{beginning}: {what}{}", self.last_output());
            }
            Some(AgentFault::Silence) => {
                let silence = self.access.timeout.as_secs_f64();
                return format!(
                    "the connection to {host} was lost: nothing was received from it for {silence} s"
                );
            }
            None => {}
        }
        let command = self.access.command_name();
        let how = match self.end() {
            Some(End::Code(code)) => format!("{command} ended with exit code {code}"),
            Some(End::Signal(number)) => {
                format!("{command} was killed by signal {number} ({})", signal::name(number))
            }
            None => format!("{command} still runs, but sends nothing"),
        };
        if self.parser.has_started() {
            return format!(
                "the connection to {host} was lost ({how}); its processes are terminated{}",
                self.last_output()
            );
        }
        if self.has_greeted() {
            return format!("{host} cannot start its processes ({how}){}", self.last_output());
        }
        let remedy = match self.end() {
            Some(End::Code(126 | 127)) => {
                let own = self.access.own_path.display();
                format!("Combray must be there at the same path as here, {own}")
            }
            _ => self.remedy(host),
        };
        let attempts = match self.attempts {
            1 => String::new(),
            more => format!(" in {more} attempts"),
        };
        format!("{host} cannot be reached{attempts} ({how}): {remedy}{}", self.last_output())
    }

    /// Returns the error message for a host that has not started its processes in time.
    pub(super) fn start_failure(&self, host: &str) -> String {
        if self.has_greeted() {
            return self.last_output();
        }
        format!(": {}{}", self.remedy(host), self.last_output())
    }

    /// Returns what must work so that the host can be reached.
    fn remedy(&self, host: &str) -> String {
        format!("\"{} {host} true\" must work without a prompt", self.access.command)
    }

    /// Returns the last output of the command and of the host's shell.
    fn last_output(&self) -> String {
        let noise = self.parser.foreign_output();
        let text =
            [&self.error_output[..], &noise[noise.len().saturating_sub(ERROR_OUTPUT_BYTES_MAX)..]]
                .concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> =
            text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        if lines.is_empty() {
            return String::new();
        }
        let last = &lines[lines.len().saturating_sub(LINES_MAX)..];
        format!("\n  its output:\n    {}", last.join("\n    "))
    }
}
