//! The random setting of a world, chosen from the seed.

use base::{FragmentLengths, Fragmentation, GateId, RailId, RailProfile, limits};
use engine::strategy::{NAMES, by_name};
use engine::{Engine, Preferences, RailChoice};
use fastrand::Rng;

/// The processes, rails, and faults of a world.
#[derive(Debug)]
pub(crate) struct Setting {
    pub processes: u32,
    rails: Vec<RailProfile>,
    /// The rails of each pair of processes.
    pairs: Vec<Vec<RailId>>,
    fetches: bool,
    /// Whether some contexts have preferences.
    prefers: bool,
    /// The name of the strategy.
    strategy: &'static str,
    /// The number of rounds of messages and receives, and the number of contexts in each.
    pub episodes: usize,
    pub contexts: usize,
    /// The number of messages in one episode.
    pub messages: usize,
    /// Each process acts once in this many steps on average. Arrivals wait at a slow process.
    pub paces: Vec<u8>,
    /// How many of 16 fetches fail, and how many are declined.
    pub failing_fetches: u8,
    pub declined_fetches: u8,
    /// Whether operations are cancelled at random moments.
    pub cancels: bool,
    /// Whether rails are cut.
    pub cuts: bool,
    /// How many of 16 operations of a process post a receive; 6 operations send.
    pub receives: u8,
    pub first_sequence: u32,
    /// Messages up to this length are always eager, if there is credit.
    pub eager_bytes_min: usize,
    /// Lengths around which the behaviour changes.
    thresholds: Vec<usize>,
    /// How eager messages are fragmented where a single rail connects two processes.
    fragmentation: Option<Fragmentation>,
    /// The number of packets on one rail, and their maximum delay in steps.
    pub room: usize,
    pub delay_max: u64,
}

impl Setting {
    pub(crate) fn random(rng: &mut Rng) -> Self {
        // Large messages to a slow process use up the credit.
        let scale = if rng.u8(..LARGE_WORLDS) == 0 { Scale::Large } else { Scale::Small };
        let large = scale == Scale::Large;
        let processes = if large { rng.u32(1..=2) } else { rng.u32(1..=5) };
        let rails: Vec<_> = (0..rng.usize(1..=3)).map(|_| random_rail(rng, scale)).collect();
        let all: Vec<_> = (0..rails.len() as u8).map(RailId).collect();
        let pair = |rng: &mut Rng| match rng.bool() {
            true => all.clone(),
            false => vec![all[rng.usize(..all.len())]],
        };
        let pairs = (0..processes * processes).map(|_| pair(rng)).collect();
        let mut thresholds = if large { Vec::new() } else { vec![0, 1, 8, 40, 64] };
        for rail in &rails {
            let (eager, packet) = (rail.eager_bytes_max, rail.packet_bytes_max);
            thresholds.extend([eager, packet - wire::HEADER_BYTES_MAX, packet - 30, packet]);
            thresholds.push(if large { 100 } else { 3 * packet });
            thresholds.extend([rail.pushed_bytes.start, rail.pushed_bytes.end]);
        }
        let eager = rails.iter().map(|rail| {
            let packet = rail.packet_bytes_max.min(wire::PAYLOAD_BYTES_MAX);
            rail.eager_bytes_max.min(packet - wire::HEADER_BYTES_MAX - wire::NUMBER_BYTES)
        });
        let eager_bytes_min = eager.min().unwrap_or(0);
        if large {
            thresholds.extend([1, 2, 5].map(|times| times * wire::PAYLOAD_BYTES_MAX));
            thresholds.extend([eager_bytes_min; 6]);
        }
        let fragmentation = rng.bool().then(|| random_fragmentation(rng, &rails));
        thresholds.extend(fragmentation.map(|cut| cut.whole_bytes_max));
        thresholds.extend(fragmentation.map(|cut| cut.message_bytes_max));
        Self {
            processes,
            eager_bytes_min,
            rails,
            pairs,
            fetches: rng.bool(),
            prefers: rng.u8(..4) == 0,
            strategy: NAMES[rng.usize(..NAMES.len())],
            episodes: if large { 1 } else { rng.usize(1..=3) },
            contexts: rng.usize(1..=2),
            messages: if large { 250 } else { rng.usize(1..50) },
            paces: (0..processes).map(|_| 1 << rng.u8(..5)).collect(),
            failing_fetches: [0, 0, 4, 16][rng.usize(..4)],
            declined_fetches: [0, 4][rng.usize(..2)],
            cancels: rng.bool(),
            cuts: rng.u8(..4) == 0,
            receives: if large { 1 } else { rng.u8(3..=5) },
            first_sequence: [0, u32::MAX, u32::MAX - 5][rng.usize(..3)],
            thresholds,
            room: rng.usize(1..6),
            delay_max: [0, 3, 30][rng.usize(..3)],
            fragmentation,
        }
    }

