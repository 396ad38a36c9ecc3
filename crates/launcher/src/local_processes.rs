//! The processes of a job on one machine, in the supervisor or in an agent.
//!
//! They are started and ended by orders, and produce reports. The supervisor decides what the
//! reports mean for the job.

pub(crate) mod asking;
mod cpuset_assignment;
mod lending;
mod other_libraries;
mod parking;
mod rank;
mod tracing;
mod variables;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use base::variables::NET;
use launch::questions::QuestionBoard;
use sys::process::{self, DescriptorLimit, End, Interest};

use super::guard::end_descendants;
use super::{LaunchError, OpenAhead, OpenedAhead, is_no_end, libraries, program};
use crate::protocol::{
    AgentOrder, AgentReport, OUTPUT_BYTES_MAX, OutputStream, ProgramStart, Start,
};
use crate::spawned::SpawnedLinks;
use ::lending::LendingBoard;
use asking::PendingQuestion;
use cpuset_assignment::{CpusetAssignment, OwnCores};
use other_libraries::LibraryWatch;
use parking::{Parking, TOGETHER};
use rank::{DESCRIPTORS_OF_RANK, OpenedForRank, Outlet, RankDescriptor, RankProcess};
use tracing::LocalTraces;
use variables::RankIdentity;
pub(super) use variables::stale;

/// What rank 0 reads.
pub(super) enum StandardInput {
    /// The launcher's own standard input.
    Inherited,
    /// What is typed at the launcher's terminal.
    Typed(PipeReader),
    /// The launcher's terminal, to which rank 0 also writes.
    Terminal,
    /// What orders bring.
    Relayed,
    /// Nothing.
    Nothing,
}

/// The processes of one machine.
pub(super) struct LocalProcesses {
    ranks: Vec<RankProcess>,
    /// The limit that the user set, which the processes get.
    descriptors: DescriptorLimit,
    /// The index of each process in `ranks`.
    positions: HashMap<i32, usize>,
    input: Option<StandardInput>,
    input_pipe: InputPipe,
    /// How many bytes of output may be read, for each target. Negative when a process that ended
    /// left more.
    room: [i64; 2],
    pmi_requests: PmiRequests,
    /// Opens what the processes may not open themselves.
    open_ahead: OpenAhead,
    /// What was opened in this way, by process. It is kept open as long as they run: sockets that
    /// are in a group keep their place in it.
    opened: Vec<OpenedAhead>,
    /// The file through which the processes are asked what they do, if there is memory for it.
    questions: Option<QuestionBoard>,
    asking: Option<PendingQuestion>,
    /// The indices of ranks with answers that have not been sent, so that a rank receives all
    /// answers to one of its writes at once.
    answered: Vec<usize>,
    traces: LocalTraces,
    /// The cores that the processes lend each other, if they may.
    lending: Option<LendingBoard>,
    /// The number of ranks of the job, on all machines.
    job_size: u32,
    /// The launchers of the jobs that the processes have spawned.
    spawned: SpawnedLinks,
    /// None: no rank needs to be examined for another MPI library.
    library_watch: Option<LibraryWatch>,
    /// The watched descriptors, in the order of the last [`watched`](Self::watched).
    watched: Vec<LocalDescriptor>,
}

/// Whether PMI requests of the processes are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PmiRequests {
    AreRead,
    /// They wait in the connections.
    Wait,
}

#[derive(Clone, Copy)]
enum LocalDescriptor {
    Feed,
    Spawned,
    Rank(usize, RankDescriptor),
}

/// Returns the configuration of networks that the processes of a job will read.
fn networks(start: &Start) -> String {
    let variables = start.programs.iter().flat_map(|program| &program.variables);
    let own = std::env::var(NET).unwrap_or_default();
    let reported = variables.filter(|(name, _)| name == NET).map(|(_, value)| value).next();
    reported.map_or(own, |value| value.to_string_lossy().into_owned())
}

/// Bytes on their way to the standard input of rank 0.
#[derive(Default)]
struct InputPipe {
    pipe: Option<PipeWriter>,
    bytes: Vec<u8>,
    is_last: bool,
}

/// How many descriptors are held for a rank, and how many more are needed while one is started.
const DESCRIPTORS: u64 = DESCRIPTORS_OF_RANK as u64;
const DESCRIPTORS_AT_START: u64 = 32;

