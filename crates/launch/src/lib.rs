#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod allocation;
mod cards;
mod environment;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod inherited;
mod leaving;
pub mod mapping;
mod pmi1;
mod pmi2;
mod pmix;
pub mod questions;
pub mod rank_list;
pub mod reason;
mod singleton;
pub mod slurm;
pub mod spawning;
pub mod wanted;
mod wire;

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use cards::CardTable;
use environment::{FoundManager, ServerEndpoint};
use pmi1::Pmi1;
use pmi2::Pmi2;
use singleton::Singleton;
use sys::signals::without_signals;
use wanted::WantedSize;
use wire::{Version, Wire};

use self::pmix::Pmix;

/// This process's connection to its job. Clones share the connection, which one thread at a time
/// uses.
#[derive(Clone)]
pub struct Job {
    place: JobPlace,
    connection: Arc<Mutex<ManagerConnection>>,
}

struct ManagerConnection {
    manager: Box<dyn Manager>,
    /// The keys whose values are fetched before the exchange ends, and the ranks that publish them.
    to_cache: Vec<(String, Range<u32>)>,
    /// The values fetched at that moment. Many launchers do not answer after the exchange has
    /// ended.
    cached: Option<HashMap<(u32, String), String>>,
    /// The cards of the processes of this machine, if our own launcher has made a table of them.
    cards: Option<CardTable>,
}

/// In jobs of more processes than this, no values are fetched when the exchange ends.
const CACHED_RANKS_MAX: u32 = 64;

/// What a launcher reports about this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct JobPlace {
    rank: u32,
    size: u32,
    application_number: Option<u32>,
    universe_size: Option<u32>,
}

/// The services of a launcher for the processes of its job.
trait Manager: Send {
    /// Publishes a value of this process.
    fn put(&mut self, key: &str, value: &str) -> Result<(), JoinError>;

    /// Returns the value that the process `rank` published, if it did.
    fn get(&mut self, rank: u32, key: &str) -> Result<Option<String>, JoinError>;

    /// Publishes the values of this process under these keys. Afterwards each process sees what the
    /// others publish; [`get`](Self::get) may wait for it. This process will ask for the values
    /// `_wanted`, by rank and key.
    fn publish(
        &mut self,
        values: &[(String, String)],
        _wanted: &[(u32, String)],
    ) -> Result<(), JoinError> {
        values.iter().try_for_each(|(key, value)| self.put(key, value))?;
        self.barrier()
    }

    /// Whether [`get`](Self::get) waits until the value is published, so that processes need not
    /// wait for each other.
    fn waits_for_values(&self) -> bool {
        false
    }

    /// Whether the process `_rank` is known to have finalized or ended.
    fn has_left(&mut self, _rank: u32) -> bool {
        false
    }

    /// Returns the values that all processes published under `key`, in the order of ranks, if the
    /// launcher can send them at once.
    fn get_all(&mut self, _key: &str) -> Result<Option<Vec<String>>, JoinError> {
        Ok(None)
    }

    /// Whether values can be looked up after [`finalize`](Self::finalize).
    fn answers_after_finalize(&self) -> bool {
        false
    }

    /// Begins the exchange again after [`finalize`](Self::finalize). Returns whether the launcher
    /// allows that.
    fn rejoin(&mut self) -> Result<bool, JoinError> {
        Ok(false)
    }

    /// Waits for all processes of the job. Afterwards each process sees what the others have
    /// published.
    fn barrier(&mut self) -> Result<(), JoinError>;

    /// Enters the barrier without waiting, if the launcher allows that.
    fn enter_barrier(&mut self) -> Result<(), JoinError> {
        Ok(())
    }

    /// Waits at most `_patience`, if the launcher allows that, until all processes have entered the
    /// barrier. Returns whether they have.
    fn leave_barrier(&mut self, _patience: Duration) -> Result<bool, JoinError> {
        self.barrier().map(|()| true)
    }

    /// Ends the exchange with the launcher.
    fn finalize(&mut self) -> Result<(), JoinError>;

    /// Returns the launcher's name of the job, equal in all its processes. Empty: the job has no
    /// name.
    fn job_name(&self) -> String;

    /// Asks the launcher to end the whole job. A failure is not reported: no other process could
    /// act on it.
    fn abort(&mut self, code: i32);

    /// Asks the launcher to end the whole job, for a reason which the launcher shows to the user.
    /// Returns false if the launcher cannot show reasons; then the caller must use
    /// [`abort`](Self::abort).
    fn abort_for(&mut self, _code: i32, _reason: &str) -> bool {
        false
    }

