//! Wire-up: from a process that was just started to one that reaches all others of its job.

use std::fmt;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::GateId;
use driver::{Driver, DriverError, Loopback};
use driver_shm::{Lookup, Options, Shm};
use engine::Engine;
use launch::Job;
use sys::cores;

use crate::configuration::Configuration;
use crate::instruments::Instruments;
use crate::runtime::{Runtime, cannot_reach, strategy};

/// A process that is part of its job.
pub struct Started {
    /// The way of messages.
    pub runtime: Runtime,
    /// The connection to the launcher.
    pub job: Arc<Mutex<Job>>,
    /// The rank among all processes of the job.
    pub rank: u32,
    /// How many processes the job has.
    pub size: u32,
    /// Whether processes outnumber the cores that they may use.
    pub crowded: bool,
}

/// Why a process cannot become part of its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError {
    /// What failed, and what a person can do.
    pub message: String,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StartError {}

impl From<DriverError> for StartError {
    fn from(error: DriverError) -> Self {
        Self { message: error.message }
    }
}

impl From<launch::JoinError> for StartError {
    fn from(error: launch::JoinError) -> Self {
        Self { message: error.to_string() }
    }
}

/// In jobs larger than this, processes do not read everybody's card to count cores.
const CARDS_READ_MAX: u32 = 128;

/// Joins the job that the environment tells of (or makes one of this process alone), publishes
/// this process's card, and waits until all others have published theirs.
///
/// # Errors
/// The launcher cannot be talked to, or the rails cannot be set up.
pub fn start(
    configuration: Configuration,
    instruments: &Instruments,
) -> Result<Started, StartError> {
    let job = launch::join()?;
    let (rank, size) = (job.rank(), job.size());
    let job = Arc::new(Mutex::new(job));
    let own = GateId(rank);
    let options = Options { single_copy: configuration.single_copy() };
    let shm = Shm::create(own, options, lookup(&job))?;
    let loopback = Loopback::new(own);
    let profiles = [loopback.rails(), shm.rails()].concat();
    let mut engine = Engine::new(own, profiles, strategy(configuration));
    engine.instrument(Arc::clone(&instruments.engine), instruments.journal.clone());
    let crowded = publish(&job, &shm, size)?;
    let fatal = Fatal { job: Arc::clone(&job), rank };
    let mut runtime = Runtime::new(own, engine, loopback, shm, fatal, instruments.clone());
    if size > 1 {
        // One trial now, so that what keeps all from working is told at the start.
        let neighbour = GateId((rank + 1) % size);
        let connected = runtime.try_connect(neighbour);
        connected.map_err(|error| StartError { message: cannot_reach(neighbour, &error) })?;
        // Nobody leaves, and perhaps ends, before that trial is over everywhere.
        locked(&job).barrier()?;
    }
    Ok(Started { runtime, job, rank, size, crowded })
}

fn locked(job: &Mutex<Job>) -> MutexGuard<'_, Job> {
    job.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Under these keys each process publishes its card, and the cores that it may use.
const CARD_KEY: &str = "combray-card";
const CORES_KEY: &str = "combray-cores";

/// Tells the others where this process is and which cores it may use, and learns whether all of
/// them together have fewer cores than they are.
fn publish(job: &Mutex<Job>, shm: &Shm, size: u32) -> Result<bool, StartError> {
    let allowed = cores::allowed();
    if size == 1 {
        return Ok(false);
    }
    let mut job = locked(job);
    job.put(CARD_KEY, &shm.card().to_string())?;
    job.put(CORES_KEY, &core_mask(&allowed))?;
    job.barrier()?;
    if size > CARDS_READ_MAX {
        return Ok(size as usize > cores::usable());
    }
    let mut all = 0_u128;
    for other in 0..size {
        let text = job.get(other, CORES_KEY)?;
        all |= u128::from_str_radix(&text, 16).unwrap_or(u128::MAX);
    }
    let limited = cores::usable() < allowed.len();
    let cores = if limited { cores::usable() } else { all.count_ones() as usize };
    Ok(size as usize > cores)
}

/// Cores as a set of bits; those past 127 stand in the last.
fn core_mask(allowed: &[usize]) -> String {
    let mask = allowed.iter().fold(0_u128, |mask, &core| mask | 1 << core.min(127));
    format!("{mask:x}")
}

fn lookup(job: &Arc<Mutex<Job>>) -> Lookup {
    let job = Arc::clone(job);
    Box::new(move |gate| {
        let card = locked(&job).get(gate.0, CARD_KEY);
        card.map_err(|error| DriverError { message: error.to_string() })
    })
}

/// What ends the whole job when it cannot go on.
pub(crate) struct Fatal {
    job: Arc<Mutex<Job>>,
    rank: u32,
}

impl Fatal {
    /// Tells the person why, and ends the job.
    pub(crate) fn end(&self, message: &str) -> ! {
        // At once, as others may end the job at the same time.
        let line = format!("combray: rank {} (process {}): {message}\n", self.rank, process::id());
        eprint!("{line}");
        locked(&self.job).abort(1);
        process::exit(1)
    }
}