impl LocalProcesses {
    /// Creates the state without processes. `descriptors` is the limit that they will get, and
    /// `open_ahead` opens what they may not open themselves.
    pub(super) fn new(
        input: StandardInput,
        descriptors: DescriptorLimit,
        open_ahead: OpenAhead,
    ) -> Self {
        Self {
            ranks: Vec::new(),
            descriptors,
            positions: HashMap::new(),
            input: Some(input),
            input_pipe: InputPipe::default(),
            room: [i64::from(OUTPUT_BYTES_MAX); 2],
            pmi_requests: PmiRequests::AreRead,
            open_ahead,
            opened: Vec::new(),
            questions: None,
            asking: None,
            answered: Vec::new(),
            traces: LocalTraces::default(),
            lending: None,
            job_size: 0,
            spawned: SpawnedLinks::default(),
            library_watch: None,
            watched: Vec::new(),
        }
    }

    /// Executes an order.
    pub(super) fn execute(&mut self, order: AgentOrder, reports: &mut Vec<AgentReport>) {
        match order {
            AgentOrder::Start(start) => match self.start(start) {
                Ok(lines) => {
                    let processes = self.ranks.iter().map(|rank| rank.process).collect();
                    reports.push(AgentReport::Started(processes));
                    lines.into_iter().for_each(|(rank, line)| self.print(rank, &line, reports));
                    reports.extend(self.ranks.iter().flat_map(RankProcess::unread_outputs));
                }
                Err(error) => {
                    end_descendants();
                    self.ranks.clear();
                    reports.push(AgentReport::StartFailed(error.to_string()));
                }
            },
            AgentOrder::Input(bytes) => {
                self.input_pipe.is_last |= bytes.is_empty();
                self.input_pipe.bytes.extend_from_slice(&bytes);
                self.serve_input(reports);
            }
            AgentOrder::Answer(number, line) => {
                let position = self.ranks.binary_search_by_key(&number, |rank| rank.number);
                if let Ok(index) = position {
                    self.ranks[index].answer(&line);
                    self.answered.push(index);
                }
            }
            AgentOrder::ClosePmi(number) => {
                let position = self.ranks.binary_search_by_key(&number, |rank| rank.number);
                if let Ok(index) = position {
                    self.ranks[index].close_pmi();
                }
            }
            AgentOrder::Signal(only, number) => {
                let wanted =
                    self.ranks.iter().filter(|rank| only.is_none_or(|one| rank.number == one));
                wanted.for_each(|rank| rank.signal(number));
            }
            AgentOrder::OutputCredit(target, bytes) => {
                self.room[target as usize] += i64::from(bytes)
            }
            // Connections concern the agent, not its processes.
            AgentOrder::Heartbeat | AgentOrder::Connection(..) => {}
            AgentOrder::Ask => self.ask(),
            AgentOrder::ToSpawned(link, message) => self.spawned.send(link, &message),
            AgentOrder::SendTrace(number, offset) => {
                let position = self.ranks.binary_search_by_key(&number, |rank| rank.number);
                if let Ok(index) = position {
                    reports.push(self.traces.part((index, number), offset));
                }
            }
            AgentOrder::PublishFailures(count) => {
                if let Some(board) = &self.questions {
                    // The file has room for the number since it was created.
                    let _ = board.publish_failures(count);
                }
            }
            AgentOrder::Close => {
                self.spawned = SpawnedLinks::default();
                end_descendants();
                (0..self.ranks.len()).for_each(|index| self.drain(index, reports));
                self.ranks.clear();
                self.opened.clear();
                self.watched.clear();
            }
        }
    }

