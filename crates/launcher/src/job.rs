//! A job as a state machine, without I/O and without a clock: events in, actions out.
//!
//! [`JobState::handle`] accepts an event with the time at which it is handled.
//! [`JobState::next_action`] returns what the event loop must do next. [`JobState::next_deadline`]
//! returns when the event loop must wake up even if nothing happens; it then passes
//! [`JobEvent::TimePassed`]. The supervisor is such a loop; `sim::jobs` is another one, in virtual
//! time.
//!
//! Why: docs/internals/decisions/0088-a-job-is-a-state-machine.md

mod actions;
mod agent_link;
mod connections;
mod deadlines;
mod finished_prefix;
mod host;
mod inquiry;
mod last_phases;
mod messages;
mod rank_state;
mod spawned_jobs;
mod termination;
mod traces;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use launch::wanted::WantedSize;
use mpir::JobProcess;
use sys::process::{End, signal};

use actions::Actions;
pub use actions::{Action, ClientId, JobEvent};
pub use agent_link::AgentAccess;
pub use deadlines::Deadline;
use deadlines::Deadlines;
use finished_prefix::FinishedPrefix;
pub use host::HostSetup;
use host::JobHost;
use inquiry::{Asker, Inquiry};
use last_phases::JobPhase;
use messages::RunningRank;
use rank_state::RankState;
use spawned_jobs::SpawnedJobs;
use traces::{TraceCollections, TraceReceiver};

use crate::jobs::{JobSummary, ResizeReply, Resizing, WANTED_MAX};
use crate::launch_tree::LaunchTree;
use crate::lines::LineMode;
use crate::pmi_server::{MpiState, OnMissing, PmiAction, PmiServer};
use crate::protocol::{AgentOrder, AgentReport, INPUT_BYTES_MAX, OutputStream, START_TIME_MAX};
use crate::spawned::SpawnedNotice;
use crate::{JobPlan, SlotTable};

/// How long processes have to end by themselves after one has failed.
const KILL_DELAY: Duration = Duration::from_secs(2);

/// The most ranks of a host that are asked why they wait before a signal ends them. A question
/// wakes all ranks. More of them do not answer in time, and meanwhile the launcher, which must end
/// them, competes with them for the cores.
const ASKED_BEFORE_END_MAX: usize = 128;

/// How long processes have to end after a user or a batch system requested it: some save their
/// state.
const KILL_DELAY_AFTER_SIGNAL: Duration = Duration::from_secs(10);

/// How long spawned jobs have to end after a signal: their launchers kill the processes that are
/// left.
const SPAWNED_END_TIME_MAX: Duration =
    Duration::from_secs(KILL_DELAY_AFTER_SIGNAL.as_secs() + KILL_DELAY.as_secs());

/// After how long an incomplete line is shown, as it may be a prompt.
const PROMPT_DELAY: Duration = Duration::from_millis(100);

/// The exit code when a host cannot be reached, as for any job that cannot be started.
pub(super) const CODE_NOT_STARTED: i32 = 2;

/// The exit code when the time limit has passed, equal to that of timeout(1).
const CODE_TIMEOUT: i32 = 124;

/// The minimal and maximal time between two checks whether the job makes progress.
const STALL_CHECKS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));

/// A first SIGQUIT asks all ranks what they do. A second one within this time is forwarded.
const QUIT_TIME_MAX: Duration = Duration::from_secs(3);

/// How long a command that has closed its output may take to end, which shows the reason.
const COMMAND_END_TIME_MAX: Duration = Duration::from_secs(2);

/// The time between two attempts to reach a host.
const PAUSE_BEFORE_RETRY: Duration = Duration::from_secs(1);

/// When more bytes than this wait for an output of the launcher, no more are read from the
/// processes: they block as if they wrote to the slow reader themselves.
const BACKLOG_BYTES_MAX: usize = 256 << 10;

