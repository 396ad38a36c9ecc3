//! Wire-up: turns a process that was just started into one that can reach all others of its job.

mod places;

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use base::{GateId, limits};
use driver::{Doorbell, DriverError, JobPair, PairSecret, Secret, Settings};
use drivers::Rails;
use engine::Engine;
use hmac::{Hmac, Mac};
use launch::Job;
use memory_costs::CostTable;
use sha2::Sha256;
use sys::{cores, teams};
use topology::JobMap;

use crate::configuration::{self, Configuration};
use crate::descriptors;
use crate::fatal::{self, Fatal};
use crate::guidance::JobSettings;
use crate::instruments::Instruments;
use crate::other_jobs::{JobId, OtherJobs};
use crate::parts;
use crate::rail_localities::{self, RailLocalities};
use crate::recording::RecordingScope;
use crate::runtime::Runtime;
use crate::samples;
use places::{PLACE_KEY, PlaceOf};

/// A process that has joined its job.
pub struct JoinedRuntime {
    /// The runtime, which sends and receives messages.
    pub runtime: Runtime,
    /// The connection to the launcher.
    pub job: Job,
    /// Where the processes of the job run.
    pub map: Arc<JobMap>,
    /// The doorbell to sleep on until something arrives; none if nothing can arrive.
    pub doorbell: Option<Arc<dyn Doorbell>>,
    /// The settings that the choice of collective algorithms follows, equal for all processes.
    pub guidance: JobSettings,
    /// Warnings about unusable files of samples and settings of the user.
    pub warnings: Vec<String>,
}

/// The reason why a process cannot join its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError {
    /// What failed, and what a user can do.
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

/// In larger jobs, processes do not read the place of each other process, if the launcher provides
/// a mapping.
const CARDS_READ_MAX: u32 = 128;

/// Joins the job that the environment describes (or makes a job of this process alone), publishes
/// this process's card, and waits until all other processes have published theirs.
///
/// # Errors
/// The launcher cannot be reached, or the rails cannot be set up.
pub fn start(
    configuration: Configuration,
    instruments: &Instruments,
) -> Result<JoinedRuntime, StartError> {
    let job = launch::join()?;
    teams::find();
    let (rank, size) = (job.rank(), job.size());
    descriptors::raise_limit(size);
    let own = GateId(rank);
    let (mut samples, warning) = samples::kept();
    let costs = samples.collective_costs();
    let memory = samples.memory.take().map(|memory| Arc::new(memory.table));
    let other_jobs = OtherJobs::beside(size);
    let mapping = if size > CARDS_READ_MAX { job.process_mapping()? } else { None };
    let needs_networks = size > 1 && mapping.as_deref().is_none_or(is_of_several_machines);
    let matters = needs_networks && rail_localities::matters(&job)?;
    let mut rails = create_rails(own, configuration, memory, (&job, &other_jobs))?;
    if needs_networks {
        add_networks(&mut rails, own, (&job, &other_jobs), matters)?;
    }
    let (guidance, wrong_requests) = JobSettings::of_environment(costs);
    // Boxed, as few processes have it.
    let rail_localities = matters.then(|| Box::new(place(&mut rails, rank)));
    let published = PublishedFacts {
        cards: &rails.cards(),
        rail_localities: rail_localities.as_deref(),
        node_distances: &node_distances(&rails, &job, matters),
        guidance,
    };
    let (map, guidance) = publish(&job, mapping.as_deref(), published)?;
    if map.is_one_machine() {
        rails.drop_networks();
    }
    if map.is_oversubscribed_here() {
        rails.expect_oversubscription();
    }
    let tries = Tries::of(&map, size > CARDS_READ_MAX && job.waits_for_values());
    for &gate in &tries.prepared_for {
        rails.prepare_for(gate)?;
    }
    let mut engine = Engine::new(own, rails.profiles(), configuration.create_strategy());
    engine.set_eager_credit(limits::eager_credit(size as usize), size);
    samples::follow(&mut engine, &samples);
    if let Some(rail_localities) = &rail_localities {
        rail_localities::follow(&mut engine, rail_localities, map.busy_share());
    }
    engine.instrument(Arc::clone(&instruments.engine), instruments.journal.clone());
    let fatal = Fatal::new(job.clone(), configuration, other_jobs);
    let mut runtime = Runtime::new(own, engine, rails, fatal, instruments.clone());
    if let Some(rail_localities) = rail_localities {
        runtime.set_rail_localities(rail_localities);
    }
    if guidance.records {
        runtime.record(RecordingScope::Everything);
    } else if guidance.profiles {
        runtime.record(RecordingScope::Messages);
    }
    tries.connect(&mut runtime, &job)?;
    let doorbell = runtime.doorbell()?;
    // Only the settings of process 0 count.
    let wrong_requests = wrong_requests.into_iter().filter(|_| rank == 0);
    Ok(JoinedRuntime {
        runtime,
        doorbell,
        job,
        map: Arc::new(map),
        guidance,
        warnings: warning.into_iter().chain(wrong_requests).collect(),
    })
}

