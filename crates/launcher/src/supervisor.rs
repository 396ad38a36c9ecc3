//! The supervisor of a job: collects the reports of all machines and decides what happens next.

mod clients;
mod debugging;
mod host;
mod inquiry;
mod messages;
mod prepare;
mod rank_state;
mod relay;
mod termination;

use messages::{HostPhase, RunningRank};
use std::io::{self, PipeReader};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use sys::process::{self, End, Interest, Signals, signal};

use super::guard::{END, KILL_TIME_MAX, end_descendants};
use super::outlets::Outlets;
use super::{JobPlan, LaunchError};
use crate::jobs::JobSummary;
use crate::lines::LineMode;
use crate::pmi_server::{MpiState, OnMissing, PmiAction, PmiServer};
use crate::process_table::TableWriter;
use crate::protocol::{AgentOrder, AgentReport, OutputStream, START_TIME_MAX};
use clients::{ClientRequest, Clients};
use debugging::Debugging;
use host::JobHost;
use inquiry::{Asker, Inquiry};
use rank_state::RankState;
use relay::Relay;

/// How long processes have to end by themselves after one has failed.
const KILL_DELAY: Duration = Duration::from_secs(2);

/// How long processes have to end after a user or a batch system requested it: some save their
/// state.
const KILL_DELAY_AFTER_SIGNAL: Duration = Duration::from_secs(10);

/// How long to wait for further output after all processes have ended: a background process that
/// they started may hold the pipe open.
const DRAIN: Duration = Duration::from_millis(200);

/// After how long an incomplete line is shown, as it may be a prompt.
const PROMPT_DELAY: Duration = Duration::from_millis(100);

/// How long agents may take to clean up and end.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(KILL_TIME_MAX.as_secs() + 2);

/// The exit code when a host cannot be reached, as for any job that cannot be started.
const CODE_NOT_STARTED: i32 = 2;

/// The exit code when the time limit has passed, equal to that of timeout(1).
const CODE_TIMEOUT: i32 = 124;

/// The minimal and maximal time between two checks whether the job makes progress.
const STALL_LOOKS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));

/// A first SIGQUIT asks all ranks what they do. A second one within this time is forwarded.
const QUIT_TIME_MAX: Duration = Duration::from_secs(3);

/// Starts all ranks and returns the exit code when the last one has ended. `launcher` and `guard`
/// are the ids of the processes above this one. Rank 0 reads from `typed` what is typed at the
/// launcher's terminal, if there is one. `table` passes the launcher the table of processes for
/// debuggers.
pub(super) fn supervise(
    plan: &JobPlan,
    (launcher, guard): (u32, u32),
    signals: Signals,
    (typed, table): (Option<PipeReader>, Option<TableWriter>),
) -> Result<i32, LaunchError> {
    let mut supervisor = Supervisor::start(plan, (launcher, guard), signals, (typed, table))?;
    while !supervisor.has_ended() {
        supervisor.round()?;
    }
    supervisor.close_agents();
    while !supervisor.are_agents_closed() {
        supervisor.round()?;
    }
    supervisor.close();
    while !supervisor.outlets.are_empty() && !supervisor.gives_up_output() {
        supervisor.round()?;
    }
    supervisor.drop_output();
    Ok(supervisor.code)
}

struct Supervisor<'a> {
    plan: &'a JobPlan,
    hosts: Vec<JobHost>,
    /// All ranks of the job.
    ranks: Vec<RankState>,
    server: PmiServer,
    outlets: Outlets,
    /// Input for a rank 0 on another machine.
    relay: Option<Relay>,
    signals: Signals,
    /// The ids of the process that the user started, and of the parent of this process.
    launcher: u32,
    guard: u32,
    /// When the job began.
    begun: Instant,
    /// The clients that connect to this job, and the question that is being asked.
    clients: Clients,
    inquiry: Option<Inquiry>,
    /// The interface to debuggers, which knows whether the processes wait for one.
    debugging: Debugging,
    /// When to check next whether the job makes progress, if it is ended when it does not.
    stall: Option<Instant>,
    /// When the last SIGQUIT arrived that asked a question.
    quit: Option<Instant>,
    /// The exit code so far: that of the first failure.
    code: i32,
    /// The deadline by which all hosts must have started their processes; none once they have.
    starting: Option<Instant>,
    /// The time limit of the job, if it has one.
    deadline: Option<Instant>,
    /// Set while the remaining ranks are being ended.
    termination: Option<Termination>,
    /// The number of failures after which the job went on.
    failures: u32,
    /// How many processes gave a reason for ending the job when it was already ending.
    late_reasons: u32,
    /// The message about the first failure.
    first_failure: String,
    /// The signals that requested the end of the job.
    interrupts: Vec<i32>,
    /// The user at the launcher's terminal, if rank 0 reads what is typed there.
    terminal: Option<Terminal>,
    phase: JobPhase,
}

