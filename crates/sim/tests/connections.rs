//! Worlds of endpoints. `SIM_SEED=n` runs one world, `SIM_SEEDS=n` that many.

mod common;

use sim::connections::{ConnectionReport, run};

const SEEDS: u64 = 400;

#[test]
fn all_worlds_keep_the_promises_of_endpoints() {
    if let Some(total) = common::run_all(SEEDS, run, ConnectionReport::add) {
        for (what, times) in total.counters() {
            assert!(times > 0, "no world had any {what}: {total:#?}");
        }
    }
}

#[test]
fn a_seed_is_a_world_of_endpoints() {
    assert_eq!(run(3), run(3));
}

/// The rails of this world carry about 10 bytes in a millisecond, so that batches arrive slowly.
/// The answer to the question whether a process is there waited for a batch of another process.
#[test]
fn a_batch_that_arrives_slowly_holds_up_no_other_process() {
    let report = run(241);
    assert!(report.is_ok(), "{report:?}");
}
