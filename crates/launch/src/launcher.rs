//! Starting the processes of a job on this machine, and seeing to it that nothing is left of it.
//!
//! Two processes watch over a job. The *supervisor* is the parent of all ranks and adopts what
//! they leave behind; it forwards output and signals and serves PMI-1. The *launcher* is what the
//! person started: it waits for the supervisor. Each notices when the other is killed, and then
//! ends every process below it, so that nothing survives either.

mod supervisor;

use std::collections::HashMap;
use std::env;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// How many processes of it.
    pub processes: u32,
    /// Variables set for it.
    pub variables: HashMap<String, String>,
    /// The folder in which it starts; none: the launcher's.
    pub folder: Option<PathBuf>,
}

/// Why a job cannot be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchError {
    message: String,
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LaunchError {}

impl From<io::Error> for LaunchError {
    fn from(cause: io::Error) -> Self {
        Self { message: format!("the job cannot be started: {cause}") }
    }
}

/// The signals that are passed on to the ranks.
const FORWARDED: [i32; 6] = [
    signal::SIGINT,
    signal::SIGTERM,
    signal::SIGHUP,
    signal::SIGUSR1,
    signal::SIGUSR2,
    signal::SIGQUIT,
];

/// Runs a job to its end and returns the exit code for the launcher: 0, that of the first process
/// that failed, or 128 and the number of the signal that killed it.
///
/// # Errors
/// A program does not exist or cannot be run; nothing was started then.
pub fn run(plan: &Plan) -> Result<i32, LaunchError> {
    let mut plan = plan.clone();
    for application in &mut plan.applications {
        let folder = application.folder.as_deref().unwrap_or(Path::new("."));
        application.program = find_program(&application.program, folder)?;
    }
    process::adopt_orphans()?;
    let mut watched: Vec<i32> = FORWARDED.to_vec();
    watched.push(signal::SIGCHLD);
    let signals = Signals::take(&watched)?;
    let child = process::fork()?;
    if child == 0 {
        drop(signals);
        process::follow_parent(signal::SIGTERM)?;
        // The launcher may have been killed before the line above.
        let code = supervisor::supervise(&plan, &watched)?;
        std::process::exit(code);
    }
    wait_for_supervisor(child, &signals)
}

/// Passes signals on to the supervisor, and ends what is left when it has ended.
fn wait_for_supervisor(child: i32, signals: &Signals) -> Result<i32, LaunchError> {
    use std::os::fd::AsRawFd;
    let mut code = None;
    loop {
        while let Some(number) = signals.next() {
            if number != signal::SIGCHLD {
                // It may have ended just now, which the next round will see.
                let _ = process::kill(child, number);
            }
        }
        loop {
            match process::reap() {
                Ok(Some((who, end))) if who == child => {
                    code = Some(match end {
                        End::Code(code) => code,
                        End::Signal(number) => 128 + number,
                    });
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return Ok(code.unwrap_or(1)),
            }
        }
        if code.is_some() {
            end_descendants();
        }
        let nap = code.map(|_| Duration::from_millis(5));
        process::poll(&[(signals.as_raw_fd(), Interest::Read)], nap)?;
    }
}

/// Kills all processes below this one; they are reaped elsewhere.
fn end_descendants() {
    for process in process::descendants(std::process::id() as i32) {
        // It may have ended meanwhile.
        let _ = process::kill(process, signal::SIGKILL);
    }
}

/// The path of a program, as a shell would find it.
fn find_program(program: &str, folder: &Path) -> Result<String, LaunchError> {
    let error = |message: String| Err(LaunchError { message });
    if program.contains('/') {
        let path = folder.join(program);
        return match executable(&path) {
            Ok(true) => Ok(program.to_owned()),
            Ok(false) => error(format!("{program} is not an executable file")),
            Err(cause) => error(format!("{program} cannot be run: {cause}")),
        };
    }
    let search = env::var_os("PATH").unwrap_or_default();
    for candidate in env::split_paths(&search).map(|folder| folder.join(program)) {
        if executable(&candidate).unwrap_or(false) {
            return Ok(candidate.to_string_lossy().into_owned());
        }
    }
    if executable(&folder.join(program)).unwrap_or(false) {
        return error(format!("{program} is not in PATH; there is one here: write ./{program}"));
    }
    error(format!("{program} is in no folder of PATH"))
}

fn executable(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    let data = std::fs::metadata(path)?;
    Ok(data.is_file() && data.permissions().mode() & 0o111 != 0)
}