/// The forced end of ranks.
struct Termination {
    /// When the remaining ranks are killed.
    deadline: Instant,
    /// How many times they were killed.
    kills: u32,
}

/// The terminal at which rank 0 may prompt the user.
#[derive(Default)]
struct Terminal {
    /// When the partial line of rank 0 is shown, as it may be a prompt.
    prompt_deadline: Option<Instant>,
}

/// The phases of a job, with the times at which they began.
#[derive(Clone, Copy)]
enum JobPhase {
    /// Ranks are running or will be started.
    Running,
    /// All ranks have ended.
    Ended { ended: Instant },
    /// The agents were ordered to clean up and end.
    ClosingAgents { ended: Instant, asked: Instant },
    /// Only output is left to write.
    FlushingOutput { ended: Instant },
}

impl JobPhase {
    /// Returns when all ranks had ended.
    fn ended(self) -> Option<Instant> {
        match self {
            Self::Running => None,
            Self::Ended { ended }
            | Self::ClosingAgents { ended, .. }
            | Self::FlushingOutput { ended } => Some(ended),
        }
    }
}

impl<'a> Supervisor<'a> {
    fn start(
        plan: &'a JobPlan,
        (launcher, guard): (u32, u32),
        signals: Signals,
        (typed, table): (Option<PipeReader>, Option<TableWriter>),
    ) -> Result<Self, LaunchError> {
        let terminal = typed.is_some().then(Terminal::default);
        let prepared = prepare::prepare(plan, typed)?;
        let size = prepared.places.len() as u32;
        let is_alone = size == 1 && plan.output.is_plain();
        let mode = if is_alone { LineMode::Bytes } else { LineMode::WholeLines };
        let mut ranks = Vec::new();
        for (number, &host) in prepared.places.iter().enumerate() {
            let name = prepared.hosts[host].name.as_str();
            let files = plan.output.open(number, prepared.places.len(), (host, name))?;
            ranks.push(RankState::new(host, number, mode, &plan.output, files));
        }
        let server = PmiServer::new(&prepared.applications, size);
        let on_missing = if plan.keep_going { OnMissing::FailBarrier } else { OnMissing::EndJob };
        let mut supervisor = Self {
            plan,
            hosts: prepared.hosts,
            ranks,
            server: server
                .with_mapping(launch::mapping::text(&prepared.places))
                .with_missing(on_missing),
            outlets: Outlets::open()?,
            relay: prepared.relay,
            signals,
            launcher,
            guard,
            begun: Instant::now(),
            clients: Clients::listen(launcher),
            inquiry: None,
            debugging: Debugging::new(table),
            stall: plan.stall.map(|limit| Instant::now() + limit),
            quit: None,
            code: 0,
            starting: Some(Instant::now() + START_TIME_MAX),
            deadline: plan.timeout.map(|limit| Instant::now() + limit),
            termination: None,
            failures: 0,
            late_reasons: 0,
            first_failure: String::new(),
            interrupts: Vec::new(),
            terminal,
            phase: JobPhase::Running,
        };
        supervisor.begin();
        Ok(supervisor)
    }

    /// Starts all processes when all hosts are ready: until then, nothing needs to be undone.
    fn begin(&mut self) {
        let is_due = self.termination.is_none() && self.hosts.iter().any(JobHost::is_waiting);
        if !is_due || !self.hosts.iter().all(JobHost::is_ready) {
            return;
        }
        for host in 0..self.hosts.len() {
            let mut reports = Vec::new();
            if let Err(error) = self.hosts[host].begin(&mut reports) {
                self.fail(CODE_NOT_STARTED, Some(error.to_string()));
            }
            self.handle_reports(host, reports);
        }
    }