/// What a job consists of, besides its plan.
#[derive(Clone, Debug)]
pub struct JobSetup {
    /// The machines, of which one at most is this one.
    pub hosts: Vec<HostSetup>,
    /// For each rank the index of its host.
    pub places: Vec<usize>,
    /// For each rank the number of its program.
    pub applications: Vec<u32>,
    /// How many processes the hosts have slots for, at least those of the job
    /// (`MPI_UNIVERSE_SIZE`).
    pub universe_size: u32,
    /// The process id of the launcher, by which users name the job.
    pub launcher: u32,
    /// Whether processes of another job have spawned this one.
    pub is_spawned: bool,
    /// The name of the job among the launchers, if it was spawned and its parents have a launcher.
    pub name: Option<String>,
    /// The slots of the hosts, those of the job's own processes being taken.
    pub slots: SlotTable,
    /// For each rank the host whose slot it has.
    pub rank_slots: Vec<Option<String>>,
    /// The other end of the launcher's standard input and output.
    pub console: Console,
    /// Where messages and errors go.
    pub outlet: MessageOutlet,
    /// When requests of ranks are answered for the first time.
    pub start_of_ranks: StartOfRanks,
    /// What the system reports about this machine.
    pub probes: SystemProbes,
    /// Whether the launch tree changes by the times that the first agents take to start.
    pub measures_tree: bool,
}

/// What is at the other end of the launcher's standard input and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Console {
    /// A terminal: rank 0 may prompt the user.
    Terminal,
    /// A file, a pipe, or nothing.
    File,
}

/// Where messages of the launcher and errors of ranks go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageOutlet {
    /// Whether output of ranks goes there, too.
    pub is_that_of_output: bool,
    /// The columns of the terminal; none: it is no terminal.
    pub columns: Option<usize>,
}

/// When the requests of ranks are answered for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartOfRanks {
    /// As soon as they are sent.
    Immediate,
    /// When a debugger is ready.
    AfterDebugger,
}

/// What the system reports about this machine.
#[derive(Clone, Copy, Debug)]
pub struct SystemProbes {
    /// Returns the current time of the day, as it stands before lines of output.
    pub time_of_day: fn() -> String,
    /// Returns the state of a process as the kernel reports it, if it can be read.
    pub process_state: fn(i32) -> Option<&'static str>,
    /// Returns the executable file of a process, if it can be read.
    pub executable: fn(i32) -> Option<PathBuf>,
}

/// A job.
pub struct JobState<'a> {
    plan: &'a JobPlan,
    hosts: Vec<JobHost>,
    /// All ranks of the job.
    ranks: Vec<RankState>,
    server: PmiServer,
    actions: Actions,
    deadlines: Deadlines,
    /// The time of the current event, and of the first one.
    now: Instant,
    begun: Instant,
    launcher: u32,
    is_spawned: bool,
    console: Console,
    outlet: MessageOutlet,
    probes: SystemProbes,
    measures_tree: bool,
    /// The requests to the PMI server that wait for a debugger; none once there is none to wait
    /// for.
    held: Option<Vec<(u32, Vec<u8>)>>,
    /// How many bytes of input rank 0 can accept, if it runs on another machine.
    input_room: u32,
    /// The question that is being asked.
    inquiry: Option<Inquiry>,
    /// What ranks have recorded, while it is collected.
    traces: TraceCollections,
    /// When the last SIGQUIT arrived that asked a question.
    quit: Option<Instant>,
    /// The exit code so far: that of the first failure.
    code: i32,
    /// The exit code when the job became independent of its parents, which know it then.
    reported_code: i32,
    /// While the remaining ranks are being ended: how many times they were killed.
    kills: Option<u32>,
    /// The last number of failed processes that was published to the ranks.
    published_failures: u32,
    /// The number of failures after which the job went on.
    failures: u32,
    /// How many processes gave a reason for ending the job when it was already ending.
    late_reasons: u32,
    /// Whether output could not be written.
    has_lost_output: bool,
    /// The message about the first failure.
    first_failure: String,
    /// Why the job could not be started, if it could not.
    start_failure: Option<String>,
    /// The signals that requested the end of the job.
    interrupts: Vec<i32>,
    phase: JobPhase,
    /// The jobs that processes of this one have spawned, and those below them.
    spawned: SpawnedJobs,
    /// The hosts that are ready, that were ordered to start their processes, and that have.
    ready: FinishedPrefix,
    ordered: FinishedPrefix,
    started: FinishedPrefix,
    /// The ranks that have ended, and those that have closed their outputs.
    ended: FinishedPrefix,
    drained: FinishedPrefix,
}

