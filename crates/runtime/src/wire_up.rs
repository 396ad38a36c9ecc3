//! Wire-up: from a process that was just started to one that reaches all others of its job.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::GateId;
use driver::{Doorbell, DriverError, Secret, Settings};
use drivers::Rails;
use engine::Engine;
use launch::Job;
use sys::cores;
use topology::Parts;

use crate::configuration::{self, Configuration};
use crate::guidance::Guidance;
use crate::instruments::Instruments;
use crate::nearness::{self, Nearness};
use crate::parts;
use crate::runtime::{Runtime, cannot_reach, strategy};
use crate::samples;

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
    /// Whether processes outnumber the cores that they may use on this machine.
    pub crowded: bool,
    /// Whether they do on any machine: all processes say the same, so that what they have to agree
    /// in may depend on it.
    pub crowded_somewhere: bool,
    /// By rank: the lowest rank of those on the same machine.
    pub nodes: Vec<u32>,
    /// By rank: in which parts of its machine a process runs. Empty: all of a machine in the same,
    /// or it is not known.
    pub parts: Vec<Parts>,
    /// By rank: how far a process is from the network interface that is nearest to it. Empty: not
    /// known, or all alike.
    pub distances: Vec<u32>,
    /// By rank: the numbers of the switches above its machine, from the outermost on. Empty: not
    /// known.
    pub switches: Vec<Vec<u32>>,
    /// What to sleep on until something arrives.
    pub doorbell: Option<Arc<dyn Doorbell>>,
    /// How many cores the processes of one machine may use, where they are fewest; the same for all
    /// processes.
    pub cores: u32,
    /// What the choice between collective algorithms follows, the same for all processes.
    pub guidance: Guidance,
    /// What of the figures that were kept of this machine, and of the person's wishes, is no use.
    pub complaints: Vec<String>,
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

/// In jobs larger than this, processes do not read of everybody where it runs, if the launcher
/// tells.
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
    let mut rails = create_rails(own, configuration, &job)?;
    let (samples, complaint) = samples::kept();
    let (guidance, wrong_wishes) = Guidance::of_environment(samples.costs);
    // Boxed, as hardly any process has it.
    let nearness = match size {
        2.. if nearness::matters(&job)? => Some(Box::new(place(&mut rails, rank))),
        _ => None,
    };
    let neighbours = publish(&job, &rails.cards(), nearness.as_deref(), guidance)?;
    if neighbours.all_near {
        rails.drop_networks();
    }
    if neighbours.crowded {
        rails.expect_crowd();
    }
    let mut engine = Engine::new(own, rails.profiles(), strategy(configuration));
    samples::follow(&mut engine, &samples);
    if let Some(nearness) = &nearness {
        nearness::follow(&mut engine, nearness, neighbours.company);
    }
    engine.instrument(Arc::clone(&instruments.engine), instruments.journal.clone());
    let fatal = Fatal { job: Arc::clone(&job), rank };
    let mut runtime = Runtime::new(own, engine, rails, fatal, instruments.clone());
    if let Some(nearness) = nearness {
        runtime.set_nearness(nearness);
    }
    if neighbours.guidance.records {
        runtime.record();
    }
    if size > 1 {
        // One trial now, so that what keeps all from working is told at the start.
        let neighbour = GateId((rank + 1) % size);
        let connected = runtime.try_connect(neighbour);
        connected.map_err(|error| StartError { message: cannot_reach(neighbour, &error) })?;
        // Nobody leaves, and perhaps ends, before that trial is over everywhere.
        locked(&job).barrier()?;
    }
    let doorbell = runtime.doorbell()?;
    // Only the wishes of process 0 count.
    let wrong_wishes = wrong_wishes.into_iter().filter(|_| rank == 0);
    Ok(Started {
        runtime,
        doorbell,
        job,
        rank,
        size,
        crowded: neighbours.crowded,
        crowded_somewhere: neighbours.crowded_somewhere,
        nodes: neighbours.nodes,
        parts: neighbours.parts,
        distances: neighbours.distances,
        switches: neighbours.switches,
        cores: neighbours.cores,
        guidance: neighbours.guidance,
        complaints: complaint.into_iter().chain(wrong_wishes).collect(),
    })
}

/// The rails of a process, those to other machines included, which most jobs turn out not to need.
fn create_rails(
    own: GateId,
    configuration: Configuration,
    job: &Arc<Mutex<Job>>,
) -> Result<Rails, StartError> {
    let settings = Settings {
        networks: configuration::networks(),
        single_copy: configuration.single_copy(),
        node: configuration::node(),
        records: wire::VERSION,
    };
    let directory = |driver| Directory::of(driver, job);
    let mut rails = Rails::create(own, &settings, directory)?;
    if locked(job).size() > 1 {
        rails.add_networks(own, &settings, directory)?;
    }
    Ok(rails)
}

