//! The protocol for large messages inside a machine, on thousands of seeds.

use fastrand::Rng;
use sim::copies::{self, CopyReport, CopySetting};

/// The number of worlds.
const SEEDS: u64 = 2500;

#[test]
fn data_is_complete_whichever_process_fails_or_stops() {
    let mut all = CopyReport::default();
    for seed in 0..SEEDS {
        let setting = CopySetting::of(&mut Rng::with_seed(seed));
        let report = copies::run(seed, setting);
        all.whole += report.whole;
        all.written += report.written;
        all.claimed += report.claimed;
        all.failed += report.failed;
        all.joint += report.joint;
        all.rings += report.rings;
    }
    let CopyReport { whole, written, claimed, failed, joint, rings } = all;
    let each = [whole, written, claimed, failed, joint, rings];
    assert!(each.iter().all(|count| *count > 100), "all of it happens: {all:?}");
}
