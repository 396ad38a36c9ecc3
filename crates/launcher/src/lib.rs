#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod access;
mod agent;
mod agent_connection;
pub mod binary;
pub mod binding;
mod early_trace;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod guard;
mod heartbeats;
pub mod job;
pub mod jobs;
pub mod launch_tree;
pub mod libraries;
mod lines;
mod local;
mod local_processes;
mod output;
mod output_queues;
mod parent_link;
mod placement;
mod pmi_server;
mod preview;
mod process_table;
mod program;
pub mod protocol;
pub mod rank_slots;
pub mod rankfile;
mod slot_table;
mod spawned;
mod supervisor;
mod terminal_input;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

pub use access::{HostAccess, OwnHost};
use binding::{Oversubscription, Policy};
pub use early_trace::TraceTarget;
use guard::Source;
pub use local::{host_name, is_this_machine};
pub use local_processes::ranks_within;
pub use output::{LineTag, OutputForm};
pub use parent_link::ParentLink;
pub use placement::{Host, is_host_name, slots};
use placement::{HostAssignment, HostRequest};
pub use preview::{Preview, preview};
use rank_slots::RankSlots;
use rankfile::RankPlace;
pub use slot_table::{SlotTable, WithoutSlot};
pub use spawned::{
    AddressedOrder, Claim, SlotExpectation, SpawnedMessage, SpawnedNotice, SpawnedOrder,
    SpawnedOrigin, SpawnedSummary,
};
use supervisor::input_source::InputSource;
use sys::cores;
use terminal_input::TerminalInput;
use topology::HostNetwork;

/// A job to run.
#[derive(Clone, Debug, Default)]
pub struct JobPlan {
    /// The programs, in the order of their ranks.
    pub applications: Vec<Application>,
    /// Whether the other processes go on when one has failed.
    pub keep_going: bool,
    /// What happens to the output of processes.
    pub output: OutputForm,
    /// The time limit of the job.
    pub timeout: Option<Duration>,
    /// The time without progress of any rank after which the job is ended.
    pub stall: Option<Duration>,
    /// A host from which nothing was received for this long counts as failed; none:
    /// [`base::variables::HOST_TIMEOUT_DEFAULT`].
    pub host_timeout: Option<Duration>,
    /// For how long after the start of the job a host that cannot be reached is tried again.
    pub host_wait: Duration,
    /// How the agents of other hosts are started.
    pub access: HostAccess,
    /// How many agents the launcher, and each agent, starts at most; none: as many as let all be
    /// ready earliest.
    pub launch_width: Option<NonZeroUsize>,
    /// The network between the hosts, if the user has described it.
    pub network: Option<HostNetwork>,
    /// Whether more processes than slots may be started.
    pub oversubscribe: bool,
    /// Whether the hosts get one process each in turn, instead of being filled one after the other.
    pub in_turn: bool,
    /// How the processes of a machine are bound. By default each to its share of the machine, if
    /// hwloc is available.
    pub policy: Policy,
    /// Whether each process reports where it is bound.
    pub reports_bindings: bool,
    /// Whether the variables are reported that are set for pools of threads.
    pub reports_pools: bool,
    /// The place of each rank, which overrides the hosts of the programs. Empty: no rankfile was
    /// given.
    pub rankfile: Vec<RankPlace>,
    /// The hardware threads of the processes of each machine in turn, if the user lists them.
    pub listed_slots: Vec<RankSlots>,
    /// The hosts of the job whose processes have spawned this one. Empty: it was not spawned, or
    /// that job has no such hosts.
    pub slot_table: SlotTable,
    /// The trace that the user wants of the job.
    pub trace: Option<TraceTarget>,
    /// Opens what the processes may not open themselves; none: nothing is opened for them.
    pub open_ahead: Option<OpenAhead>,
}

/// Opens what the processes of this machine need a privilege for that the launcher may have. The
/// first argument is the user's configuration of networks, the second the number of processes of
/// this machine, in a job of several machines. Returns what was opened for each process, in order;
/// there may be fewer entries than processes.
pub type OpenAhead = fn(&str, usize) -> Vec<OpenedAhead>;