impl<'a> JobState<'a> {
    /// Creates a job, which begins at `now`.
    pub fn new(plan: &'a JobPlan, setup: JobSetup, now: Instant) -> Self {
        let size = setup.places.len() as u32;
        let is_alone = size == 1 && plan.output.is_plain();
        let mode = if is_alone { LineMode::Bytes } else { LineMode::WholeLines };
        let time = plan.output.is_timed.then_some(setup.probes.time_of_day);
        let rank = |(number, &host)| RankState::new(number, host, mode, &plan.output, time);
        let server = PmiServer::new(&setup.applications, setup.universe_size);
        let on_missing = if plan.keep_going { OnMissing::FailBarrier } else { OnMissing::EndJob };
        let parents = setup.hosts.iter().map(|host| host.parent).collect();
        let mut job = Self {
            plan,
            ranks: (0..).zip(&setup.places).map(rank).collect(),
            server: server
                .with_mapping(&launch::mapping::text(&setup.places))
                .with_missing(on_missing),
            hosts: (0..).zip(setup.hosts).map(|(at, host)| JobHost::new(at, host)).collect(),
            actions: Actions::new(LaunchTree::new(parents)),
            deadlines: Deadlines::default(),
            now,
            begun: now,
            launcher: setup.launcher,
            is_spawned: setup.is_spawned,
            console: setup.console,
            outlet: setup.outlet,
            probes: setup.probes,
            measures_tree: setup.measures_tree,
            held: (setup.start_of_ranks == StartOfRanks::AfterDebugger).then(Vec::new),
            input_room: INPUT_BYTES_MAX,
            inquiry: None,
            traces: TraceCollections::default(),
            quit: None,
            code: 0,
            reported_code: 0,
            kills: None,
            published_failures: 0,
            failures: 0,
            late_reasons: 0,
            has_lost_output: false,
            first_failure: String::new(),
            start_failure: None,
            interrupts: Vec::new(),
            phase: JobPhase::Running,
            spawned: SpawnedJobs::new(setup.name, setup.slots, setup.rank_slots),
            ready: FinishedPrefix::default(),
            ordered: FinishedPrefix::default(),
            started: FinishedPrefix::default(),
            ended: FinishedPrefix::default(),
            drained: FinishedPrefix::default(),
        };
        job.deadlines.set(Deadline::Start, now + START_TIME_MAX);
        for (what, limit) in [(Deadline::TimeLimit, plan.timeout), (Deadline::Stall, plan.stall)] {
            limit.into_iter().for_each(|limit| job.deadlines.set(what, now + limit));
        }
        job.begin();
        job
    }

    /// Handles an event.
    pub fn handle(&mut self, event: JobEvent, now: Instant) {
        self.now = now;
        match event {
            JobEvent::Report(host, report) => self.handle_report(host, report),
            JobEvent::Connection(host, event) => self.handle_connection(host, event),
            JobEvent::Signal(number) => self.handle_signal(number),
            JobEvent::Input(bytes) => {
                self.input_room = self.input_room.saturating_sub(bytes.len() as u32);
                self.send(self.ranks[0].host, AgentOrder::Input(bytes));
            }
            JobEvent::SummaryRequest(client) => {
                self.actions.push(Action::SendSummary(client, self.summary()));
            }
            JobEvent::ReportRequest(client) => self.inquire(Asker::Client(client)),
            JobEvent::ResizeRequest(client, resizing) => {
                let reply = self.resize(resizing);
                self.actions.push(Action::SendResizeReply(client, reply));
            }
            JobEvent::TraceRequest(client) => self.collect_traces(TraceReceiver::Client(client)),
            JobEvent::DebuggerReady => {
                for (rank, bytes) in self.held.take().into_iter().flatten() {
                    self.receive_pmi(rank, &bytes);
                }
            }
            // End silently, as a program in a pipe does.
            JobEvent::ReaderEnded => self.lose_output(128 + signal::SIGPIPE, None),
            JobEvent::OutputFailed(message) => self.lose_output(1, Some(message)),
            JobEvent::Backlog(bytes) => self.note_backlog(bytes),
            JobEvent::ParentEnded => self.follow_parent(),
            JobEvent::Independent => {
                self.reported_code = self.code;
                self.report_above(SpawnedNotice::Independent);
            }
            JobEvent::FromAbove(order) => self.obey_above(order),
            JobEvent::DescendantsEnded => self.flush_output(),
            JobEvent::TimePassed => {
                while let Some((due, deadline)) = self.deadlines.take_expired(now) {
                    self.handle_deadline(deadline, due);
                }
            }
        }
        self.begin();
        self.finish_start();
        self.report_initialized();
        self.publish_failures();
        self.conclude_if_whole();
        self.request_traces();
        self.advance_phase();
    }

