//! Starting the processes of a job, and seeing to it that nothing is left of it.
//!
//! [`run`] is the launcher that a user starts, and [`serve_as_agent`] its helper on another
//! machine. Between a process and the launcher stands PMI-1, between launcher and agent a protocol
//! of our own; both are state machines without I/O. A process joins its job by the crate `launch`.
//!
//! Three processes watch over a job. The *supervisor* is the parent of the ranks on this machine;
//! it forwards output and signals and serves PMI-1. The *launcher* is what the user started, the
//! *guard* stands between them: `guard` tells how nothing survives, whichever of them is killed.
//!
//! On each other machine stands an *agent*, three such processes again, which the supervisor
//! reaches over ssh. What starts and ends the ranks of one machine is the same code here and there:
//! `local_processes`.

#![forbid(unsafe_code)]

mod access;
mod agent;
mod agent_connection;
pub mod binary;
pub mod binding;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod guard;
mod heartbeats;
pub mod jobs;
pub mod libraries;
mod lines;
mod local;
mod local_processes;
mod other_launchers;
mod outlets;
mod output;
mod placement;
mod pmi_server;
mod preview;
mod process_table;
mod program;
mod protocol;
pub mod rankfile;
mod supervisor;
mod terminal_input;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

pub use access::{HostAccess, OwnHost};
use binding::Policy;
use guard::Source;
pub use local::is_this_machine;
pub use local_processes::ranks_within;
pub use output::{LineTag, OutputForm};
pub use placement::{Host, is_host_name, slots};
use placement::{HostAssignment, HostRequest};
pub use preview::{Preview, preview};
use rankfile::RankPlace;
use terminal_input::TerminalInput;

/// A job to run.
#[derive(Clone, Debug, Default)]
pub struct JobPlan {
    /// The programs, in the order of their ranks.
    pub applications: Vec<Application>,
    /// Whether the other processes go on when one has failed.
    pub keep_going: bool,
    /// What becomes of what processes write.
    pub output: OutputForm,
    /// After how long the job is ended.
    pub timeout: Option<Duration>,
    /// After how long the job is ended in which no rank goes on.
    pub stall: Option<Duration>,
    /// After how long without anything received a host is lost; none: after
    /// [`base::variables::HOST_TIMEOUT_DEFAULT`].
    pub host_timeout: Option<Duration>,
    /// How the agents of other hosts are started.
    pub access: HostAccess,
    /// Whether more processes than slots may be started.
    pub oversubscribe: bool,
    /// Whether processes go to one host after the other in turn, instead of filling each.
    pub in_turn: bool,
    /// How the processes of a machine are bound. By default each to its share of the machine, if
    /// hwloc is there.
    pub policy: Policy,
    /// Whether each process reports where it is bound.
    pub reports_bindings: bool,
    /// By rank: where it runs, whatever the programs ask of hosts. Empty: nobody has said.
    pub rankfile: Vec<RankPlace>,
    /// Opens what the processes may not; none: nothing is opened for them.
    pub open_ahead: Option<OpenAhead>,
}

/// Opens, for so many processes of this machine in a job of several machines, what they need a
/// privilege for that the launcher may have; what the person says about networks comes first. By
/// process; none for those that have to do without.
pub type OpenAhead = fn(&str, usize) -> Vec<OpenedAhead>;

/// What was opened for a process: a text that tells it what it has, and the descriptors, which it
/// has under the same numbers.
pub type OpenedAhead = (String, Vec<OwnedFd>);

fn open_nothing(_: &str, _: usize) -> Vec<OpenedAhead> {
    Vec::new()
}

impl JobPlan {
    /// What the programs ask of hosts.
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

    /// The host of each process.
    fn placement(&self) -> Result<HostAssignment, LaunchError> {
        let is_local = |host: &str| self.access.is_direct(host);
        let placement = if self.rankfile.is_empty() {
            placement::place(&self.host_requests(), is_local)
        } else {
            let processes = self.applications.iter().map(|app| app.processes as usize).sum();
            rankfile::placement(&self.rankfile, processes, is_local)
        };
        placement.map_err(LaunchError::new)
    }
}

/// One program of a job.
#[derive(Clone, Debug, Default)]
pub struct Application {
    /// The program, with or without folder.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// How many processes of it.
    pub processes: u32,
    /// Variables set for it.
    pub variables: HashMap<OsString, OsString>,
    /// The folder in which it starts; none: the launcher's.
    pub folder: Option<PathBuf>,
    /// The hosts on which it runs; none: this machine.
    pub hosts: Vec<Host>,
    /// How many of its processes run on each host; none: as many as the host has slots.
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

/// What to do where the system refuses more of something.
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
        Self::new(format!("the job cannot go on: {cause}{}", advice_on(&cause)))
    }
}

/// Runs a job to its end and returns the exit code for the launcher: 0, that of the first process
/// that failed, or 128 and the number of the signal that killed it.
///
/// # Errors
/// There are not enough slots, a program does not exist or cannot be run, or no connection to a
/// host can be tried; nothing was started then.
pub fn run(plan: &JobPlan) -> Result<i32, LaunchError> {
    let (keyboard, typed) = TerminalInput::open()?;
    let launcher = std::process::id();
    // Where the system has not what it takes, debuggers learn nothing.
    let (reader, writer) = process_table::open().ok().unzip();
    guard::run_guarded(Source::User, (keyboard, reader), |guard, signals| {
        supervisor::supervise(plan, (launcher, guard), signals, (typed, writer))
    })
}

/// Serves, as the agent of this machine, the launcher at the other end of standard input and
/// output, until nothing has come from it for `timeout`; returns the exit code. `open_ahead` opens
/// what the processes here may not.
///
/// # Errors
/// What comes from the launcher makes no sense, or the system has not what is needed.
pub fn serve_as_agent(timeout: Duration, open_ahead: OpenAhead) -> Result<i32, LaunchError> {
    let terminal = TerminalInput::none();
    guard::run_guarded(Source::Launcher, (terminal, None), |_, signals| {
        agent::serve(signals, timeout, open_ahead)
    })
}

/// Whether more may come later from a descriptor whose reading or writing failed so.
fn is_no_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