    /// Starts the processes. Returns notes for users, each with the rank that it is about.
    fn start(&mut self, mut start: Start) -> Result<Vec<(u32, String)>, LaunchError> {
        start.programs.iter_mut().try_for_each(prepare)?;
        let notes: Vec<String> = start.programs.iter_mut().flat_map(libraries::provide).collect();
        let local_size = start.ranks.len() as u32;
        // The memory of its trace is one more descriptor for each.
        let has_traces = u32::from(start.trace_bytes > 0);
        make_room(local_size + has_traces * local_size.div_ceil(DESCRIPTORS as u32))?;
        let cpuset_assignment = CpusetAssignment::of(&start)?;
        if start.size > local_size {
            self.opened = (self.open_ahead)(&networks(&start), start.ranks.len());
        }
        self.questions = Self::board(&start.ranks);
        self.spawned = SpawnedLinks::listen();
        self.traces = LocalTraces::create(start.trace_bytes, local_size);
        self.lending = lending::board(&start, &cpuset_assignment);
        self.job_size = start.size;
        // A job of one rank is the same with any library.
        self.library_watch = (start.size > 1).then(|| LibraryWatch::begin(Instant::now()));
        let (mut lines, mut reported) = (Vec::new(), String::new());
        let mut parking = Parking::new().ok();
        for (local_rank, &(rank, program)) in (0..).zip(&start.ranks) {
            let program = &start.programs[program as usize];
            let place =
                RankIdentity { rank, size: start.size, local_rank, local_size, job: &start.job };
            let outlet = match self.input {
                Some(StandardInput::Terminal) => Outlet::LaunchersTerminal,
                _ if start.has_terminal => Outlet::OwnTerminal,
                _ => Outlet::Pipes,
            };
            let started = self.input_of(rank).and_then(|input| {
                let ahead = self.opened.get(local_rank as usize);
                RankProcess::start(
                    &place,
                    program,
                    (input, outlet),
                    self.descriptors,
                    &cpuset_assignment,
                    OpenedForRank {
                        ahead,
                        questions: self.questions.as_ref(),
                        trace: self.traces.of(local_rank as usize),
                        lending: self.lending_of(program),
                    },
                )
            });
            let rank = started.map_err(|cause| {
                let error = LaunchError::of_program(&program.path, &cause);
                notes.iter().fold(error, |error, note| LaunchError::new(format!("{error}; {note}")))
            })?;
            self.positions.insert(rank.process, self.ranks.len());
            let places = self.places_of(&start, local_rank, &cpuset_assignment, &mut reported);
            lines.extend(places.into_iter().map(|line| (rank.number, line)));
            let of_machine =
                cpuset_assignment.note().filter(|_| local_rank == 0).map(str::to_owned);
            let of_programs = notes.iter().filter(|_| rank.number == 0).cloned();
            lines.extend(of_machine.into_iter().chain(of_programs).map(|note| (rank.number, note)));
            self.ranks.push(rank);
            if let Some(parking) = &mut parking
                && self.ranks.len().is_multiple_of(TOGETHER)
            {
                self.park_last(parking);
            }
        }
        if let Some(parking) = parking {
            self.unpark(parking)?;
        }
        Ok(lines)
    }

    /// Returns the board of lent cores, if a program may lend some.
    fn lending_of(&self, program: &ProgramStart) -> Option<&LendingBoard> {
        self.lending.as_ref().filter(|_| lending::uses_openmp(program))
    }

    /// Describes to users where a rank runs and which variables are set for its pools of threads,
    /// as far as they want it. `reported` is what has been reported last about pools.
    fn places_of(
        &self,
        start: &Start,
        local_rank: u32,
        cpuset_assignment: &CpusetAssignment,
        reported: &mut String,
    ) -> Vec<String> {
        let place = local_rank as usize;
        let (rank, program) = start.ranks[place];
        let mut lines = Vec::new();
        if start.reports_bindings {
            // The launcher may show lines of several machines.
            let has_others = start.size as usize > start.ranks.len();
            let on = has_others.then(|| format!(" on {}", process::host_name()));
            let on = on.unwrap_or_default();
            lines.push(format!("rank {rank}{on}: {}", cpuset_assignment.describe(place)));
        }
        if start.reports_pools {
            let program = &start.programs[program as usize];
            let cores = OwnCores::of(self.lending_of(program));
            let pools = cpuset_assignment.pools(place, &program.variables, cores);
            let words = pools.iter().map(|(name, value)| format!("{name}={value}"));
            let words = words.collect::<Vec<_>>().join(" ");
            // Most ranks have the same as the one before.
            if words != *reported {
                let shown = if words.is_empty() { "none" } else { &words };
                lines.push(format!("set for pools of threads, from rank {rank} on: {shown}"));
                *reported = words;
            }
        }
        lines
    }

