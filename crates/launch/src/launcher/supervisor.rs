//! The parent of the ranks.

mod rank;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use sys::process::{self, End, Interest, Signals, signal};

use super::{LaunchError, Plan, end_descendants};
use crate::server::{Action, Server, Speaks};
use rank::{Rank, Stream};

/// How long processes have to end by themselves after they were asked to.
const GRACE: Duration = Duration::from_secs(2);

/// How long the output of processes that have ended is waited for: something they started in the
/// background may hold it open.
const DRAIN: Duration = Duration::from_millis(200);

/// Starts all ranks and returns the exit code when the last has ended.
pub(super) fn supervise(plan: &Plan, watched: &[i32]) -> Result<i32, LaunchError> {
    process::adopt_orphans()?;
    let signals = Signals::take(watched)?;
    let mut supervisor = Supervisor::start(plan, signals)?;
    while !supervisor.is_over() {
        supervisor.round()?;
    }
    supervisor.finish();
    Ok(supervisor.code)
}

struct Supervisor<'a> {
    plan: &'a Plan,
    ranks: Vec<Rank>,
    server: Server,
    signals: Signals,
    launcher: u32,
    /// The exit code so far: that of the first failure.
    code: i32,
    /// When the job is ended, if it has a limit.
    deadline: Option<Instant>,
    /// Since when the ranks are being ended, for whatever reason.
    ending: Option<Instant>,
    interrupts: u32,
    /// Since when all ranks have ended.
    over: Option<Instant>,
}

impl<'a> Supervisor<'a> {
    fn start(plan: &'a Plan, signals: Signals) -> Result<Self, LaunchError> {
        let applications: Vec<u32> = (0..)
            .zip(&plan.applications)
            .flat_map(|(number, app)| std::iter::repeat_n(number, app.processes as usize))
            .collect();
        let size = applications.len() as u32;
        let server = Server::new(&applications, size);
        let job = random_name()?;
        let mut supervisor = Self {
            plan,
            ranks: Vec::new(),
            server,
            signals,
            launcher: std::os::unix::process::parent_id(),
            code: 0,
            deadline: plan.timeout.map(|limit| Instant::now() + limit),
            ending: None,
            interrupts: 0,
            over: None,
        };
        for (number, &application) in (0..).zip(&applications) {
            let application = &plan.applications[application as usize];
            match Rank::start(number, size, application, &job, plan.tag_output) {
                Ok(rank) => supervisor.ranks.push(rank),
                Err(cause) => {
                    end_descendants();
                    let program = &application.program;
                    let message = format!("{program} cannot be started: {cause}");
                    return Err(LaunchError { message });
                }
            }
        }
        Ok(supervisor)
    }

    /// Sleeps until something happens, and deals with it.
    fn round(&mut self) -> io::Result<()> {
        let mut watched = vec![(self.signals.as_raw_fd(), Interest::Read)];
        let mut sources = Vec::new();
        for (number, rank) in self.ranks.iter().enumerate() {
            for (descriptor, interest, stream) in rank.watched() {
                watched.push((descriptor, interest));
                sources.push((number, stream));
            }
        }
        let ready = process::poll(&watched, self.patience())?;
        for (&(number, stream), _) in sources.iter().zip(&ready[1..]).filter(|(_, ready)| **ready) {
            self.serve(number, stream);
        }
        self.handle_signals();
        self.reap();
        self.look_at_clock();
        Ok(())
    }

    /// How long to sleep at most.
    fn patience(&self) -> Option<Duration> {
        let now = Instant::now();
        let ending = self.ending.map(|since| since + GRACE);
        let over = self.over.map(|since| since + DRAIN);
        let next = [self.deadline, ending, over].into_iter().flatten().min()?;
        Some(next.saturating_duration_since(now).max(Duration::from_millis(1)))
    }

    fn serve(&mut self, number: usize, stream: Stream) {
        match stream {
            Stream::Output | Stream::Errors => {
                if self.ranks[number].forward(stream).is_err() {
                    // Nobody reads our output any more: as a program in a pipe would, end.
                    self.fail(128 + signal::SIGPIPE, None);
                }
            }
            Stream::Input => self.ranks[number].feed(),
            Stream::Pmi => {
                let bytes = self.ranks[number].hear();
                let actions = self.server.receive(number as u32, &bytes);
                actions.into_iter().for_each(|action| self.act(action));
            }
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Answer(rank, line) => self.ranks[rank as usize].tell(&line),
            Action::Abort(rank, code) => {
                let what = format!("rank {rank} called MPI_Abort({code})");
                self.fail(if code & 0xff == 0 { 1 } else { code & 0xff }, Some(what));
            }
            Action::Nonsense(rank, what) => {
                let what = format!("rank {rank} said what is no PMI-1: \"{what}\"");
                self.fail(1, Some(what));
            }
        }
    }