/// What was opened for a process: a text that describes it, and the descriptors, which the process
/// inherits under these numbers.
pub type OpenedAhead = (String, Vec<OwnedFd>);

fn open_nothing(_: &str, _: usize) -> Vec<OpenedAhead> {
    Vec::new()
}

impl JobPlan {
    /// Returns what the programs request of hosts.
    fn host_requests(&self) -> Vec<HostRequest<'_>> {
        let requests = self.applications.iter().map(|application| HostRequest {
            processes: application.processes,
            hosts: &application.hosts,
            per_host: application.per_host,
            oversubscribe: self.oversubscribe,
            in_turn: self.in_turn,
        });
        requests.collect()
    }

    /// Returns the host of each process.
    fn placement(&self) -> Result<HostAssignment, LaunchError> {
        let is_local = |host: &str| self.access.is_direct(host);
        let placement = if self.rankfile.is_empty() {
            placement::place(&self.host_requests(), self.slot_table.taken(), is_local)
        } else {
            let processes = self.applications.iter().map(|app| app.processes as usize).sum();
            rankfile::placement(&self.rankfile, processes, is_local)
        };
        placement.and_then(HostAssignment::checked).map_err(LaunchError::new)
    }

    /// Whether the job is a single process on this machine whose output nobody changes or copies.
    fn is_alone_here(&self) -> bool {
        let is_single = matches!(self.applications[..], [Application { processes: 1, .. }]);
        is_single
            && self.output == OutputForm::default()
            && self.placement().is_ok_and(|placement| placement.hosts == [None])
    }

    /// Returns the hardware threads that the user has chosen for a rank, which is the process with
    /// number `local_rank` of its machine.
    fn chosen_slots(&self, rank: usize, local_rank: usize) -> Option<RankSlots> {
        let listed = || self.listed_slots.iter().cycle().nth(local_rank).cloned();
        self.rankfile.get(rank).and_then(|place| place.slots.clone()).or_else(listed)
    }

    /// Whether processes share slots with others, for lack of free ones.
    pub fn shares_slots(&self) -> bool {
        self.oversubscribe && self.lacks_slots()
    }

    /// Whether there are fewer free slots than processes.
    pub fn lacks_slots(&self) -> bool {
        Self { oversubscribe: false, ..self.clone() }.placement().is_err()
    }

    /// Returns the slots of the job's hosts after its processes have got their places, and for each
    /// process the name of the host whose slot it has.
    fn slots_after(&self, placement: &HostAssignment) -> (SlotTable, Vec<Option<String>>) {
        let is_local = |host: &str| self.access.is_direct(host);
        let mut table = self.slot_table.clone();
        if table.is_empty() {
            for application in &self.applications {
                let hosts = &application.hosts;
                // A single host without a number of slots is meant for all processes.
                let has_slots = hosts.len() > 1 || hosts.iter().any(|host| host.slots.is_some());
                if has_slots || application.per_host.is_some() {
                    let elsewhere = |host: &Host| Host {
                        name: slot_table::name_elsewhere(&host.name, &local::host_name(), is_local),
                        ..host.clone()
                    };
                    let hosts: Vec<Host> = hosts.iter().map(elsewhere).collect();
                    table.add(&hosts, application.per_host.unwrap_or(1));
                }
            }
            if self.policy.oversubscription == Oversubscription::Refused {
                table.without_slot = WithoutSlot::Refuse;
                if table.is_empty() && placement.hosts == [None] {
                    let here = Host { name: local::host_name(), slots: None, slots_max: None };
                    table.add(&[here], cores::usable() as u32);
                }
            }
        }
        let taken = table.take(placement, is_local);
        (table, taken)
    }

    /// Returns the command line of the job, for users.
    fn command_line(&self) -> String {
        let line = |application: &Application| {
            let mut words = vec![application.program.to_string_lossy().into_owned()];
            words.extend(application.arguments.iter().map(|word| word.to_string_lossy().into()));
            words.join(" ")
        };
        self.applications.iter().map(line).collect::<Vec<_>>().join(" : ")
    }
}