/// Finds out where the interfaces are, and keeps buffers near the one that is used first.
fn place(rails: &mut Rails, rank: u32) -> Nearness {
    let nearness = Nearness::of(&rails.profiles(), rank);
    if let Some(node) = nearness.station.as_ref().and_then(|station| station.node) {
        rails.keep_buffers_on(node);
    }
    nearness
}

/// Where a driver learns of the others.
struct Directory {
    job: Arc<Mutex<Job>>,
    /// Under which its cards are published.
    key: String,
}

impl Directory {
    /// Of the driver with this name.
    fn of(driver: &str, job: &Arc<Mutex<Job>>) -> Box<dyn driver::Directory> {
        Box::new(Self { job: Arc::clone(job), key: card_key(driver) })
    }

    fn get(&self, rank: u32, key: &str) -> Result<String, DriverError> {
        let value = locked(&self.job).get(rank, key);
        value.map_err(|error| DriverError { message: error.to_string() })
    }
}

impl driver::Directory for Directory {
    fn card(&mut self, gate: GateId) -> Result<String, DriverError> {
        self.get(gate.0, &self.key)
    }

    fn secret(&mut self) -> Result<Secret, DriverError> {
        let text = self.get(0, SECRET_KEY)?;
        let bytes = text.as_bytes().chunks_exact(2).map(|digits| {
            let digits = str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 16).ok()
        });
        let secret = bytes.collect::<Option<Vec<u8>>>().and_then(|bytes| bytes.try_into().ok());
        secret.ok_or_else(|| DriverError { message: "the job has no secret".into() })
    }
}

