//! The upper end of the connection to an agent, in the launcher or in the agent above it: the
//! command that reaches the host, such as ssh, with its pipes.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::process::{ChildStderr, ChildStdout, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use sys::process::{self, DescriptorLimit, End, Foreground, Interest, ProcessBinding, signal};

use super::heartbeats::{self, Heartbeats, SharedOutputQueue};
use super::output_queues::OutputQueue;
use super::{LaunchError, is_no_end};
use crate::access::HostAccess;
use crate::job::AgentAccess;
use crate::protocol::{AgentOrder, AgentStart, ConnectionEvent, ConnectionOrder};

/// The command that reaches a host.
pub(super) struct AgentConnection {
    process: i32,
    has_ended: bool,
    /// The stream of orders; none after the last order.
    orders: Option<SharedOutputQueue>,
    reports: Option<ChildStdout>,
    errors: Option<ChildStderr>,
    /// After how long without received bytes the other end counts as failed.
    timeout: Duration,
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

/// Returns how agents are reached by `access`.
///
/// # Errors
/// The system's.
pub(super) fn agent_access(access: &HostAccess, timeout: Duration) -> io::Result<AgentAccess> {
    Ok(AgentAccess { command: access.shown(), own_path: std::env::current_exe()?, timeout })
}

impl AgentConnection {
    /// Starts an agent.
    ///
    /// # Errors
    /// The command that reaches the host cannot be started.
    pub(super) fn open(
        start: &AgentStart,
        descriptors: DescriptorLimit,
    ) -> Result<Self, LaunchError> {
        let AgentStart { host, access, timeout } = start;
        let own_path = std::env::current_exe()?;
        let seconds = OsString::from(format!("{}", timeout.as_secs_f64()));
        let words = [own_path.as_os_str(), OsStr::new("agent"), &seconds];
        let mut command = access.command(host, &words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = process::spawn_bound(
            &mut command,
            &[],
            descriptors,
            &ProcessBinding::Free,
            Foreground::Stays,
        )
        .map_err(|cause| {
            LaunchError::new(format!(
                "{host} cannot be reached, as {} cannot be started: {cause}",
                command.get_program().display()
            ))
        })?;
        let orders = child.stdin.take().map(OwnedFd::from).map(File::from).map(OutputQueue::new);
        let orders = orders.map(|output_queue| SharedOutputQueue::new(Mutex::new(output_queue)));
        let (reports, errors) = (child.stdout.take(), child.stderr.take());
        for descriptor in
            [reports.as_ref().map(AsRawFd::as_raw_fd), errors.as_ref().map(AsRawFd::as_raw_fd)]
        {
            descriptor.map_or(Ok(()), process::set_nonblocking)?;
        }
        Ok(Self {
            process: child.id() as i32,
            has_ended: false,
            orders,
            reports,
            errors,
            timeout: *timeout,
            watched: Vec::new(),
        })
    }

    /// Does what the job requests with an open connection.
    pub(super) fn execute(&mut self, order: &ConnectionOrder, heartbeats: &mut Heartbeats) {
        match order {
            ConnectionOrder::Send(bytes) => self.send(bytes),
            ConnectionOrder::BeginHeartbeats => self.begin_heartbeats(heartbeats),
            ConnectionOrder::Disconnect => self.close(),
            ConnectionOrder::KillCommand => self.kill(),
            ConnectionOrder::Open(_) => {}
        }
    }

    /// Sends bytes to the agent.
    fn send(&mut self, bytes: &[u8]) {
        if let Some(output_queue) = &self.orders {
            heartbeats::lock(output_queue).queue.extend_from_slice(bytes);
        }
    }

    /// Starts the heartbeats to the agent.
    fn begin_heartbeats(&mut self, heartbeats: &mut Heartbeats) {
        if let Some(orders) = &self.orders {
            let mut heartbeat = Vec::new();
            AgentOrder::Heartbeat.emit(&mut heartbeat);
            // If there is no thread for heartbeats, the agent ends the connection, which shows
            // then.
            let _ = heartbeats.begin(orders, heartbeat, self.timeout);
        }
    }

    /// Appends the descriptors to watch.
    pub(super) fn watched(&mut self, list: &mut Vec<(RawFd, Interest)>) {
        self.watched.clear();
        let orders = self.orders.as_deref().map(heartbeats::lock);
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
    pub(super) fn serve(&mut self, ready: &[bool], events: &mut Vec<ConnectionEvent>) {
        let watched = std::mem::take(&mut self.watched);
        for (what, _) in watched.iter().zip(ready).filter(|(_, ready)| **ready) {
            match what {
                AgentDescriptor::Orders => self.write(),
                AgentDescriptor::Reports => self.read_reports(READS_MAX, events),
                AgentDescriptor::Errors => self.read_errors(events),
            }
        }
    }

    fn write(&mut self) {
        // That the agent does not read any more shows when its reports are read.
        if self.orders.as_ref().is_some_and(|orders| heartbeats::lock(orders).write().is_err()) {
            self.orders = None;
        }
    }

    fn read_reports(&mut self, reads: usize, events: &mut Vec<ConnectionEvent>) {
        let mut bytes = vec![0; READ_BYTES_MAX];
        for _ in 0..reads {
            let Some(source) = &mut self.reports else { return };
            match source.read(&mut bytes) {
                Ok(length) if length > 0 => {
                    events.push(ConnectionEvent::Received(bytes[..length].to_vec()));
                }
                Err(error) if is_no_end(&error) => return,
                _ => {
                    events.push(ConnectionEvent::Disconnected);
                    return self.close();
                }
            }
        }
    }

    fn read_errors(&mut self, events: &mut Vec<ConnectionEvent>) {
        let mut bytes = vec![0; READ_BYTES_MAX];
        let Some(source) = &mut self.errors else { return };
        match source.read(&mut bytes) {
            Ok(length) if length > 0 => {
                events.push(ConnectionEvent::ErrorOutput(bytes[..length].to_vec()));
            }
            Err(error) if is_no_end(&error) => {}
            _ => self.errors = None,
        }
    }

    /// Closes both directions. The agent ends when it notices that.
    fn close(&mut self) {
        (self.orders, self.reports) = (None, None);
    }

    /// Records the end of the command.
    pub(super) fn record_exit(
        &mut self,
        process: i32,
        end: End,
        events: &mut Vec<ConnectionEvent>,
    ) -> bool {
        if process != self.process {
            return false;
        }
        self.has_ended = true;
        // Everything that it has written is in the pipes now.
        self.read_reports(usize::MAX, events);
        self.read_errors(events);
        self.close();
        events.push(ConnectionEvent::CommandEnded(end));
        true
    }

    /// Kills the command, which ends the connection.
    fn kill(&mut self) {
        if !self.has_ended {
            // The process group may have just ended.
            let _ = process::kill(-self.process, signal::SIGKILL);
        }
        self.close();
    }
}
