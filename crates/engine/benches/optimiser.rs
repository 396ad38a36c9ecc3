//! Measures the cost of the optimiser: nanoseconds per plan, for each strategy and several
//! outboxes. Run it with `cargo bench -p engine`; it fails if `auto` takes more than 100 ns for a
//! lone message. The example `optimiser_cost` measures the whole path of such a message.

use std::hint::black_box;
use std::time::Instant;

use base::{RailId, RailProfile};
use engine::model::RailModel;
use engine::strategy::{self, ChunkView, ChunkWindow, NAMES, PacketPlan, RailView};

/// The maximum time to plan a lone message, in nanoseconds.
const LONE_NS_MAX: f64 = 100.0;

struct Chunks(Vec<ChunkView>);

impl ChunkWindow for Chunks {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn offer(&self, index: usize) -> ChunkView {
        self.0[index]
    }
}

fn profile(bandwidth_bytes_per_us: u64) -> RailProfile {
    RailProfile {
        name: "bench".into(),
        packet_bytes_max: 65_536,
        eager_bytes_max: 32_768,
        fetch_segment_bytes_min: 0,
        latency_ns: 10_000,
        bandwidth_bytes_per_us,
        packet_ns: 2500,
        bulk: true,
        pushed_bytes: 0..0,
    }
}

/// Returns the least time of one run of `work`, in nanoseconds, over several bursts.
fn time(mut work: impl FnMut()) -> f64 {
    let burst = |work: &mut dyn FnMut()| {
        let begin = Instant::now();
        (0..2000).for_each(|_| work());
        begin.elapsed().as_nanos() as f64 / 2000.0
    };
    (0..40).map(|_| burst(&mut work)).fold(f64::MAX, f64::min)
}

fn plans() {
    let small = ChunkView { flow: Some(1), ..ChunkView::new(16, 64) };
    let medium = ChunkView { flow: Some(2), ..ChunkView::new(16, 20_000) };
    let large = ChunkView { divisible: true, ..ChunkView::new(24, 1 << 24) };
    let outboxes = [
        ("one small", vec![small]),
        ("one large", vec![large]),
        ("64 small", vec![small; 64]),
        ("small and medium", vec![small, medium]),
        ("32 small, 32 medium", [medium, small].repeat(32)),
        ("48 small, 16 large", [small, small, small, large].repeat(16)),
    ];
    let names: String = NAMES.iter().map(|name| format!("{name:>10}")).collect();
    println!("{:32}{names}", "ns per plan");
    for rails in [1, 2] {
        let profiles = [profile(1180), profile(590)];
        let models = [0, 1].map(|rail: usize| RailModel::new(&profiles[rail]));
        let view = |rail: usize| RailView {
            id: RailId(rail as u8),
            profile: &profiles[rail],
            model: &models[rail],
            packet_bytes_max: 65_536,
            backlog_bytes: 0,
        };
        let views: Vec<_> = (0..rails).map(view).collect();
        for (what, outbox) in &outboxes {
            let window = Chunks(outbox.clone());
            let figures = NAMES.iter().map(|name| {
                let strategy = strategy::by_name(name).expect("it is in the table");
                let mut plan = PacketPlan::default();
                let once = || {
                    plan.clear();
                    strategy.plan(black_box(&window), black_box(&views), 0, &mut plan);
                };
                time(once)
            });
            let figures: Vec<f64> = figures.collect();
            let row: String = figures.iter().map(|figure| format!("{figure:10.0}")).collect();
            println!("{:32}{row}", format!("{what}, {rails} rail(s)"));
            let lone = outbox.len() == 1 && !outbox[0].divisible;
            assert!(!lone || figures[0] <= LONE_NS_MAX, "a lone message pays for the optimiser");
        }
    }
}

fn main() {
    plans();
}
