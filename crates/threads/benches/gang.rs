//! Parallel jobs on two processors, one to five at a time, each of two or four threads. They run
//! under `gang`, under a shared queue (`null`), and as kernel threads: `cargo bench -p threads
//! --bench gang`.
//!
//! A job is not a real factorization but a loop with its shape: the steps of an LU factorization,
//! each with less work than the one before, divided among the threads. At the barrier after each
//! step the threads spin, and yield after 20 microseconds.

use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bubbles::{MachineTree, Relation, Scheduler, schedulers};
use threads::{Bubble, ThreadBuilder, Workers};

fn main() {
    let cores = sys::cores::allowed();
    let machine = MachineTree::flat(&[cores[0] as u32, cores[1 % cores.len()] as u32]);
    let alone = (0..ROUNDS).map(|_| timed(|| job(1, 0, &SpinBarrier::new(1), || ())));
    let alone = middle(alone.collect());
    println!("speed-up over one thread, by {STEPS} steps each; one job alone takes {alone:.1} ms");
    println!("  threads  jobs      gang    null  kernel");
    for ways in [2, 4] {
        for jobs in 1..=JOBS_MAX {
            let mut times = [const { Vec::new() }; 3];
            for _ in 0..ROUNDS {
                times[0].push(timed(|| run(&machine, Box::new(schedulers::Gang), jobs, ways)));
                times[1].push(timed(|| run(&machine, Box::new(schedulers::Null), jobs, ways)));
                times[2].push(timed(|| run_on_system(jobs, ways)));
            }
            let speed_ups = times.map(|times| alone * jobs as f64 / middle(times));
            let [gang, null, kernel] = speed_ups;
            println!("{ways:9} {jobs:5}  {gang:8.2}{null:8.2}{kernel:8.2}");
        }
    }
}

/// Returns the duration in milliseconds.
fn timed(action: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    action();
    begun.elapsed().as_secs_f64() * 1e3
}

fn middle(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Runs the jobs as bubbles.
fn run(machine: &MachineTree, scheduler: Box<dyn Scheduler>, jobs: usize, ways: usize) {
    let workers = Workers::builder().machine(machine.clone()).scheduler(scheduler);
    workers.start().expect("workers start").run(move || {
        let all = Bubble::new(Relation::Unrelated);
        let mut threads = Vec::new();
        for _ in 0..jobs {
            let team = all.inside(Relation::WaitsTogether);
            let barrier = Arc::new(SpinBarrier::new(ways));
            for number in 0..ways {
                let barrier = barrier.clone();
                let body = move || job(ways, number, &barrier, threads::yield_now);
                threads.push(ThreadBuilder::new().bubble(&team).spawn(body));
            }
        }
        all.submit();
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    });
}

fn run_on_system(jobs: usize, ways: usize) {
    let mut threads = Vec::new();
    for _ in 0..jobs {
        let barrier = Arc::new(SpinBarrier::new(ways));
        for number in 0..ways {
            let barrier = barrier.clone();
            let body = move || job(ways, number, &barrier, std::thread::yield_now);
            threads.push(std::thread::spawn(body));
        }
    }
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
}

/// The part of a job that one thread runs.
fn job(ways: usize, number: usize, barrier: &SpinBarrier, give_way: impl Fn()) {
    for step in 0..STEPS {
        // The remaining part of the matrix: its rows are distributed among the threads.
        let left = STEPS - step;
        let rows = (number..left).step_by(ways).count();
        let mut value = 1.0;
        for _ in 0..rows * left {
            value = black_box(value * 0.999_999 + 1e-9);
        }
        black_box(value);
        barrier.wait(&give_way);
    }
}

struct SpinBarrier {
    parties: usize,
    here: AtomicUsize,
    round: AtomicUsize,
}

impl SpinBarrier {
    fn new(parties: usize) -> Self {
        Self { parties, here: AtomicUsize::new(0), round: AtomicUsize::new(0) }
    }

    fn wait(&self, give_way: &impl Fn()) {
        let round = self.round.load(Ordering::Acquire);
        if self.here.fetch_add(1, Ordering::AcqRel) + 1 == self.parties {
            self.here.store(0, Ordering::Relaxed);
            self.round.store(round + 1, Ordering::Release);
            return;
        }
        let mut since = Instant::now();
        while self.round.load(Ordering::Acquire) == round {
            spin_loop();
            if since.elapsed() >= SPIN {
                give_way();
                since = Instant::now();
            }
        }
    }
}

const STEPS: usize = 200;
const JOBS_MAX: usize = 5;
const ROUNDS: usize = 9;
const SPIN: Duration = Duration::from_micros(20);
