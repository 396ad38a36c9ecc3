//! The costs of threads, compared with kernel threads and rayon: `cargo bench -p threads`. The
//! kinds alternate, and the minimum of all rounds is printed, in nanoseconds. A word after `--`
//! selects the lines that contain it.

mod irregular;
#[cfg(target_arch = "x86_64")]
mod switching;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use bubbles::MachineTree;
use irregular::{Both, Own, Rayon};
use threads::sync::{Barrier, Mutex, Semaphore};
use threads::{Workers, fork_join, seed, spawn, yield_now};

fn main() {
    let only = std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
    let cores = sys::cores::allowed();
    let machine = |count: usize| {
        MachineTree::flat(&cores[..count].iter().map(|&core| core as u32).collect::<Vec<_>>())
    };
    let one = Workers::builder().machine(machine(1)).start().expect("workers start");
    let all = Workers::builder().machine(machine(cores.len())).start().expect("workers start");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("rayon starts");
    let (one, all) = (&one, &all);
    let lines: Vec<(&str, Measure<'_>)> = vec![
        #[cfg(target_arch = "x86_64")]
        (
            "switch of contexts alone, twenty instructions",
            Box::new(|| {
                let count = 1_000_000;
                per(2 * count, || switching::switch_there_and_back(count))
            }),
        ),
        ("switch of contexts alone, corosensei", Box::new(switch_by_corosensei)),
        ("switch between two threads", Box::new(|| one.run(|| switch(2)))),
        ("switch among 1000 threads", Box::new(|| one.run(|| switch(1000)))),
        ("switch between two threads of the system", Box::new(switch_of_system)),
        ("create, run, join a thread", Box::new(|| one.run(create))),
        ("create, run, join a thread, two workers", Box::new(|| all.run(create))),
        ("create, run, join a thread of the system", Box::new(create_of_system)),
        ("seed and join", Box::new(|| one.run(seeds))),
        ("seed and join, two workers", Box::new(|| all.run(seeds))),
        ("fork and join", Box::new(|| one.run(forks))),
        ("join of rayon, one worker", Box::new(|| pool.install(joins_of_rayon))),
        (
            "fibonacci(22) by fork and join, all workers, each",
            Box::new(|| all.run(fibonacci_by::<Own>)),
        ),
        ("fibonacci(22) by rayon, all workers, each", Box::new(fibonacci_by::<Rayon>)),
        ("9 queens by fork and join, all workers, each", Box::new(|| all.run(queens_by::<Own>))),
        ("9 queens by rayon, all workers, each", Box::new(queens_by::<Rayon>)),
        (
            "unbalanced tree by fork and join, all workers, each",
            Box::new(|| all.run(tree_by::<Own>)),
        ),
        ("unbalanced tree by rayon, all workers, each", Box::new(tree_by::<Rayon>)),
        ("mutex, 2 threads, all workers", Box::new(|| all.run(|| mutex(2)))),
        ("mutex, 1000 threads, all workers", Box::new(|| all.run(|| mutex(1000)))),
        ("mutex of the system, 2 threads", Box::new(|| mutex_of_system(2))),
        ("mutex of the system, 1000 threads", Box::new(|| mutex_of_system(1000))),
        ("barrier, 2 threads, each", Box::new(|| all.run(|| barrier(2)))),
        ("barrier, 1000 threads, each", Box::new(|| all.run(|| barrier(1000)))),
        ("barrier of the system, 2 threads, each", Box::new(|| barrier_of_system(2))),
        ("barrier of the system, 1000 threads, each", Box::new(|| barrier_of_system(1000))),
    ];
    let mut least = vec![f64::INFINITY; lines.len()];
    for _ in 0..ROUNDS {
        for (least, (name, measure)) in least.iter_mut().zip(&lines) {
            if name.contains(&only) {
                *least = least.min(measure());
            }
        }
    }
    for (least, (name, _)) in least.iter().zip(&lines).filter(|(least, _)| least.is_finite()) {
        println!("{least:10.1} ns  {name}");
    }
    if "threads alive".contains(&only) {
        alive(all);
    }
}

/// Measures one line, in nanoseconds.
type Measure<'a> = Box<dyn Fn() -> f64 + 'a>;

fn per(count: u64, work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().as_nanos() as f64 / count as f64
}

fn switch_by_corosensei() -> f64 {
    let mut coroutine: corosensei::Coroutine<(), (), ()> =
        corosensei::Coroutine::new(|yielder, ()| {
            loop {
                yielder.suspend(());
            }
        });
    let count = 100_000;
    let time = per(2 * count, || {
        (0..count).for_each(|_| assert!(coroutine.resume(()).as_yield().is_some()))
    });
    // The coroutine never ends by itself.
    coroutine.force_unwind();
    time
}

fn switch(threads: u64) -> f64 {
    let each = 20_000 / threads;
    let gate = Arc::new(Semaphore::new(0));
    let yielding: Vec<_> = (0..threads)
        .map(|_| {
            let gate = gate.clone();
            spawn(move || {
                gate.acquire();
                (0..each).for_each(|_| yield_now());
            })
        })
        .collect();
    yield_now();
    per(threads * each, || {
        (0..threads).for_each(|_| gate.release());
        yielding.into_iter().for_each(|thread| thread.join().expect("it ends"));
    })
}

