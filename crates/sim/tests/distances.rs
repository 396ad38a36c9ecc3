//! Two interfaces of a machine, one near the process and one far from it: how much faster a message
//! is if the engine knows the distances. A lone process gets less bandwidth from a far interface.
//! While all cores communicate, the interfaces are the bottleneck and have equal bandwidth.

use base::RailProfile;
use engine::model::RailFigures;
use engine::strategy::{self, Strategy};
use sim::timed::{ProcessStep, TimedMessage, TimedRail, Workload, run};

/// The bandwidth of an interface itself, in bytes per microsecond.
const SPEED: u64 = 1180;
/// The firmware distance of the far interface, and its bandwidth for a lone process.
const DISTANCE: u32 = 14;
const FAR_SPEED: u64 = SPEED * 10 / 14;

/// The bandwidth that the engine assumes for an interface at a distance.
fn believed(distance: u32, company: f64) -> u64 {
    let profile = RailProfile {
        name: "virtual".into(),
        packet_bytes_max: 65_536,
        eager_bytes_max: 32_768,
        fetch_segment_bytes_min: 0,
        latency_ns: 10_000,
        bandwidth_bytes_per_us: SPEED,
        packet_ns: 2500,
        bulk: true,
        pushed_bytes: 0..0,
    };
    RailFigures::declared(&profile).seen_from(distance, company).bytes_per_us[4]
}

/// The time in nanoseconds of one message over a near and a far interface with the bandwidths
/// `real`, if the engine assumes `believed`.
fn taken(bytes: usize, real: [u64; 2], believed: [u64; 2]) -> u64 {
    let rail = |(bytes_per_us, declared_bytes_per_us)| TimedRail {
        bytes_per_us,
        declared_bytes_per_us,
        latency_ns: 10_000,
        packet_ns: 2500,
        slower: None,
    };
    let message = |peer| TimedMessage { peer, context: 0, tag: 0, bytes };
    let workload = Workload {
        name: "near and far".into(),
        rails: real.into_iter().zip(believed).map(rail).collect(),
        priorities: vec![0],
        scripts: vec![
            vec![ProcessStep::Send(message(1)), ProcessStep::Wait],
            vec![ProcessStep::Receive(message(0)), ProcessStep::Wait],
        ],
    };
    run(&workload, &|| -> Box<dyn Strategy> { Box::new(strategy::by_name("auto").unwrap()) }).end_ns
}

#[test]
fn the_first_message_prefers_the_near_interface() {
    let real = [SPEED, FAR_SPEED];
    for bytes in [1 << 20, 2 << 20] {
        let knowing = taken(bytes, real, [believed(10, 0.0), believed(DISTANCE, 0.0)]);
        let ignorant = taken(bytes, real, [SPEED, SPEED]);
        println!("{bytes} bytes: {knowing} ns instead of {ignorant}");
        assert!(knowing * 100 < ignorant * 97, "{knowing} and {ignorant}");
    }
}

#[test]
fn less_so_when_all_cores_communicate() {
    let alone = believed(DISTANCE, 0.0);
    let half = believed(DISTANCE, 0.5);
    let all = believed(DISTANCE, 1.0);
    assert!(alone < half && half < all && all == SPEED, "{alone}, {half}, {all}");
    // Both interfaces now have equal bandwidth, and a preference would cost time.
    let bytes = 1 << 20;
    let knowing = taken(bytes, [SPEED / 2; 2], [believed(10, 1.0), believed(DISTANCE, 1.0)]);
    let partial = taken(bytes, [SPEED / 2; 2], [believed(10, 0.0), believed(DISTANCE, 0.0)]);
    println!("{bytes} bytes: {knowing} ns instead of {partial}");
    assert!(knowing < partial, "{knowing} and {partial}");
}
