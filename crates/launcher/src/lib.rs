//! Starting the processes of a job, and seeing to it that nothing is left of it.
//!
//! [`run`] is the launcher that a user starts, and [`serve_as_agent`] its helper on another
//! machine. Between a process and the launcher stands PMI-1, between launcher and agent a protocol
//! of our own; both are state machines without I/O. A process joins its job by the crate `launch`.
//!
//! Two processes watch over a job. The *supervisor* is the parent of the ranks on this machine and
//! adopts what they leave behind; it forwards output and signals and serves PMI-1. The *launcher*
//! is what the user started: it waits for the supervisor. Each notices when the other is killed,
//! and then ends every process below it, so that nothing survives either.
//!
//! On each other machine stands an *agent*, two such processes again, which the supervisor reaches
//! over ssh. What starts and ends the ranks of one machine is the same code here and there:
//! `local_processes`.

#![forbid(unsafe_code)]

mod agent;
mod agent_connection;
pub mod binding;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod lines;
mod local;
mod local_processes;
mod outlets;
mod placement;
mod pmi_server;
mod preview;
mod program;
mod protocol;
pub mod rankfile;
mod supervisor;
mod terminal_input;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sys::process::{self, End, Interest, Signals, signal};

use binding::Policy;
pub use local::is_this_machine;
pub use placement::{Host, slots};
use placement::{HostAssignment, HostRequest};
pub use preview::{Preview, preview};
use rankfile::RankPlace;
use terminal_input::TerminalInput;

