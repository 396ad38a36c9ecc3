//! Worlds in which processes wait: the library's own waiting, with its doorbells, its door and its
//! locks, in virtual time.
//!
//! Processes of one or several threads, some of which share kernel threads, with or without a
//! helper that works while the program computes, send each other messages through engines of their
//! own, and wait for them as the library does: the crate `progress` and `queues::bell` are the code
//! that programs run. Under them is another system: a thread may lose its core at each step, for
//! long, and a wake-up may come late. Sleeping that only ends because its limit is over does not
//! end here, so that a wake-up which is lost leaves a process asleep for ever; and at each step it
//! is asked whether a process sleeps though something waits for it.
//! Between two calls programs compute for up to seconds: some thousand worlds are hours.

mod check;
mod kernel;
mod process;
mod program;

use std::rc::Rc;

use fastrand::Rng;

use kernel::{KernelThread, Machine};
use process::WaitingProcess;

/// What worlds did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Messages that arrived.
    pub messages: u64,
    /// Waits that lasted until they slept on the doorbell.
    pub sleeps: u64,
    /// Threads that were asleep and were woken.
    pub woken: u64,
    /// Threads that lost their core.
    pub losses: u64,
    /// Visits of helpers.
    pub visits: u64,
    /// Virtual time, in nanoseconds.
    pub nanoseconds: u64,
}

impl Waits {
    /// Adds what another world did.
    pub fn add(&mut self, other: &Self) {
        self.messages += other.messages;
        self.sleeps += other.sleeps;
        self.woken += other.woken;
        self.losses += other.losses;
        self.visits += other.visits;
        self.nanoseconds += other.nanoseconds;
    }
}

/// Runs the world of a seed to its end.
///
/// # Errors
/// Who sleeps though something waits for it.
pub fn run(seed: u64) -> Result<Waits, String> {
    let mut rng = Rng::with_seed(seed);
    let processes = program::processes(&mut rng);
    kernel::begin(rng.fork());
    let mut machine = Machine::default();
    for process in &processes {
        for thread in 0..process.threads() {
            let (mut rng, process) = (rng.fork(), process.number());
            let on = processes[process].kernel_thread();
            machine.start(process, on, move || program::run(process, thread, &mut rng));
        }
        if let Some(core) = process.helper() {
            let process = process.number();
            machine.start(process, KernelThread::Own, move || program::help(process, core));
        }
    }
    process::with(processes, |processes: &[Rc<WaitingProcess>]| {
        machine.run(&mut |process| check::sleeps_well(&processes[process]))?;
        let mut waits = kernel::end();
        waits.messages = processes.iter().map(|process| process.received()).sum();
        waits.sleeps = processes.iter().map(|process| process.sleeps()).sum();
        waits.visits = processes.iter().map(|process| process.visits()).sum();
        Ok(waits)
    })
}
