//! The agents below an inner agent of the launch tree, which has the connections to them: it passes
//! orders and reports on, and watches whether those agents are alive.

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use sys::process::{DescriptorLimit, End, Interest};

use crate::LaunchError;
use crate::agent_connection::AgentConnection;
use crate::heartbeats::{Heartbeats, was_stopped};
use crate::local_processes::make_room;
use crate::protocol::{
    AgentReport, AgentStart, ConnectionEvent, ConnectionOrder, ForwardedReports, PART_BYTES_MAX,
};

/// The agents below this one.
pub(super) struct Relays {
    /// By the index of their host.
    relays: BTreeMap<u32, Relay>,
    /// The limit that the user set.
    descriptors: DescriptorLimit,
    heartbeats: Heartbeats,
    /// The numbers of descriptors of each relay, in the order of the last
    /// [`watched`](Self::watched).
    counts: Vec<(u32, usize)>,
}

/// The connection to one of them.
struct Relay {
    connection: AgentConnection,
    forwarded: ForwardedReports,
    /// When the agent last sent something, or nothing was read from it.
    last_received: Instant,
    timeout: Duration,
    /// Whether it was silent for too long.
    is_silent: bool,
}

impl Relays {
    /// Creates an empty set. `descriptors` is the limit that the user set.
    pub(super) fn new(descriptors: DescriptorLimit, heartbeats: Heartbeats) -> Self {
        Self { relays: BTreeMap::new(), descriptors, heartbeats, counts: Vec::new() }
    }

    /// Whether no command that reaches an agent runs.
    pub(super) fn is_empty(&self) -> bool {
        self.relays.is_empty()
    }

    /// Executes an order for the agent of this host, and appends the reports that follow.
    pub(super) fn execute(
        &mut self,
        host: u32,
        order: ConnectionOrder,
        reports: &mut Vec<AgentReport>,
    ) {
        match (order, self.relays.get_mut(&host)) {
            (ConnectionOrder::Open(start), None) => match self.open(host, &start) {
                Ok(()) => {}
                Err(error) => {
                    reports.extend(to_reports(host, ConnectionEvent::of_failed_start(&error)));
                }
            },
            (order, Some(relay)) => relay.connection.execute(&order, &mut self.heartbeats),
            // Its command has ended.
            (_, None) => {}
        }
    }

    fn open(&mut self, host: u32, start: &AgentStart) -> Result<(), LaunchError> {
        make_room(1)?;
        let relay = Relay {
            connection: AgentConnection::open(start, self.descriptors)?,
            forwarded: ForwardedReports::default(),
            last_received: Instant::now(),
            timeout: start.timeout,
            is_silent: false,
        };
        self.relays.insert(host, relay);
        Ok(())
    }

    /// Appends the descriptors to watch.
    pub(super) fn watched(&mut self, list: &mut Vec<(RawFd, Interest)>) {
        self.counts.clear();
        for (&host, relay) in &mut self.relays {
            let before = list.len();
            relay.connection.watched(list);
            self.counts.push((host, list.len() - before));
        }
    }

    /// Does not read from the agents for a while, which therefore do not count as silent.
    pub(super) fn postpone(&mut self) {
        self.counts.clear();
        let now = Instant::now();
        self.relays.values_mut().for_each(|relay| relay.last_received = now);
    }

    /// Serves the descriptors that are ready, in the order of [`watched`](Self::watched), and
    /// notices which agents are silent.
    pub(super) fn serve(&mut self, mut ready: &[bool], reports: &mut Vec<AgentReport>) {
        for (host, count) in std::mem::take(&mut self.counts) {
            let (own, rest) = ready.split_at(count);
            ready = rest;
            let Some(relay) = self.relays.get_mut(&host) else { continue };
            let mut events = Vec::new();
            relay.connection.serve(own, &mut events);
            relay.forward(host, events, reports);
            relay.notice_silence(host, reports);
        }
    }

    /// Returns when an agent counts as silent.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.relays.values().filter_map(Relay::deadline).min()
    }

    /// Records the end of a child of this process. Returns false if it reaches no agent.
    pub(super) fn record_exit(
        &mut self,
        process: i32,
        end: End,
        reports: &mut Vec<AgentReport>,
    ) -> bool {
        let mut events = Vec::new();
        for (&host, relay) in &mut self.relays {
            if relay.connection.record_exit(process, end, &mut events) {
                relay.forward(host, events, reports);
                self.relays.remove(&host);
                return true;
            }
        }
        false
    }
}

impl Relay {
    /// Appends the reports of what has happened to the connection.
    fn forward(&mut self, host: u32, events: Vec<ConnectionEvent>, reports: &mut Vec<AgentReport>) {
        for event in events {
            let ConnectionEvent::Received(bytes) = event else {
                reports.extend(to_reports(host, [event]));
                continue;
            };
            self.last_received = Instant::now();
            // Parts keep the frames around them short.
            for part in self.forwarded.receive(&bytes).chunks(PART_BYTES_MAX) {
                reports.extend(to_reports(host, [ConnectionEvent::Received(part.to_vec())]));
            }
        }
    }

    /// Returns when the agent counts as silent, if it runs.
    fn deadline(&self) -> Option<Instant> {
        let is_watched = self.forwarded.has_greeted() && !self.is_silent;
        is_watched.then(|| self.last_received + self.timeout)
    }

    fn notice_silence(&mut self, host: u32, reports: &mut Vec<AgentReport>) {
        let now = Instant::now();
        let Some(due) = self.deadline().filter(|due| *due <= now) else { return };
        if was_stopped(due, now) {
            self.last_received = now;
        } else {
            self.is_silent = true;
            reports.extend(to_reports(host, [ConnectionEvent::Silent]));
        }
    }
}

fn to_reports<const COUNT: usize>(
    host: u32,
    events: [ConnectionEvent; COUNT],
) -> impl Iterator<Item = AgentReport> {
    events.into_iter().map(move |event| AgentReport::Connection(host, event))
}
