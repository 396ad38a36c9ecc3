//! Jobs on several machines. `SIM_SEED=n` runs one world, `SIM_SEEDS=n` that many.

mod common;

use sim::jobs::{JobCounts, run};

const SEEDS: u64 = 4000;

#[test]
fn jobs_end_well_whatever_fails() {
    if let Some(total) = common::run_all(SEEDS, run, JobCounts::add) {
        let JobCounts { successes, survived, faults, reports, compared, seconds, .. } = total;
        let JobCounts { inner_faults, reached_directly, .. } = total;
        let tree = [inner_faults, reached_directly];
        let each = [successes, survived, faults, reports, compared, seconds, tree[0], tree[1]];
        assert!(each.iter().all(|count| *count > SEEDS / 100), "all of it happens: {total:#?}");
    }
}
