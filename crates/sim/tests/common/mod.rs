//! Runs worlds by their seeds.

use std::fmt::Debug;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs the world of `SIM_SEED`, if that is set, or those of the seeds below `SIM_SEEDS` or
/// `usual`. Returns the sum of their reports if at least `usual` worlds ran.
pub fn run_all<T: Debug + Default + Send>(
    usual: u64,
    run: fn(u64) -> Result<T, String>,
    add: fn(&mut T, &T),
) -> Option<T> {
    if let Some(seed) = number("SIM_SEED") {
        println!("{:#?}", run(seed).unwrap());
        return None;
    }
    let seeds = number("SIM_SEEDS").unwrap_or(usual);
    let next = AtomicU64::new(0);
    let run_some = || {
        let mut sum = T::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return Ok(sum);
            }
            let caught = catch_unwind(|| run(seed));
            match caught.unwrap_or_else(|_| Err("it panicked".into())) {
                Err(what) => {
                    return Err(format!("seed {seed}: {what}\nrun it with SIM_SEED={seed}"));
                }
                Ok(report) => add(&mut sum, &report),
            }
        }
    };
    let mut total = T::default();
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, Into::into);
        let all: Vec<_> = (0..cores).map(|_| scope.spawn(run_some)).collect();
        for thread in all {
            let sum = thread.join().expect("what panics is caught");
            add(&mut total, &sum.unwrap_or_else(|what| panic!("{what}")));
        }
    });
    println!("{total:#?}");
    (seeds >= usual).then_some(total)
}
