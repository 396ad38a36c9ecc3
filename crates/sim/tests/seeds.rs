//! Thousands of worlds. `SIM_SEED=n` runs one world, `SIM_SEEDS=n` that many.

mod common;

use sim::{Report, run};

const SEEDS: u64 = 4000;

#[test]
fn all_worlds_keep_the_promises_of_mpi() {
    if let Some(total) = common::run_all(SEEDS, run, Report::add) {
        for (what, times) in total.counters() {
            assert!(times > 0, "no world had any {what}: {total:#?}");
        }
    }
}

#[test]
fn a_seed_is_a_world() {
    assert_eq!(run(17), run(17));
}