/// Returns what rank 0 of a large job publishes for processes that do not read the places of all
/// others: how far each NUMA node is from an interface; empty if that does not matter.
fn node_distances(rails: &Rails, job: &Job, places_matter: bool) -> Vec<u32> {
    let is_published = places_matter && job.rank() == 0 && job.size() > CARDS_READ_MAX;
    if is_published { rail_localities::node_distances(&rails.profiles()) } else { Vec::new() }
}

/// Whether a process that cannot be connected has finalized or ended. The launcher may notice that
/// a moment after this process.
fn has_left(job: &Job, gate: GateId) -> bool {
    let begun = Instant::now();
    loop {
        if job.has_left(gate.0) {
            return true;
        }
        if !job.waits_for_values() || begun.elapsed() > NEWS_TIME_MAX {
            return false;
        }
        thread::sleep(NEWS_TIME_MAX / 100);
    }
}

/// How long the launcher may take to notice that a process has ended.
const NEWS_TIME_MAX: Duration = Duration::from_secs(1);

/// What a process tries at its start, so that a problem that affects all connections is reported
/// then.
struct Tries {
    /// The processes that may ask this one for descriptors while it is busy.
    prepared_for: Vec<GateId>,
    /// The process to connect.
    connected: Option<GateId>,
}

impl Tries {
    /// Each process tries to connect the next one; in jobs where that `is_costly`, only the lowest
    /// rank of each machine does.
    fn of(map: &JobMap, is_costly: bool) -> Self {
        let (rank, size) = (map.rank(), map.size());
        if size == 1 {
            return Self { prepared_for: Vec::new(), connected: None };
        }
        let [next, previous] = [GateId((rank + 1) % size), GateId((rank + size - 1) % size)];
        if !is_costly {
            return Self { prepared_for: vec![next, previous], connected: Some(next) };
        }
        match map.own_node() {
            lowest if lowest == rank => Self { prepared_for: vec![next], connected: Some(next) },
            lowest => Self { prepared_for: vec![GateId(lowest)], connected: None },
        }
    }

    /// Makes the trial connection, and waits for those of other processes.
    fn connect(&self, runtime: &mut Runtime, job: &Job) -> Result<(), StartError> {
        if let Some(neighbour) = self.connected
            && let Err(error) = runtime.try_connect(neighbour)
            && !has_left(job, neighbour)
        {
            return Err(StartError { message: fatal::cannot_reach(neighbour, &error) });
        }
        if job.size() > 1 && !job.waits_for_values() {
            // No process continues, and perhaps ends, before that trial is over in all processes.
            job.barrier()?;
        }
        Ok(())
    }
}

/// Whether a launcher's mapping names more than one machine.
fn is_of_several_machines(mapping: &[u32]) -> bool {
    mapping.iter().any(|machine| *machine != mapping[0])
}

/// Creates the rails of a process, except for those to other machines.
fn create_rails(
    own: GateId,
    configuration: Configuration,
    memory: Option<Arc<CostTable>>,
    (job, other_jobs): (&Job, &OtherJobs),
) -> Result<Rails, StartError> {
    let settings = Settings {
        single_copy: configuration.single_copy(),
        memory,
        copying: configuration.copying(),
        ..network_settings(job)?
    };
    let directory = |driver| JobDirectory::of(driver, job, other_jobs);
    Ok(Rails::create(own, &settings, directory)?)
}

/// Returns the settings that networks read.
fn network_settings(job: &Job) -> Result<Settings, DriverError> {
    Ok(Settings {
        networks: configuration::networks(),
        node: configuration::node(),
        records: wire::VERSION,
        descriptors: configuration::descriptors(),
        processes: job.size() as usize,
        silence: configuration::host_timeout().map_err(|message| DriverError { message })?,
        ..Settings::default()
    })
}

