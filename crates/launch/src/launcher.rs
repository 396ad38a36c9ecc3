//! Starting the processes of a job on this machine, and seeing to it that nothing is left of it.
//!
//! Two processes watch over a job. The *supervisor* is the parent of all ranks and adopts what
//! they leave behind; it forwards output and signals and serves PMI-1. The *launcher* is what the
//! person started: it waits for the supervisor. Each notices when the other is killed, and then
//! ends every process below it, so that nothing survives either.

mod keyboard;
mod program;
mod supervisor;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, PipeReader};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use keyboard::Keyboard;
use sys::process::{self, End, Interest, Signals, signal};

/// A job to run.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The programs, in the order of their ranks.
    pub applications: Vec<Application>,
    /// Whether each line of output begins with the rank.
    pub tag_output: bool,
    /// After how long the job is ended.
    pub timeout: Option<Duration>,
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

/// How many times a person asks for the end before the launcher itself ends everything.
const PATIENCE: u32 = 3;

/// How long killed processes may take to be gone. Those that belong to another user stay.
const KILL_TIME_MAX: Duration = Duration::from_secs(5);

/// The name of the supervisor in lists of processes.
const SUPERVISOR: &str = "job-supervisor";

/// Runs a job to its end and returns the exit code for the launcher: 0, that of the first process
/// that failed, or 128 and the number of the signal that killed it.
///
/// # Errors
/// A program does not exist or cannot be run; nothing was started then.
pub fn run(plan: &Plan) -> Result<i32, LaunchError> {
    let mut plan = plan.clone();
    for application in &mut plan.applications {
        let folder = application.folder.as_deref().unwrap_or(Path::new("."));
        application.program = program::find(&application.program, folder)?;
    }
    process::adopt_orphans()?;
    // From before the fork, so that no signal is lost between.
    let mut watched: Vec<i32> = FORWARDED.to_vec();
    watched.extend([signal::SIGCHLD, signal::SIGTTOU]);
    let signals = Signals::take(&watched)?;
    let (keyboard, typed) = Keyboard::open()?;
    let launcher = std::process::id();
    let child = process::fork()?;
    if child == 0 {
        drop((signals, keyboard));
        let code = be_supervisor(&plan, launcher, &watched, typed).unwrap_or_else(|error| {
            eprintln!("combray: {error}");
            2
        });
        std::process::exit(code);
    }
    drop(typed);
    wait_for_supervisor(child, &signals, keyboard)
}

/// The life of the supervisor. Its group is its own: what a terminal sends to the launcher's group
/// it gets once, from the launcher, and who kills that group does not kill it.
fn be_supervisor(
    plan: &Plan,
    launcher: u32,
    watched: &[i32],
    typed: Option<PipeReader>,
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
    supervisor::supervise(plan, launcher, signals, typed)
}

/// Passes signals and input on to the supervisor, and ends what is left when it has ended.
fn wait_for_supervisor(
    child: i32,
    signals: &Signals,
    mut keyboard: Keyboard,
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
            if asked >= PATIENCE {
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
        if process::poll(&watched, keyboard.patience())?.get(1) == Some(&true) {
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
