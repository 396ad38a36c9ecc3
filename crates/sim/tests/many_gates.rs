//! One of very many processes in an all-to-all exchange. The cost of a message must not grow with
//! the number of gates. The test counts accesses to gates, not time.
#![cfg(debug_assertions)]

use base::{ContextId, GateId, RailId, RailProfile};
use engine::strategy::Auto;
use engine::{ContextSlot, Engine, Planned, Receive, Send};
use memory::Buffer;

const RAIL: RailId = RailId(0);
const BYTES: usize = 64;
const ROUNDS: i32 = 3;

fn engine(own: u32, peers: impl Iterator<Item = u32>) -> (Engine, ContextSlot) {
    let profile = RailProfile {
        name: "virtual".into(),
        packet_bytes_max: 4096,
        eager_bytes_max: 1024,
        fetch_segment_bytes_min: 0,
        latency_ns: 100,
        bandwidth_bytes_per_us: 1000,
        packet_ns: 50,
        bulk: false,
        pushed_bytes: 0..0,
    };
    let mut engine = Engine::new(GateId(own), vec![profile], Box::new(Auto));
    peers.for_each(|peer| engine.connect(GateId(peer), &[RAIL]));
    let context = engine.open_context(ContextId::new(0, 0), own);
    (engine, context)
}

fn buffer() -> Buffer {
    Buffer::zeroed(BYTES)
}

/// Sends to and receives from each of `peers`.
fn exchange(engine: &mut Engine, context: ContextSlot, peers: std::ops::Range<u32>, tag: i32) {
    for peer in peers {
        let (gate, synchronous) = (GateId(peer), false);
        engine.receive(Receive { context, source: Some(peer), tag: Some(tag), buffer: buffer() });
        engine.send(Send { gate, peer, context, tag, synchronous, buffer: buffer() });
    }
}

/// Posts packets in turn, one for each gate with work in each round, as if each rail had room for
/// one packet. Returns their destinations and bytes.
fn packets(engine: &mut Engine) -> Vec<(GateId, Vec<u8>)> {
    let mut all = Vec::new();
    while engine.has_work() {
        for _ in 0..engine.gates_with_work() {
            let gate = engine.gate_with_work().expect("something waits");
            let Planned::Packet(length) = engine.plan(gate, RAIL, &mut |_| 0) else {
                panic!("a gate with work has something to send")
            };
            let mut packet = vec![0; length];
            engine.write_packet(gate, RAIL, &mut packet);
            all.push((gate, packet));
        }
    }
    all
}

/// How often one of `count` processes accesses a gate, for all its messages in an exchange with all
/// others.
fn accesses(count: u32) -> u64 {
    let (mut engine, context) = self::engine(0, 1..count);
    let mut peers: Vec<_> = (1..count).map(|own| self::engine(own, 0..1)).collect();
    for tag in 0..ROUNDS {
        exchange(&mut engine, context, 1..count, tag);
        peers.iter_mut().for_each(|(peer, context)| exchange(peer, *context, 0..1, tag));
        loop {
            let there = packets(&mut engine);
            for (gate, packet) in &there {
                peers[gate.0 as usize - 1].0.handle_packet(GateId(0), packet).unwrap();
            }
            let mut back = false;
            for (own, (peer, _)) in (1..).zip(&mut peers) {
                for (_, packet) in packets(peer) {
                    engine.handle_packet(GateId(own), &packet).unwrap();
                    back = true;
                }
            }
            if there.is_empty() && !back {
                break;
            }
        }
    }
    assert_eq!(engine.posted_receives(), 0, "all messages have come");
    engine.gate_accesses()
}

#[test]
fn a_message_costs_as_much_among_a_thousand_gates_as_among_ten() {
    let per_gate = |count: u32| accesses(count) as f64 / f64::from(count - 1);
    let (few, many) = (per_gate(11), per_gate(1001));
    assert!(many < few * 1.05, "{few} looks per peer with 10, {many} with 1,000");
}