/// Adds rails that reach other machines, to `rails` that have none of these. `places_matter`:
/// whether their buffers must be near their interfaces.
///
/// # Errors
/// The configuration makes no sense, or the system refuses sockets.
pub(crate) fn add_networks(
    rails: &mut Rails,
    own: GateId,
    (job, other_jobs): (&Job, &OtherJobs),
    places_matter: bool,
) -> Result<(), DriverError> {
    let node_of_interface: fn(&str) -> Option<u32> = rail_localities::node_of_interface;
    let node_of_interface = places_matter.then_some(node_of_interface);
    let settings = Settings { node_of_interface, ..network_settings(job)? };
    rails.add_networks(own, &settings, |driver| JobDirectory::of(driver, job, other_jobs))
}

/// Determines where the interfaces are, and places buffers near the interface that is used first.
pub(crate) fn place(rails: &mut Rails, rank: u32) -> RailLocalities {
    let rail_localities = RailLocalities::of(&rails.profiles(), rank);
    if let Some(node) = rail_localities
        .preferred_locality
        .as_ref()
        .and_then(|preferred_locality| preferred_locality.node)
    {
        rails.keep_buffers_on(node);
    }
    rail_localities
}

/// Whether processes with these [names of machines](drivers::machine_name) can all share memory.
pub fn is_one_machine<'a>(names: impl Iterator<Item = &'a str>) -> bool {
    drivers::machines(names.map(Some)).iter().all(|first| *first == 0)
}

/// The directory in which a driver looks up the cards of other processes.
struct JobDirectory {
    job: Job,
    other_jobs: OtherJobs,
    /// The driver's name.
    driver: String,
    secret: Option<Secret>,
}

impl JobDirectory {
    /// Creates the directory of the driver with this name.
    fn of(driver: &str, job: &Job, other_jobs: &OtherJobs) -> Box<dyn driver::Directory> {
        Box::new(Self {
            job: job.clone(),
            other_jobs: other_jobs.clone(),
            driver: driver.to_owned(),
            secret: None,
        })
    }
}

impl driver::Directory for JobDirectory {
    fn card(&mut self, gate: GateId) -> Result<String, DriverError> {
        if let Some(card) = self.other_jobs.card(gate, &self.driver) {
            return card;
        }
        let is_near = self.driver == drivers::MACHINE;
        match is_near.then(|| self.job.posted_card(gate.0)).flatten() {
            Some(card) => Ok(card),
            None => published(&self.job, gate.0, &card_key(&self.driver)),
        }
    }

    fn between_jobs(&mut self, gate: GateId) -> Option<JobPair> {
        self.other_jobs.pair(gate)
    }

    fn other_secrets(&mut self) -> Vec<PairSecret> {
        self.other_jobs.secrets()
    }

    fn secret(&mut self) -> Result<Secret, DriverError> {
        if let Some(secret) = self.secret {
            return Ok(secret);
        }
        if self.job.size() == 1 {
            // It publishes none, and a question for it would take long with some launchers.
            return Err(DriverError { message: "a job of one process has no secret".into() });
        }
        let secret = secret_of(&self.job)?;
        self.secret = Some(secret);
        Ok(secret)
    }
}

/// Returns the value that a process published.
fn published(job: &Job, rank: u32, key: &str) -> Result<String, DriverError> {
    job.get(rank, key).map_err(|error| DriverError { message: error.to_string() })
}

/// Returns the secret of the job, which is published in hexadecimal digits.
fn secret_of(job: &Job) -> Result<Secret, DriverError> {
    let text = published(job, 0, SECRET_KEY)?;
    let bytes = text.as_bytes().chunks_exact(2).map(|digits| {
        let digits = str::from_utf8(digits).ok()?;
        u8::from_str_radix(digits, 16).ok()
    });
    let secret = bytes.collect::<Option<Vec<u8>>>().and_then(|bytes| bytes.try_into().ok());
    secret.ok_or_else(|| DriverError { message: "the job has no secret".into() })
}

/// Returns the name of a job that no other job has, equal in all its processes.
///
/// # Errors
/// The launcher does not return the secret of the job, or there are no random numbers.
pub(crate) fn job_id(job: &Job) -> Result<JobId, DriverError> {
    let mut id = JobId::default();
    if job.size() == 1 {
        let error = |cause| DriverError { message: format!("no random numbers: {cause}") };
        sys::random::fill(&mut id).map_err(error)?;
        return Ok(id);
    }
    let mac = Hmac::<Sha256>::new_from_slice(&secret_of(job)?);
    let mut mac = mac.expect("keys of any length are taken");
    mac.update(b"name of the job");
    id.copy_from_slice(&mac.finalize().into_bytes()[..16]);
    Ok(id)
}

