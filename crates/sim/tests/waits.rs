//! Worlds in which processes wait. `SIM_SEED=n` runs one, `SIM_SEEDS=n` that many.

use sim::waits::{Waits, run};

const SEEDS: u64 = 2000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn nobody_sleeps_while_something_waits_for_it() {
    if let Some(seed) = number("SIM_SEED") {
        println!("{:#?}", run(seed).unwrap());
        return;
    }
    let seeds = number("SIM_SEEDS").unwrap_or(SEEDS);
    let mut total = Waits::default();
    for seed in 0..seeds {
        let caught = std::panic::catch_unwind(|| run(seed));
        match caught.unwrap_or_else(|_| Err("a thread panicked".into())) {
            Err(what) => panic!("seed {seed}: {what}\nrun it alone with SIM_SEED={seed}"),
            Ok(waits) => total.add(&waits),
        }
    }
    println!("{total:#?}");
    let hours = total.nanoseconds / 3_600_000_000_000;
    assert!(hours >= 4 || seeds < SEEDS, "{hours} hours are not much: {total:#?}");
}
