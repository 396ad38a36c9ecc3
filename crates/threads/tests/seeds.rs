//! Seeds and `fork_join`: each closure is run once, by the first worker or joiner that takes it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use threads::{Workers, fork_join, seed, spawn, yield_now};

mod common;
use common::{machine, workers};

fn fibonacci(number: u64) -> u64 {
    if number < 2 {
        return number;
    }
    let one = seed(move || fibonacci(number - 1));
    let other = fibonacci(number - 2);
    one.join() + other
}

#[test]
fn seeds_compute_what_a_sequential_program_does() {
    for count in [1, 2, 4] {
        assert_eq!(workers(count).run(|| fibonacci(18)), 2584);
    }
}

/// Creates more seeds than a deque holds and joins the oldest first, while other workers take them.
/// Some seeds are joined by a thread on another worker, some are never joined.
#[test]
fn each_of_many_seeds_is_run_once() {
    for count in [1, 2, 4] {
        let run = Arc::new(AtomicUsize::new(0));
        let runs = run.clone();
        let sum: usize = workers(count).run(move || {
            let make = |number: usize| {
                let runs = runs.clone();
                seed(move || {
                    runs.fetch_add(1, Ordering::Relaxed);
                    number
                })
            };
            let seeds: Vec<_> = (0..2000).map(make).collect();
            (2000..2100).for_each(|number| drop(make(number)));
            let moved: Vec<_> = (2100..2200).map(make).collect();
            let joins = |seeds: Vec<_>| seeds.into_iter().map(threads::SeedJoin::join).sum();
            let elsewhere = spawn(move || joins(moved));
            yield_now();
            let here: usize = joins(seeds);
            let there: usize = elsewhere.join().unwrap();
            // Some seeds are never joined: they have run once no worker finds any.
            while runs.load(Ordering::Relaxed) < 2200 {
                yield_now();
            }
            here + there
        });
        assert_eq!(run.load(Ordering::Relaxed), 2200);
        assert_eq!(sum, (0..2200).sum::<usize>() - (2000..2100).sum::<usize>());
    }
}

#[test]
#[should_panic(expected = "of a seed")]
fn a_panic_of_a_seed_goes_to_the_joiner() {
    workers(2).run(|| {
        let seed = seed(|| panic!("of a seed"));
        // Another thread runs the seed.
        yield_now();
        seed.join()
    });
}

fn fork_fibonacci(number: u64) -> u64 {
    if number < 2 {
        return number;
    }
    let (one, other) = fork_join(|| fork_fibonacci(number - 1), || fork_fibonacci(number - 2));
    one + other
}

#[test]
fn functions_that_fork_compute_what_a_sequential_program_does() {
    assert_eq!(fork_fibonacci(12), 144, "on a kernel thread");
    for count in [1, 2, 4] {
        assert_eq!(workers(count).run(|| fork_fibonacci(20)), 6765);
    }
}

/// Both functions use data of the caller. They wait, yield, and leave more seeds above the offered
/// one than a deque holds.
#[test]
fn what_was_forked_is_over_when_the_call_returns() {
    fn sort(values: &mut [u32], left: &AtomicUsize) {
        if values.len() < 2 {
            left.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let middle = values.len() / 2;
        let (below, above) = values.split_at_mut(middle);
        fork_join(
            || {
                (0..below.len() % 5).for_each(|_| drop(seed(yield_now)));
                sort(below, left);
                yield_now();
            },
            || {
                if above.len() % 7 == 0 {
                    threads::sleep(Duration::from_micros(50));
                }
                sort(above, left);
            },
        );
        values.sort_unstable();
    }
    for count in [1, 2, 4] {
        workers(count).run(|| {
            let mut values: Vec<u32> = (0..3000).map(|number| number * 7919 % 3001).collect();
            let left = AtomicUsize::new(0);
            sort(&mut values, &left);
            assert_eq!(left.load(Ordering::Relaxed), 3000);
            assert!(values.is_sorted());
        });
    }
    // Deeper than the capacity of a worker's deque.
    fn down(depth: u32) -> u32 {
        if depth == 0 { 0 } else { fork_join(|| down(depth - 1), || 1).0 + 1 }
    }
    for count in [1, 2, 4] {
        let deep = Workers::builder().machine(machine(count)).stack_bytes(4 << 20);
        assert_eq!(deep.start().expect("workers start").run(|| down(1000)), 1000);
    }
}

#[test]
fn a_panic_of_what_was_forked_comes_when_both_are_over() {
    for count in [1, 2] {
        for panics in [[true, false], [false, true], [true, true]] {
            let reported = workers(count).run(move || {
                let ended = AtomicUsize::new(0);
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    fork_join(
                        || {
                            // Another worker may take the second function in the meantime.
                            threads::sleep(Duration::from_millis(1));
                            assert!(!panics[0], "the first");
                        },
                        || {
                            ended.fetch_add(1, Ordering::Relaxed);
                            assert!(!panics[1], "the second");
                        },
                    )
                }));
                assert!(!panics[1] || panics[0] || ended.load(Ordering::Relaxed) == 1);
                *caught.expect_err("one panicked").downcast::<&str>().expect("a text")
            });
            assert_eq!(reported, if panics[0] { "the first" } else { "the second" });
        }
    }
}
