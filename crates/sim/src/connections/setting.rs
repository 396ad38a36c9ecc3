//! The random setting of a world of endpoints.

use base::{GateId, RailId, RailProfile};
use engine::Engine;
use engine::strategy::{NAMES, by_name};
use fastrand::Rng;

#[derive(Debug)]
pub(super) struct ConnectionSetting {
    /// The first one connects the processes of a machine, the others those of different machines.
    pub rails: Vec<RailProfile>,
    numbers: Vec<RailId>,
    strategy: &'static str,
    pub machines: u32,
    /// How many processes run at a time.
    pub processes: usize,
    /// Whether processes of a machine fetch long messages, and access each other's memory.
    pub fetches: bool,
    pub regions: bool,
    /// Each process makes progress once in this many steps on average.
    pub paces: Vec<u8>,
    pub first_sequence: u32,
    pub room: usize,
    pub delay_max: u64,
    /// Whether rails are cut, and whether the last one between two processes may be.
    pub cuts: bool,
    pub loses_peers: bool,
    /// Whether processes are killed, are started again, and stop for a while.
    pub kills: bool,
    pub stops: bool,
    /// The steps in which programs act.
    pub steps: u64,
    /// The memory of each endpoint in bytes.
    pub memory: u64,
}

impl ConnectionSetting {
    pub fn random(rng: &mut Rng) -> Self {
        let rails: Vec<_> = (0..rng.usize(2..=4)).map(|_| random_rail(rng)).collect();
        let numbers = (0..rails.len() as u8).map(RailId).collect();
        let is_calm = rng.u8(..3) == 0;
        let processes = rng.usize(1..=4);
        Self {
            rails,
            numbers,
            strategy: NAMES[rng.usize(..NAMES.len())],
            machines: rng.u32(1..=3),
            processes,
            fetches: rng.bool(),
            regions: rng.bool(),
            paces: (0..processes).map(|_| 1 << rng.u8(..4)).collect(),
            first_sequence: [0, u32::MAX, u32::MAX - 5][rng.usize(..3)],
            room: rng.usize(1..6),
            delay_max: [0, 3, 30, 200][rng.usize(..4)],
            cuts: !is_calm && rng.bool(),
            loses_peers: !is_calm && rng.bool(),
            kills: !is_calm && rng.bool(),
            stops: !is_calm && rng.bool(),
            steps: rng.u64(100..1500),
            memory: [40 << 10, 1 << 20, 256 << 20][rng.usize(..3)],
        }
    }

    pub fn engine(&self) -> Engine {
        let strategy = by_name(self.strategy).expect("there is one of that name");
        Engine::new(GateId(0), self.rails.clone(), Box::new(strategy))
    }

    /// Returns the rails between two processes, of one machine or of two.
    pub fn rails_between(&self, are_near: bool) -> &[RailId] {
        if are_near { &self.numbers[..1] } else { &self.numbers[1..] }
    }

    /// Whether the question to a silent process and its answer may take half a second on their way.
    pub fn is_slow(&self) -> bool {
        self.delay_max > 30
    }

    /// Whether nothing fails in this world.
    pub fn is_calm(&self) -> bool {
        !self.cuts && !self.kills && !self.stops
    }
}

fn random_rail(rng: &mut Rng) -> RailProfile {
    let packet = [160, 1000, 4096, 16 << 10][rng.usize(..4)];
    RailProfile {
        name: "virtual".into(),
        packet_bytes_max: packet,
        eager_bytes_max: [packet / 2, packet, 0, 64][rng.usize(..4)],
        fetch_segment_bytes_min: 0,
        latency_ns: [0, 100, 20_000][rng.usize(..3)],
        bandwidth_bytes_per_us: [10, 117, 1000][rng.usize(..3)],
        packet_ns: [0, 50, 2500][rng.usize(..3)],
        bulk: rng.bool(),
        pushed_bytes: [0..0, 1..3 * packet + 1][rng.usize(..2)].clone(),
    }
}
