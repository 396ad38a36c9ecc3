//! Thousands of worlds. `SIM_SEED=n` runs one, `SIM_SEEDS=n` that many.

use sim::{Report, run};

const SEEDS: u64 = 4000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn all_worlds_keep_the_promises_of_mpi() {
    if let Some(seed) = number("SIM_SEED") {
        println!("{:#?}", run(seed).unwrap());
        return;
    }
    let seeds = number("SIM_SEEDS").unwrap_or(SEEDS);
    let mut total = Report::default();
    for seed in 0..seeds {
        let caught = std::panic::catch_unwind(|| run(seed));
        match caught.unwrap_or_else(|_| Err("the engine panicked".into())) {
            Err(what) => panic!("{what}\nrun it alone with SIM_SEED={seed}"),
            Ok(report) => total.add(&report),
        }
    }
    println!("{total:#?}");
    for (what, times) in total.counters() {
        assert!(times > 0 || seeds < SEEDS, "no world had any {what}: {total:#?}");
    }
}

#[test]
fn a_seed_is_a_world() {
    assert_eq!(run(17), run(17));
}