    /// Sleeps until an event occurs, and handles it.
    fn round(&mut self) -> io::Result<()> {
        let mut watched = vec![(self.signals.as_raw_fd(), Interest::Read)];
        let mut outlets = Vec::new();
        for (descriptor, target) in self.outlets.watched() {
            watched.push((descriptor, Interest::Write));
            outlets.push(target);
        }
        let is_relaying = self.hosts[self.ranks[0].host].has_started();
        let input = self.relay.as_ref().filter(|_| is_relaying).and_then(Relay::watched);
        watched.extend(input.map(|descriptor| (descriptor, Interest::Read)));
        let client_count = self.clients.watched(&mut watched);
        let table = self.debugging.watched();
        watched.extend(table.map(|descriptor| (descriptor, Interest::Read)));
        let counts: Vec<usize> =
            self.hosts.iter_mut().map(|host| host.watched(&mut watched)).collect();
        let ready = process::poll(&watched, self.poll_timeout())?;
        let (ready_outlets, rest) = ready[1..].split_at(outlets.len());
        for (&target, _) in outlets.iter().zip(ready_outlets).filter(|(_, ready)| **ready) {
            self.write(target);
        }
        let (ready_input, rest) = rest.split_at(usize::from(input.is_some()));
        if ready_input == [true] {
            self.relay_input();
        }
        let (ready_clients, rest) = rest.split_at(client_count);
        self.serve_clients(ready_clients);
        let (ready_table, mut rest) = rest.split_at(usize::from(table.is_some()));
        if ready_table == [true] {
            self.release_held();
        }
        for (host, count) in counts.into_iter().enumerate() {
            let (own, after) = rest.split_at(count);
            let mut reports = Vec::new();
            self.hosts[host].serve(own, &mut reports);
            self.hosts[host].look_for_answers(&mut reports);
            self.handle_reports(host, reports);
            rest = after;
        }
        self.handle_signals();
        self.reap();
        self.check_connections();
        self.begin();
        self.handle_timers();
        self.hosts.iter_mut().for_each(|host| host.grant_output(&self.outlets));
        let has_ended = self.ranks.iter().all(|rank_state| rank_state.end.is_some());
        if matches!(self.phase, JobPhase::Running) && has_ended {
            self.phase = JobPhase::Ended { ended: Instant::now() };
        }
        Ok(())
    }

    /// Returns how long to sleep at most.
    fn poll_timeout(&self) -> Option<Duration> {
        let stage = match self.phase {
            JobPhase::Running => None,
            JobPhase::Ended { ended } => Some(ended + DRAIN),
            JobPhase::ClosingAgents { asked, .. } => Some(asked + CLOSE_TIME_MAX),
            JobPhase::FlushingOutput { .. } => {
                let end = self.output_deadline()?;
                return Some(end.saturating_duration_since(Instant::now()));
            }
        };
        let running = self.ranks.iter().filter(|rank_state| rank_state.end.is_none());
        let kill_deadline = running.filter_map(|rank_state| rank_state.kill_deadline).min();
        let connection = self.hosts.iter().filter_map(JobHost::deadline).min();
        let ending = self.termination.as_ref().map(|ending| ending.deadline);
        let question = self.terminal.as_ref().and_then(|terminal| terminal.prompt_deadline);
        let inquiry = self.inquiry.as_ref().map(|inquiry| inquiry.deadline);
        let stall = self.stall.filter(|_| matches!(self.phase, JobPhase::Running));
        let times = [
            stall,
            inquiry,
            self.starting,
            self.deadline,
            ending,
            question,
            stage,
            kill_deadline,
            connection,
        ];
        let next = times.into_iter().flatten().min()?;
        // For a time in the past, the descriptors are polled once, without a busy loop.
        let now = Instant::now();
        Some(next.saturating_duration_since(now).max(Duration::from_millis(1)))
    }

    fn write(&mut self, target: OutputStream) {
        match self.outlets.write(target) {
            Ok(()) => {}
            // The reader of the output has ended: end silently, as a program in a pipe does.
            Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => {
                self.fail(128 + signal::SIGPIPE, None);
            }
            Err(cause) => {
                let message = format!("the output of the job cannot be written: {cause}");
                self.fail(1, Some(message));
            }
        }
    }

    fn handle_reports(&mut self, host: usize, reports: Vec<AgentReport>) {
        reports.into_iter().for_each(|report| self.handle_report(host, report));
    }

