//! Who judges over a job: what its processes do on all machines, and what follows from it.

mod ending;
mod host;
mod member;
mod messages;
mod prepare;
mod relay;

use std::io::{self, PipeReader};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use sys::process::{self, End, Interest, Signals, signal};

use super::outlets::Outlets;
use super::{KILL_TIME_MAX, LaunchError, Plan, end_descendants};
use crate::lines::Form;
use crate::protocol::{Order, Report, Target};
use crate::server::{Action, Server};
use host::Host;
use member::Member;
use relay::Relay;

/// How long processes have to end by themselves after one has failed.
const GRACE: Duration = Duration::from_secs(2);

/// How long they have after a person or a batch system asked: some save their state then.
const GRACE_ASKED: Duration = Duration::from_secs(10);

/// How long the output of processes that have ended is waited for: something they started in the
/// background may hold it open.
const DRAIN: Duration = Duration::from_millis(200);

/// After how long the beginning of a line is shown, where it may be a question to a person.
const QUESTION: Duration = Duration::from_millis(100);

/// How long all hosts may take to start their processes.
const START_TIME_MAX: Duration = Duration::from_secs(60);

/// How long agents may take to clean up and take leave.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(KILL_TIME_MAX.as_secs() + 2);

/// The exit code when a host cannot be reached, as of any job that cannot be started.
const CODE_NOT_STARTED: i32 = 2;

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
    supervisor.dismiss();
    while !supervisor.is_dismissed() {
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
    hosts: Vec<Host>,
    /// All ranks of the job.
    members: Vec<Member>,
    server: Server,
    outlets: Outlets,
    /// What goes to a rank 0 on another machine.
    relay: Option<Relay>,
    signals: Signals,
    /// The process that a person started.
    launcher: u32,
    /// The exit code so far: that of the first failure.
    code: i32,
    /// When all hosts must have started their processes; none once they have.
    starting: Option<Instant>,
    /// When the job is ended, if it has a limit.
    deadline: Option<Instant>,
    /// Set while the ranks that are still there are being ended.
    ending: Option<Ending>,
    /// The signals that asked for an end.
    asked: Vec<i32>,
    /// The person at the launcher's terminal, if rank 0 reads what is typed there.
    person: Option<Person>,
    stage: Stage,
}

/// The end of ranks that does not come by itself.
struct Ending {
    /// When those that are still there are killed.
    deadline: Instant,
    /// How often they were.
    kills: u32,
}

/// Who may be asked something by rank 0.
#[derive(Default)]
struct Person {
    /// When the partial line of rank 0 is shown, as it may be a question.
    question: Option<Instant>,
}

/// How far the job has come. The times tell since when.
#[derive(Clone, Copy)]
enum Stage {
    /// Ranks are there or will be.
    Running,
    /// All ranks have ended.
    Over { ended: Instant },
    /// The agents have been asked to leave.
    Leaving { ended: Instant, asked: Instant },
    /// Only output is left.
    Closing { ended: Instant },
}

impl Stage {
    /// Since when all ranks have ended.
    fn ended(self) -> Option<Instant> {
        match self {
            Self::Running => None,
            Self::Over { ended } | Self::Leaving { ended, .. } | Self::Closing { ended } => {
                Some(ended)
            }
        }
    }
}

impl<'a> Supervisor<'a> {
    fn start(
        plan: &'a Plan,
        launcher: u32,
        signals: Signals,
        typed: Option<PipeReader>,
    ) -> Result<Self, LaunchError> {
        let person = typed.is_some().then(Person::default);
        let prepared = prepare::prepare(plan, typed)?;
        let size = prepared.places.len() as u32;
        let is_alone = size == 1 && !plan.tag_output;
        let form = if is_alone { Form::Plain } else { Form::Whole };
        let member = |(number, &host): (u32, &usize)| {
            let tag = if plan.tag_output { format!("[{number}] ") } else { String::new() };
            Member::new(host, &tag, form)
        };
        let server = Server::new(&prepared.applications, size);
        let mut supervisor = Self {
            plan,
            hosts: prepared.hosts,
            members: (0..).zip(&prepared.places).map(member).collect(),
            server: server.with_mapping(launch::mapping::text(&prepared.places)),
            outlets: Outlets::open()?,
            relay: prepared.relay,
            signals,
            launcher,
            code: 0,
            starting: Some(Instant::now() + START_TIME_MAX),
            deadline: plan.timeout.map(|limit| Instant::now() + limit),
            ending: None,
            asked: Vec::new(),
            person,
            stage: Stage::Running,
        };
        supervisor.begin();
        Ok(supervisor)
    }

    /// Starts all processes when all hosts are there: before, nothing has to be undone.
    fn begin(&mut self) {
        let is_due = self.ending.is_none() && self.hosts.iter().any(Host::is_waiting);
        if !is_due || !self.hosts.iter().all(Host::is_ready) {
            return;
        }
        for host in 0..self.hosts.len() {
            let mut reports = Vec::new();
            if let Err(error) = self.hosts[host].begin(&mut reports) {
                self.fail(CODE_NOT_STARTED, Some(error.to_string()));
            }
            self.take_all(host, reports);
        }
    }

