//! The processes that end a job completely, whichever of them is killed.
//!
//! The launcher starts the *guard*, which starts the *supervisor*, the parent of the ranks. Each of
//! them is the subreaper of its descendants, waits for its child, and gets a signal when its parent
//! ends. So any two of the three may be killed together: the third ends every process below it.
//! Where the system makes no process a subreaper (QEMU before version 8), jobs run all the same:
//! then a process whose own parent has ended before the job, as one that a rank leaves in the
//! background, is not ended with it.
//! Guard and supervisor have names and command lines of their own, as a user who kills processes by
//! name or command line means the launcher or the program.
//!
//! Why: docs/internals/decisions/0039-three-processes-watch-over-a-job.md

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::parent_id;
use std::time::{Duration, Instant};

use launch::SUPERVISOR;
use sys::process::{self, End, Interest, Signals, signal};
use sys::terminal;

use crate::LaunchError;
use crate::process_table::TableReader;
use crate::terminal_input::TerminalInput;

/// The signals that are forwarded to the ranks.
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

/// After how many interrupts the launcher itself ends everything.
const INTERRUPTS_MAX: u32 = 3;

/// How long killed processes may take to disappear. Processes of another user stay.
pub(super) const KILL_TIME_MAX: Duration = Duration::from_secs(5);

/// How long to wait for the end of other processes before the watching processes are killed, too.
const LAST_AFTER_MAX: Duration = Duration::from_secs(1);

/// The signal with which guard and supervisor are ended silently.
pub(super) const END: i32 = signal::SIGALRM;

const GUARD: &str = "job-guard";
const WATCHERS: [&str; 2] = [GUARD, SUPERVISOR];

/// Runs `body` as the supervisor, which gets the id of its parent. Ensures that no process is left
/// when it has ended. Returns the exit code.
///
/// # Errors
/// The system's.
pub(super) fn run_guarded(
    source: Source,
    (terminal, table): (TerminalInput, Option<TableReader>),
    body: impl FnOnce(u32, Signals) -> Result<i32, LaunchError>,
) -> Result<i32, LaunchError> {
    let _ = process::adopt_orphans();
    // Installed before the fork, so that no signal is lost in between.
    let signals = take_signals()?;
    let launcher = std::process::id();
    let child = process::fork()?;
    if child == 0 {
        drop((signals, terminal, table));
        exit_with(become_child(GUARD, launcher).and_then(|signals| guard(launcher, signals, body)));
    }
    // Dropping it closes what only the supervisor must hold.
    drop(body);
    Parent { child, role: Role::Launcher(source), signals, terminal, table, hangup: None }.wait()
}

/// The guard's part of `run_guarded`.
fn guard(
    launcher: u32,
    signals: Signals,
    body: impl FnOnce(u32, Signals) -> Result<i32, LaunchError>,
) -> Result<i32, LaunchError> {
    let guard = std::process::id();
    let child = process::fork()?;
    if child == 0 {
        drop(signals);
        exit_with(become_child(SUPERVISOR, guard).and_then(|signals| body(guard, signals)));
    }
    drop(body);
    let (role, terminal) = (Role::Guard { launcher }, TerminalInput::none());
    Parent { child, role, signals, terminal, table: None, hangup: None }.wait()
}

fn take_signals() -> io::Result<Signals> {
    let mut watched = FORWARDED.to_vec();
    watched.extend([signal::SIGCHLD, signal::SIGTTOU, END]);
    Signals::take(&watched)
}

/// Begins guard or supervisor, in a process group of its own. What a terminal sends to the
/// launcher's group reaches it once, through its parent; killing the launcher's group does not kill
/// it.
fn become_child(name: &str, parent: u32) -> Result<Signals, LaunchError> {
    process::leave_group()?;
    // If the system does not allow it, only the name is missing.
    let _ = process::set_name(name);
    let _ = process::adopt_orphans();
    let signals = take_signals()?;
    process::follow_parent(signal::SIGTERM)?;
    if parent_id() != parent {
        return Err(LaunchError::new("the launcher was killed".to_owned()));
    }
    Ok(signals)
}

fn exit_with(outcome: Result<i32, LaunchError>) -> ! {
    std::process::exit(outcome.unwrap_or_else(|error| {
        eprintln!("combray: {}", foreign::message(&error.to_string()));
        2
    }))
}

/// The launcher or the guard, while its child runs.
struct Parent {
    child: i32,
    role: Role,
    signals: Signals,
    terminal: TerminalInput,
    /// Receives the table of processes that the supervisor has started.
    table: Option<TableReader>,
    /// Since when the connection to the launcher is closed, if this is an agent.
    hangup: Option<Instant>,
}

#[derive(Clone, Copy)]
enum Role {
    Launcher(Source),
    Guard { launcher: u32 },
}