fn switch_of_system() -> f64 {
    let each = 2_000;
    let core = sys::cores::allowed()[0];
    per(2 * each, || {
        let run = move || {
            sys::cores::bind(core).expect("the core is allowed");
            (0..each).for_each(|_| std::thread::yield_now());
        };
        let other = std::thread::spawn(run);
        std::thread::spawn(run).join().expect("it ends");
        other.join().expect("it ends");
    })
}

fn create() -> f64 {
    let count = 300;
    per(count, || (0..count).for_each(|number| drop(spawn(move || black_box(number)).join())))
}

fn create_of_system() -> f64 {
    let count = 100;
    per(count, || {
        (0..count).for_each(|number| drop(std::thread::spawn(move || black_box(number)).join()));
    })
}

fn seeds() -> f64 {
    let count = 2_000_u64;
    per(count, || (0..count).for_each(|number| assert_eq!(seed(move || number).join(), number)))
}

fn forks() -> f64 {
    let count = 2_000_u64;
    per(count, || {
        (0..count).for_each(|number| assert_eq!(fork_join(|| 1, move || number).1, number));
    })
}

fn joins_of_rayon() -> f64 {
    let count = 2_000_u64;
    per(count, || {
        (0..count).for_each(|number| assert_eq!(rayon::join(|| 1, move || number).1, number));
    })
}

fn fibonacci_by<B: Both>() -> f64 {
    // Each call that is not a leaf creates one task.
    per(28_656, || assert_eq!(black_box(irregular::fibonacci::<B>(22)), 17_711))
}

fn queens_by<B: Both>() -> f64 {
    // Each queen that can be placed is a task.
    per(8_393, || assert_eq!(black_box(irregular::queens::<B>(9)), 352))
}

fn tree_by<B: Both>() -> f64 {
    per(irregular::TREE_NODES, || {
        assert_eq!(black_box(irregular::tree::<B>()), irregular::TREE_NODES);
    })
}

fn mutex(threads: u64) -> f64 {
    let each = 400_000 / threads;
    let value = Arc::new(Mutex::new(0));
    per(threads * each, || {
        let add = |value: Arc<Mutex<u64>>| move || (0..each).for_each(|_| *value.lock() += 1);
        let adding: Vec<_> = (0..threads).map(|_| spawn(add(value.clone()))).collect();
        adding.into_iter().for_each(|thread| thread.join().expect("it ends"));
    })
}

fn mutex_of_system(threads: u64) -> f64 {
    let each = 400_000 / threads;
    let value = Arc::new(std::sync::Mutex::new(0));
    per(threads * each, || {
        let add = |value: Arc<std::sync::Mutex<u64>>| {
            move || (0..each).for_each(|_| *value.lock().expect("no panic") += 1)
        };
        let adding: Vec<_> = (0..threads).map(|_| std::thread::spawn(add(value.clone()))).collect();
        adding.into_iter().for_each(|thread| thread.join().expect("it ends"));
    })
}

fn barrier(threads: usize) -> f64 {
    let each = 40_000 / threads;
    let barrier = Arc::new(Barrier::new(threads));
    per((threads * each) as u64, || {
        let pass = |barrier: Arc<Barrier>| move || (0..each).for_each(|_| _ = barrier.wait());
        let passing: Vec<_> = (0..threads).map(|_| spawn(pass(barrier.clone()))).collect();
        passing.into_iter().for_each(|thread| thread.join().expect("it ends"));
    })
}

fn barrier_of_system(threads: usize) -> f64 {
    let each = 40_000 / threads;
    let barrier = Arc::new(std::sync::Barrier::new(threads));
    per((threads * each) as u64, || {
        let pass =
            |barrier: Arc<std::sync::Barrier>| move || (0..each).for_each(|_| _ = barrier.wait());
        let passing: Vec<_> =
            (0..threads).map(|_| std::thread::spawn(pass(barrier.clone()))).collect();
        passing.into_iter().for_each(|thread| thread.join().expect("it ends"));
    })
}

/// The memory and the number of mappings of a process with many waiting threads.
fn alive(workers: &Workers) {
    const COUNT: usize = 100_000;
    let before = resident();
    let after = workers.run(move || {
        let gate = Arc::new(Semaphore::new(0));
        let begun = Arc::new(Semaphore::new(0));
        let waiting: Vec<_> = (0..COUNT)
            .map(|_| {
                let (gate, begun) = (gate.clone(), begun.clone());
                spawn(move || {
                    begun.release();
                    gate.acquire();
                })
            })
            .collect();
        (0..COUNT).for_each(|_| begun.acquire());
        let after = resident();
        (0..COUNT).for_each(|_| gate.release());
        waiting.into_iter().for_each(|thread| thread.join().expect("it ends"));
        after
    });
    println!(
        "{COUNT} threads alive: {} MiB of memory, {} bytes each; {} mappings",
        after.0 >> 20,
        (after.0 - before.0) / COUNT as u64,
        after.1
    );
}

/// The resident memory in bytes, and the number of mappings.
fn resident() -> (u64, usize) {
    let read = |path| std::fs::read_to_string(path).expect("/proc is there");
    let pages = read("/proc/self/statm").split(' ').nth(1).map(str::to_owned);
    let pages: u64 = pages.and_then(|pages| pages.parse().ok()).expect("a number of pages");
    (pages * 4096, read("/proc/self/maps").lines().count())
}

const ROUNDS: usize = 100;