    /// Sleeps until something happens, and deals with it.
    fn round(&mut self) -> io::Result<()> {
        let mut watched = vec![(self.signals.as_raw_fd(), Interest::Read)];
        let mut outlets = Vec::new();
        for (descriptor, target) in self.outlets.watched() {
            watched.push((descriptor, Interest::Write));
            outlets.push(target);
        }
        let is_relaying = self.hosts[self.members[0].host].has_started();
        let input = self.relay.as_ref().filter(|_| is_relaying).and_then(Relay::watched);
        watched.extend(input.map(|descriptor| (descriptor, Interest::Read)));
        let counts: Vec<usize> =
            self.hosts.iter_mut().map(|host| host.watched(&mut watched)).collect();
        let ready = process::poll(&watched, self.patience())?;
        let (ready_outlets, rest) = ready[1..].split_at(outlets.len());
        for (&target, _) in outlets.iter().zip(ready_outlets).filter(|(_, ready)| **ready) {
            self.write(target);
        }
        let (ready_input, mut rest) = rest.split_at(usize::from(input.is_some()));
        if ready_input == [true] {
            self.relay_input();
        }
        for (host, count) in counts.into_iter().enumerate() {
            let (own, after) = rest.split_at(count);
            let mut reports = Vec::new();
            self.hosts[host].serve(own, &mut reports);
            self.take_all(host, reports);
            rest = after;
        }
        self.handle_signals();
        self.reap();
        self.look_at_connections();
        self.begin();
        self.look_at_clock();
        self.hosts.iter_mut().for_each(|host| host.pay(&self.outlets));
        let has_ended = self.members.iter().all(|member| member.end.is_some());
        if matches!(self.stage, Stage::Running) && has_ended {
            self.stage = Stage::Over { ended: Instant::now() };
        }
        Ok(())
    }