    /// Handles a report of a host.
    fn handle_report(&mut self, host: usize, report: AgentReport) {
        if let Err(what) = self.hosts[host].check(&report) {
            let message = format!("the processes here cannot be watched any more: {what}");
            return self.fail(1, Some(message));
        }
        match report {
            AgentReport::Started(processes) => {
                self.hosts[host].mark_started();
                let rank_states =
                    self.ranks.iter_mut().filter(|rank_state| rank_state.host == host);
                rank_states
                    .zip(processes)
                    .for_each(|(rank_state, process)| rank_state.process = process);
                if self.hosts.iter().all(JobHost::has_started) {
                    self.starting = None;
                    self.tell_debuggers();
                }
            }
            AgentReport::StartFailed(why) => {
                let place = &self.hosts[host];
                let name = &place.name;
                let message = if place.is_local() { why } else { format!("on {name}: {why}") };
                self.give_up_host(host);
                self.fail(CODE_NOT_STARTED, Some(message));
            }
            AgentReport::Output(rank, target, bytes) => {
                self.hosts[host].note_output(target, bytes.len());
                let rank_state = &mut self.ranks[rank as usize];
                let told = rank_state.handle_output(target, &bytes, &mut self.outlets);
                if let Some(terminal) = self.terminal.as_mut().filter(|_| rank == 0) {
                    terminal.prompt_deadline =
                        rank_state.has_partial_line().then(|| Instant::now() + PROMPT_DELAY);
                }
                if let Err(message) = told {
                    self.fail(1, Some(message));
                }
            }
            AgentReport::OutputClosed(rank, target) => {
                self.ranks[rank as usize].close_output(target, &mut self.outlets);
            }
            AgentReport::PmiData(rank, bytes) => {
                if !self.debugging.hold(rank, &bytes) {
                    self.receive_pmi(rank, &bytes);
                }
            }
            AgentReport::PmiClosed(rank) => {
                self.ranks[rank as usize].is_connected = false;
                self.close_pmi(rank);
            }
            AgentReport::Ended(rank, end) => {
                let rank_state = &mut self.ranks[rank as usize];
                rank_state.finish_lines(&mut self.outlets);
                rank_state.end = Some(end);
                self.check_exit(rank, end);
                self.close_pmi(rank);
            }
            AgentReport::Heartbeat => {}
            AgentReport::Answer(rank, answer) => self.note_answer(rank, answer),
            AgentReport::InputTaken(bytes) => {
                if let Some(relay) = &mut self.relay {
                    relay.grant(bytes);
                }
            }
        }
    }

    /// Sends an order to a host, which may return reports.
    fn send(&mut self, host: usize, order: AgentOrder) {
        let mut reports = Vec::new();
        if let Err(error) = self.hosts[host].send(order, &mut reports) {
            self.fail(1, Some(error.to_string()));
        }
        self.handle_reports(host, reports);
    }

    /// Serves the clients that have connected to this job.
    fn serve_clients(&mut self, ready: &[bool]) {
        for request in self.clients.serve(ready) {
            match request {
                ClientRequest::Report(client) => self.inquire(Asker::Client(client)),
                ClientRequest::Summary(client) => {
                    let summary = JobSummary {
                        job: self.launcher,
                        program: self.program(),
                        ranks: self.ranks.len() as u32,
                        hosts: self.hosts.len() as u32,
                        seconds: self.begun.elapsed().as_secs_f64(),
                    };
                    self.clients.tell(client, &summary);
                }
            }
        }
    }

    fn relay_input(&mut self) {
        if let Some(order) = self.relay.as_mut().and_then(Relay::read) {
            self.send(self.ranks[0].host, order);
        }
    }

    /// Ends the job if a connection is lost that is still needed.
    fn check_connections(&mut self) {
        for host in 0..self.hosts.len() {
            if self.hosts[host].is_closed() {
                continue;
            }
            self.hosts[host].handle_timers();
            let Some(message) = self.hosts[host].connection_error() else { continue };
            let phase = match self.hosts[host].is_waiting() {
                true => HostPhase::Starting,
                false => HostPhase::Running,
            };
            let mut rank_states = self.ranks.iter().filter(|rank_state| rank_state.host == host);
            let is_needed = rank_states.any(|rank_state| rank_state.end.is_none());
            let is_lost =
                |rank_state: &RankState| rank_state.host == host && rank_state.end.is_none();
            let lost: Vec<u32> = (0..)
                .zip(&self.ranks)
                .filter(|(_, rank_state)| is_lost(rank_state))
                .map(|(rank, _)| rank)
                .collect();
            self.give_up_host(host);
            if is_needed {
                let code = if phase == HostPhase::Starting { CODE_NOT_STARTED } else { 1 };
                self.handle_failure(code, message, self.consequence(phase));
            }
            lost.into_iter().for_each(|rank| self.close_pmi(rank));
        }
    }

