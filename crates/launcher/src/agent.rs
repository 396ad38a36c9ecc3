//! The agent, which the launcher starts on another machine and communicates with over its standard
//! input and output.
//!
//! It makes no decisions. When the connection ends, the agent ends all processes that it started.
//! An inner agent of the launch tree also has the connections to the agents below it (`relays`).
//!
//! Why: docs/internals/decisions/0012-agents-speak-through-ssh.md

mod relays;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use sys::process::{self, DescriptorLimit, Interest, Signals, signal};

use super::guard::{END, KILL_TIME_MAX, end_descendants};
use super::heartbeats::{self, Heartbeats, SharedOutputQueue};
use super::local_processes::{LocalProcesses, PmiRequests, StandardInput};
use super::output_queues::OutputQueue;
use super::{LaunchError, OpenAhead, is_no_end};
use crate::protocol::{self, AgentOrder, AgentReport, OrderParser, ReportRules, START_TIME_MAX};
use relays::Relays;

/// When more bytes than this wait for the launcher, no more are read from the processes.
const QUEUE_BYTES_MAX: usize = 4 << 20;

/// How many bytes are read at once. The buffer is not on the stack, whose limit the user may have
/// set low.
const READ_BYTES_MAX: usize = 64 << 10;

struct Agent {
    processes: LocalProcesses,
    /// The agents below this one.
    relays: Relays,
    /// Whether it was ordered to end, which it does when the agents below it have ended: ending
    /// what the processes here left behind would end the commands that reach those agents.
    is_closing: bool,
    /// The stream of orders.
    source: File,
    orders: OrderParser,
    /// The stream of reports.
    output_queue: SharedOutputQueue,
    /// The rules of which reports may be sent; none before the ranks are known.
    rules: Option<ReportRules>,
    signals: Signals,
    /// When the last bytes were received from the launcher.
    last_received: Instant,
    /// After how long without received bytes the launcher counts as failed. Until there are
    /// processes, this is the time in which all hosts must start.
    silence_max: Duration,
    timeout: Duration,
}

/// Serves the launcher until it reports that the job is over, or the connection ends. Returns the
/// exit code.
pub(super) fn serve(
    signals: Signals,
    timeout: Duration,
    open_ahead: OpenAhead,
) -> Result<i32, LaunchError> {
    let source = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut output_queue = OutputQueue::new(File::from(io::stdout().as_fd().try_clone_to_owned()?));
    output_queue.queue.extend_from_slice(protocol::greeting().as_bytes());
    let descriptors = DescriptorLimit::read()?;
    let processes = LocalProcesses::new(StandardInput::Relayed, descriptors, open_ahead);
    let output_queue = SharedOutputQueue::new(Mutex::new(output_queue));
    let mut heartbeat = Vec::new();
    AgentReport::Heartbeat.emit(&mut heartbeat);
    let mut heartbeats = Heartbeats::default();
    heartbeats.begin(&output_queue, heartbeat, timeout)?;
    let mut agent = Agent {
        processes,
        relays: Relays::new(descriptors, heartbeats),
        is_closing: false,
        source,
        orders: OrderParser::default(),
        output_queue,
        rules: None,
        signals,
        last_received: Instant::now(),
        silence_max: START_TIME_MAX.max(timeout),
        timeout,
    };
    let outcome = loop {
        match agent.round() {
            Ok(false) => {}
            Ok(true) => break Ok(0),
            Err(error) => break Err(error),
        }
    };
    end_descendants();
    outcome
}

