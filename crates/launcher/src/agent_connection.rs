//! The launcher's end of the connection to an agent: the command that reaches the host, such as
//! ssh, with its output and its end.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::process::{ChildStderr, ChildStdout, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use sys::process::{self, DescriptorLimit, End, Interest, ProcessBinding, signal};

use super::heartbeats::{self, SharedOutlet};
use super::outlets::Outlet;
use super::{LaunchError, is_no_end};
use crate::access::HostAccess;
use crate::protocol::{AgentOrder, AgentReport, ReportParser};

/// A host and the command that reaches it.
pub(super) struct AgentConnection {
    /// The command, such as `ssh`.
    command: String,
    process: i32,
    /// How the command ended, once it has.
    end: Option<End>,
    /// The stream of orders; none after the last order.
    orders: Option<SharedOutlet>,
    reports: Option<ChildStdout>,
    errors: Option<ChildStderr>,
    parser: ReportParser,
    /// The last part of what the command wrote to its error output.
    error_output: Vec<u8>,
    /// When the last bytes were received from the agent.
    last_received: Instant,
    /// After how long without received bytes the agent counts as failed.
    timeout: Duration,
    /// Whether heartbeats are sent.
    sends_heartbeats: bool,
    /// The protocol error in the received bytes, if any.
    protocol_error: Option<String>,
    /// Whether nothing was received from it for too long.
    has_timed_out: bool,
    /// Since when no more reports can arrive.
    closed: Option<Instant>,
    /// The watched descriptors, in the order of the last [`watched`](Self::watched).
    watched: Vec<AgentDescriptor>,
}

#[derive(Clone, Copy)]
enum AgentDescriptor {
    Orders,
    Reports,
    Errors,
}

/// How many bytes are read at once, and how many times in a row before other descriptors get their
/// turn.
const READ_BYTES_MAX: usize = 64 << 10;
const READS_MAX: usize = 4;

/// How many bytes of the command's messages are kept.
const ERROR_OUTPUT_BYTES_MAX: usize = 4096;

/// How long a command that has closed its output may take to end, which shows the reason.
const END_TIME_MAX: Duration = Duration::from_secs(2);

