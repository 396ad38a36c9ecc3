//! The parent of the ranks.

mod messages;
mod outlets;
mod rank;
mod variables;

use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use sys::process::{self, End, Interest, Signals, signal};

use super::{LaunchError, Plan, end_descendants};
use crate::server::{Action, Server, Speaks};
use outlets::{Outlets, Target};
use rank::{Common, Rank, Stream};

/// How long processes have to end by themselves after one has failed.
const GRACE: Duration = Duration::from_secs(2);

/// How long they have after a person or a batch system asked: some save their state then.
const GRACE_ASKED: Duration = Duration::from_secs(10);

/// How long the output of processes that have ended is waited for: something they started in the
/// background may hold it open.
const DRAIN: Duration = Duration::from_millis(200);

/// After how long the beginning of a line is shown, where it may be a question to a person.
const QUESTION: Duration = Duration::from_millis(100);

/// The exit code when the time limit has passed, as of timeout(1).
const CODE_TIMEOUT: i32 = 124;

/// Starts all ranks and returns the exit code when the last has ended. `typed` is where rank 0
/// reads what is typed at the launcher's terminal, if there is one.
pub(super) fn supervise(
    plan: &Plan,
    launcher: u32,
    signals: Signals,
    typed: Option<PipeReader>,
) -> Result<i32, LaunchError> {
    let mut supervisor = Supervisor::start(plan, launcher, signals, typed)?;
    while !supervisor.is_over() {
        supervisor.round()?;
    }
    supervisor.close();
    while !supervisor.outlets.are_empty() && !supervisor.is_in_haste() {
        supervisor.round()?;
    }
    supervisor.drop_output();
    Ok(supervisor.code)
}

struct Supervisor<'a> {
    plan: &'a Plan,
    ranks: Vec<Rank>,
    server: Server,
    outlets: Outlets,
    signals: Signals,
    /// The process that a person started.
    launcher: u32,
    /// The exit code so far: that of the first failure.
    code: i32,
    /// When the job is ended, if it has a limit.
    deadline: Option<Instant>,
    /// When the ranks that are still there are killed; set while they are being ended.
    ending: Option<Instant>,
    /// The signals that asked for an end.
    asked: Vec<i32>,
    /// When the partial line of rank 0 is shown, if it may be a question.
    question: Option<Instant>,
    may_ask: bool,
    /// Since when all ranks have ended.
    over: Option<Instant>,
    /// Whether only output is left.
    is_closing: bool,
}

impl<'a> Supervisor<'a> {
    fn start(
        plan: &'a Plan,
        launcher: u32,
        signals: Signals,
        mut typed: Option<PipeReader>,
    ) -> Result<Self, LaunchError> {
        let applications: Vec<u32> = (0..)
            .zip(&plan.applications)
            .flat_map(|(number, app)| std::iter::repeat_n(number, app.processes as usize))
            .collect();
        let size = applications.len() as u32;
        let job = random_name()?;
        let may_ask = typed.is_some();
        let common = Common::new(size, &job, plan.tag_output)?;
        let mut ranks = Vec::new();
        for (number, &application) in (0..).zip(&applications) {
            let application = &plan.applications[application as usize];
            match Rank::start(number, application, &common, typed.take()) {
                Ok(rank) => ranks.push(rank),
                Err(cause) => {
                    end_descendants();
                    return Err(LaunchError::of_program(&application.program, &cause));
                }
            }
        }
        Ok(Self {
            plan,
            ranks,
            server: Server::new(&applications, size),
            outlets: Outlets::open()?,
            signals,
            launcher,
            code: 0,
            deadline: plan.timeout.map(|limit| Instant::now() + limit),
            ending: None,
            asked: Vec::new(),
            question: None,
            may_ask,
            over: None,
            is_closing: false,
        })
    }

    /// Sleeps until something happens, and deals with it.
    fn round(&mut self) -> io::Result<()> {
        let mut watched = vec![(self.signals.as_raw_fd(), Interest::Read)];
        let mut outlets = Vec::new();
        for (descriptor, target) in self.outlets.watched() {
            watched.push((descriptor, Interest::Write));
            outlets.push(target);
        }
        let mut streams = Vec::new();
        for (number, rank) in self.ranks.iter().enumerate() {
            for (descriptor, interest, stream) in rank.watched(&self.outlets) {
                watched.push((descriptor, interest));
                streams.push((number, stream));
            }
        }
        let ready = process::poll(&watched, self.patience())?;
        let (ready_outlets, ready_streams) = ready[1..].split_at(outlets.len());
        for (&target, _) in outlets.iter().zip(ready_outlets).filter(|(_, ready)| **ready) {
            self.write(target);
        }
        for (&(number, stream), _) in streams.iter().zip(ready_streams).filter(|(_, r)| **r) {
            self.serve(number, stream);
        }
        self.handle_signals();
        self.reap();
        self.look_at_clock();
        Ok(())
    }