impl Agent {
    /// Sleeps until an event occurs, and handles it. Returns whether the agent's work is over.
    fn round(&mut self) -> Result<bool, LaunchError> {
        let mut watched = vec![
            (self.signals.as_raw_fd(), Interest::Read),
            (self.source.as_raw_fd(), Interest::Read),
        ];
        let waiting = {
            let output_queue = heartbeats::lock(&self.output_queue);
            if !output_queue.is_empty() {
                watched.push((output_queue.as_raw_fd(), Interest::Write));
            }
            output_queue.waiting()
        };
        let first = watched.len();
        self.processes.set_pmi_requests(match waiting > QUEUE_BYTES_MAX {
            true => PmiRequests::Wait,
            false => PmiRequests::AreRead,
        });
        self.processes.watched(&mut watched);
        let relayed = watched.len();
        // The agents below wait, too, while the launcher does not read.
        if waiting <= QUEUE_BYTES_MAX {
            self.relays.watched(&mut watched);
        } else {
            self.relays.postpone();
        }
        let mut timeout = self.silence_max.saturating_sub(self.last_received.elapsed());
        for next in self.processes.deadline().into_iter().chain(self.relays.deadline()) {
            timeout = timeout.min(next.saturating_duration_since(Instant::now()));
        }
        let ready = process::poll(&watched, Some(timeout))?;
        // Bytes that arrived while this process was busy count, however long that was.
        let (due, now) = (self.last_received + self.silence_max, Instant::now());
        if !ready[1] && due <= now {
            if heartbeats::was_stopped(due, now) {
                self.last_received = now;
                return Ok(false);
            }
            return Err(LaunchError::new("the launcher no longer sends anything".to_owned()));
        }
        let mut reports = Vec::new();
        self.processes.serve(&ready[first..relayed], &mut reports);
        self.processes.handle_time(&mut reports);
        self.relays.serve(&ready[relayed..], &mut reports);
        if self.handle_signals(&mut reports) {
            return Ok(true);
        }
        let is_cut_off = ready[1] && self.receive(&mut reports)?;
        let is_done = self.is_closing && self.relays.is_empty();
        if is_done {
            self.processes.execute(AgentOrder::Close, &mut reports);
        }
        let mut output_queue = heartbeats::lock(&self.output_queue);
        for report in reports {
            if let Some(Err(what)) = self.rules.as_mut().map(|rules| rules.follow(&report)) {
                return Err(LaunchError::new(format!("the agent cannot continue: {what}")));
            }
            if !report.emit(&mut output_queue.queue) {
                return Err(LaunchError::new("a report to the launcher is too long".to_owned()));
            }
        }
        if is_cut_off || is_done {
            return finish(&mut output_queue);
        }
        if !output_queue.is_empty() {
            output_queue.write()?;
        }
        Ok(false)
    }

    /// Handles signals; returns whether one of them requests the end. Signals that the user sends
    /// to the job arrive as orders.
    fn handle_signals(&mut self, reports: &mut Vec<AgentReport>) -> bool {
        let mut is_over = false;
        while let Some(number) = self.signals.next() {
            is_over |= matches!(
                number,
                signal::SIGINT | signal::SIGTERM | signal::SIGHUP | signal::SIGQUIT | END
            );
        }
        while let Ok(Some((process, end))) = process::reap() {
            if !self.relays.record_exit(process, end, reports) {
                self.processes.record_exit(process, end, reports);
            }
        }
        is_over
    }

    /// Reads and executes orders; returns whether the connection to the launcher has ended.
    fn receive(&mut self, reports: &mut Vec<AgentReport>) -> Result<bool, LaunchError> {
        let mut bytes = vec![0; READ_BYTES_MAX];
        let length = match self.source.read(&mut bytes) {
            Err(error) if is_no_end(&error) => return Ok(false),
            // Without a launcher, there is no job.
            Ok(0) | Err(_) => return Ok(true),
            Ok(length) => length,
        };
        self.last_received = Instant::now();
        let mut orders = Vec::new();
        self.orders.receive(&bytes[..length], &mut orders).map_err(|what| {
            LaunchError::new(format!(
                "the agent received an invalid message from its launcher: {what}"
            ))
        })?;
        for order in orders {
            if let AgentOrder::Connection(host, order) = order {
                self.relays.execute(host, order, reports);
                continue;
            }
            if order == AgentOrder::Close {
                self.is_closing = true;
                continue;
            }
            if matches!(order, AgentOrder::Start(_)) {
                self.silence_max = self.timeout;
                let mut rules = ReportRules::new(self.orders.ranks().iter().copied());
                rules.greet();
                self.rules = Some(rules);
            }
            if let Some(rules) = &mut self.rules {
                rules.note_order(&order);
            }
            self.processes.execute(order, reports);
        }
        Ok(false)
    }
}

/// Sends what is left, as long as the launcher accepts it.
fn finish(output_queue: &mut OutputQueue) -> Result<bool, LaunchError> {
    let watched = [(output_queue.as_raw_fd(), Interest::Write)];
    while !output_queue.is_empty() && process::poll(&watched, Some(KILL_TIME_MAX))?[0] {
        output_queue.write()?;
    }
    Ok(true)
}
