//! Measures what a single message on idle rails pays for the optimiser: the path through the
//! outbox, where a strategy plans its packet, beside the short cut that calls no strategy.
//!
//! Run with `cargo run --release -p engine --example optimiser_cost`. Times are the best of many
//! rounds, in nanoseconds per message of 8 bytes.

use std::time::Instant;

use base::{ContextId, GateId, RailId, RailProfile};
use engine::strategy::{self, Strategy};
use engine::{ContextSlot, Engine, Planned, Receive, Send, ShortPacket};
use memory::Buffer;

const ROUNDS: usize = 3000;
// So many messages at a time stay within the credit of the gate.
const MESSAGES: usize = 16;
const PLANS: usize = 200;
const NEAR: GateId = GateId(0);
const FAR: GateId = GateId(1);
const RAIL: RailId = RailId(0);

fn main() {
    println!(
        "{:<12}{:>6}{:>12}{:>12}{:>12}",
        "strategy", "rails", "short cut", "plan alone", "whole way"
    );
    for rails in 1..=3 {
        for name in strategy::NAMES {
            let by_name = || Box::new(strategy::by_name(name).expect("a listed strategy"));
            let short = (rails == 1).then(|| Pair::new(rails, by_name()).short_cut());
            let plan = Pair::new(rails, by_name()).plan_alone();
            let whole = Pair::new(rails, by_name()).whole_way();
            let short = short.map_or_else(|| "-".into(), |time| format!("{time:.0}"));
            println!("{name:<12}{rails:>6}{short:>12}{plan:>12.0}{whole:>12.0}");
        }
    }
}

/// A sender that is measured, and the receiver that returns credit to it.
struct Pair {
    sender: Engine,
    receiver: Engine,
    context: ContextSlot,
    data: Buffer,
    packets: Vec<Vec<u8>>,
}

impl Pair {
    fn new(rails: usize, strategy: Box<dyn Strategy>) -> Self {
        let mut sender = engine(NEAR, rails, strategy);
        let mut receiver = engine(FAR, rails, Box::new(strategy::Aggregate));
        let context = sender.open_context(ContextId::new(0, 0), 0);
        receiver.open_context(ContextId::new(0, 0), 1);
        let packets = vec![vec![0; 4096]; MESSAGES];
        let mut pair = Self { sender, receiver, context, data: buffer(8), packets };
        // The first message establishes the flow, which the short cut needs.
        pair.whole_way_once();
        pair
    }

    fn short_cut(mut self) -> f64 {
        best(|| {
            let start = Instant::now();
            for packet in &mut self.packets {
                let message = message(self.context, &self.data);
                let sent =
                    self.sender.send_short(&message, |_: RailId, short: &dyn ShortPacket| {
                        packet.resize(short.packet_len(), 0);
                        short.write(packet.into());
                        true
                    });
                assert!(sent, "the short cut applies");
            }
            let time = start.elapsed().as_nanos() as f64 / MESSAGES as f64;
            self.deliver();
            time
        })
    }

    fn plan_alone(mut self) -> f64 {
        self.sender.send(message(self.context, &self.data));
        best(|| {
            let start = Instant::now();
            for _ in 0..PLANS {
                assert!(matches!(self.sender.plan(FAR, RAIL, &mut |_| 0), Planned::Packet(_)));
            }
            start.elapsed().as_nanos() as f64 / PLANS as f64
        })
    }

    fn whole_way(mut self) -> f64 {
        best(|| self.whole_way_once())
    }

    fn whole_way_once(&mut self) -> f64 {
        let start = Instant::now();
        for packet in &mut self.packets {
            let request = self.sender.send(message(self.context, &self.data));
            let Planned::Packet(length) = self.sender.plan(FAR, RAIL, &mut |_| 0) else {
                panic!("a lone message has a packet of its own");
            };
            packet.resize(length, 0);
            self.sender.write_packet(FAR, RAIL, packet);
            assert!(self.sender.take(request).is_some(), "a short message is sent at once");
        }
        let time = start.elapsed().as_nanos() as f64 / MESSAGES as f64;
        self.deliver();
        time
    }

    /// Delivers the sent packets to the receiver, and carries its replies back.
    fn deliver(&mut self) {
        for packet in &self.packets {
            let (context, buffer) = (self.context, self.data.clone());
            let request =
                self.receiver.receive(Receive { context, source: None, tag: None, buffer });
            self.receiver.handle_packet(NEAR, packet).expect("a packet of the sender");
            assert!(self.receiver.take(request).is_some(), "the message is received");
        }
        while let Planned::Packet(length) = self.receiver.plan(NEAR, RAIL, &mut |_| 0) {
            let mut packet = vec![0; length];
            self.receiver.write_packet(NEAR, RAIL, &mut packet);
            self.sender.handle_packet(FAR, &packet).expect("a packet of the receiver");
        }
    }
}

fn message(context: ContextSlot, data: &Buffer) -> Send {
    Send { gate: FAR, peer: 1, context, tag: 1, synchronous: false, buffer: data.clone() }
}

fn buffer(length: usize) -> Buffer {
    Buffer::zeroed(length)
}

/// Makes an engine with a connected peer, over rails of unequal speed.
fn engine(own: GateId, rails: usize, strategy: Box<dyn Strategy>) -> Engine {
    let profile = |rail: usize| RailProfile {
        name: format!("tcp:eth{rail}"),
        packet_bytes_max: 64 << 10,
        eager_bytes_max: 32 << 10,
        fetch_segment_bytes_min: 0,
        latency_ns: 10_000 + 1000 * rail as u64,
        bandwidth_bytes_per_us: 125 / (1 + rail as u64),
        packet_ns: 2000,
        bulk: true,
        pushed_bytes: 0..0,
    };
    let mut engine = Engine::new(own, (0..rails).map(profile).collect(), strategy);
    let all: Vec<_> = (0..rails as u8).map(RailId).collect();
    for gate in [NEAR, FAR] {
        engine.connect(gate, &all);
    }
    engine
}

fn best(mut run: impl FnMut() -> f64) -> f64 {
    (0..ROUNDS).map(|_| run()).fold(f64::INFINITY, f64::min)
}