/// One program of a job.
#[derive(Clone, Debug, Default)]
pub struct Application {
    /// The program, with or without folder.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The number of its processes.
    pub processes: u32,
    /// Variables that are set for it.
    pub variables: HashMap<OsString, OsString>,
    /// The folder in which it starts; none: the launcher's.
    pub folder: Option<PathBuf>,
    /// The hosts on which it runs; none: this machine.
    pub hosts: Vec<Host>,
    /// The number of its processes on each host; none: as many as the host has slots.
    pub per_host: Option<u32>,
}

/// Why a job cannot be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchError {
    message: String,
}

impl LaunchError {
    fn new(message: String) -> Self {
        Self { message }
    }

    fn of_program(program: &OsStr, cause: &io::Error) -> Self {
        let advice = advice_on(cause);
        Self::new(format!("{} cannot be started: {cause}{advice}", program.display()))
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Returns advice on what to do if a resource of the system is exhausted.
fn advice_on(cause: &io::Error) -> String {
    if !sys::lacks_descriptors(cause) {
        return String::new();
    }
    let advice = "; raise the limit of open files (ulimit -n)";
    match sys::process::DescriptorLimit::read() {
        Ok(limit) => {
            let ranks = ranks_within(limit.hard);
            format!("{advice}: {} are enough for {ranks} processes here", limit.hard)
        }
        Err(_) => advice.to_owned(),
    }
}

impl std::error::Error for LaunchError {}

impl From<io::Error> for LaunchError {
    fn from(cause: io::Error) -> Self {
        Self::new(format!("the job cannot continue: {cause}{}", advice_on(&cause)))
    }
}

/// Runs a job to its end. Returns the exit code for the launcher: 0, the exit code of the first
/// process that failed, or 128 plus the number of the signal that killed it.
///
/// # Errors
/// There are not enough slots, a program does not exist or cannot be run, or no connection to a
/// host can be attempted. Nothing was started then.
pub fn run(plan: &JobPlan) -> Result<i32, LaunchError> {
    let is_handed_over = plan.is_alone_here() && terminal_input::is_ours();
    let (keyboard, input) = match is_handed_over {
        true => (TerminalInput::none(), InputSource::Terminal),
        false => TerminalInput::open()?,
    };
    let launcher = std::process::id();
    // If the system lacks what the table needs, debuggers get no table.
    let (reader, writer) = process_table::open().ok().unzip();
    let code = guard::run_guarded(Source::User, (keyboard, reader), |guard, signals| {
        supervisor::supervise(plan, (launcher, guard), signals, (input, writer), None)
    });
    if is_handed_over {
        terminal_input::take_back();
    }
    code
}

/// Runs a job that a process of another job has spawned, to its end. `origin` reports to that
/// process whether the job has started. The job ends with it while the two jobs are connected.
/// Returns the exit code.
///
/// # Errors
/// Those of [`run`], which are also reported to the process.
pub fn run_spawned(plan: &JobPlan, origin: SpawnedOrigin) -> Result<i32, LaunchError> {
    let launcher = std::process::id();
    let (reader, writer) = process_table::open().ok().unzip();
    guard::run_guarded(Source::User, (TerminalInput::none(), reader), |guard, signals| {
        let identity = (launcher, guard);
        let input = InputSource::Nothing;
        supervisor::supervise(plan, identity, signals, (input, writer), Some(origin))
    })
}

/// Returns 128 random bits in hexadecimal digits.
fn random_name() -> io::Result<String> {
    let mut bytes = [0; 16];
    sys::random::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// Serves, as the agent of this machine, the launcher at the other end of standard input and
/// output, until nothing has been received from it for `timeout`. Returns the exit code.
/// `open_ahead` opens what the processes here may not open themselves.
///
/// # Errors
/// What the launcher sends makes no sense, or the system lacks a resource.
pub fn serve_as_agent(timeout: Duration, open_ahead: OpenAhead) -> Result<i32, LaunchError> {
    let terminal = TerminalInput::none();
    guard::run_guarded(Source::Launcher, (terminal, None), |_, signals| {
        agent::serve(signals, timeout, open_ahead)
    })
}

/// Whether a descriptor whose reading or writing failed with this error may succeed later.
fn is_no_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