    /// Reports to the PMI server that a process has ended well and that no process that it left
    /// behind uses its connection. Otherwise other processes might wait for it forever.
    fn close_pmi(&mut self, rank: u32) {
        let rank_state = &self.ranks[rank as usize];
        let is_missing = match rank_state.end {
            Some(End::Code(0)) => !rank_state.is_connected,
            // A process that a failed process left behind does not act for it.
            Some(_) => self.plan.keep_going,
            None => false,
        };
        if is_missing {
            let actions = self.server.close(rank);
            actions.into_iter().for_each(|action| self.act(action));
        }
    }

    fn act(&mut self, action: PmiAction) {
        match action {
            PmiAction::Answer(rank, line) => {
                self.send(self.ranks[rank as usize].host, AgentOrder::Answer(rank, line));
            }
            PmiAction::Abort(rank, code, reason) => self.abort(rank, code, reason),
            PmiAction::End(by, ranks, code) => self.end_ranks(by, &ranks, code),
            PmiAction::ProtocolError(rank, what) => {
                self.print_message(&format!(
                    "rank {rank} sent its launcher what is no PMI-1, so that its connection is \
                     closed: \"{}\"",
                    what.escape_debug()
                ));
                self.send(self.ranks[rank as usize].host, AgentOrder::ClosePmi(rank));
            }
            PmiAction::MissingProcess { waiting, gone } => {
                let state = self.server.mpi_state(gone);
                self.fail(1, Some(messages::missing_process(waiting, gone, state)));
            }
        }
    }

    fn handle_signals(&mut self) {
        while let Some(number) = self.signals.next() {
            match number {
                signal::SIGCHLD => {}
                // Sent by the kernel, because the guard was killed.
                signal::SIGTERM if std::os::unix::process::parent_id() != self.guard => {
                    end_descendants();
                    std::process::exit(128 + signal::SIGKILL);
                }
                END => {
                    end_descendants();
                    std::process::exit(128 + END);
                }
                signal::SIGQUIT if self.asks_by_signal() => self.inquire(Asker::Terminal),
                signal::SIGINT | signal::SIGTERM | signal::SIGHUP | signal::SIGQUIT => {
                    self.interrupts.push(number);
                    self.code = if self.code == 0 { 128 + number } else { self.code };
                    let is_first = self.interrupts.len() == 1;
                    if is_first && self.starting.is_none() {
                        let running = self.running();
                        if !running.is_empty() {
                            self.print_message(&messages::interrupted(number, &running));
                        }
                        if self.asks_before_end(number, &running) {
                            self.inquire(Asker::Interrupt(number));
                            continue;
                        }
                    }
                    self.end_all(
                        if is_first { number } else { signal::SIGKILL },
                        KILL_DELAY_AFTER_SIGNAL,
                    );
                }
                other => self.signal_all(other),
            }
        }
    }

    /// Whether the ranks are asked why they wait before a signal ends them: the user, or a batch
    /// system, may send the signal because the job hangs.
    fn asks_before_end(&self, number: i32, running: &[RunningRank]) -> bool {
        matches!(number, signal::SIGINT | signal::SIGTERM)
            && self.termination.is_none()
            && running.iter().any(|one| one.mpi_state == MpiState::Initialized)
    }

    /// Whether a SIGQUIT that has just arrived asks what the ranks do: the first one while they
    /// run.
    fn asks_by_signal(&mut self) -> bool {
        let now = Instant::now();
        let is_second = self.quit.is_some_and(|first| now - first < QUIT_TIME_MAX);
        let asks = !is_second && self.starting.is_none() && self.termination.is_none();
        self.quit = asks.then_some(now);
        asks
    }

    fn reap(&mut self) {
        while let Ok(Some((process, end))) = process::reap() {
            for host in 0..self.hosts.len() {
                let mut reports = Vec::new();
                let is_known = self.hosts[host].record_exit(process, end, &mut reports);
                self.handle_reports(host, reports);
                if is_known {
                    break;
                }
            }
        }
    }

    /// Writes a message to the error output.
    fn print_message(&mut self, message: &str) {
        let line = format!("combray: {message}\n");
        self.outlets.queue(OutputStream::Errors).extend_from_slice(line.as_bytes());
    }