    /// Parks the descriptors of the last ranks. If that is not possible, they stay.
    fn park_last(&mut self, parking: &mut Parking) {
        let first = self.ranks.len() - TOGETHER;
        let last = &mut self.ranks[first..];
        let taken = last.iter_mut().filter_map(RankProcess::take_descriptors).collect();
        if let Err(taken) = parking.park(taken) {
            last.iter_mut().zip(taken).for_each(|(rank, own)| rank.give_descriptors(own));
        }
    }

    /// Gives the ranks their descriptors back.
    fn unpark(&mut self, parking: Parking) -> io::Result<()> {
        let without = self.ranks.iter_mut().filter(|rank| rank.lacks_descriptors());
        without.zip(parking.take_all()?).for_each(|(rank, own)| rank.give_descriptors(own));
        Ok(())
    }

    /// Reports a note for users in the error output of a rank.
    fn print(&mut self, rank: u32, line: &str, reports: &mut Vec<AgentReport>) {
        let line = format!("combray: {line}\n").into_bytes();
        self.room[OutputStream::Errors as usize] -= line.len() as i64;
        reports.push(AgentReport::Output(rank, OutputStream::Errors, line));
    }

    fn input_of(&mut self, rank: u32) -> io::Result<Stdio> {
        if rank != 0 {
            return no_input();
        }
        match self.input.take() {
            None | Some(StandardInput::Nothing) => no_input(),
            Some(StandardInput::Inherited | StandardInput::Terminal) => Ok(Stdio::inherit()),
            Some(StandardInput::Typed(pipe)) => Ok(OwnedFd::from(pipe).into()),
            Some(StandardInput::Relayed) => {
                let (reader, writer) = process::pipe()?;
                process::set_nonblocking(writer.as_raw_fd())?;
                self.input_pipe.pipe = Some(writer);
                Ok(OwnedFd::from(reader).into())
            }
        }
    }

    /// Suspends or resumes the reading of PMI requests, while requests that were read still wait.
    pub(super) fn set_pmi_requests(&mut self, pmi_requests: PmiRequests) {
        self.pmi_requests = pmi_requests;
    }

    /// Appends the descriptors to watch.
    pub(super) fn watched(&mut self, list: &mut Vec<(RawFd, Interest)>) {
        self.send_answers();
        self.watched.clear();
        if let Some(pipe) =
            self.input_pipe.pipe.as_ref().filter(|_| !self.input_pipe.bytes.is_empty())
        {
            list.push((pipe.as_raw_fd(), Interest::Write));
            self.watched.push(LocalDescriptor::Feed);
        }
        let has_room = |target: OutputStream| self.room[target as usize] > 0;
        for (index, rank) in self.ranks.iter().enumerate() {
            for (descriptor, interest, stream) in rank.watched(has_room, self.pmi_requests) {
                list.push((descriptor, interest));
                self.watched.push(LocalDescriptor::Rank(index, stream));
            }
        }
        if self.pmi_requests == PmiRequests::AreRead {
            let before = list.len();
            self.spawned.watched(list);
            self.watched.resize(self.watched.len() + list.len() - before, LocalDescriptor::Spawned);
        }
    }

    fn send_answers(&mut self) {
        for index in self.answered.drain(..) {
            if let Some(rank) = self.ranks.get_mut(index) {
                rank.send_answers();
            }
        }
    }

    /// Serves the descriptors that are ready, in the order of [`watched`](Self::watched).
    pub(super) fn serve(&mut self, ready: &[bool], reports: &mut Vec<AgentReport>) {
        let watched = std::mem::take(&mut self.watched);
        let spawned = watched.iter().filter(|one| matches!(one, LocalDescriptor::Spawned)).count();
        if spawned > 0 {
            self.spawned.serve(&ready[ready.len() - spawned..], reports);
        }
        for (what, _) in watched.iter().zip(ready).filter(|(_, ready)| **ready) {
            match *what {
                LocalDescriptor::Feed => self.serve_input(reports),
                LocalDescriptor::Spawned => {}
                LocalDescriptor::Rank(index, RankDescriptor::Output(target)) => {
                    self.examine_at_output(index);
                    let room = &mut self.room[target as usize];
                    if *room > 0 {
                        let length = self.ranks[index].read(target, *room as usize, reports);
                        *room -= length as i64;
                    }
                }
                LocalDescriptor::Rank(index, RankDescriptor::Pmi) => {
                    self.ranks[index].read_pmi(reports)
                }
            }
        }
    }