/// A new secret, as hexadecimal digits.
fn new_secret() -> Result<String, StartError> {
    let mut secret: Secret = Default::default();
    let error = |cause| StartError { message: format!("no random numbers can be had: {cause}") };
    sys::random::fill(&mut secret).map_err(error)?;
    Ok(secret.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn locked(job: &Mutex<Job>) -> MutexGuard<'_, Job> {
    job.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Under this key each process publishes the card of a driver.
fn card_key(driver: &str) -> String {
    format!("combray-card-{driver}")
}

/// Under this one it publishes where it runs: on which cores of which machine.
const PLACE_KEY: &str = "combray-place";
/// Under these keys rank 0 publishes what only processes of the job know, and what the choice
/// between collective algorithms follows.
const SECRET_KEY: &str = "combray-secret";
const GUIDANCE_KEY: &str = "combray-guidance";
/// Under this one it publishes in large jobs in which parts of its machine all processes there run.
const PARTS_KEY: &str = "combray-parts";

/// What a process learns of where the others run.
#[derive(Default)]
struct Neighbours {
    /// By rank: the lowest rank on the same machine.
    nodes: Vec<u32>,
    /// By rank, as in [`Started`].
    parts: Vec<Parts>,
    /// Likewise.
    distances: Vec<u32>,
    switches: Vec<Vec<u32>>,
    /// Whether all processes are on this machine.
    all_near: bool,
    /// Whether those of this machine have fewer cores than they are.
    crowded: bool,
    /// The part of this machine's cores that have a process of the job.
    company: f64,
    /// Whether those of any machine have; the same for all processes.
    crowded_somewhere: bool,
    /// How many cores those of a machine have, on the machine with the fewest; likewise.
    cores: u32,
    /// What rank 0 tells.
    guidance: Guidance,
}

/// Tells the others where this process is and which cores it may use, and learns the same of them.
fn publish(
    job: &Mutex<Job>,
    cards: &[(&'static str, String)],
    nearness: Option<&Nearness>,
    guidance: Guidance,
) -> Result<Neighbours, StartError> {
    let allowed = cores::allowed();
    let mut job = locked(job);
    let size = job.size();
    if size == 1 {
        return Ok(Neighbours {
            nodes: vec![0; size as usize],
            all_near: true,
            cores: 1,
            guidance,
            ..Neighbours::default()
        });
    }
    let own = PlaceOf {
        mask: core_mask(&allowed),
        // A limit on time is told where there are more cores.
        usable: cores::usable().min(allowed.len()),
        together: configuration::cores_together(),
        parts: parts::own(&allowed),
        distance: nearness.and_then(Nearness::distance),
        switches: configuration::switches(),
    };
    let own = format!("{own} {}", drivers::machine_name()).replace(' ', "@");
    for (driver, card) in cards {
        job.put(&card_key(driver), card)?;
    }
    job.put(PLACE_KEY, &own)?;
    if job.rank() == 0 {
        job.put(SECRET_KEY, &new_secret()?)?;
        job.put(GUIDANCE_KEY, &guidance.to_text())?;
    }
    if job.rank() == 0 && size > CARDS_READ_MAX {
        job.put(PARTS_KEY, &format!(":{}", parts::pattern()))?;
    }
    // A session that begins after the end of the world may have to connect peers.
    for (driver, _) in cards {
        job.keep(&card_key(driver), 0..size);
    }
    job.keep(SECRET_KEY, 0..1);
    job.barrier()?;
    let told = job.get(0, GUIDANCE_KEY)?;
    let guidance = Guidance::from_text(&told).ok_or_else(|| StartError {
        message: format!("process 0 is of another version of Combray: it tells \"{told}\""),
    })?;
    if size > CARDS_READ_MAX
        && let Some(mapping) = job.process_mapping()?
    {
        // All read of the same process, in order to come to the same end.
        let first = place_of(&job.get(0, PLACE_KEY)?);
        let cores = first.together.unwrap_or(first.usable);
        let neighbours = neighbours_by_mapping(&mapping, job.rank(), cores, guidance);
        let pattern = job.get(0, PARTS_KEY)?;
        let parts = parts::by_pattern(pattern.trim_start_matches(':'), &neighbours.nodes);
        return Ok(Neighbours { parts, ..neighbours });
    }
    let mut places = Vec::new();
    for other in 0..size {
        places.push(job.get(other, PLACE_KEY)?);
    }
    Ok(neighbours(&places, job.rank(), guidance))
}

/// What follows from where all processes run.
fn neighbours(places: &[String], rank: u32, guidance: Guidance) -> Neighbours {
    let hosts = places.iter().map(|place| place.split_once('@').map(|(_, host)| host));
    let nodes = first_alike(hosts);
    let places: Vec<PlaceOf> = places.iter().map(|place| place_of(place)).collect();
    let members_and_cores = |node: u32| {
        let near = nodes.iter().zip(&places).filter(|(other, _)| **other == node);
        let cores: Vec<&PlaceOf> = near.map(|(_, place)| place).collect();
        // The launcher that bound them knows.
        if let Some(together) = cores.iter().filter_map(|cores| cores.together).max() {
            return (cores.len(), together);
        }
        let all = cores.iter().fold(0, |all, cores| all | cores.mask).count_ones() as usize;
        let is_limited = |cores: &&&PlaceOf| cores.usable < cores.mask.count_ones() as usize;
        let limit = cores.iter().filter(is_limited).map(|cores| cores.usable).min();
        (cores.len(), limit.unwrap_or(all))
    };
    let is_crowded = |node: u32| {
        let (members, cores) = members_and_cores(node);
        members > cores
    };
    let own = nodes[rank as usize];
    let mut distinct = nodes.clone();
    distinct.sort_unstable();
    distinct.dedup();
    Neighbours {
        all_near: distinct.len() == 1,
        crowded: is_crowded(own),
        company: company(members_and_cores(own)),
        crowded_somewhere: distinct.iter().any(|node| is_crowded(*node)),
        cores: distinct.iter().map(|node| members_and_cores(*node).1).min().unwrap_or(1) as u32,
        guidance,
        switches: parts::numbered(places.iter().map(|place| place.switches.as_slice())),
        distances: nearness::distances_that_matter(places.iter().map(|place| place.distance)),
        parts: parts::that_matter(places.iter().map_while(|place| place.parts).collect(), &nodes),
        nodes,
    }
}

/// The same for large jobs, from what the launcher tells; each machine is taken to have `cores`.
fn neighbours_by_mapping(
    mapping: &[u32],
    rank: u32,
    cores: usize,
    guidance: Guidance,
) -> Neighbours {
    let nodes = first_alike(mapping.iter());
    let mut members = vec![0; nodes.len()];
    nodes.iter().for_each(|&node| members[node as usize] += 1);
    let near = members[nodes[rank as usize] as usize];
    let own_cores = configuration::cores_together().unwrap_or_else(cores::usable);
    Neighbours {
        all_near: near == nodes.len(),
        crowded: near > own_cores,
        company: company((near, own_cores)),
        crowded_somewhere: members.iter().any(|&members| members > cores),
        cores: cores as u32,
        guidance,
        nodes,
        ..Neighbours::default()
    }
}

/// The part of so many cores that so many processes take.
fn company((members, cores): (usize, usize)) -> f64 {
    (members as f64 / cores.max(1) as f64).min(1.0)
}

/// For each of these the place of the first that is the same.
fn first_alike<T: Eq + Hash>(all: impl Iterator<Item = T>) -> Vec<u32> {
    let mut first = HashMap::new();
    (0..).zip(all).map(|(place, one)| *first.entry(one).or_insert(place)).collect()
}

/// What a process tells of where it runs.
struct PlaceOf {
    /// The cores on which it may run.
    mask: u128,
    /// How many it can use at once.
    usable: usize,
    /// How many all processes of its machine can, if the launcher told.
    together: Option<usize>,
    /// In which parts of its machine it is, if it knows.
    parts: Option<Parts>,
    /// How far it is from the nearest interface, if that is known and matters.
    distance: Option<u32>,
    /// The switches above its machine, from the outermost on.
    switches: Vec<String>,
}

impl fmt::Display for PlaceOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mask, usable, together, parts, distance, switches } = self;
        let together = together.map(|cores| cores.to_string()).unwrap_or_default();
        let parts = parts.map(|parts| parts.to_string()).unwrap_or_default();
        let distance = distance.map(|distance| distance.to_string()).unwrap_or_default();
        write!(f, "{mask:x}:{usable}:{together}:{parts}:{distance}:{}", switches.join("."))
    }
}

fn place_of(place: &str) -> PlaceOf {
    let mut fields = place.split('@').next().unwrap_or_default().split(':');
    let mask = fields.next().and_then(|mask| u128::from_str_radix(mask, 16).ok());
    let mask = mask.unwrap_or(u128::MAX);
    let mut number = || fields.next().and_then(|number| number.parse().ok());
    let usable = number().unwrap_or(mask.count_ones() as usize);
    let together = number();
    let parts = fields.next().and_then(|parts| parts.parse().ok());
    let distance = fields.next().and_then(|distance| distance.parse().ok());
    let switches = fields.next().filter(|names| !names.is_empty());
    let switches = switches.map(|names| names.split('.').map(str::to_owned).collect());
    let switches = switches.unwrap_or_default();
    PlaceOf { mask, usable, together, parts, distance, switches }
}

/// Cores as a set of bits; those past 127 stand in the last.
fn core_mask(allowed: &[usize]) -> u128 {
    allowed.iter().fold(0_u128, |mask, &core| mask | 1 << core.min(127))
}

/// How often the launcher is asked for news that must come soon.
const NEWS_PERIOD: Duration = Duration::from_millis(20);

/// What ends the whole job when it cannot go on.
pub(crate) struct Fatal {
    job: Arc<Mutex<Job>>,
    rank: u32,
}

impl Fatal {
    /// Whether a peer was ended while the others go on; waits a moment for the news.
    pub(crate) fn was_ended(&self, gate: GateId, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            if locked(&self.job).has_ended(gate.0) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(NEWS_PERIOD);
        }
    }

    /// Tells the person why, and ends the job.
    pub(crate) fn end(&self, message: &str) -> ! {
        // At once, as others may end the job at the same time.
        let line = format!("combray: rank {} (process {}): {message}\n", self.rank, process::id());
        eprint!("{line}");
        locked(&self.job).abort(1);
        process::exit(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_agree_whether_it_is_crowded_somewhere() {
        // Three processes on the two cores of one machine, one on those of another.
        let places = ["3:2@a", "3:2@b", "3:2@a", "3:2@a"].map(str::to_owned);
        for rank in 0..4 {
            let neighbours = neighbours(&places, rank, Guidance::default());
            assert_eq!(neighbours.nodes, [0, 1, 0, 0]);
            assert!(neighbours.crowded_somewhere && !neighbours.all_near);
            assert_eq!(neighbours.crowded, rank != 1);
            let mapped = neighbours_by_mapping(&[5, 9, 5, 5], rank, 2, Guidance::default());
            assert_eq!((neighbours.cores, mapped.cores), (2, 2));
            assert_eq!(mapped.nodes, [0, 1, 0, 0]);
            assert!(mapped.crowded_somewhere && !mapped.all_near);
        }
    }

    #[test]
    fn cores_count_together_unless_time_is_limited() {
        let crowded = |places: [&str; 2]| {
            neighbours(&places.map(str::to_owned), 0, Guidance::default()).crowded
        };
        assert!(crowded(["1:1@a@b", "1:1@a@b"]));
        assert!(!crowded(["1:1@a@b", "2:1@a@b"]));
        assert!(!crowded(["1:1@a@b", "1:1@a@c"]));
        assert!(crowded(["f:1@a", "f:1@a"]));
        assert!(!crowded(["f:4@a", "f:4@a"]));
        // Bound by a launcher, to cores whose numbers are too large to tell.
        assert!(!crowded(["8:1:300@a", "8:1:300@a"]));
        assert!(crowded(["8:1:1@a", "8:1:1@a"]));
    }
}