    pub(crate) fn engine(&self, own: u32) -> Engine {
        let strategy = by_name(self.strategy).expect("there is one of that name");
        let mut engine = Engine::new(GateId(own), self.rails.clone(), Box::new(strategy));
        engine.count_messages_from(self.first_sequence);
        for peer in 0..self.processes {
            engine.connect(GateId(peer), self.pair(own, peer));
            if self.fetches {
                engine.fetch_from(GateId(peer));
            }
            if let (Some(fragmentation), [_]) = (self.fragmentation, self.pair(own, peer)) {
                engine.fragment_to(GateId(peer), fragmentation);
            }
        }
        engine
    }

    /// Random preferences of a process for its messages in a context.
    pub(crate) fn preferences(&self, rng: &mut Rng) -> Preferences {
        if !self.prefers || rng.bool() {
            return Preferences::default();
        }
        let strategy = NAMES.get(rng.usize(..2 * NAMES.len())).copied();
        let rails = match rng.u8(..3) {
            0 => RailChoice::All,
            1 => RailChoice::Fastest,
            _ => RailChoice::Only(RailId(rng.u8(..self.rails.len() as u8))),
        };
        Preferences { strategy, priority: rng.i32(-1..3), rails }
    }

    fn pair(&self, one: u32, other: u32) -> &[RailId] {
        &self.pairs[(one.min(other) * self.processes + one.max(other)) as usize]
    }

    /// A random length: near some threshold, or short.
    pub(crate) fn length(&self, rng: &mut Rng) -> usize {
        let near = self.thresholds[rng.usize(..self.thresholds.len())];
        match rng.u8(..5) {
            0 => rng.usize(0..64),
            1 | 2 => near,
            3 => near.saturating_sub(rng.usize(1..10)),
            _ => near + rng.usize(1..10),
        }
    }
}

fn random_fragmentation(rng: &mut Rng, rails: &[RailProfile]) -> Fragmentation {
    let packet = rails.iter().map(|rail| rail.packet_bytes_max).min().unwrap_or(0).min(60_000);
    let [first_packet_bytes, packet_bytes] =
        [(); 2].map(|()| rng.usize(wire::ALIGNED_HEADER_BYTES + 8..=packet) / 8 * 8);
    Fragmentation {
        whole_bytes_max: rng.usize(0..packet),
        aligned_bytes_min: rng.usize(0..packet),
        message_bytes_max: rng.usize(0..limits::FRAGMENTED_BYTES_MAX.min(5 * packet)),
        lengths: FragmentLengths { first_packet_bytes, packet_bytes },
    }
}

/// The sizes of packets and messages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scale {
    Small,
    Large,
}

/// One world in this many has large packets and messages.
const LARGE_WORLDS: u8 = 60;

fn random_rail(rng: &mut Rng, scale: Scale) -> RailProfile {
    let (packet, choices) = match scale {
        Scale::Large => ([70_000, 200_000][rng.usize(..2)], 2),
        Scale::Small => ([160, 512, 1000, 4096][rng.usize(..4)], 5),
    };
    let eager = [packet / 2, packet, 0, 64, 100][rng.usize(..choices)];
    RailProfile {
        name: "virtual".into(),
        packet_bytes_max: packet,
        eager_bytes_max: eager,
        fetch_segment_bytes_min: [0, 39, 1000][rng.usize(..3)],
        latency_ns: [0, 100, 20_000][rng.usize(..3)],
        bandwidth_bytes_per_us: [10, 117, 1000][rng.usize(..3)],
        packet_ns: [0, 50, 2500][rng.usize(..3)],
        bulk: rng.bool(),
        pushed_bytes: [0..0, 0..0, 1..3 * packet + 1, 40..90][rng.usize(..4)].clone(),
    }
}
