//! The supervisor of a job: the event loop around [`JobState`], which decides what happens. The
//! loop waits for sockets, processes and time, passes what has happened, and carries out what the
//! job requests.

mod clients;
pub(crate) mod input_source;
mod machine;
mod prepare;
mod relay;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Instant;

use launch::spawning::SpawnReport;
use sys::process::{self, DescriptorLimit, Interest, Signals, signal};

use super::guard::{END, end_descendants};
use super::output_queues::OutputQueues;
use super::{JobPlan, LaunchError, early_trace, terminal_input};
use crate::agent_connection::AgentConnection;
use crate::heartbeats::Heartbeats;
use crate::job::{Action, CODE_NOT_STARTED, JobEvent, JobState};
use crate::output::OutputFile;
use crate::parent_link::{ParentLink, ParentState};
use crate::process_table::TableWriter;
use crate::protocol::{ConnectionEvent, ConnectionOrder, OutputStream};
use crate::spawned::{LauncherAbove, SpawnedNotice, SpawnedOrigin};
use clients::Clients;
use input_source::InputSource;
use machine::Machine;
use relay::Relay;

/// Starts all ranks and returns the exit code when the last one has ended. `launcher` and `guard`
/// are the ids of the processes above this one. Rank 0 reads from `input`. `table` passes the
/// launcher the table of processes for debuggers. `origin` leads to the process that spawned the
/// job, if one did.
pub(super) fn supervise(
    plan: &JobPlan,
    (launcher, guard): (u32, u32),
    signals: Signals,
    (input, table): (InputSource, Option<TableWriter>),
    origin: Option<SpawnedOrigin>,
) -> Result<i32, LaunchError> {
    let (parent, above) = origin.map(|origin| (origin.parent, origin.above)).unzip();
    let above = above.flatten();
    let name = above.as_ref().map(|above| above.job.as_str());
    let prepared = match (prepare::prepare(plan, (launcher, name), input, table.as_ref()), &parent)
    {
        (Err(error), Some(parent)) => {
            parent.report(&SpawnReport::Failed(error.to_string()));
            return Ok(CODE_NOT_STARTED);
        }
        (prepared, _) => prepared?,
    };
    let mut supervisor = Supervisor {
        job: JobState::new(plan, prepared.setup, Instant::now()),
        machines: prepared.machines,
        heartbeats: Heartbeats::default(),
        descriptors: prepared.descriptors,
        files: prepared.files,
        output_queues: OutputQueues::open()?,
        relay: prepared.relay,
        signals,
        above_this: (launcher, guard),
        clients: Clients::listen(launcher),
        table,
        parent,
        above,
    };
    supervisor.deliver(Vec::new());
    loop {
        if let Some(code) = supervisor.job.exit_code() {
            // If the error output has no reader either, the exit code shows what happened.
            let _ = supervisor.output_queues.write(OutputStream::Errors);
            supervisor.report(&match supervisor.job.start_failure() {
                Some(reason) => SpawnReport::Failed(reason.to_owned()),
                None => SpawnReport::Ended(code),
            });
            if let Some(above) = &mut supervisor.above {
                above.report(SpawnedNotice::Ended(supervisor.job.unreported_code()));
            }
            return Ok(code);
        }
        supervisor.round()?;
    }
}

struct Supervisor<'a> {
    job: JobState<'a>,
    /// In the order of the job's hosts.
    machines: Vec<Machine>,
    heartbeats: Heartbeats,
    /// The limit that the user set.
    descriptors: DescriptorLimit,
    /// By rank: the files to which its output goes, in addition or exclusively.
    files: Vec<[Option<OutputFile>; 2]>,
    output_queues: OutputQueues,
    /// Input for a rank 0 on another machine.
    relay: Option<Relay>,
    signals: Signals,
    /// The ids of the launcher, and of the guard, the parent of this process.
    above_this: (u32, u32),
    /// The clients that connect to this job.
    clients: Clients,
    /// None: the table of processes cannot be passed to the launcher.
    table: Option<TableWriter>,
    /// The process that spawned this job, if one did.
    parent: Option<ParentLink>,
    /// The launcher of its job, if a launcher has started it.
    above: Option<LauncherAbove>,
}

/// What a watched descriptor belongs to.
enum Watched {
    Signals,
    OutputQueue(OutputStream),
    Input,
    Table,
    Parent,
    Above,
}