impl AgentConnection {
    /// Starts the agent on a host where these ranks must run.
    ///
    /// # Errors
    /// The command that reaches the host cannot be started.
    pub(super) fn open(
        access: &HostAccess,
        timeout: Duration,
        host: &str,
        ranks: &[u32],
        descriptors: DescriptorLimit,
    ) -> Result<Self, LaunchError> {
        let own = std::env::current_exe()?;
        let seconds = OsString::from(format!("{}", timeout.as_secs_f64()));
        let mut command = access.command(host, &[own.as_os_str(), OsStr::new("agent"), &seconds]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = process::spawn_bound(&mut command, &[], descriptors, &ProcessBinding::Free)
            .map_err(|cause| {
                LaunchError::new(format!(
                    "{host} cannot be reached, as {} cannot be started: {cause}",
                    command_name(&access.shown())
                ))
            })?;
        let orders = child.stdin.take().map(OwnedFd::from).map(File::from).map(Outlet::new);
        let orders = orders.map(|outlet| SharedOutlet::new(Mutex::new(outlet)));
        let (reports, errors) = (child.stdout.take(), child.stderr.take());
        for descriptor in
            [reports.as_ref().map(AsRawFd::as_raw_fd), errors.as_ref().map(AsRawFd::as_raw_fd)]
        {
            descriptor.map_or(Ok(()), process::set_nonblocking)?;
        }
        Ok(Self {
            command: access.shown(),
            process: child.id() as i32,
            end: None,
            orders,
            reports,
            errors,
            parser: ReportParser::new(ranks),
            error_output: Vec::new(),
            last_received: Instant::now(),
            timeout,
            sends_heartbeats: false,
            protocol_error: None,
            has_timed_out: false,
            closed: None,
            watched: Vec::new(),
        })
    }

    pub(super) fn has_greeted(&self) -> bool {
        self.parser.has_greeted()
    }

    /// Sends an order.
    ///
    /// # Errors
    /// The order is too long.
    pub(super) fn send(&mut self, order: &AgentOrder) -> Result<(), LaunchError> {
        let Some(outlet) = &self.orders else { return Ok(()) };
        if !order.emit(&mut heartbeats::lock(outlet).queue) {
            return Err(LaunchError::new(
                "the arguments and variables are too long to be sent to another host".to_owned(),
            ));
        }
        Ok(())
    }

    /// Appends the descriptors to watch.
    pub(super) fn watched(&mut self, list: &mut Vec<(RawFd, Interest)>) {
        self.watched.clear();
        let orders = self.orders.as_ref().map(heartbeats::lock);
        if let Some(orders) = orders.filter(|orders| !orders.is_empty()) {
            list.push((orders.as_raw_fd(), Interest::Write));
            self.watched.push(AgentDescriptor::Orders);
        }
        if let Some(reports) = &self.reports {
            list.push((reports.as_raw_fd(), Interest::Read));
            self.watched.push(AgentDescriptor::Reports);
        }
        if let Some(errors) = &self.errors {
            list.push((errors.as_raw_fd(), Interest::Read));
            self.watched.push(AgentDescriptor::Errors);
        }
    }

    /// Serves the descriptors that are ready, in the order of [`watched`](Self::watched).
    pub(super) fn serve(&mut self, ready: &[bool], reports: &mut Vec<AgentReport>) {
        let watched = std::mem::take(&mut self.watched);
        for (what, _) in watched.iter().zip(ready).filter(|(_, ready)| **ready) {
            match what {
                AgentDescriptor::Orders => self.write(),
                AgentDescriptor::Reports => self.read_reports(READS_MAX, reports),
                AgentDescriptor::Errors => self.read_errors(),
            }
        }
    }

    fn write(&mut self) {
        // That the agent does not read any more shows when its reports are read.
        if self.orders.as_ref().is_some_and(|orders| heartbeats::lock(orders).write().is_err()) {
            self.orders = None;
        }
    }

    fn read_reports(&mut self, reads: usize, reports: &mut Vec<AgentReport>) {
        let mut bytes = vec![0; READ_BYTES_MAX];
        for _ in 0..reads {
            let Some(source) = &mut self.reports else { return };
            match source.read(&mut bytes) {
                Ok(length) if length > 0 => {
                    self.last_received = Instant::now();
                    let outcome = self.parser.receive(&bytes[..length], reports);
                    if let Err(what) = outcome {
                        self.protocol_error = Some(what);
                        return self.close();
                    }
                }
                Err(error) if is_no_end(&error) => return,
                _ => return self.close(),
            }
        }
    }

    fn read_errors(&mut self) {
        let mut bytes = vec![0; READ_BYTES_MAX];
        let Some(source) = &mut self.errors else { return };
        match source.read(&mut bytes) {
            Ok(length) if length > 0 => {
                self.error_output.extend_from_slice(&bytes[..length]);
                let excess = self.error_output.len().saturating_sub(ERROR_OUTPUT_BYTES_MAX);
                self.error_output.drain(..excess);
            }
            Err(error) if is_no_end(&error) => {}
            _ => self.errors = None,
        }
    }

    /// Closes both directions. The agent ends when it notices that.
    pub(super) fn close(&mut self) {
        (self.orders, self.reports) = (None, None);
        self.closed.get_or_insert_with(Instant::now);
    }

    /// Records the end of the command.
    pub(super) fn record_exit(
        &mut self,
        process: i32,
        end: End,
        reports: &mut Vec<AgentReport>,
    ) -> bool {
        if process != self.process {
            return false;
        }
        self.end = Some(end);
        // Everything that it has written is in the pipes now.
        self.read_reports(usize::MAX, reports);
        self.read_errors();
        self.close();
        true
    }

    /// Kills the command, which ends the connection.
    pub(super) fn kill(&mut self) {
        if self.end.is_none() {
            // The process group may have just ended.
            let _ = process::kill(-self.process, signal::SIGKILL);
        }
        self.close();
    }

    /// Whether the connection has ended and nothing more can be learned about the reason.
    pub(super) fn has_closed(&self) -> bool {
        let is_late = |since: Instant| since.elapsed() >= END_TIME_MAX;
        self.closed.is_some_and(|since| self.end.is_some() || is_late(since))
    }

    /// Starts the heartbeats when the agent has greeted, and ends the connection if the agent has
    /// sent nothing for too long.
    pub(super) fn handle_timers(&mut self) {
        if !self.has_greeted() || self.closed.is_some() {
            return;
        }
        if let Some(orders) = self.orders.as_ref().filter(|_| !self.sends_heartbeats) {
            let mut heartbeat = Vec::new();
            AgentOrder::Heartbeat.emit(&mut heartbeat);
            // If there is no thread for heartbeats, the agent ends the connection, which shows
            // then.
            let _ = heartbeats::begin(orders, heartbeat, self.timeout);
            self.sends_heartbeats = true;
        }
        // Until the agent has started its processes, the time in which all hosts must start
        // applies.
        let is_silent = self.parser.has_started() && self.last_received.elapsed() >= self.timeout;
        // Bytes that arrived while this process was busy count, however long that was.
        if is_silent && !self.has_input() {
            self.has_timed_out = true;
            self.kill();
        }
    }

    /// Whether bytes from the agent wait to be read.
    fn has_input(&self) -> bool {
        let watched = self.reports.as_ref().map(|reports| (reports.as_raw_fd(), Interest::Read));
        let ready = process::poll(watched.as_slice(), Some(Duration::ZERO));
        ready.is_ok_and(|ready| ready.contains(&true))
    }

    /// Returns when to check again: when a closed connection is given up although its command still
    /// runs, or when the agent has sent nothing for too long.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.closed {
            Some(since) => Some(since + END_TIME_MAX),
            None => self.parser.has_started().then(|| self.last_received + self.timeout),
        }
    }

    /// Returns the error message for a connection that was lost, or never established.
    pub(super) fn connection_error(&self, host: &str) -> String {
        if let Some(what) = &self.protocol_error {
            let beginning = if self.parser.has_started() {
                format!("the connection to {host} was lost")
            } else {
                format!("{host} cannot be used")
            };
            return format!("{beginning}: {what}{}", self.last_output());
        }
        if self.has_timed_out {
            let silence = self.timeout.as_secs_f64();
            return format!(
                "the connection to {host} was lost: nothing was received from it for {silence} s"
            );
        }
        let command = command_name(&self.command);
        let own = std::env::current_exe().unwrap_or_default();
        let own = own.display();
        let how = match self.end {
            Some(End::Code(code)) => format!("{command} ended with exit code {code}"),
            Some(End::Signal(number)) => {
                format!("{command} was killed by signal {number} ({})", signal::name(number))
            }
            None => format!("{command} still runs, but says nothing"),
        };
        if self.parser.has_started() {
            return format!(
                "the connection to {host} was lost ({how}); its processes are ended{}",
                self.last_output()
            );
        }
        if self.has_greeted() {
            return format!("{host} cannot start its processes ({how}){}", self.last_output());
        }
        let remedy = match self.end {
            Some(End::Code(126 | 127)) => {
                format!("Combray must be there at the same path as here, {own}")
            }
            _ => self.remedy(host),
        };
        format!("{host} cannot be reached ({how}): {remedy}{}", self.last_output())
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
        format!("\"{} {host} true\" must work without asking for anything", self.command)
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
        format!("\n  it said:\n    {}", last.join("\n    "))
    }
}

/// How many lines of a command's messages are shown.
const LINES_MAX: usize = 10;

/// Returns the first word of a command.
fn command_name(command: &str) -> &str {
    command.split(' ').next().unwrap_or_default()
}
