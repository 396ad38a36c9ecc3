//! Timed worlds: how long a workload takes under a strategy.
//!
//! Engines run scripts over rails with a bandwidth and a latency. Building or parsing a packet
//! occupies a process. Between two polls a rail takes one packet, or part, per peer, and no other
//! before the last has begun to leave, like network interfaces whose activity pulls packets. Time
//! is virtual, so the figures are equal on every machine.

mod process;
mod wire;

use std::collections::BTreeMap;

use base::{GateId, RailProfile};
use engine::Engine;
use engine::strategy::Strategy;

use process::TimedProcess;
use wire::{WireCargo, Wires};

/// The properties of a rail.
#[derive(Clone, Debug)]
pub struct TimedRail {
    /// Its bandwidth, in bytes per microsecond.
    pub bytes_per_us: u64,
    /// The bandwidth that its driver declares.
    pub declared_bytes_per_us: u64,
    /// Its latency, in nanoseconds.
    pub latency_ns: u64,
    /// How long a packet occupies each of the two processes, in addition to copying, in
    /// nanoseconds.
    pub packet_ns: u64,
    /// When the rail becomes slower, in nanoseconds, and its bandwidth from then on.
    pub slower: Option<(u64, u64)>,
}

/// A step of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessStep {
    /// Begins to send.
    Send(TimedMessage),
    /// Begins to receive.
    Receive(TimedMessage),
    /// Waits until everything that it has begun is complete.
    Wait,
    /// Computes for this many nanoseconds.
    Compute(u64),
}

/// A message, as described to its sender and to its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedMessage {
    /// The other process.
    pub peer: u32,
    /// The index of the context.
    pub context: usize,
    /// The tag.
    pub tag: i32,
    /// The length in bytes.
    pub bytes: usize,
}

/// The scripts of the processes, and the rails between them.
#[derive(Clone, Debug)]
pub struct Workload {
    /// A name for display.
    pub name: String,
    /// The rails between all processes.
    pub rails: Vec<TimedRail>,
    /// The priorities of the contexts.
    pub priorities: Vec<i32>,
    /// The script of each process.
    pub scripts: Vec<Vec<ProcessStep>>,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// When the last process ended, in nanoseconds.
    pub end_ns: u64,
    /// The average time of messages in the context with the highest priority, in nanoseconds.
    pub urgent_ns: u64,
    /// The number of packets and parts that were sent.
    pub packets: u64,
}

/// The speed at which processes copy into and out of packets, in bytes per microsecond.
const COPIED_BYTES_PER_US: u64 = 8000;

/// A workload that has not ended after this many events counts as endless.
const EVENTS_MAX: u64 = 20_000_000;

/// Runs a workload. `strategy` creates the strategy of each process.
///
/// # Panics
/// The workload does not end: a process waits for a message that is never sent, or the engine is
/// wrong.
pub fn run(workload: &Workload, strategy: &dyn Fn() -> Box<dyn Strategy>) -> Times {
    TimedWorld::new(workload, strategy).go()
}

/// An event of a process.
#[derive(Debug)]
enum TimedEvent {
    /// It continues.
    Wake(usize),
    /// It receives something from another process by a rail.
    Arrive(usize, GateId, usize, WireCargo),
}

/// The events, ordered by time, and events of equal time in the order of creation.
#[derive(Debug, Default)]
struct Agenda {
    events: BTreeMap<(u64, u64), TimedEvent>,
    made: u64,
}

impl Agenda {
    fn add(&mut self, time: u64, event: TimedEvent) {
        self.made += 1;
        self.events.insert((time, self.made), event);
    }
}

struct TimedWorld {
    processes: Vec<TimedProcess>,
    wires: Wires,
    agenda: Agenda,
}

impl TimedWorld {
    fn new(workload: &Workload, strategy: &dyn Fn() -> Box<dyn Strategy>) -> Self {
        let count = workload.scripts.len() as u32;
        let profiles: Vec<_> = workload.rails.iter().map(profile).collect();
        let process = |own: u32| {
            let engine = Engine::new(GateId(own), profiles.clone(), strategy());
            TimedProcess::new(own, count, engine, workload)
        };
        let processes = (0..count).map(process).collect();
        let mut agenda = Agenda::default();
        (0..count as usize).for_each(|process| agenda.add(0, TimedEvent::Wake(process)));
        Self { processes, wires: Wires::new(count as usize, &workload.rails), agenda }
    }

    fn go(mut self) -> Times {
        let mut end_ns = 0;
        for _ in 0..EVENTS_MAX {
            let Some(((now, _), event)) = self.agenda.events.pop_first() else { break };
            let index = match event {
                TimedEvent::Wake(process) => process,
                TimedEvent::Arrive(process, from, rail, freight) => {
                    self.processes[process].arrive(from, rail, freight);
                    process
                }
            };
            let process = &mut self.processes[index];
            if process.is_busy(now) {
                // It polls again when it is no longer busy.
                continue;
            }
            match process.act(now, &mut self.wires, &mut self.agenda) {
                Some(cost) => {
                    process.busy(now + cost);
                    self.agenda.add(now + cost, TimedEvent::Wake(index));
                }
                None => {
                    if let Some(time) = process.next_poll(now, &self.wires) {
                        self.agenda.add(time, TimedEvent::Wake(index));
                    }
                }
            }
            if self.processes[index].is_done() {
                end_ns = end_ns.max(now);
            }
        }
        let unfinished = self.processes.iter().position(|process| !process.is_done());
        assert!(unfinished.is_none(), "process {unfinished:?} waits forever");
        let latencies: Vec<_> = self.processes.iter().flat_map(TimedProcess::urgent).collect();
        let urgent_ns = latencies.iter().sum::<u64>() / (latencies.len() as u64).max(1);
        Times { end_ns, urgent_ns, packets: self.wires.carried }
    }
}

fn profile(rail: &TimedRail) -> RailProfile {
    RailProfile {
        name: "timed".into(),
        packet_bytes_max: 64 << 10,
        eager_bytes_max: 32 << 10,
        fetch_segment_bytes_min: 0,
        latency_ns: rail.latency_ns,
        bandwidth_bytes_per_us: rail.declared_bytes_per_us,
        packet_ns: rail.packet_ns,
        bulk: true,
        pushed_bytes: 0..0,
    }
}

fn copy_ns(bytes: usize) -> u64 {
    bytes as u64 * 1000 / COPIED_BYTES_PER_US
}