/// A job to run.
#[derive(Clone, Debug, Default)]
pub struct JobPlan {
    /// The programs, in the order of their ranks.
    pub applications: Vec<Application>,
    /// Whether each line of output begins with the rank.
    pub tag_output: bool,
    /// After how long the job is ended.
    pub timeout: Option<Duration>,
    /// The command by which other hosts are reached, as ssh takes its words: then come the host
    /// and what it shall run. Empty: ssh.
    pub launch_agent: Vec<OsString>,
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
        let placement = if self.rankfile.is_empty() {
            placement::place(&self.host_requests(), is_this_machine)
        } else {
            let processes = self.applications.iter().map(|app| app.processes as usize).sum();
            rankfile::placement(&self.rankfile, processes, is_this_machine)
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
        Self::new(format!("{} cannot be started: {cause}", program.display()))
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LaunchError {}

impl From<io::Error> for LaunchError {
    fn from(cause: io::Error) -> Self {
        Self::new(format!("the job cannot go on: {cause}"))
    }
}

/// The signals that are passed on to the ranks.
const FORWARDED: [i32; 8] = [
    signal::SIGINT,
    signal::SIGTERM,
    signal::SIGHUP,
    signal::SIGQUIT,
    signal::SIGUSR1,
    signal::SIGUSR2,
    signal::SIGTSTP,
    signal::SIGCONT,
];

/// How many interrupts arrive before the launcher itself ends everything.
const INTERRUPTS_MAX: u32 = 3;

/// How long killed processes may take to be gone. Those that belong to another user stay.
const KILL_TIME_MAX: Duration = Duration::from_secs(5);

/// The name of the supervisor in lists of processes.
const SUPERVISOR: &str = "job-supervisor";

/// Runs a job to its end and returns the exit code for the launcher: 0, that of the first process
/// that failed, or 128 and the number of the signal that killed it.
///
/// # Errors
/// There are not enough slots, a program does not exist or cannot be run, or no connection to a
/// host can be tried; nothing was started then.
pub fn run(plan: &JobPlan) -> Result<i32, LaunchError> {
    let (keyboard, typed) = TerminalInput::open()?;
    run_supervised(keyboard, |launcher, signals| {
        supervisor::supervise(plan, launcher, signals, typed)
    })
}

/// Serves, as the agent of this machine, the launcher at the other end of standard input and
/// output; returns the exit code.
///
/// # Errors
/// What comes from the launcher makes no sense, or the system has not what is needed.
pub fn serve_as_agent() -> Result<i32, LaunchError> {
    run_supervised(TerminalInput::none(), |_, signals| agent::serve(signals))
}

/// Runs `body` as the supervisor, in a process of its own, and sees to it that nothing is left when
/// that has ended.
fn run_supervised(
    keyboard: TerminalInput,
    body: impl FnOnce(u32, Signals) -> Result<i32, LaunchError>,
) -> Result<i32, LaunchError> {
    process::adopt_orphans()?;
    // From before the fork, so that no signal is lost between.
    let mut watched: Vec<i32> = FORWARDED.to_vec();
    watched.extend([signal::SIGCHLD, signal::SIGTTOU]);
    let signals = Signals::take(&watched)?;
    let launcher = std::process::id();
    let child = process::fork()?;
    if child == 0 {
        drop((signals, keyboard));
        let code = supervisor_main(launcher, &watched, body).unwrap_or_else(|error| {
            eprintln!("combray: {error}");
            2
        });
        std::process::exit(code);
    }
    // With it goes what only the supervisor shall hold.
    drop(body);
    wait_for_supervisor(child, &signals, keyboard)
}

/// The supervisor's part. Its group is its own: what a terminal sends to the launcher's group
/// it gets once, from the launcher, and who kills that group does not kill it.
fn supervisor_main(
    launcher: u32,
    watched: &[i32],
    body: impl FnOnce(u32, Signals) -> Result<i32, LaunchError>,
) -> Result<i32, LaunchError> {
    process::leave_group()?;
    // Whoever kills all processes of the launcher's name leaves the one that cleans up.
    let _ = std::fs::write("/proc/self/comm", SUPERVISOR);
    process::adopt_orphans()?;
    let signals = Signals::take(watched)?;
    process::follow_parent(signal::SIGTERM)?;
    if std::os::unix::process::parent_id() != launcher {
        return Err(LaunchError::new("the launcher was killed".to_owned()));
    }
    body(launcher, signals)
}

/// Passes signals and input on to the supervisor, and ends what is left when it has ended.
fn wait_for_supervisor(
    child: i32,
    signals: &Signals,
    mut keyboard: TerminalInput,
) -> Result<i32, LaunchError> {
    let mut asked = 0;
    loop {
        while let Some(number) = signals.next() {
            if matches!(number, signal::SIGCHLD | signal::SIGTTOU) {
                continue;
            }
            // It may have ended just now, which is seen below.
            let _ = process::kill(child, number);
            if number == signal::SIGTSTP {
                process::kill(std::process::id() as i32, signal::SIGSTOP)?;
            }
            asked += u32::from(matches!(number, signal::SIGINT | signal::SIGTERM));
            if asked >= INTERRUPTS_MAX {
                end_descendants();
                return Ok(128 + number);
            }
        }
        while let Ok(Some((who, end))) = process::reap() {
            if who == child {
                end_descendants();
                return Ok(match end {
                    End::Code(code) => code,
                    End::Signal(number) => {
                        eprintln!(
                            "combray: the supervisor of the job (process {child}) was killed by \
                             signal {number} ({}); all processes of the job are ended",
                            signal::name(number)
                        );
                        128 + number
                    }
                });
            }
        }
        let mut watched = vec![(signals.as_raw_fd(), Interest::Read)];
        watched.extend(keyboard.watched());
        if process::poll(&watched, keyboard.poll_timeout())?.get(1) == Some(&true) {
            keyboard.serve();
        }
    }
}

/// Kills all processes below this one, and waits until they are gone.
fn end_descendants() {
    let start = Instant::now();
    let mut nap = Duration::from_millis(1);
    while start.elapsed() < KILL_TIME_MAX {
        match process::reap() {
            Ok(Some(_)) => continue,
            // There are none.
            Err(_) => return,
            Ok(None) => {}
        }
        for process in process::descendants(std::process::id() as i32) {
            // It may have ended meanwhile.
            let _ = process::kill(process, signal::SIGKILL);
        }
        std::thread::sleep(nap);
        nap = (nap * 2).min(Duration::from_millis(50));
    }
}

/// Whether more may come later from a descriptor whose reading or writing failed so.
fn is_no_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