    /// How long to sleep at most.
    fn patience(&self) -> Option<Duration> {
        if self.is_closing {
            let end = self.output_deadline()?;
            return Some(end.saturating_duration_since(Instant::now()));
        }
        let over = self.over.map(|since| since + DRAIN);
        let alive = self.ranks.iter().filter(|rank| rank.end.is_none());
        let doom = alive.filter_map(|rank| rank.doomed).min();
        let times = [self.deadline, self.ending, self.question, over, doom];
        let next = times.into_iter().flatten().min()?;
        // A time that has passed asks for a look at the descriptors, not for a busy loop.
        let now = Instant::now();
        Some(next.saturating_duration_since(now).max(Duration::from_millis(1)))
    }

    fn write(&mut self, target: Target) {
        match self.outlets.write(target) {
            Ok(()) => {}
            // Nobody reads our output any more: as a program in a pipe would, end without a word.
            Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => {
                self.fail(128 + signal::SIGPIPE, None);
            }
            Err(cause) => {
                let message = format!("the output of the job cannot be written: {cause}");
                self.fail(1, Some(message));
            }
        }
    }

    fn serve(&mut self, number: usize, stream: Stream) {
        match stream {
            Stream::Writes(target) => {
                self.ranks[number].forward(target, &mut self.outlets);
                if self.may_ask && number == 0 {
                    let asks = self.ranks[0].has_partial_line();
                    self.question = asks.then(|| Instant::now() + QUESTION);
                }
            }
            Stream::Pmi => self.listen(number),
        }
    }

    /// Deals with what a process said to the PMI server.
    fn listen(&mut self, number: usize) {
        let bytes = self.ranks[number].hear();
        let actions = self.server.receive(number as u32, &bytes);
        actions.into_iter().for_each(|action| self.act(action));
        self.take_leave(number);
    }

    /// Lets the server know that a process has ended well and that nothing that it left behind
    /// can speak for it; others may wait for it in vain.
    fn take_leave(&mut self, number: usize) {
        let rank = &self.ranks[number];
        if rank.end == Some(End::Code(0)) && !rank.is_connected() {
            let actions = self.server.leave(number as u32);
            actions.into_iter().for_each(|action| self.act(action));
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Answer(rank, line) => self.ranks[rank as usize].tell(&line),
            Action::Abort(rank, code) => {
                let message = format!("rank {rank} called MPI_Abort({code})");
                self.fail(code_of_abort(code), Some(message));
            }
            Action::End(by, ranks, code) => self.end_some(by, &ranks, code),
            Action::Nonsense(rank, what) => {
                let message = format!("rank {rank} said what is no PMI-1: \"{what}\"");
                self.fail(1, Some(message));
            }
            Action::Stuck { waiting, gone } => {
                let state = self.server.speaks(gone);
                self.fail(1, Some(messages::stuck(waiting, gone, state)));
            }
        }
    }

