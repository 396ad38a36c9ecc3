//! Worlds in which processes wait. `SIM_SEED=n` runs one world, `SIM_SEEDS=n` that many.

mod common;

use sim::waits::{Waits, run};

const SEEDS: u64 = 2000;

#[test]
fn nobody_sleeps_while_something_waits_for_it() {
    if let Some(total) = common::run_all(SEEDS, run, Waits::add) {
        let hours = total.nanoseconds / 3_600_000_000_000;
        assert!(hours >= 4, "{hours} hours are not much: {total:#?}");
    }
}
