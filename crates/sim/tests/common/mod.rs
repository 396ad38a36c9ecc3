//! Running worlds by their seeds.

use std::fmt::Debug;
use std::panic::{UnwindSafe, catch_unwind};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs the world of `SIM_SEED`, if that is set, or those of the seeds below `SIM_SEEDS` or `usual`, and
/// adds up what they report: the sum, if they were at least as many as usual.
pub fn run_all<T: Debug + Default + UnwindSafe>(
    usual: u64,
    run: fn(u64) -> Result<T, String>,
    add: fn(&mut T, &T),
) -> Option<T> {
    if let Some(seed) = number("SIM_SEED") {
        println!("{:#?}", run(seed).unwrap());
        return None;
    }
    let seeds = number("SIM_SEEDS").unwrap_or(usual);
    let mut total = T::default();
    for seed in 0..seeds {
        let caught = catch_unwind(|| run(seed));
        match caught.unwrap_or_else(|_| Err("it panicked".into())) {
            Err(what) => panic!("seed {seed}: {what}\nrun it alone with SIM_SEED={seed}"),
            Ok(report) => add(&mut total, &report),
        }
    }
    println!("{total:#?}");
    (seeds >= usual).then_some(total)
}