    /// Ends some processes because of a failure among them; the others go on.
    fn end_some(&mut self, by: u32, ranks: &[u32], code: i32) {
        self.code = if self.code == 0 { code_of_abort(code) } else { self.code };
        self.tell(&messages::ended_alone(by, ranks));
        for &number in ranks {
            let rank = &mut self.ranks[number as usize];
            rank.doomed.get_or_insert(Instant::now() + GRACE);
            // The one that asked ends by itself.
            if rank.end.is_none() && number != by {
                let _ = process::kill(-rank.process, signal::SIGTERM);
                let _ = process::kill(-rank.process, signal::SIGCONT);
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
                    self.asked.push(number);
                    self.code = if self.code == 0 { 128 + number } else { self.code };
                    let is_first = self.asked.len() == 1;
                    self.end_all(if is_first { number } else { signal::SIGKILL }, GRACE_ASKED);
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

    /// Asks all ranks to end; after some time they are killed.
    fn end_all(&mut self, number: i32, grace: Duration) {
        self.signal_all(number);
        // Those that are stopped have to run in order to end.
        self.signal_all(signal::SIGCONT);
        self.ending.get_or_insert(Instant::now() + grace);
    }

    fn reap(&mut self) {
        while let Ok(Some((who, end))) = process::reap() {
            let Some(number) = self.ranks.iter().position(|rank| rank.process == who) else {
                continue;
            };
            // What it said and wrote last may still be in its pipes.
            self.listen(number);
            self.ranks[number].drain(&mut self.outlets);
            self.ranks[number].end = Some(end);
            self.judge(number, end);
            self.take_leave(number);
        }
        if self.over.is_none() && self.ranks.iter().all(|rank| rank.end.is_some()) {
            self.over = Some(Instant::now());
        }
    }

    /// Whether the end of a process is a failure of the job.
    fn judge(&mut self, number: usize, end: End) {
        let is_inside_mpi = self.server.speaks(number as u32) == Speaks::Now;
        let Some((what, code)) = messages::failure(end, is_inside_mpi) else { return };
        if self.ending.is_some() || self.ranks[number].doomed.is_some() {
            return;
        }
        let rank = &self.ranks[number];
        let others = self.ranks.iter().filter(|rank| rank.end.is_none()).count();
        let message = messages::death(number, rank.process, &what, others, &rank.last_lines());
        self.fail(code, Some(message));
    }

    /// Ends the job because of a failure, of which only the first is told.
    fn fail(&mut self, code: i32, message: Option<String>) {
        if self.ending.is_some() {
            return;
        }
        self.code = code;
        if let Some(message) = message {
            self.tell(&message);
        }
        self.end_all(signal::SIGTERM, GRACE);
    }

    /// Tells the person something.
    fn tell(&mut self, message: &str) {
        let line = format!("combray: {message}\n");
        self.outlets.queue(Target::Errors).extend_from_slice(line.as_bytes());
    }

    fn look_at_clock(&mut self) {
        if self.is_closing {
            return;
        }
        let now = Instant::now();
        let has_come = |time: Option<Instant>| time.is_some_and(|time| now >= time);
        if has_come(self.question) {
            self.question = None;
            self.ranks[0].show_partial_line(&mut self.outlets);
        }
        if has_come(self.deadline) && self.over.is_none() {
            let limit = self.plan.timeout.unwrap_or_default();
            let message = messages::timeout(limit, &self.alive());
            self.deadline = None;
            self.fail(CODE_TIMEOUT, Some(message));
        }
        let doomed = self.ranks.iter().filter(|rank| rank.end.is_none() && has_come(rank.doomed));
        for rank in doomed {
            // The group may have ended just now.
            let _ = process::kill(-rank.process, signal::SIGKILL);
        }
        if has_come(self.ending) && self.over.is_none() {
            if let Some(&number) = self.asked.first() {
                self.tell(&messages::killed(number, GRACE_ASKED, &self.alive()));
            }
            self.signal_all(signal::SIGKILL);
            self.ending = Some(now + GRACE);
        }
    }

    /// The ranks that have not ended, and what they are doing.
    fn alive(&self) -> Vec<messages::Alive> {
        let ranks = (0..).zip(&self.ranks).filter(|(_, rank)| rank.end.is_none());
        let alive = ranks.map(|(number, rank)| messages::Alive {
            rank: number,
            process: rank.process,
            state: process::state(rank.process).unwrap_or("ended"),
            speaks: self.server.speaks(number),
        });
        alive.collect()
    }

    /// Whether all ranks have ended and their output is through.
    fn is_over(&self) -> bool {
        let Some(since) = self.over else { return false };
        since.elapsed() >= DRAIN || self.ranks.iter().all(Rank::is_silent)
    }

    /// When the output that is left is given up. A slow reader is waited for, as any program waits,
    /// but not past the time limit; and for a moment only when the job was made to end.
    fn output_deadline(&self) -> Option<Instant> {
        let was_ended = !self.asked.is_empty() || self.code == CODE_TIMEOUT;
        self.over.filter(|_| was_ended).map(|since| since + GRACE).or(self.deadline)
    }

    /// Whether nobody waits for the output any more.
    fn is_in_haste(&self) -> bool {
        let is_late = self.output_deadline().is_some_and(|end| Instant::now() >= end);
        self.asked.len() > 1 || is_late
    }

    /// Tells that output is lost, if any is.
    fn drop_output(&mut self) {
        if !self.outlets.are_empty() {
            self.code = if self.code == 0 { CODE_TIMEOUT } else { self.code };
            self.tell("the rest of the job's output, which nobody read, is dropped");
            // Where nobody reads this either, the exit code tells.
            let _ = self.outlets.write(Target::Errors);
        }
    }

    /// Ends what the ranks left behind, and takes the last of their output.
    fn close(&mut self) {
        self.is_closing = true;
        end_descendants();
        for rank in &mut self.ranks {
            rank.drain(&mut self.outlets);
        }
        self.ranks.clear();
    }
}

/// The exit code of a job that was aborted with this code: never success.
fn code_of_abort(code: i32) -> i32 {
    if code & 0xff == 0 { 1 } else { code & 0xff }
}

/// 128 random bits in hexadecimal digits.
fn random_name() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}