    fn handle_signals(&mut self) {
        while let Some(number) = self.signals.next() {
            match number {
                signal::SIGCHLD => {}
                // From the system, when the launcher was killed.
                signal::SIGTERM if std::os::unix::process::parent_id() != self.launcher => {
                    end_descendants();
                    std::process::exit(128 + signal::SIGKILL);
                }
                signal::SIGINT | signal::SIGTERM | signal::SIGHUP | signal::SIGQUIT => {
                    self.interrupts += 1;
                    self.code = if self.code == 0 { 128 + number } else { self.code };
                    let hard = self.interrupts > 1;
                    self.signal_all(if hard { signal::SIGKILL } else { number });
                    self.ending.get_or_insert(Instant::now());
                }
                other => self.signal_all(other),
            }
        }
    }

    fn signal_all(&self, number: i32) {
        for rank in self.ranks.iter().filter(|rank| rank.end.is_none()) {
            // The group may have ended just now.
            let _ = process::kill(-rank.process, number);
        }
    }

    fn reap(&mut self) {
        while let Ok(Some((who, end))) = process::reap() {
            let Some(number) = self.ranks.iter().position(|rank| rank.process == who) else {
                continue;
            };
            self.ranks[number].end = Some(end);
            self.judge(number, end);
        }
        if self.over.is_none() && self.ranks.iter().all(|rank| rank.end.is_some()) {
            self.over = Some(Instant::now());
        }
    }

    /// Whether the end of a process is a failure of the job.
    fn judge(&mut self, number: usize, end: End) {
        if self.ending.is_some() {
            return;
        }
        // What it wrote last may still be in the pipe.
        self.ranks[number].drain();
        let process = self.ranks[number].process;
        let (what, code) = match end {
            End::Signal(signal) => {
                let name = signal::name(signal);
                (format!("was killed by signal {signal} ({name})"), 128 + signal)
            }
            End::Code(0) if self.server.speaks(number as u32) == Speaks::Now => {
                ("left without MPI_Finalize".to_owned(), 1)
            }
            End::Code(0) => return,
            End::Code(code) => (format!("ended with exit code {code}"), code),
        };
        let mut message = format!("rank {number} (process {process} on {}) {what}", host_name());
        let others = self.ranks.iter().filter(|rank| rank.end.is_none()).count();
        if others > 0 {
            message += &format!("; the {others} that still ran are ended");
        }
        let last = self.ranks[number].last_lines();
        if !last.is_empty() {
            message += "\n  its last lines:";
            for line in last {
                message += &format!("\n    {line}");
            }
        }
        self.fail(code, Some(message));
    }

    /// Ends the job because of a failure, of which only the first is told.
    fn fail(&mut self, code: i32, message: Option<String>) {
        if self.ending.is_some() {
            return;
        }
        self.code = code;
        self.ending = Some(Instant::now());
        if let Some(message) = message {
            // Without anybody to tell it to, the exit code tells.
            let _ = writeln!(io::stderr(), "combray: {message}");
        }
        self.signal_all(signal::SIGTERM);
    }

    fn look_at_clock(&mut self) {
        let now = Instant::now();
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.deadline = None;
            let alive: Vec<String> = (0..)
                .zip(&self.ranks)
                .filter(|(_, rank)| rank.end.is_none())
                .map(|(number, rank): (u32, _)| format!("{number} (process {})", rank.process))
                .collect();
            let limit = self.plan.timeout.unwrap_or_default().as_secs_f64();
            let alive = alive.join(", ");
            let message =
                format!("the time limit of {limit} s has passed; still running: rank {alive}");
            self.fail(124, Some(message));
        }
        if self.ending.is_some_and(|since| now >= since + GRACE) {
            self.ending = Some(now);
            self.signal_all(signal::SIGKILL);
        }
    }

    /// Whether all ranks have ended and their output is through.
    fn is_over(&self) -> bool {
        let Some(since) = self.over else { return false };
        since.elapsed() >= DRAIN || self.ranks.iter().all(Rank::is_silent)
    }

    fn finish(&mut self) {
        for rank in &mut self.ranks {
            rank.finish();
        }
        end_descendants();
    }
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// 128 random bits in hexadecimal digits.
fn random_name() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}
