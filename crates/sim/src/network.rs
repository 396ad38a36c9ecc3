//! The network: rails that keep their own order, delay packets, and have little room; and fetches,
//! which take their time too.

use std::collections::{BTreeMap, VecDeque};

use base::{GateId, RailId};
use engine::Fetch;
use fastrand::Rng;

/// Everything on its way.
#[derive(Debug)]
pub(crate) struct Network {
    queues: BTreeMap<(GateId, GateId, RailId), VecDeque<Underway>>,
    fetches: Vec<(u64, u32, Fetch)>,
    room: usize,
    delay_max: u64,
    /// The virtual clock, in steps.
    pub now: u64,
}

#[derive(Debug)]
struct Underway {
    arrival: u64,
    packet: Vec<u8>,
}

impl Network {
    pub(crate) fn new(room: usize, delay_max: u64) -> Self {
        Self { queues: BTreeMap::new(), fetches: Vec::new(), room, delay_max, now: 0 }
    }

    /// Whether a rail takes a packet now.
    pub(crate) fn has_room(&self, way: (GateId, GateId, RailId)) -> bool {
        self.queues.get(&way).is_none_or(|queue| queue.len() < self.room)
    }

    /// Whether nothing is on its way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.fetches.is_empty() && self.queues.values().all(VecDeque::is_empty)
    }

    pub(crate) fn post(&mut self, rng: &mut Rng, way: (GateId, GateId, RailId), packet: Vec<u8>) {
        let queue = self.queues.entry(way).or_default();
        let after = queue.back().map_or(self.now, |last| last.arrival);
        let arrival = after.max(self.now + rng.u64(0..=self.delay_max));
        queue.push_back(Underway { arrival, packet });
    }

    /// Process `process` reads the memory of another one.
    pub(crate) fn begin_fetch(&mut self, rng: &mut Rng, process: u32, fetch: Fetch) {
        self.fetches.push((self.now + rng.u64(0..=self.delay_max), process, fetch));
    }

    /// One step of time; the packets that arrive in it, in random order of rails.
    pub(crate) fn step(&mut self, rng: &mut Rng) -> Vec<(GateId, GateId, Vec<u8>)> {
        self.now += 1;
        let mut ways: Vec<_> = self.queues.keys().copied().collect();
        rng.shuffle(&mut ways);
        let mut arrived = Vec::new();
        for way in ways {
            let Some(queue) = self.queues.get_mut(&way) else { continue };
            while queue.front().is_some_and(|first| first.arrival <= self.now) {
                let Some(underway) = queue.pop_front() else { break };
                arrived.push((way.0, way.1, underway.packet));
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
