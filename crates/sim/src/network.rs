//! The network: rails that keep their own order, delay packets, and have little room.

use std::collections::{HashMap, VecDeque};

use base::{GateId, RailId};
use fastrand::Rng;

/// All packets on their way.
#[derive(Debug)]
pub(crate) struct Network {
    queues: HashMap<(GateId, GateId, RailId), VecDeque<Underway>>,
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
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let (room, delay_max) = (rng.usize(1..6), rng.u64(0..30));
        Self { queues: HashMap::new(), room, delay_max, now: 0 }
    }

    /// Whether a rail takes a packet now.
    pub(crate) fn has_room(&self, from: GateId, to: GateId, rail: RailId) -> bool {
        self.queues.get(&(from, to, rail)).is_none_or(|queue| queue.len() < self.room)
    }

    pub(crate) fn post(
        &mut self,
        rng: &mut Rng,
        (from, to, rail): (GateId, GateId, RailId),
        packet: Vec<u8>,
    ) {
        let queue = self.queues.entry((from, to, rail)).or_default();
        let after = queue.back().map_or(self.now, |last| last.arrival);
        let arrival = after.max(self.now + rng.u64(0..=self.delay_max));
        queue.push_back(Underway { arrival, packet });
    }

    /// One step of time; the packets that arrive in it, in random order of rails.
    pub(crate) fn step(&mut self, rng: &mut Rng) -> Vec<(GateId, GateId, Vec<u8>)> {
        self.now += 1;
        let mut keys: Vec<_> = self.queues.keys().copied().collect();
        // The order of a hash map is not that of the seed.
        keys.sort_unstable();
        rng.shuffle(&mut keys);
        let mut arrived = Vec::new();
        for key in keys {
            let Some(queue) = self.queues.get_mut(&key) else { continue };
            while queue.front().is_some_and(|first| first.arrival <= self.now) {
                let Some(underway) = queue.pop_front() else { break };
                arrived.push((key.0, key.1, underway.packet));
            }
        }
        arrived
    }
}