    /// How long to sleep at most.
    fn patience(&self) -> Option<Duration> {
        let stage = match self.stage {
            Stage::Running => None,
            Stage::Over { ended } => Some(ended + DRAIN),
            Stage::Leaving { asked, .. } => Some(asked + LEAVE_TIME_MAX),
            Stage::Closing { .. } => {
                let end = self.output_deadline()?;
                return Some(end.saturating_duration_since(Instant::now()));
            }
        };
        let alive = self.members.iter().filter(|member| member.end.is_none());
        let doom = alive.filter_map(|member| member.doomed).min();
        let connection = self.hosts.iter().filter_map(Host::deadline).min();
        let ending = self.ending.as_ref().map(|ending| ending.deadline);
        let question = self.person.as_ref().and_then(|person| person.question);
        let times = [self.starting, self.deadline, ending, question, stage, doom, connection];
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

    fn take_all(&mut self, host: usize, reports: Vec<Report>) {
        reports.into_iter().for_each(|report| self.take(host, report));
    }

    /// Deals with what a host tells.
    fn take(&mut self, host: usize, report: Report) {
        match report {
            Report::Started(processes) => {
                self.hosts[host].note_start();
                let members = self.members.iter_mut().filter(|member| member.host == host);
                members.zip(processes).for_each(|(member, process)| member.process = process);
                if self.hosts.iter().all(Host::has_started) {
                    self.starting = None;
                }
            }
            Report::Refused(why) => {
                let place = &self.hosts[host];
                let name = &place.name;
                let message = if place.is_here() { why } else { format!("on {name}: {why}") };
                self.abandon(host);
                self.fail(CODE_NOT_STARTED, Some(message));
            }
            Report::Wrote(rank, target, bytes) => {
                self.hosts[host].owe(target, bytes.len());
                let member = &mut self.members[rank as usize];
                member.wrote(target, &bytes, &mut self.outlets);
                if let Some(person) = self.person.as_mut().filter(|_| rank == 0) {
                    person.question = member.has_partial_line().then(|| Instant::now() + QUESTION);
                }
            }
            Report::Quiet(rank, target) => {
                self.members[rank as usize].fall_quiet(target, &mut self.outlets);
            }
            Report::Said(rank, bytes) => {
                let actions = self.server.receive(rank, &bytes);
                actions.into_iter().for_each(|action| self.act(action));
            }
            Report::Left(rank) => {
                self.members[rank as usize].is_connected = false;
                self.take_leave(rank);
            }
            Report::Ended(rank, end) => {
                let member = &mut self.members[rank as usize];
                member.finish_lines(&mut self.outlets);
                member.end = Some(end);
                self.judge(rank, end);
                self.take_leave(rank);
            }
            Report::Still => {}
            Report::Took(bytes) => {
                if let Some(relay) = &mut self.relay {
                    relay.grant(bytes);
                }
            }
        }
    }

    /// Gives an order to a host, which may have something to tell.
    fn order(&mut self, host: usize, order: Order) {
        let mut reports = Vec::new();
        if let Err(error) = self.hosts[host].order(order, &mut reports) {
            self.fail(1, Some(error.to_string()));
        }
        self.take_all(host, reports);
    }

    fn relay_input(&mut self) {
        if let Some(order) = self.relay.as_mut().and_then(Relay::read) {
            self.order(self.members[0].host, order);
        }
    }

    /// Ends the job if a connection is lost that is still needed.
    fn look_at_connections(&mut self) {
        for host in 0..self.hosts.len() {
            if self.hosts[host].is_gone() {
                continue;
            }
            self.hosts[host].look_at_clock();
            let Some(message) = self.hosts[host].loss() else { continue };
            let is_early = self.hosts[host].is_waiting();
            let mut members = self.members.iter().filter(|member| member.host == host);
            let is_needed = members.any(|member| member.end.is_none());
            self.abandon(host);
            if is_needed {
                self.fail(if is_early { CODE_NOT_STARTED } else { 1 }, Some(message));
            }
        }
    }

    /// Lets the server know that a process has ended well and that nothing that it left behind
    /// can speak for it; others may wait for it in vain.
    fn take_leave(&mut self, rank: u32) {
        let member = &self.members[rank as usize];
        if member.end == Some(End::Code(0)) && !member.is_connected {
            let actions = self.server.leave(rank);
            actions.into_iter().for_each(|action| self.act(action));
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Answer(rank, line) => {
                self.order(self.members[rank as usize].host, Order::Answer(rank, line));
            }
            Action::Abort(rank, code) => {
                let message = format!("rank {rank} called MPI_Abort({code})");
                self.fail(ending::code_of_abort(code), Some(message));
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

    fn reap(&mut self) {
        while let Ok(Some((process, end))) = process::reap() {
            for host in 0..self.hosts.len() {
                let mut reports = Vec::new();
                let is_known = self.hosts[host].bury(process, end, &mut reports);
                self.take_all(host, reports);
                if is_known {
                    break;
                }
            }
        }
    }

    /// Tells the person something.
    fn tell(&mut self, message: &str) {
        let line = format!("combray: {message}\n");
        self.outlets.queue(Target::Errors).extend_from_slice(line.as_bytes());
    }

    fn look_at_clock(&mut self) {
        if matches!(self.stage, Stage::Closing { .. }) {
            return;
        }
        let is_running = matches!(self.stage, Stage::Running);
        let now = Instant::now();
        let has_come = |time: Option<Instant>| time.is_some_and(|time| now >= time);
        if let Some(person) = self.person.as_mut().filter(|person| has_come(person.question)) {
            person.question = None;
            self.members[0].show_partial_line(&mut self.outlets);
        }
        if has_come(self.starting) {
            self.tell_of_late_hosts();
        }
        if has_come(self.deadline) && is_running {
            let limit = self.plan.timeout.unwrap_or_default();
            let message = messages::timeout(limit, &self.alive());
            self.deadline = None;
            self.fail(CODE_TIMEOUT, Some(message));
        }
        for rank in 0..self.members.len() {
            let member = &self.members[rank];
            if member.end.is_none() && has_come(member.doomed) {
                self.order(member.host, Order::Signal(Some(rank as u32), signal::SIGKILL));
            }
        }
        if is_running && has_come(self.ending.as_ref().map(|ending| ending.deadline)) {
            self.kill_all();
        }
    }

    /// Whether all ranks have ended and their output is through.
    fn is_over(&self) -> bool {
        let Some(since) = self.stage.ended() else { return false };
        since.elapsed() >= DRAIN || self.members.iter().all(Member::is_silent)
    }

    /// When the output that is left is given up. A slow reader is waited for, as any program waits,
    /// but not past the time limit; and for a moment only when the job was made to end.
    fn output_deadline(&self) -> Option<Instant> {
        let was_ended = !self.asked.is_empty() || self.code == CODE_TIMEOUT;
        self.stage.ended().filter(|_| was_ended).map(|since| since + GRACE).or(self.deadline)
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

    /// Lets the agents end what the ranks left behind, and take leave.
    fn dismiss(&mut self) {
        let asked = Instant::now();
        self.stage = Stage::Leaving { ended: self.stage.ended().unwrap_or(asked), asked };
        self.ending = None;
        for host in 0..self.hosts.len() {
            if !self.hosts[host].is_here() {
                self.order(host, Order::Close);
            }
        }
    }

    /// Whether all agents have taken leave, or are waited for no longer.
    fn is_dismissed(&self) -> bool {
        let are_gone = self.hosts.iter().all(|host| host.is_here() || host.is_gone());
        let since = match self.stage {
            Stage::Leaving { asked, .. } => Some(asked),
            _ => None,
        };
        let is_late = since.is_some_and(|since| since.elapsed() >= LEAVE_TIME_MAX);
        are_gone || is_late || self.asked.len() > 1
    }

    /// Ends what the ranks left behind on this machine, and takes the last of their output.
    fn close(&mut self) {
        self.stage = Stage::Closing { ended: self.stage.ended().unwrap_or_else(Instant::now) };
        for host in 0..self.hosts.len() {
            if self.hosts[host].is_here() {
                self.order(host, Order::Close);
            } else {
                self.abandon(host);
            }
        }
        end_descendants();
        self.members.iter_mut().for_each(|member| member.finish_lines(&mut self.outlets));
    }
}
