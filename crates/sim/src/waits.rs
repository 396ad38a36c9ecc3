//! Worlds in which processes wait: the library's own waiting code, with its doorbells, its lock at
//! the entry lock of the library and its other locks, in virtual time.
//!
//! A process has one or several threads, some of which share kernel threads. It may have a helper
//! that makes progress while the program computes. Processes send each other messages through
//! engines of their own, and wait for them as the library does: the crate `progress` and
//! `queues::bell` are the code that real programs run. Only the system below them is simulated. A
//! thread may lose its core at each step, for long, and a wake-up may come late.
//!
//! A sleep that would only end by its safety limit never ends here. A lost wake-up therefore leaves
//! a process asleep forever. In addition, each step checks whether a process sleeps although work
//! waits for it.
//!
//! Between two calls programs compute for up to seconds, so some thousand worlds are hours of
//! virtual time.

mod check;
mod kernel;
mod process;
mod program;

use std::rc::Rc;

use fastrand::Rng;

use kernel::{KernelThread, Machine};
use process::WaitingProcess;

/// The counters of worlds.
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
    /// Adds the counters of another world.
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
/// A description of the process that sleeps although work waits for it.
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
