//! The network: rails that keep their own order, delay packets, and have little room; and fetches,
//! which also take time.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use base::{GateId, RailId};
use fastrand::Rng;
use memory::transfer::{Fetch, Label, Part, PartPlace};

/// Everything in transit.
#[derive(Debug)]
pub(crate) struct SimulatedNetwork {
    queues: BTreeMap<Route, VecDeque<InTransit>>,
    /// Rails between two processes (the lower process first) that are cut.
    cut: BTreeSet<Route>,
    fetches: Vec<(u64, u32, Fetch)>,
    room: usize,
    delay_max: u64,
    /// The virtual clock, in steps.
    pub now: u64,
}

/// The sender, the receiver, and the rail.
pub(crate) type Route = (GateId, GateId, RailId);

#[derive(Debug)]
struct InTransit {
    arrival: u64,
    freight: RailCargo,
}

/// What a rail carries.
#[derive(Debug)]
pub(crate) enum RailCargo {
    Packet(Vec<u8>),
    /// A part whose memory has not been read yet.
    Part(Part),
    /// The beginning of a part whose memory has been read, with its label and length.
    Beginning(Label, Vec<u8>),
    /// The end of a part, with the place where it belongs.
    End(Label, Vec<u8>, PartPlace),
}

impl SimulatedNetwork {
    pub(crate) fn new(room: usize, delay_max: u64) -> Self {
        Self {
            queues: BTreeMap::new(),
            cut: BTreeSet::new(),
            fetches: Vec::new(),
            room,
            delay_max,
            now: 0,
        }
    }

    /// Whether a rail accepts a packet now.
    pub(crate) fn has_room(&self, way: Route) -> bool {
        self.queues.get(&way).is_none_or(|queue| queue.len() < self.room)
    }

    /// Whether a rail accepts this many packets.
    pub(crate) fn has_room_for(&self, way: Route, packets: usize) -> bool {
        self.queues.get(&way).map_or(0, VecDeque::len) + packets <= self.room
    }

    /// Whether nothing is in transit.
    pub(crate) fn is_quiet(&self) -> bool {
        self.fetches.is_empty() && self.queues.values().all(VecDeque::is_empty)
    }

    pub(crate) fn post(&mut self, rng: &mut Rng, way: Route, freight: RailCargo) {
        if self.is_cut(way) {
            return;
        }
        let queue = self.queues.entry(way).or_default();
        let after = queue.back().map_or(self.now, |last| last.arrival);
        let arrival = after.max(self.now + rng.u64(0..=self.delay_max));
        queue.push_back(InTransit { arrival, freight });
    }

    /// Sends the rest of a part that has begun to arrive, before everything else on its rail.
    pub(crate) fn go_on(&mut self, rng: &mut Rng, way: Route, freight: RailCargo) {
        if !self.is_cut(way) {
            let arrival = self.now + rng.u64(0..=self.delay_max);
            self.queues.entry(way).or_default().push_front(InTransit { arrival, freight });
        }
    }

    /// Cuts the rail between two processes. Everything in transit on it is lost.
    pub(crate) fn cut(&mut self, way: Route) {
        self.cut.insert((way.0.min(way.1), way.0.max(way.1), way.2));
        self.queues.remove(&way);
        self.queues.remove(&(way.1, way.0, way.2));
    }

    /// Reconnects a rail: packets posted from now on arrive.
    pub(crate) fn heal(&mut self, way: Route) {
        self.cut.remove(&(way.0.min(way.1), way.0.max(way.1), way.2));
    }

    /// The rails that are cut, the lower process first.
    pub(crate) fn all_cut(&self) -> impl Iterator<Item = Route> {
        self.cut.iter().copied()
    }

    pub(crate) fn is_cut(&self, way: Route) -> bool {
        self.cut.contains(&(way.0.min(way.1), way.0.max(way.1), way.2))
    }

    /// Whether nothing is in transit from one process to another.
    pub(crate) fn carries_nothing(&self, from: GateId, to: GateId) -> bool {
        let is_way = |way: &Route| (way.0, way.1) == (from, to);
        !self.queues.iter().any(|(way, queue)| is_way(way) && !queue.is_empty())
    }

    /// Ends the connection of two processes, from one of which nothing is in transit. The next one
    /// begins with all of its rails.
    pub(crate) fn end_connection(&mut self, from: GateId, to: GateId) {
        self.queues.retain(|way, _| (way.0, way.1) != (to, from));
        self.cut.retain(|way| (way.0, way.1) != (from.min(to), from.max(to)));
    }

    /// Ends the fetches of a process from another one without a result.
    pub(crate) fn stop_fetches(&mut self, process: u32, gate: GateId) {
        self.fetches.retain(|(_, reader, fetch)| (*reader, fetch.gate) != (process, gate));
    }

    /// Begins a fetch, in which `process` reads the memory of another process.
    pub(crate) fn begin_fetch(&mut self, rng: &mut Rng, process: u32, fetch: Fetch) {
        self.fetches.push((self.now + rng.u64(0..=self.delay_max), process, fetch));
    }

    /// Advances the clock by one step. Returns what arrives in it, with the rails in random order.
    pub(crate) fn step(&mut self, rng: &mut Rng) -> Vec<(Route, RailCargo)> {
        self.now += 1;
        let mut ways: Vec<_> = self.queues.keys().copied().collect();
        rng.shuffle(&mut ways);
        let mut arrived = Vec::new();
        for way in ways {
            let Some(queue) = self.queues.get_mut(&way) else { continue };
            while queue.front().is_some_and(|first| first.arrival <= self.now) {
                let Some(underway) = queue.pop_front() else { break };
                let is_part = !matches!(underway.freight, RailCargo::Packet(_));
                arrived.push((way, underway.freight));
                if is_part {
                    // Packets behind the beginning of a part must not overtake its end.
                    break;
                }
            }
        }
        arrived
    }

    /// The fetches that end now.
    pub(crate) fn ended_fetches(&mut self) -> Vec<(u32, Fetch)> {
        let now = self.now;
        let ended = self.fetches.extract_if(.., |(end, _, _)| *end <= now);
        ended.map(|(_, process, fetch)| (process, fetch)).collect()
    }
}

/// The numbered packets and parts that have arrived from one process at another.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    numbers: HashSet<u32>,
    /// Cancellation requests, with the numbers of the packets that contained them.
    pub deferred: Vec<(u32, u64)>,
}

impl Arrivals {
    /// Records the arrival of this number. Returns false if it has arrived before.
    pub(crate) fn take(&mut self, number: u32) -> bool {
        self.numbers.insert(number)
    }

    /// Whether any earlier number is missing.
    pub(crate) fn lacks_before(&self, number: u32) -> bool {
        (0..number).any(|older| !self.numbers.contains(&older))
    }

    /// Takes a cancellation request before which everything has arrived.
    pub(crate) fn next_deferred(&mut self) -> Option<u64> {
        let place = self.deferred.iter().position(|&(number, _)| !self.lacks_before(number))?;
        Some(self.deferred.remove(place).1)
    }
}

/// A change of a rail's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RailChange {
    Lost,
    Restored,
}
