//! Peers that finish before all messages that concern them were sent.

use base::{ContextId, GateId, RailId, RailProfile};
use engine::strategy::Auto;
use engine::{ContextSlot, Engine, Planned, Receive, Send};
use memory::Buffer;

const RAIL: RailId = RailId(0);
const BYTES: usize = 16_000;

fn process(own: u32, peer: u32) -> (Engine, ContextSlot) {
    let profile = RailProfile {
        name: "only".into(),
        packet_bytes_max: 65_536,
        eager_bytes_max: 32_768,
        fetch_segment_bytes_min: 0,
        latency_ns: 10_000,
        bandwidth_bytes_per_us: 1000,
        packet_ns: 5000,
        bulk: true,
        pushed_bytes: 0..0,
    };
    let mut engine = Engine::new(GateId(own), vec![profile], Box::new(Auto));
    engine.connect(GateId(peer), &[RAIL]);
    let context = engine.open_context(ContextId::new(1, 0), own);
    (engine, context)
}

fn buffer(bytes: usize) -> Buffer {
    Buffer::zeroed(bytes)
}

/// Returns a receiver that has got messages from process 0, and has yet to send it the number of
/// its flow, and credit.
fn receiver_that_owes() -> (Engine, ContextSlot) {
    let ((mut sender, from), (mut receiver, into)) = (process(0, 1), process(1, 0));
    for _ in 0..16 {
        let (gate, peer, context) = (GateId(1), 1, from);
        let send = Send { gate, peer, context, tag: 0, synchronous: false, buffer: buffer(BYTES) };
        sender.send(send);
        let Planned::Packet(length) = sender.plan(gate, RAIL, &mut |_| 0) else {
            panic!("a message waits, and there is credit for it");
        };
        let mut packet = vec![0; length];
        sender.write_packet(gate, RAIL, &mut packet);
        let (source, tag) = (Some(0), Some(0));
        receiver.receive(Receive { context: into, source, tag, buffer: buffer(BYTES) });
        receiver.handle_packet(GateId(0), &packet).expect("it is well-formed");
    }
    (receiver, into)
}

#[test]
fn credit_for_a_peer_that_has_finished_is_no_message_that_is_lost() {
    let (mut receiver, _) = receiver_that_owes();
    assert!(!receiver.lose_rail(GateId(0), RAIL));
    assert!(receiver.let_go(GateId(0)));
    assert_eq!(receiver.waiting(GateId(0)), 0);
    assert!(!receiver.has_work(), "a process that waits would not go to sleep");
}

#[test]
fn a_message_for_a_peer_that_has_finished_is() {
    let (mut receiver, context) = receiver_that_owes();
    let (gate, peer) = (GateId(0), 0);
    receiver.send(Send { gate, peer, context, tag: 0, synchronous: true, buffer: buffer(8) });
    assert!(!receiver.lose_rail(GateId(0), RAIL));
    assert!(!receiver.let_go(GateId(0)));
}

#[test]
fn a_message_that_went_and_waits_for_its_match_is_lost_too() {
    let (mut sender, context) = process(0, 1);
    let (gate, peer) = (GateId(1), 1);
    sender.send(Send { gate, peer, context, tag: 0, synchronous: true, buffer: buffer(8) });
    let Planned::Packet(length) = sender.plan(gate, RAIL, &mut |_| 0) else {
        panic!("there is room for it");
    };
    sender.write_packet(gate, RAIL, &mut vec![0; length]);
    assert_eq!(sender.waiting(gate), 0);
    assert!(!sender.lose_rail(gate, RAIL));
    assert!(!sender.let_go(gate), "nobody will tell that it was matched");
}