    fn handle_timers(&mut self) {
        if matches!(self.phase, JobPhase::FlushingOutput { .. }) {
            return;
        }
        let is_running = matches!(self.phase, JobPhase::Running);
        let now = Instant::now();
        let has_come = |time: Option<Instant>| time.is_some_and(|time| now >= time);
        if let Some(terminal) =
            self.terminal.as_mut().filter(|terminal| has_come(terminal.prompt_deadline))
        {
            terminal.prompt_deadline = None;
            self.ranks[0].show_partial_line(&mut self.outlets);
        }
        if has_come(self.starting) {
            self.fail_late_hosts();
        }
        if has_come(self.deadline) && is_running {
            self.deadline = None;
            match self.starting {
                // There is no rank to ask.
                Some(_) => self.end_at_limit(),
                None => self.inquire(Asker::TimeLimit),
            }
        }
        if has_come(self.stall) && is_running {
            let limit = self.plan.stall.unwrap_or_default();
            self.stall = Some(now + (limit / 4).clamp(STALL_LOOKS.0, STALL_LOOKS.1));
            self.inquire(Asker::Stall);
        }
        self.conclude_inquiry();
        for rank in 0..self.ranks.len() {
            let rank_state = &self.ranks[rank];
            if rank_state.end.is_none() && has_come(rank_state.kill_deadline) {
                self.send(rank_state.host, AgentOrder::Signal(Some(rank as u32), signal::SIGKILL));
            }
        }
        if is_running && has_come(self.termination.as_ref().map(|ending| ending.deadline)) {
            self.kill_all();
        }
    }

    /// Whether all ranks have ended and all their output was read.
    fn has_ended(&self) -> bool {
        let Some(since) = self.phase.ended() else { return false };
        since.elapsed() >= DRAIN || self.ranks.iter().all(RankState::has_closed_outputs)
    }

    /// Returns when the remaining output is dropped. A slow reader is waited for, as by any
    /// program, but not longer than the time limit. If the job was made to end, it is waited for
    /// only briefly.
    fn output_deadline(&self) -> Option<Instant> {
        let was_ended = !self.interrupts.is_empty() || self.code == CODE_TIMEOUT;
        self.phase.ended().filter(|_| was_ended).map(|since| since + KILL_DELAY).or(self.deadline)
    }

    /// Whether the remaining output is to be dropped now.
    fn gives_up_output(&self) -> bool {
        let is_late = self.output_deadline().is_some_and(|end| Instant::now() >= end);
        self.interrupts.len() > 1 || is_late
    }

    /// Prints a message if output is lost.
    fn drop_output(&mut self) {
        if !self.outlets.are_empty() {
            self.code = if self.code == 0 { CODE_TIMEOUT } else { self.code };
            self.print_message("the rest of the job's output, which nobody read, is dropped");
            // If the error output has no reader either, the exit code shows it.
            let _ = self.outlets.write(OutputStream::Errors);
        }
    }

    /// Orders the agents to end what the ranks left behind, and to end themselves.
    fn close_agents(&mut self) {
        let asked = Instant::now();
        self.phase = JobPhase::ClosingAgents { ended: self.phase.ended().unwrap_or(asked), asked };
        self.termination = None;
        for host in 0..self.hosts.len() {
            if !self.hosts[host].is_local() {
                self.send(host, AgentOrder::Close);
            }
        }
    }

    /// Whether all agents have ended, or the time for that has passed.
    fn are_agents_closed(&self) -> bool {
        let are_gone = self.hosts.iter().all(|host| host.is_local() || host.is_closed());
        let since = match self.phase {
            JobPhase::ClosingAgents { asked, .. } => Some(asked),
            _ => None,
        };
        let is_late = since.is_some_and(|since| since.elapsed() >= CLOSE_TIME_MAX);
        are_gone || is_late || self.interrupts.len() > 1
    }

    /// Ends what the ranks left behind on this machine, and reads the last of their output.
    fn close(&mut self) {
        self.phase =
            JobPhase::FlushingOutput { ended: self.phase.ended().unwrap_or_else(Instant::now) };
        for host in 0..self.hosts.len() {
            if self.hosts[host].is_local() {
                self.send(host, AgentOrder::Close);
            } else {
                self.give_up_host(host);
            }
        }
        end_descendants();
        if self.failures > 0 {
            let (failures, first) = (self.failures, &self.first_failure);
            self.print_message(&messages::first_of_failures(failures, first, self.code));
        }
        self.ranks.iter_mut().for_each(|rank_state| rank_state.finish_lines(&mut self.outlets));
    }
}