/// Returns a new secret, as hexadecimal digits.
fn new_secret() -> Result<String, StartError> {
    let mut secret: Secret = Default::default();
    let error = |cause| StartError { message: format!("no random numbers are available: {cause}") };
    sys::random::fill(&mut secret).map_err(error)?;
    Ok(secret.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the key under which each process publishes the card of a driver.
fn card_key(driver: &str) -> String {
    format!("combray-card-{driver}")
}

/// The keys under which rank 0 publishes the secret of the job, and the settings that all processes
/// follow.
const SECRET_KEY: &str = "combray-secret";
const GUIDANCE_KEY: &str = "combray-guidance";
/// The key under which rank 0 publishes, in large jobs, the parts of its machine in which all
/// processes of that machine run, and how far each NUMA node is from an interface.
const PARTS_KEY: &str = "combray-parts";

/// What a process publishes beside its place.
struct PublishedFacts<'a> {
    /// The card of each driver, with the name under which it is published.
    cards: &'a [(&'static str, String)],
    /// Where its rails are, if that matters.
    rail_localities: Option<&'a RailLocalities>,
    /// The result of [`node_distances`].
    node_distances: &'a [u32],
    /// The settings of this process, which count if it is rank 0.
    guidance: JobSettings,
}

/// Publishes where this process is and which cores it may use, and reads the places of the others.
/// Returns the map of the job and the settings of process 0.
fn publish(
    job: &Job,
    mapping: Option<&[u32]>,
    published: PublishedFacts<'_>,
) -> Result<(JobMap, JobSettings), StartError> {
    let PublishedFacts { cards, rail_localities, node_distances, guidance } = published;
    let allowed = cores::allowed();
    let size = job.size();
    if size == 1 {
        return Ok((JobMap::new(0, vec![0], |_| 1), guidance));
    }
    let own = PlaceOf {
        // A smaller number means a limit on processor time.
        usable: cores::usable().min(allowed.len()),
        together: configuration::cores_together(),
        parts: parts::own(&allowed),
        distance: rail_localities.and_then(RailLocalities::distance),
        switches: configuration::switches(),
        cores: allowed.into_iter().collect(),
    };
    let text = format!("{own} {}", drivers::machine_name()).replace(' ', "@");
    let is_near = |card: &&(&str, String)| card.0 == drivers::MACHINE;
    cards.iter().filter(is_near).for_each(|(_, card)| job.post_card(card));
    let cards = cards.iter().map(|(driver, card)| (card_key(driver), card.clone()));
    let mut values: Vec<(String, String)> = cards.collect();
    // A session that begins after `MPI_Finalize` may have to connect peers.
    values.iter().for_each(|(key, _)| job.cache(key, 0..size));
    job.cache(SECRET_KEY, 0..1);
    values.push((PLACE_KEY.into(), text));
    if job.rank() == 0 {
        values.push((SECRET_KEY.into(), new_secret()?));
        values.push((GUIDANCE_KEY.into(), guidance.to_text()));
    }
    if job.rank() == 0 && size > CARDS_READ_MAX {
        let distances = rail_localities::node_distances_to_text(node_distances);
        values.push((PARTS_KEY.into(), format!(":{}/{distances}", parts::pattern())));
    }
    let mut wanted = vec![(0, GUIDANCE_KEY.to_owned())];
    if let Some(mapping) = mapping {
        wanted.extend([(0, PLACE_KEY.to_owned()), (0, PARTS_KEY.to_owned())]);
        let lowest = mapping.iter().position(|machine| *machine == mapping[job.rank() as usize]);
        wanted.extend(lowest.zip(values.first()).map(|(rank, card)| (rank as u32, card.0.clone())));
    }
    job.publish(&values, &wanted)?;
    let reported = job.get(0, GUIDANCE_KEY)?;
    let guidance = JobSettings::from_text(&reported).ok_or_else(|| StartError {
        message: format!("process 0 runs another version of Combray: it sent \"{reported}\""),
    })?;
    if let Some(mapping) = mapping {
        let map = places::map_by_launcher(job, mapping, &own)?;
        let reported = job.get(0, PARTS_KEY)?;
        let reported = reported.trim_start_matches(':');
        let (pattern, distances) = reported.split_once('/').unwrap_or((reported, ""));
        let parts = parts::by_pattern(pattern, map.nodes());
        let distances = rail_localities::distances_by_node(distances, &parts);
        let map = map.with_parts(parts).with_distances(distances);
        return Ok((map.with_network(configuration::network()), guidance));
    }
    let map = places::map_by_places(&job.get_all(PLACE_KEY)?, job.rank());
    Ok((map.with_network(configuration::network()), guidance))
}

#[cfg(test)]
mod one_machine;