impl Supervisor<'_> {
    /// Sleeps until an event occurs, and handles it.
    fn round(&mut self) -> io::Result<()> {
        // Deadlines are compared with the time before descriptors are polled: what arrived until
        // then is handled first, however long this process did not run.
        let begun = Instant::now();
        let (mut watched, owners) = self.watched();
        let client_count = self.clients.watched(&mut watched);
        let counts: Vec<usize> =
            self.machines.iter_mut().map(|machine| machine.watched(&mut watched)).collect();
        let deadlines = self.machines.iter().filter_map(Machine::deadline);
        let next = deadlines.chain(self.job.next_deadline()).min();
        let ready = process::poll(
            &watched,
            next.map(|next| next.saturating_duration_since(Instant::now())),
        )?;
        let (own, rest) = ready.split_at(owners.len());
        let (ready_clients, mut rest) = rest.split_at(client_count);
        for (owner, _) in owners.iter().zip(own).filter(|(_, ready)| **ready) {
            let events = match owner {
                Watched::Above => self.read_above(),
                owner => self.serve(owner).into_iter().collect(),
            };
            self.deliver(events);
        }
        let requests = self.clients.serve(ready_clients);
        self.deliver(requests);
        for (host, count) in counts.into_iter().enumerate() {
            let (ready, after) = rest.split_at(count);
            let mut events = Vec::new();
            self.machines[host].serve(ready, &mut events);
            self.deliver(events);
            rest = after;
        }
        self.handle_signals();
        self.reap();
        self.handle(JobEvent::TimePassed, begun);
        self.deliver([JobEvent::Backlog(self.output_queues.waiting())]);
        Ok(())
    }

    /// Returns the descriptors to watch, except for those of clients and machines, and what each
    /// belongs to.
    fn watched(&self) -> (Vec<(RawFd, Interest)>, Vec<Watched>) {
        let mut watched = vec![(self.signals.as_raw_fd(), Interest::Read)];
        let mut owners = vec![Watched::Signals];
        for (descriptor, target) in self.output_queues.watched() {
            watched.push((descriptor, Interest::Write));
            owners.push(Watched::OutputQueue(target));
        }
        let relay = self.relay.as_ref().filter(|_| self.job.input_room() > 0);
        if let Some(input) = relay.and_then(Relay::watched) {
            watched.push((input, Interest::Read));
            owners.push(Watched::Input);
        }
        if let Some(table) = self.table.as_ref().and_then(TableWriter::watched) {
            watched.push((table, Interest::Read));
            owners.push(Watched::Table);
        }
        if let Some(parent) = self.parent.as_ref().and_then(ParentLink::watched) {
            watched.push(parent);
            owners.push(Watched::Parent);
        }
        if let Some(above) = &self.above {
            watched.push(above.watched());
            owners.push(Watched::Above);
        }
        (watched, owners)
    }

    /// Serves a descriptor that is ready.
    fn serve(&mut self, owner: &Watched) -> Option<JobEvent> {
        match owner {
            Watched::Signals | Watched::Above => None,
            Watched::OutputQueue(target) => match self.output_queues.write(*target) {
                Ok(()) => None,
                Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => {
                    Some(JobEvent::ReaderEnded)
                }
                Err(cause) => {
                    let message = format!("the output of the job cannot be written: {cause}");
                    Some(JobEvent::OutputFailed(message))
                }
            },
            Watched::Input => self.relay.as_mut()?.read(self.job.input_room()).map(JobEvent::Input),
            Watched::Table => {
                self.table.as_mut()?.release();
                Some(JobEvent::DebuggerReady)
            }
            Watched::Parent => match self.parent.as_mut()?.read() {
                ParentState::Ended => Some(JobEvent::ParentEnded),
                ParentState::Released => Some(JobEvent::Independent),
                ParentState::Connected => None,
            },
        }
    }

    /// Reads what the launcher above sends.
    fn read_above(&mut self) -> Vec<JobEvent> {
        let Some(above) = &mut self.above else { return Vec::new() };
        let (orders, is_open) = above.read();
        if !is_open {
            // It ends this job, too, if it ends otherwise than by an accident.
            self.above = None;
        }
        orders.into_iter().map(JobEvent::FromAbove).collect()
    }

    /// Reports to the process that spawned this job, if one did.
    fn report(&self, report: &SpawnReport) {
        if let Some(parent) = &self.parent {
            parent.report(report);
        }
    }

    /// Passes events to the job, with those that its actions cause.
    fn deliver(&mut self, events: impl IntoIterator<Item = JobEvent>) {
        let mut events: VecDeque<JobEvent> = events.into_iter().collect();
        self.carry_out_all(&mut events);
        while let Some(event) = events.pop_front() {
            self.job.handle(event, Instant::now());
            self.carry_out_all(&mut events);
        }
    }

    /// Passes an event that is handled at the time `at`.
    fn handle(&mut self, event: JobEvent, at: Instant) {
        self.job.handle(event, at);
        self.deliver(Vec::new());
    }

    /// Carries out what the job requests, and appends the events that follow.
    fn carry_out_all(&mut self, events: &mut VecDeque<JobEvent>) {
        while let Some(action) = self.job.next_action() {
            self.carry_out(action, events);
        }
    }

    fn carry_out(&mut self, action: Action, events: &mut VecDeque<JobEvent>) {
        match action {
            Action::Execute(host, order) => self.machines[host].execute(order, events),
            Action::Connection(host, ConnectionOrder::Open(start)) => {
                match AgentConnection::open(&start, self.descriptors) {
                    Ok(connection) => {
                        self.machines[host] = Machine::Remote(host, Some(Box::new(connection)));
                    }
                    Err(error) => events.extend(
                        ConnectionEvent::of_failed_start(&error)
                            .map(|event| JobEvent::Connection(host, event)),
                    ),
                }
            }
            Action::Connection(host, order) => {
                if let Some(connection) = self.machines[host].connection() {
                    connection.execute(&order, &mut self.heartbeats);
                }
            }
            Action::Print(target, bytes) => {
                self.output_queues.queue(target).extend_from_slice(&bytes);
            }
            Action::WriteFile(rank, target, bytes) => {
                let place = &mut self.files[rank as usize][target as usize];
                let Some(OutputFile { path, file }) = place else { return };
                if let Err(cause) = file.write_all(&bytes) {
                    let message = format!("{} cannot be written: {cause}", path.display());
                    events.push_back(JobEvent::OutputFailed(message));
                    *place = None;
                }
            }
            Action::PublishTable(lines) => {
                self.report(&SpawnReport::Started);
                let published = self.table.as_mut().is_some_and(|table| table.publish(&lines));
                if !published {
                    events.push_back(JobEvent::DebuggerReady);
                }
            }
            Action::SendSummary(client, summary) => self.clients.send(client, &summary),
            Action::SendReport(client, report) => self.clients.send(client, &report),
            Action::SendResizeReply(client, reply) => self.clients.send(client, &reply),
            Action::SendAbove(message) => {
                if let Some(above) = &mut self.above {
                    above.send(&message);
                }
            }
            Action::SendTraces(client, traces) => self.clients.send_traces(client, traces),
            Action::WriteTrace(target, recorded) => {
                let message = early_trace::write(&target, &recorded);
                let line = format!("combray: {}\n", base::without_error_numbers(&message));
                self.output_queues.queue(OutputStream::Errors).extend_from_slice(line.as_bytes());
            }
            Action::EndDescendants => {
                end_descendants();
                events.push_back(JobEvent::DescendantsEnded);
            }
        }
    }

    fn handle_signals(&mut self) {
        while let Some(number) = self.signals.next() {
            match number {
                signal::SIGCHLD => {}
                // Sent by the kernel, because the guard was killed.
                signal::SIGTERM if std::os::unix::process::parent_id() != self.above_this.1 => {
                    end_descendants();
                    std::process::exit(128 + signal::SIGKILL);
                }
                END => {
                    end_descendants();
                    std::process::exit(128 + END);
                }
                number => {
                    if let Some(process) = self.at_terminal().filter(|_| number == signal::SIGCONT)
                    {
                        terminal_input::pass_on(self.above_this.0, process);
                    }
                    self.deliver([JobEvent::Signal(number)]);
                }
            }
        }
    }

    /// Returns the process that has the terminal of the launcher, if one has.
    fn at_terminal(&self) -> Option<i32> {
        let [machine] = &self.machines[..] else { return None };
        machine.at_terminal()
    }

    fn reap(&mut self) {
        if let Some(process) = self.at_terminal()
            && let Some(number) = process::stop_of(process)
        {
            terminal_input::follow_stop(self.above_this.0, process, number);
        }
        while let Ok(Some((process, end))) = process::reap() {
            let mut events = Vec::new();
            let machines = &mut self.machines;
            machines.iter_mut().any(|machine| machine.record_exit(process, end, &mut events));
            self.deliver(events);
        }
    }
}