    /// Returns the next action to carry out, if any, before the next event is handled.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.take()
    }

    /// Returns when [`JobEvent::TimePassed`] must be passed at the latest.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.next()
    }

    /// Returns how many bytes of standard input a rank 0 on another machine accepts now.
    pub fn input_room(&self) -> u32 {
        if self.hosts[self.ranks[0].host].has_started() { self.input_room } else { 0 }
    }

    /// Returns the exit code, once the job is over and all its output is written or dropped.
    pub fn exit_code(&self) -> Option<i32> {
        matches!(self.phase, JobPhase::Over).then_some(self.code)
    }

    /// Returns why the job could not be started, if it could not.
    pub fn start_failure(&self) -> Option<&str> {
        self.start_failure.as_deref()
    }

    /// Returns the exit code, or 0 if the processes that have spawned this job know of the failure.
    pub fn unreported_code(&self) -> i32 {
        if self.reported_code == 0 { self.code } else { 0 }
    }

    /// Starts all processes when all hosts are ready: until then, nothing needs to be undone. The
    /// processes of this machine come first: if one cannot be started, none is on other hosts.
    fn begin(&mut self) {
        let are_ordered = self.ordered.is_whole(&self.hosts, |host| !host.is_waiting());
        if self.kills.is_some()
            || are_ordered
            || !self.ready.is_whole(&self.hosts, JobHost::is_ready)
        {
            return;
        }
        self.deadlines.set(Deadline::Start, self.now + START_TIME_MAX);
        let here = self.hosts.iter().position(|host| host.is_local() && !host.has_started());
        let hosts = here.map_or(0..self.hosts.len(), |here| here..here + 1);
        for host in hosts {
            if let Err(message) = self.hosts[host].begin(&mut self.actions) {
                self.fail(CODE_NOT_STARTED, Some(message));
            }
        }
    }

    /// Sends an order to a host.
    fn send(&mut self, host: usize, order: AgentOrder) {
        if let Err(message) = self.hosts[host].send(order, &mut self.actions) {
            self.fail(1, Some(message));
        }
    }

    /// Handles a report of a host.
    fn handle_report(&mut self, host: usize, report: AgentReport) {
        if let Err(what) = self.hosts[host].check(&report) {
            let message = format!("the processes here can no longer be monitored: {what}");
            return self.fail(1, Some(message));
        }
        match report {
            AgentReport::Started(processes) => self.note_start(host, &processes),
            AgentReport::StartFailed(why) => {
                let place = &self.hosts[host];
                let name = &place.name;
                let message = if place.is_local() { why } else { format!("on {name}: {why}") };
                self.give_up_host(host);
                self.fail(CODE_NOT_STARTED, Some(message));
            }
            AgentReport::Output(rank, target, bytes) => self.print_output(rank, target, bytes),
            AgentReport::OutputClosed(rank, target) => {
                self.ranks[rank as usize].close_output(target, &mut self.actions);
            }
            AgentReport::PmiData(rank, bytes) => match &mut self.held {
                Some(held) => held.push((rank, bytes)),
                None => self.receive_pmi(rank, &bytes),
            },
            AgentReport::PmiClosed(rank) => {
                self.ranks[rank as usize].is_connected = false;
                self.close_pmi(rank);
            }
            AgentReport::Crashed(rank, text) => self.ranks[rank as usize].crash = Some(text),
            AgentReport::Ended(rank, end) => {
                let rank_state = &mut self.ranks[rank as usize];
                rank_state.finish_lines(&mut self.actions);
                rank_state.end = Some(end);
                self.give_back_slot(rank);
                self.deadlines.clear(Deadline::Kill(rank));
                self.check_exit(rank, end);
                self.close_pmi(rank);
            }
            AgentReport::Heartbeat => {}
            AgentReport::Answer(rank, answer) => self.note_answer(rank, answer),
            AgentReport::TracePart(rank, part) => self.note_trace_part(rank, part),
            AgentReport::Connection(below, event) => self.handle_forwarded(host, below, event),
            AgentReport::FromSpawned(link, message) => self.hear_spawned((host, link), &message),
            AgentReport::SpawnedClosed(link) => {
                self.lose_spawned(|job| job.link == (host, link));
            }
            AgentReport::InputTaken(bytes) => {
                self.input_room = self.input_room.saturating_add(bytes);
            }
        }
    }

    /// Records the ids of the processes of a host, which run.
    fn note_start(&mut self, host: usize, processes: &[i32]) {
        self.hosts[host].mark_started();
        for (&rank, &process) in self.hosts[host].ranks.iter().zip(processes) {
            self.ranks[rank as usize].process = process;
        }
    }

    /// Publishes to all ranks how many of them have failed while the others go on, if that has
    /// changed: a rank that waits asks for the failed ones only then.
    fn publish_failures(&mut self) {
        let count = self.server.failures();
        if std::mem::replace(&mut self.published_failures, count) != count {
            for host in 0..self.hosts.len() {
                self.send(host, AgentOrder::PublishFailures(count));
            }
        }
    }

    /// Records that the processes of all hosts run, except for those of hosts that are lost.
    fn finish_start(&mut self) {
        let is_there = |host: &JobHost| host.has_started() || host.is_closed();
        if self.is_starting() && self.started.is_whole(&self.hosts, is_there) {
            self.deadlines.clear(Deadline::Start);
            let table = self.process_table();
            self.actions.push(Action::PublishTable(table));
            self.report_above(SpawnedNotice::Started);
        }
    }

    /// Returns the table of processes for debuggers.
    fn process_table(&self) -> Vec<JobProcess> {
        let programs = self.plan.applications.iter().flat_map(|application| {
            std::iter::repeat_n(&application.program, application.processes as usize)
        });
        let lines = self.ranks.iter().zip(programs).map(|(rank, program)| {
            let host = &self.hosts[rank.host];
            // If the program is a script, the debugger can attach only to its interpreter.
            let running =
                if host.is_local() { (self.probes.executable)(rank.process) } else { None };
            let file = running.unwrap_or_else(|| program.into());
            let executable = file.to_string_lossy().into_owned();
            JobProcess { host: host.name.clone(), executable, process: rank.process }
        });
        lines.collect()
    }

    /// Forwards what a rank wrote.
    fn print_output(&mut self, rank: u32, target: OutputStream, bytes: Vec<u8>) {
        let rank_state = &mut self.ranks[rank as usize];
        self.hosts[rank_state.host].note_output(target, bytes.len());
        rank_state.handle_output(target, bytes, &mut self.actions);
        if rank == 0 && self.console == Console::Terminal {
            match rank_state.has_partial_line() {
                true => self.deadlines.set(Deadline::Prompt, self.now + PROMPT_DELAY),
                false => self.deadlines.clear(Deadline::Prompt),
            }
        }
    }

    /// Returns a summary of the job.
    fn summary(&self) -> JobSummary {
        JobSummary {
            job: self.launcher,
            program: self.plan.command_line(),
            ranks: self.ranks.len() as u32,
            hosts: self.hosts.len() as u32,
            seconds: (self.now - self.begun).as_secs_f64(),
            spawned: self.spawned.reports(self.now),
        }
    }

    /// Publishes to the program how many processes it is to have.
    fn resize(&mut self, resizing: Resizing) -> Result<ResizeReply, String> {
        let processes = self.server.reported_size();
        let asked = self.server.wanted_size().map(|wanted| wanted.processes);
        let before = asked.or(processes).unwrap_or(self.ranks.len() as u32);
        let wanted = resizing.change.applied_to(before).ok_or_else(|| {
            format!(
                "job {} has {before} processes and must keep at least one; at most {WANTED_MAX} can \
                 be asked for",
                self.launcher
            )
        })?;
        let hosts = resizing.hosts;
        self.set_wanted_size(WantedSize { processes: wanted, hosts });
        Ok(ResizeReply { processes, wanted })
    }

    /// Passes the request of a rank to the PMI server, and carries out the actions that follow.
    fn receive_pmi(&mut self, rank: u32, bytes: &[u8]) {
        let actions = self.server.receive(rank, bytes);
        actions.into_iter().for_each(|action| self.act(action));
        if self.server.mpi_state(rank) == MpiState::Finalized {
            self.note_finalized(rank);
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
                    "rank {rank} sent its launcher data that is not PMI-1, so its connection is closed: \"{}\"",
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

    fn handle_signal(&mut self, number: i32) {
        match number {
            signal::SIGQUIT if self.asks_by_signal() => self.inquire(Asker::Terminal),
            signal::SIGINT | signal::SIGTERM | signal::SIGHUP | signal::SIGQUIT => {
                self.interrupts.push(number);
                self.note_code(128 + number);
                let is_first = self.interrupts.len() == 1;
                if is_first && !self.is_starting() {
                    let running = self.running();
                    if !running.is_empty() {
                        self.print_message(&messages::interrupted(number, &running));
                    }
                    if self.asks_before_end(number, &running) {
                        return self.inquire(Asker::Interrupt(number));
                    }
                }
                let of_ranks = if is_first { number } else { signal::SIGKILL };
                self.end_by_signal(number, of_ranks);
            }
            other => {
                self.signal_all(other);
                self.signal_spawned(other);
            }
        }
    }

    /// Whether not all hosts have started their processes, and the job is not being ended.
    fn is_starting(&self) -> bool {
        self.deadlines.is_set(Deadline::Start)
    }

    /// Whether the ranks are asked why they wait before a signal ends them: the user, or a batch
    /// system, may send the signal because the job hangs.
    fn asks_before_end(&self, number: i32, running: &[RunningRank]) -> bool {
        matches!(number, signal::SIGINT | signal::SIGTERM)
            && self.kills.is_none()
            && self.hosts.iter().all(|host| host.ranks.len() <= ASKED_BEFORE_END_MAX)
            && running.iter().any(|one| one.mpi_state == MpiState::Initialized)
    }

    /// Whether a SIGQUIT that has just arrived asks what the ranks do: the first one while they
    /// run.
    fn asks_by_signal(&mut self) -> bool {
        let is_second = self.quit.is_some_and(|first| self.now - first < QUIT_TIME_MAX);
        let asks = !is_second && !self.is_starting() && self.kills.is_none();
        self.quit = asks.then_some(self.now);
        asks
    }

    /// Writes a message to the error output.
    fn print_message(&mut self, message: &str) {
        let message = base::without_error_numbers(message);
        // The job that the user has started has equal ranks.
        let line = match self.is_spawned {
            true => format!("combray: spawned job {}: {message}\n", self.launcher),
            false => format!("combray: {message}\n"),
        };
        self.actions.output(OutputStream::Errors).extend_from_slice(line.as_bytes());
    }

    fn handle_deadline(&mut self, deadline: Deadline, due: Instant) {
        let is_running = matches!(self.phase, JobPhase::Running);
        match deadline {
            Deadline::Start => self.fail_late_hosts(),
            // There is no rank to ask.
            Deadline::TimeLimit if self.is_starting() => self.end_at_limit(),
            Deadline::TimeLimit if matches!(self.phase, JobPhase::AwaitingSpawned) => {
                self.end_spawned_at_limit();
            }
            Deadline::TimeLimit => self.inquire(Asker::TimeLimit),
            Deadline::Stall => {
                let limit = self.plan.stall.unwrap_or_default();
                let pause = (limit / 4).clamp(STALL_CHECKS.0, STALL_CHECKS.1);
                self.deadlines.set(Deadline::Stall, self.now + pause);
                self.inquire(Asker::Stall);
            }
            Deadline::Prompt => self.ranks[0].show_partial_line(&mut self.actions),
            Deadline::Answers => self.conclude_inquiry(),
            Deadline::KillAll if is_running => self.kill_all(),
            Deadline::KillAll => {}
            Deadline::Kill(rank) => {
                let kill = AgentOrder::Signal(Some(rank), signal::SIGKILL);
                self.send(self.ranks[rank as usize].host, kill);
            }
            Deadline::Silence(host) => self.note_silence(host, due),
            Deadline::CommandEnd(host) => self.lose_host(host),
            Deadline::Retry(host) => self.retry(host),
            Deadline::Traces => self.conclude_traces(),
            Deadline::Drain => self.end_recording(),
            Deadline::Spawned => self.give_up_spawned(),
            Deadline::Close => self.close_here(),
            Deadline::Output => self.drop_output(),
        }
    }
}

#[cfg(test)]
mod tests;
