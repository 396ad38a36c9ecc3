//! Messages of several contexts that wait for a rail go in one packet, which is counted.

use std::sync::Arc;

use base::{ContextId, GateId, RailId, RailProfile};
use engine::strategy::Auto;
use engine::{Counters, Engine, IncomingMessage, Observer, Planned, Send};
use memory::Buffer;

const PEER: GateId = GateId(1);
const RAIL: RailId = RailId(0);

#[derive(Debug)]
struct Unseen;

impl Observer for Unseen {
    fn message_unexpected(&self, _: ContextId, _: &IncomingMessage) {}
}

fn engine(counters: &Arc<Counters>) -> Engine {
    let profile = RailProfile {
        name: "rail".into(),
        packet_bytes_max: 4096,
        eager_bytes_max: 1024,
        fetch_segment_bytes_min: 0,
        latency_ns: 10_000,
        bandwidth_bytes_per_us: 1000,
        packet_ns: 5000,
        bulk: false,
        pushed_bytes: 0..0,
    };
    let mut engine = Engine::new(GateId(0), vec![profile], Box::new(Auto));
    engine.instrument(Arc::clone(counters), Arc::new(Unseen));
    engine.connect(PEER, &[RAIL]);
    engine
}

/// Sends a message in each of these contexts, then all that waits; returns how many packets there
/// were, and how many of them are counted as shared.
fn sent(contexts: &[u32]) -> (u64, u64) {
    let counters = Arc::default();
    let mut engine = engine(&counters);
    let slots = [0, 1].map(|id| engine.open_context(ContextId(id), 0));
    for &context in contexts {
        let (context, buffer) = (slots[context as usize], Buffer::zeroed(8));
        let send = Send { gate: PEER, peer: 1, context, tag: 0, synchronous: false, buffer };
        let request = engine.send(send);
        engine.detach(request);
    }
    let mut packets = 0;
    while let Planned::Packet(length) = engine.plan(PEER, RAIL, &mut |_| 0) {
        engine.write_packet(PEER, RAIL, &mut *vec![0; length]);
        packets += 1;
    }
    (packets, counters.packets_shared.value())
}

#[test]
fn a_packet_with_messages_of_two_contexts_is_counted() {
    assert_eq!(sent(&[0, 1, 0]), (1, 1));
}

#[test]
fn packets_with_messages_of_one_context_are_not() {
    assert_eq!(sent(&[0, 0, 0]), (1, 0));
    assert_eq!(sent(&[1]), (1, 0));
    assert_eq!(sent(&[]), (0, 0));
}
