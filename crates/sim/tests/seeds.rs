//! Thousands of worlds. `SIM_SEED=n` runs one, `SIM_SEEDS=n` that many.

use sim::{Report, run};

const SEEDS: u64 = 4000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn all_worlds_keep_the_promises_of_mpi() {
    if let Some(seed) = number("SIM_SEED") {
        println!("{:?}", run(seed).unwrap());
        return;
    }
    let mut total = Report::default();
    for seed in 0..number("SIM_SEEDS").unwrap_or(SEEDS) {
        match run(seed) {
            Err(what) => panic!("{what}\nrun it alone with SIM_SEED={seed}"),
            Ok(report) => {
                total.packets += report.packets;
                total.messages += report.messages;
                total.fetches += report.fetches;
            }
        }
    }
    // The worlds are not empty: messages flow, share packets, and are fetched.
    assert!(total.messages > 1000 && total.fetches > 100, "{total:?}");
}

#[test]
fn a_seed_is_a_world() {
    assert_eq!(run(17), run(17));
}