    /// Returns when [`handle_time`](Self::handle_time) has something to do, if ever.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let asking = self.asking.as_ref().map(PendingQuestion::next);
        asking.into_iter().chain(self.library_watch.as_ref().map(|watch| watch.next)).min()
    }

    /// Does what is due: checks for answers, and examines ranks for other MPI libraries.
    pub(super) fn handle_time(&mut self, reports: &mut Vec<AgentReport>) {
        self.check_for_answers(reports);
        self.watch_libraries(reports);
    }

    /// Returns the process that has the terminal of the launcher, if one has: the only one.
    pub(super) fn at_terminal(&self) -> Option<i32> {
        let [rank] = &self.ranks[..] else { return None };
        (rank.has_terminal && !rank.has_ended).then_some(rank.process)
    }

    /// Records the end of a child; false if it is none of the ranks.
    pub(super) fn record_exit(
        &mut self,
        process: i32,
        end: End,
        reports: &mut Vec<AgentReport>,
    ) -> bool {
        let Some(index) = self.positions.remove(&process) else { return false };
        // The last bytes that it sent and wrote may still be in its pipes.
        let Some(rank) = self.ranks.get_mut(index) else { return false };
        rank.read_pmi(reports);
        rank.has_ended = true;
        self.traces.note_end(index);
        let number = rank.number;
        self.drain(index, reports);
        self.report_lone_end(index, end, reports);
        let crash = self.questions.as_ref().and_then(|board| board.crash(index as u32));
        reports.extend(crash.map(|text| AgentReport::Crashed(number, text)));
        reports.push(AgentReport::Ended(number, end));
        true
    }

    fn drain(&mut self, index: usize, reports: &mut Vec<AgentReport>) {
        for target in [OutputStream::Output, OutputStream::Errors] {
            let length = self.ranks[index].drain(target, reports);
            self.room[target as usize] -= length as i64;
        }
    }

    fn serve_input(&mut self, reports: &mut Vec<AgentReport>) {
        let InputPipe { pipe, bytes, is_last } = &mut self.input_pipe;
        while let Some(end) = pipe.as_mut().filter(|_| !bytes.is_empty()) {
            match end.write(bytes) {
                Ok(length) => {
                    bytes.drain(..length);
                    reports.push(AgentReport::InputTaken(length as u32));
                }
                Err(error) if is_no_end(&error) => return,
                // Rank 0 does not read any more.
                Err(_) => *pipe = None,
            }
        }
        if *is_last {
            *pipe = None;
        }
        bytes.clear();
    }
}

/// Finds the program, so that nothing is started if one is missing.
pub(super) fn prepare(program: &mut ProgramStart) -> Result<(), LaunchError> {
    let search = program.variables.iter().find(|pair| pair.0 == "PATH").map(|pair| pair.1.clone());
    let search = search.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
    let folder = program.folder.as_deref().unwrap_or(Path::new("."));
    program.path = program::find(&program.path, folder, &search)?;
    Ok(())
}

/// Returns an empty input, even if /dev is missing.
fn no_input() -> io::Result<Stdio> {
    match File::open("/dev/null") {
        Ok(file) => Ok(file.into()),
        Err(_) => Ok(OwnedFd::from(process::pipe()?.0).into()),
    }
}

/// Returns how many ranks of one machine a limit of open files allows.
pub fn ranks_within(limit: u64) -> u64 {
    limit.saturating_sub(DESCRIPTORS_AT_START) / DESCRIPTORS
}

/// For how many ranks and connections this process has made room.
static WITH_ROOM: AtomicU64 = AtomicU64::new(0);

/// Raises the limit for the descriptors of `count` more ranks or connections.
pub(super) fn make_room(count: u32) -> io::Result<()> {
    let descriptors = DescriptorLimit::read()?;
    let all = WITH_ROOM.fetch_add(count.into(), Relaxed) + u64::from(count);
    let needed = all * DESCRIPTORS + DESCRIPTORS_AT_START;
    if needed > descriptors.soft {
        // If even the hard limit is too low, starting the first rank beyond it fails.
        let soft = needed.min(descriptors.hard);
        DescriptorLimit { soft, ..descriptors }.set()?;
    }
    Ok(())
}
