//! Contexts with preferences for their messages.

use base::{ContextId, GateId, RailId, RailProfile};
use engine::strategy::Auto;
use engine::{ContextSlot, Engine, Planned, Preferences, RailChoice, Send};
use memory::Buffer;

fn profile(name: &str, bandwidth_bytes_per_us: u64) -> RailProfile {
    RailProfile {
        name: name.into(),
        packet_bytes_max: 65_536,
        eager_bytes_max: 32_768,
        fetch_segment_bytes_min: 0,
        latency_ns: 10_000,
        bandwidth_bytes_per_us,
        packet_ns: 5000,
        bulk: true,
        pushed_bytes: 0..0,
    }
}

/// An engine with two rails to one peer, and two contexts.
fn engine() -> (Engine, [ContextSlot; 2]) {
    let profiles = vec![profile("fast", 1000), profile("slow", 100)];
    let mut engine = Engine::new(GateId(0), profiles, Box::new(Auto));
    engine.connect(GateId(1), &[RailId(0), RailId(1)]);
    let slots = [0, 1].map(|number| engine.open_context(ContextId::new(1, number), 0));
    (engine, slots)
}

fn send(engine: &mut Engine, context: ContextSlot, bytes: usize) {
    let buffer = Buffer::zeroed(bytes);
    engine.send(Send { gate: GateId(1), peer: 1, context, tag: 0, synchronous: false, buffer });
}

/// Returns the lengths of the packets that a rail takes now.
fn packets(engine: &mut Engine, rail: u8) -> Vec<usize> {
    let mut lengths = Vec::new();
    while let Planned::Packet(length) = engine.plan(GateId(1), RailId(rail), &mut |_| 0) {
        engine.write_packet(GateId(1), RailId(rail), &mut vec![0; length]);
        lengths.push(length);
    }
    lengths
}

#[test]
fn each_context_is_planned_by_its_own_strategy() {
    let (mut engine, [own, others]) = engine();
    let strategy = Some("direct");
    engine.set_preferences(own, Preferences { strategy, ..Preferences::default() });
    for _ in 0..3 {
        send(&mut engine, own, 8);
        send(&mut engine, others, 8);
    }
    // The messages of the other context share one packet, as by default.
    assert_eq!(packets(&mut engine, 0).len(), 4);
    engine.set_preferences(own, Preferences::default());
    (0..3).for_each(|_| send(&mut engine, own, 8));
    assert_eq!(packets(&mut engine, 0).len(), 1);
}

#[test]
fn messages_keep_to_the_rail_that_was_chosen_for_them() {
    let (mut engine, [own, _]) = engine();
    for (rails, takes) in [
        (RailChoice::All, [1, 0]),
        (RailChoice::Only(RailId(1)), [0, 1]),
        (RailChoice::Fastest, [1, 0]),
        (RailChoice::Only(RailId(7)), [1, 0]),
    ] {
        engine.set_preferences(own, Preferences { rails, ..Preferences::default() });
        send(&mut engine, own, 100);
        assert_eq!([0, 1].map(|rail| packets(&mut engine, rail).len()), takes, "{rails:?}");
    }
    engine.set_preferences(
        own,
        Preferences { rails: RailChoice::Only(RailId(1)), ..Preferences::default() },
    );
    send(&mut engine, own, 100);
    assert!(engine.lose_rail(GateId(1), RailId(1)));
    assert_eq!(packets(&mut engine, 0).len(), 2, "this one, and what was lost with the rail");
}

#[test]
fn urgent_messages_go_first() {
    let (mut engine, [urgent, others]) = engine();
    engine.set_preferences(urgent, Preferences { priority: 3, ..Preferences::default() });
    send(&mut engine, others, 30_000);
    send(&mut engine, urgent, 20_000);
    let lengths = packets(&mut engine, 0);
    assert!(lengths[0] < 21_000 && lengths[1] > 30_000, "{lengths:?}");
}