    /// Asks the launcher to end some processes. Returns whether the launcher can do that.
    fn abort_some(&mut self, _ranks: &[u32], _code: i32) -> bool {
        false
    }

    /// Whether some processes of the job were ended while the others go on.
    fn lacks_processes(&mut self) -> bool {
        false
    }

    /// Whether the process `_rank` of the job was ended while others go on.
    fn has_ended(&mut self, _rank: u32) -> bool {
        false
    }

    /// Returns the processes of the job that were ended while the others go on, in ascending order.
    fn ended_ranks(&mut self) -> Vec<u32> {
        Vec::new()
    }

    /// Returns how many processes the user has asked for; the job has `_size` processes now.
    fn wanted_size(&mut self, _size: u32) -> Result<Option<WantedSize>, JoinError> {
        Ok(None)
    }

    /// Calls `_gone` on another thread when the launcher is gone, unless the kernel ends this
    /// process in that case.
    fn when_gone(&self, _gone: fn()) {}

    /// Returns the number of the machine of each rank, if the launcher knows it.
    fn machines(&mut self) -> Result<Option<Vec<u32>>, JoinError>;
}

/// The keyword with which a process that aborts names the ranks to be ended. Launchers that do not
/// know it end the whole job.
pub const ABORTED_RANKS: &str = "combray_ranks";

/// The keyword with which a process that aborts gives the reason, encoded by [`reason::encode`].
pub const ABORT_REASON: &str = "combray_reason";

/// The name of the process that starts the ranks of a machine, as `ps` shows it.
pub const SUPERVISOR: &str = "job-supervisor";

/// The name of the key space of jobs of our own launcher.
pub const OWN_SPACE: &str = "combray";

/// The beginning of the keys under which our own launcher returns the values of all ranks at once:
/// `combray-all-card` for `card-0`, `card-1` and so on, in order, with [`SEPARATOR`] between them.
/// It has no such value if a rank has not published its own, or if all are too long for one value.
pub const ALL_PREFIX: &str = "combray-all-";

/// The command of our own launcher that stores all values of a process at once: the words after it
/// are its keys, without rank, and their values.
pub const PUBLISH: &str = "publish";

/// The keyword of a request for a value that names the rank which publishes the value, or
/// [`ALL_PUBLISHERS`]. Our own launcher answers it when the value is there, or when that process
/// has published its values or ended.
pub const PUBLISHER: &str = "publisher";

/// Stands for all ranks after [`PUBLISHER`].
pub const ALL_PUBLISHERS: &str = "all";

/// The keyword with which a process that finalizes does not wait for an answer.
pub const UNANSWERED: &str = "unanswered";

/// The beginning of the keys that our own launcher has for ranks that have finalized or ended.
pub const LEFT_PREFIX: &str = "combray-left-";

/// What is between the values of a key with [`ALL_PREFIX`]. It is no white space, which would end a
/// word of PMI-1.
pub const SEPARATOR: char = '\u{1f}';

/// The key that exists where the launcher shows the user why a process aborts.
pub const REASONS_KEY: &str = "combray-reasons";

/// The key that exists when some processes of the job were ended and the others go on. For each
/// ended process, the key with `-` and its rank appended exists too.
pub const ENDED_KEY: &str = "combray-ended";

/// The key of the list of these processes, such as `0-3,7`. It does not exist if the list is too
/// long for a value.
pub const ENDED_RANKS_KEY: &str = "combray-ended-ranks";

/// The beginning of the key under which our own launcher returns how many processes the user has
/// asked for, as a [`WantedSize`]; `-` and the current number of processes follow. There is no
/// value if the user has asked for nothing.
pub const WANTED_KEY: &str = "combray-wanted";

/// Why a process cannot join its job, or why the launcher does not answer as it must.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinError {
    message: String,
}

