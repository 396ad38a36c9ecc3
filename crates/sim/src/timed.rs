//! Worlds in which everything takes its time: how long a workload takes under a strategy.
//!
//! Engines run scripts over rails with a bandwidth and a latency; making a packet or taking one
//! apart occupies a process. A rail takes one packet, or part, per peer between two polls, and no
//! other before the last has begun to leave, as network interfaces do whose activity pulls. Time is
//! virtual, so that figures are the same on every machine.

mod process;
mod wire;

use std::collections::BTreeMap;

use base::{GateId, RailProfile};
use engine::Engine;
use engine::strategy::Strategy;

use process::TimedProcess;
use wire::{WireCargo, Wires};

/// A rail as it is.
#[derive(Clone, Debug)]
pub struct TimedRail {
    /// What it carries, in bytes per microsecond.
    pub bytes_per_us: u64,
    /// What its driver declares instead.
    pub declared_bytes_per_us: u64,
    /// From leaving to arriving, in nanoseconds.
    pub latency_ns: u64,
    /// For how long a packet occupies each of the two processes, besides copying, in nanoseconds.
    pub packet_ns: u64,
    /// When it becomes slower, in nanoseconds, and what it carries from then on.
    pub slower: Option<(u64, u64)>,
}

/// What a process does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessStep {
    /// Begins to send.
    Send(TimedMessage),
    /// Begins to receive.
    Receive(TimedMessage),
    /// Waits until all that it has begun is complete.
    Wait,
    /// Computes for so many nanoseconds.
    Compute(u64),
}

/// A message as its sender and its receiver know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedMessage {
    /// The other process.
    pub peer: u32,
    /// Which of the contexts.
    pub context: usize,
    /// The tag.
    pub tag: i32,
    /// The length in bytes.
    pub bytes: usize,
}

/// What processes do, over which rails.
#[derive(Clone, Debug)]
pub struct Workload {
    /// A name for people.
    pub name: String,
    /// The rails between all processes.
    pub rails: Vec<TimedRail>,
    /// The contexts, by their priorities.
    pub priorities: Vec<i32>,
    /// What each process does.
    pub scripts: Vec<Vec<ProcessStep>>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// When the last process was done, in nanoseconds.
    pub end_ns: u64,
    /// How long messages of the context with the highest priority took on average, in nanoseconds.
    pub urgent_ns: u64,
    /// Packets and parts that were sent.
    pub packets: u64,
}

/// How fast processes copy into and out of packets, in bytes per microsecond.
const COPIED_BYTES_PER_US: u64 = 8000;

/// A workload that has not ended after so many events never will.
const EVENTS_MAX: u64 = 20_000_000;

/// Runs a workload in which each process has a strategy of its own made by `strategy`.
///
/// # Panics
/// If the workload does not end: a process waits for what nobody sends, or the engine is wrong.
pub fn run(workload: &Workload, strategy: &dyn Fn() -> Box<dyn Strategy>) -> Times {
    TimedWorld::new(workload, strategy).go()
}

/// Something that happens at a time to a process.
#[derive(Debug)]
enum TimedEvent {
    /// It goes on.
    Wake(usize),
    /// Something from another process arrives by a rail.
    Arrive(usize, GateId, usize, WireCargo),
}

/// What happens, by time, and in the order of its making at one time.
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
                // It will look again when it is not.
                continue;
            }
            match process.act(now, &mut self.wires, &mut self.agenda) {
                Some(cost) => {
                    process.busy(now + cost);
                    self.agenda.add(now + cost, TimedEvent::Wake(index));
                }
                None => {
                    if let Some(time) = process.next_look(now, &self.wires) {
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
    }
}

fn copy_ns(bytes: usize) -> u64 {
    bytes as u64 * 1000 / COPIED_BYTES_PER_US
}