/// Which process started this one, and is at the other end of its standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    User,
    /// The launcher on another machine, without which the job ends.
    Launcher,
}

const STANDARD_INPUT: RawFd = 0;

impl Parent {
    /// Forwards signals and input to the child. When the child has ended, ends what is left.
    fn wait(mut self) -> Result<i32, LaunchError> {
        let mut interrupts = 0;
        loop {
            while let Some(number) = self.signals.next() {
                interrupts += u32::from(matches!(number, signal::SIGINT | signal::SIGTERM));
                self.handle_signal(number)?;
                if interrupts >= INTERRUPTS_MAX {
                    end_what_is_watched();
                    return Ok(128 + number);
                }
            }
            while let Ok(Some((process, end))) = process::reap() {
                if process == self.child {
                    end_what_is_watched();
                    return Ok(self.exit_code(end));
                }
            }
            let mut watched = vec![(self.signals.as_raw_fd(), Interest::Read)];
            let typed = self.terminal.watched();
            watched.extend(typed);
            let is_agent = matches!(self.role, Role::Launcher(Source::Launcher));
            let input =
                (is_agent && self.hangup.is_none()).then_some((STANDARD_INPUT, Interest::Hangup));
            watched.extend(input);
            let table = self.table.as_ref().and_then(TableReader::watched);
            watched.extend(table.map(|descriptor| (descriptor, Interest::Read)));
            let timeout = match self.hangup {
                // The supervisor of an agent ends by itself, unless it is stopped.
                Some(since) if since.elapsed() >= KILL_TIME_MAX => {
                    end_what_is_watched();
                    return Ok(128 + signal::SIGHUP);
                }
                Some(since) => Some(KILL_TIME_MAX.saturating_sub(since.elapsed())),
                None => self.terminal.poll_timeout(),
            };
            let ready = process::poll(&watched, timeout)?;
            let mut ready = ready.into_iter().skip(1);
            if typed.is_some() && ready.next() == Some(true) {
                self.terminal.serve();
            }
            if input.is_some() && ready.next() == Some(true) {
                self.hangup = Some(Instant::now());
            }
            if let Some(table) = self.table.as_mut().filter(|_| ready.next() == Some(true)) {
                table.serve();
            }
        }
    }

    fn handle_signal(&self, number: i32) -> io::Result<()> {
        match (number, self.role) {
            (signal::SIGCHLD | signal::SIGTTOU, _) => return Ok(()),
            // Sent by the kernel, because the launcher was killed.
            (signal::SIGTERM, Role::Guard { launcher }) if parent_id() != launcher => {
                end_what_is_watched();
                std::process::exit(128 + signal::SIGKILL);
            }
            (END, _) => {
                end_what_is_watched();
                std::process::exit(128 + END);
            }
            _ => {}
        }
        // The child may have just ended, which waiting for it will show.
        let _ = process::kill(self.child, number);
        if number == signal::SIGTSTP && matches!(self.role, Role::Launcher(_)) {
            terminal::stop_as_terminal_does()?;
            let _ = process::kill(self.child, signal::SIGCONT);
        }
        Ok(())
    }

    fn exit_code(&self, end: End) -> i32 {
        let number = match end {
            End::Code(code) => return code,
            End::Signal(number) => number,
        };
        let child = match self.role {
            Role::Launcher(_) => "guard",
            Role::Guard { .. } => "supervisor",
        };
        eprintln!(
            "combray: the {child} of the job (process {}) was killed by signal {number} ({}); all \
             processes of the job are terminated",
            self.child,
            signal::name(number)
        );
        128 + number
    }
}

/// Kills all processes below this one, and waits until they are gone.
pub(super) fn end_descendants() {
    end_with_last(|_| false);
}

/// Kills all processes below this one, as launcher or guard. Guard and supervisor below end the
/// other processes concurrently, and are killed when those are gone: if this process is killed
/// meanwhile, they still do so.
fn end_what_is_watched() {
    end_with_last(|process| {
        let name = process::name(process);
        WATCHERS.iter().any(|watcher| name.as_deref() == Some(watcher))
    });
}

fn end_with_last(is_last: impl Fn(i32) -> bool) {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    while start.elapsed() < KILL_TIME_MAX {
        match process::reap() {
            Ok(Some(_)) => continue,
            // There are no children.
            Err(_) => return,
            Ok(None) => {}
        }
        let all = process::descendants(std::process::id() as i32);
        let (last, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|&one| is_last(one));
        // A stopped parent does not reap its ended children.
        let come_last = start.elapsed() < LAST_AFTER_MAX
            && others.iter().any(|&other| !process::has_ended(other));
        // They may have ended meanwhile.
        for process in last {
            let _ = process::kill(process, if come_last { END } else { signal::SIGKILL });
        }
        for process in others {
            let _ = process::kill(process, signal::SIGKILL);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}