impl JoinError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// The launcher did not answer.
    fn gone(cause: &str) -> Self {
        Self::new(format!("the launcher no longer answers: {cause}"))
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for JoinError {}

/// Joins the job that the environment describes. Without a launcher, creates a job of this process
/// alone.
///
/// # Errors
/// There is a launcher that started several processes, but none that this process can connect to:
/// each process would run as a job of its own. Or the launcher's answers make no sense.
pub fn join() -> Result<Job, JoinError> {
    let mut job = match environment::find(sys::environment::text)? {
        FoundManager::Alone => {
            singleton::report_if_launched();
            Ok(Job::new(Singleton::PLACE, Singleton::default()))
        }
        FoundManager::Pmi(server, versions) => join_pmi(&server, versions),
        FoundManager::PmiOrPmix(server, versions) => {
            // The PMIx launcher may have been started by a PMI launcher that has ended since.
            join_pmi(&server, versions).or_else(|_| join_pmix())
        }
        FoundManager::Pmix => join_pmix(),
    }?;
    job.connection().manager.when_gone(leaving::end_without_launcher);
    job.note_allocation(sys::environment::text);
    if job.waits_for_values() {
        job.connection().cards = questions::launcher_cards();
    }
    Ok(job)
}

/// Returns the number of processes of the job, if the launcher's variables state it before the job
/// is joined.
pub fn announced_size() -> Option<u32> {
    match environment::find(sys::environment::text).ok()? {
        FoundManager::Alone => Some(1),
        FoundManager::Pmi(ServerEndpoint::Descriptor { size, .. }, _)
        | FoundManager::PmiOrPmix(ServerEndpoint::Descriptor { size, .. }, _) => Some(size),
        FoundManager::Pmi(..) | FoundManager::PmiOrPmix(..) | FoundManager::Pmix => None,
    }
}

fn join_pmix() -> Result<Job, JoinError> {
    let (place, manager) = Pmix::join()?;
    Ok(Job::new(place, manager))
}

fn join_pmi(server: &ServerEndpoint, versions: [Version; 2]) -> Result<Job, JoinError> {
    match server {
        ServerEndpoint::Descriptor { number, rank, size, job } => {
            join_greeted(Wire::new(connection(*number)?)?, *rank, *size, job, versions)
        }
        ServerEndpoint::Port { address, id } => {
            let mut wire = Wire::new(connection_to(address)?)?;
            let (rank, size) = wire.introduce(id)?;
            join_greeted(wire, rank, size, "", versions)
        }
    }
}

/// Joins the job with the first version of PMI that the launcher speaks.
fn join_greeted(
    mut wire: Wire,
    rank: u32,
    size: u32,
    job: &str,
    versions: [Version; 2],
) -> Result<Job, JoinError> {
    for version in versions {
        let Some(greeting) = wire.greet(version)? else { continue };
        return match version {
            Version::One => {
                Pmi1::join(wire, (rank, size), greeting).map(|(place, pmi)| Job::new(place, pmi))
            }
            Version::Two => Pmi2::join(wire, rank, job).map(|(place, pmi)| Job::new(place, pmi)),
        };
    }
    Err(JoinError::new("the launcher speaks neither version 1 nor version 2 of PMI"))
}

/// Connects to the address at which a launcher listens.
fn connection_to(address: &str) -> Result<File, JoinError> {
    let stream = TcpStream::connect(address).map_err(|cause| {
        JoinError::new(format!(
            "PMI_PORT is {address}, where no launcher answers: {cause}. To run the program alone, \
             unset PMI_PORT"
        ))
    })?;
    Ok(File::from(OwnedFd::from(stream)))
}

/// Returns the connection that the launcher left open at this descriptor.
fn connection(descriptor: i32) -> Result<File, JoinError> {
    let error = |cause: &str| {
        JoinError::new(format!(
            "PMI_FD is {descriptor}, which is not an open connection to a launcher: {cause}. Was \
             the program started by another program or script that closes descriptors? To run the \
             program alone, unset PMI_FD and PMI_SIZE"
        ))
    };
    let stream = sys::descriptor::adopt(descriptor).map_err(|cause| error(&cause.to_string()))?;
    let kind = stream.metadata().map_err(|cause| error(&cause.to_string()))?.file_type();
    if kind.is_socket() || kind.is_fifo() {
        return Ok(stream);
    }
    // The descriptor belongs to other code of this process, so it must stay open.
    let _ = stream.into_raw_fd();
    Err(error("something else is open there"))
}

impl Job {
    fn new(place: JobPlace, manager: impl Manager + 'static) -> Self {
        let manager = Box::new(manager);
        let connection =
            ManagerConnection { manager, to_cache: Vec::new(), cached: None, cards: None };
        Self { place, connection: Arc::new(Mutex::new(connection)) }
    }

    /// Takes all slots of the allocation for those that the launcher could use. Slurm reports those
    /// of the step, which are as many as its processes, and other launchers report none; our own
    /// launcher knows better.
    fn note_allocation(&mut self, variable: impl Fn(&str) -> Option<String>) {
        // Only our own launcher makes requests for values wait.
        let is_own = self.waits_for_values();
        if !is_own && let Some(slots) = allocation::all_slots(variable) {
            self.place.universe_size = Some(slots.max(self.place.size));
        }
    }

    fn connection(&self) -> MutexGuard<'_, ManagerConnection> {
        // A thread that panicked with the lock held leaves a usable connection.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the rank of this process in the job.
    pub fn rank(&self) -> u32 {
        self.place.rank
    }

    /// Returns the number of processes of the job.
    pub fn size(&self) -> u32 {
        self.place.size
    }

    /// Returns the launcher's name of the job, equal in all its processes. Empty: the job has no
    /// name.
    pub fn name(&self) -> String {
        self.connection().manager.job_name()
    }

    /// Returns the number of this process's program in a job of several programs.
    pub fn application_number(&self) -> Option<u32> {
        self.place.application_number
    }

    /// Returns how many processes the launcher could run (`MPI_UNIVERSE_SIZE`).
    pub fn universe_size(&self) -> Option<u32> {
        self.place.universe_size
    }

    /// Returns the number of the machine on which each rank runs, if the launcher reports it.
    ///
    /// # Errors
    /// The launcher's report makes no sense, or the launcher is gone.
    pub fn process_mapping(&self) -> Result<Option<Vec<u32>>, JoinError> {
        self.connection().manager.machines()
    }

    /// Publishes a value of this process, which the others see after the next
    /// [`barrier`](Self::barrier).
    ///
    /// # Errors
    /// Key or value are too long for the launcher or contain blanks; or the launcher is gone.
    pub fn put(&self, key: &str, value: &str) -> Result<(), JoinError> {
        self.connection().manager.put(key, value)
    }

    /// Publishes all values of this process, keys and values. Afterwards each process sees what the
    /// others publish, for which [`get`](Self::get) waits. This process will ask for the values
    /// `wanted`, by rank and key, and may receive them now.
    ///
    /// # Errors
    /// A key or value is too long for the launcher or contains blanks; or the launcher is gone.
    pub fn publish(
        &self,
        values: &[(String, String)],
        wanted: &[(u32, String)],
    ) -> Result<(), JoinError> {
        self.connection().manager.publish(values, wanted)
    }

    /// Whether [`publish`](Self::publish) and [`get`](Self::get) do without a meeting of all
    /// processes.
    pub fn waits_for_values(&self) -> bool {
        self.connection().manager.waits_for_values()
    }

    /// Whether the process `rank` is known to have finalized or ended.
    pub fn has_left(&self, rank: u32) -> bool {
        self.connection().manager.has_left(rank)
    }

    /// Returns the value that the process `rank` published.
    ///
    /// # Errors
    /// The process did not publish it, or the launcher is gone.
    pub fn get(&self, rank: u32, key: &str) -> Result<String, JoinError> {
        let missing = || JoinError::new(format!("rank {rank} of the job published no {key}"));
        let mut connection = self.connection();
        let connection = &mut *connection;
        let Some(kept) = &connection.cached else {
            return connection.manager.get(rank, key)?.ok_or_else(missing);
        };
        if let Some(value) = kept.get(&(rank, key.to_owned())) {
            return Ok(value.clone());
        }
        // After `finalize`, our own launcher still answers.
        let asked = connection.manager.get(rank, key).map_err(|cause| {
            JoinError::new(format!(
                "this process has disconnected from its launcher and cannot look up where rank \
                 {rank} runs: keep a session open from before MPI_Finalize, or start the program \
                 with \"combray run\" ({cause})"
            ))
        });
        asked?.ok_or_else(missing)
    }

    /// Posts the card by which the other processes of this machine reach this one, if our own
    /// launcher has made a table of cards. To be called once, before [`publish`](Self::publish).
    pub fn post_card(&self, card: &str) {
        if let Some(cards) = &mut self.connection().cards {
            cards.post(self.rank(), card);
        }
    }

    /// Returns the card that the process `rank` of this machine has posted, without asking the
    /// launcher; none if that process is elsewhere, or has not posted a card.
    pub fn posted_card(&self, rank: u32) -> Option<String> {
        self.connection().cards.as_ref()?.card(rank)
    }

    /// Returns the values that all processes published under `key`, in the order of ranks. Our own
    /// launcher is asked once, others once for each process.
    ///
    /// # Errors
    /// A process did not publish its value, or the launcher is gone.
    pub fn get_all(&self, key: &str) -> Result<Vec<String>, JoinError> {
        let all = self.connection().manager.get_all(key)?;
        match all.filter(|all| all.len() == self.size() as usize) {
            Some(all) => Ok(all),
            None => (0..self.size()).map(|rank| self.get(rank, key)).collect(),
        }
    }

    /// Waits for all processes of the job.
    ///
    /// # Errors
    /// The launcher is gone.
    pub fn barrier(&self) -> Result<(), JoinError> {
        self.connection().manager.barrier()
    }

    /// Enters the barrier of all processes of the job, and calls `meanwhile` until all are there,
    /// in intervals that double from the first one to the longest one; with other launchers than
    /// our own, never.
    ///
    /// # Errors
    /// The launcher is gone.
    pub fn barrier_with(
        &self,
        (mut interval, longest): (Duration, Duration),
        mut meanwhile: impl FnMut(),
    ) -> Result<(), JoinError> {
        self.connection().manager.enter_barrier()?;
        while !self.connection().manager.leave_barrier(interval)? {
            meanwhile();
            interval = longest.min(2 * interval);
        }
        Ok(())
    }

    /// Waits for all processes of the job on another thread, if the system has one. `wait` runs
    /// meanwhile on this thread; it must return when the function that it is given returns true,
    /// which means that all processes are here.
    ///
    /// # Errors
    /// The launcher is gone.
    pub fn barrier_beside(&self, wait: impl FnOnce(&dyn Fn() -> bool)) -> Result<(), JoinError> {
        thread::scope(|scope| {
            let builder = thread::Builder::new().name("combray-barrier".into());
            let meet = || builder.spawn_scoped(scope, || self.barrier());
            let Ok(meeting) = without_signals(meet) else { return self.barrier() };
            wait(&|| meeting.is_finished());
            meeting.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Keeps the values that `ranks` publish under `key` available after
    /// [`finalize`](Self::finalize), with any launcher, in jobs of at most 64 processes. These
    /// processes must have published them before `finalize`.
    pub fn cache(&self, key: &str, ranks: Range<u32>) {
        self.connection().to_cache.push((key.to_owned(), ranks));
    }

    /// Ends the exchange with the launcher.
    ///
    /// # Errors
    /// The launcher is gone.
    pub fn finalize(&self) -> Result<(), JoinError> {
        let mut connection = self.connection();
        let connection = &mut *connection;
        let mut kept = HashMap::new();
        let is_needed =
            self.size() <= CACHED_RANKS_MAX && !connection.manager.answers_after_finalize();
        let to_keep = if is_needed { &connection.to_cache[..] } else { &[] };
        for (key, ranks) in to_keep {
            for rank in ranks.clone() {
                if let Some(value) = connection.manager.get(rank, key)? {
                    kept.insert((rank, key.clone()), value);
                }
            }
        }
        connection.cached = Some(kept);
        leaving::leave();
        connection.manager.finalize()
    }

    /// Begins the exchange with our own launcher again after [`finalize`](Self::finalize). Returns
    /// false under other launchers, which do not allow that.
    ///
    /// # Errors
    /// The launcher is gone.
    pub fn rejoin(&self) -> Result<bool, JoinError> {
        let mut connection = self.connection();
        let has_rejoined = connection.manager.rejoin()?;
        if has_rejoined {
            connection.cached = None;
            leaving::rejoin();
        }
        Ok(has_rejoined)
    }

    /// Asks the launcher to end the whole job, and shows the user the reason once: through the
    /// launcher if it can show reasons, otherwise on the standard error. The caller ends its own
    /// process.
    pub fn abort(&self, code: i32, reason: &str) {
        let reason = &base::without_error_numbers(reason);
        leaving::leave();
        let mut connection = self.connection();
        if !connection.manager.abort_for(code, reason) {
            // One write, as other processes may end the job at the same time.
            let line = format!("combray: {reason}\n");
            eprint!("{line}");
            connection.manager.abort(code);
        }
    }

    /// Asks the launcher to end some processes of the job, among them this one, and no others. A
    /// launcher that cannot do that ends the whole job. The caller has shown the user the reason.
    pub fn abort_some(&self, ranks: &[u32], code: i32) {
        leaving::leave();
        let mut connection = self.connection();
        if !connection.manager.abort_some(ranks, code) {
            connection.manager.abort(code);
        }
    }

    /// Returns how many processes the user has asked for, if the launcher is ours and the user has
    /// asked. The launcher shows the user that the job has `size` processes now.
    ///
    /// # Errors
    /// The launcher is gone.
    pub fn wanted_size(&self, size: u32) -> Result<Option<WantedSize>, JoinError> {
        self.connection().manager.wanted_size(size)
    }

    /// Whether some processes of the job were ended while the others go on.
    pub fn lacks_processes(&self) -> bool {
        self.connection().manager.lacks_processes()
    }

    /// Returns the processes of the job that were ended while the others go on, in ascending order.
    pub fn ended_ranks(&self) -> Vec<u32> {
        self.connection().manager.ended_ranks()
    }

    /// Whether the process `rank` of the job was ended while the others go on.
    pub fn has_ended(&self, rank: u32) -> bool {
        self.connection().manager.has_ended(rank)
    }
}

#[cfg(test)]
mod tests;
