//! One process of the job, with the ends of its pipes.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use base::variables::DESCRIPTORS;
use launch::questions::QuestionBoard;
use launch::{ABORT_REASON, reason};
use lending::LendingBoard;
use sys::process::{self, DescriptorLimit, Foreground, Interest};
use sys::{socket, terminal};

use super::PmiRequests;
use super::cpuset_assignment::{CpusetAssignment, OwnCores};
use super::other_libraries::OtherLibrary;
use super::parking::Parked;
use super::tracing::NamedMemory;
use super::variables::{self, RankIdentity};
use crate::local::host_name;
use crate::protocol::{AgentReport, OutputStream, ProgramStart};
use crate::{OpenedAhead, is_no_end};

/// A started process.
pub(super) struct RankProcess {
    pub number: u32,
    pub process: i32,
    pub has_ended: bool,
    /// Whether it has the terminal of the launcher.
    pub has_terminal: bool,
    output: Option<File>,
    errors: Option<File>,
    pmi: Option<UnixStream>,
    /// The process that has initialized MPI as this rank and has not finalized it: the one that was
    /// started, or a descendant.
    member: Option<i32>,
    /// Whether a process has sent requests to the PMI server as this rank.
    pub has_joined: bool,
    /// Another MPI library that a process of this rank has loaded, if that was noticed.
    pub other_library: Option<OtherLibrary>,
    /// Answers that the process has not received yet. Until then nothing more is read from it.
    answers: Vec<u8>,
}

/// The files that a process inherits.
pub(super) struct OpenedForRank<'a> {
    /// What was opened for it because it may not open it itself.
    pub ahead: Option<&'a OpenedAhead>,
    /// The file through which it is asked what it does.
    pub questions: Option<&'a QuestionBoard>,
    /// The memory of its trace, with the variable that names it.
    pub trace: Option<NamedMemory<'a>>,
    /// The cores that it lends and borrows.
    pub lending: Option<&'a LendingBoard>,
}

/// Where a process writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outlet {
    /// To pipes, which the launcher reads.
    Pipes,
    /// To a terminal of its own, if the system has one, which the launcher reads, and errors to a
    /// pipe.
    OwnTerminal,
    /// To the launcher's terminal, from which it also reads.
    LaunchersTerminal,
}

/// The outputs of a process: for each the end to read from, and the end that it writes to. None: it
/// writes to those of the launcher.
struct OutputEnds {
    output: Option<(OwnedFd, OwnedFd)>,
    errors: Option<(OwnedFd, OwnedFd)>,
    /// Whether its output is a pipe.
    is_piped: bool,
}

impl Outlet {
    fn open(self) -> io::Result<OutputEnds> {
        let terminal = match self {
            Self::LaunchersTerminal => {
                return Ok(OutputEnds { output: None, errors: None, is_piped: false });
            }
            Self::OwnTerminal => terminal::open().ok(),
            Self::Pipes => None,
        };
        let is_piped = terminal.is_none();
        let output = terminal.map_or_else(pipe, Ok)?;
        Ok(OutputEnds { output: Some(output), errors: Some(pipe()?), is_piped })
    }

    fn foreground(self) -> Foreground {
        match self {
            Self::LaunchersTerminal => Foreground::Comes,
            Self::OwnTerminal | Self::Pipes => Foreground::Stays,
        }
    }
}

/// Which of its descriptors is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RankDescriptor {
    Output(OutputStream),
    Pmi,
}

/// How many descriptors are held for a rank: its outputs and its connection to the PMI server.
pub(super) const DESCRIPTORS_OF_RANK: usize = 3;

/// How many bytes are read at once.
const READ_BYTES_MAX: usize = 64 << 10;

/// How many bytes are read at most from the pipe of a process that has ended: the capacity of a
/// pipe. Processes that it left behind may still write to it.
const LEFT_BYTES_MAX: usize = 1 << 20;

impl RankProcess {
    /// Starts the process. It reads `input`, and writes to `outlet`. `descriptors` is its limit of
    /// open files, and `opened` are the files that it inherits.
    pub(super) fn start(
        place: &RankIdentity<'_>,
        program: &ProgramStart,
        (input, outlet): (Stdio, Outlet),
        descriptors: DescriptorLimit,
        cpuset_assignment: &CpusetAssignment,
        opened: OpenedForRank<'_>,
    ) -> io::Result<Self> {
        let (ours, theirs) = socket::pair()?;
        socket::name_senders(ours.as_fd())?;
        let OutputEnds { output, errors, is_piped } = outlet.open()?;
        let ((output, their_output), (errors, their_errors)) = (output.unzip(), errors.unzip());
        let mut command = Command::new(&program.path);
        command.args(&program.arguments);
        if let Some(folder) = &program.folder {
            command.current_dir(folder);
        }
        let inherited = std::env::vars_os().map(|pair| pair.0);
        for name in variables::stale(inherited) {
            command.env_remove(name);
        }
        if is_piped {
            command.envs(variables::for_whole_lines(|name| std::env::var_os(name).is_some()));
        }
        command.envs(program.variables.iter().map(|(name, value)| (name, value)));
        command.envs(variables::of_rank(place));
        let cpuset = place.local_rank as usize;
        let OpenedForRank { ahead, questions, trace, lending } = opened;
        let cores = OwnCores::of(lending);
        command.envs(cpuset_assignment.variables(cpuset, &program.variables, cores));
        command.envs(cpuset_assignment.gpu(cpuset));
        command.env("PMI_FD", theirs.as_raw_fd().to_string());
        command.stdin(input);
        command.stdout(their_output.map_or_else(Stdio::inherit, Stdio::from));
        command.stderr(their_errors.map_or_else(Stdio::inherit, Stdio::from));
        let binding = cpuset_assignment.process_binding(cpuset);
        let mut kept: Vec<BorrowedFd<'_>> = vec![theirs.as_fd()];
        if let Some((text, opened)) = ahead {
            command.env(DESCRIPTORS, text);
            kept.extend(opened.iter().map(AsFd::as_fd));
        }
        command.envs(questions.map(QuestionBoard::variable));
        kept.extend(questions.map(AsFd::as_fd));
        let (trace, trace_variable) = trace.unzip();
        command.envs(trace_variable);
        kept.extend(trace.map(AsFd::as_fd));
        command.envs(lending.map(LendingBoard::variable));
        kept.extend(lending.map(|board| board.file().as_fd()));
        let foreground = outlet.foreground();
        let child = process::spawn_bound(&mut command, &kept, descriptors, &binding, foreground)?;
        let outputs = output.iter().chain(&errors).map(AsRawFd::as_raw_fd);
        for descriptor in outputs.chain([ours.as_raw_fd()]) {
            process::set_nonblocking(descriptor)?;
        }
        Ok(Self {
            number: place.rank,
            process: child.id() as i32,
            has_ended: false,
            has_terminal: outlet == Outlet::LaunchersTerminal,
            output: output.map(File::from),
            errors: errors.map(File::from),
            pmi: Some(ours),
            member: None,
            has_joined: false,
            other_library: None,
            answers: Vec::new(),
        })
    }

    /// Takes the descriptors of the process away, if it has all of them.
    pub(super) fn take_descriptors(&mut self) -> Option<Parked> {
        let (output, errors) = (self.output.take()?, self.errors.take()?);
        Some([output.into(), errors.into(), self.pmi.take()?.into()])
    }

    /// Reports that the outputs end that the launcher does not read.
    pub(super) fn unread_outputs(&self) -> impl Iterator<Item = AgentReport> {
        let unread = [
            (self.output.is_none(), OutputStream::Output),
            (self.errors.is_none(), OutputStream::Errors),
        ];
        let closed = |target| AgentReport::OutputClosed(self.number, target);
        unread.into_iter().filter(|one| one.0).map(move |one| closed(one.1))
    }

    /// Whether its descriptors were taken away.
    pub(super) fn lacks_descriptors(&self) -> bool {
        self.pmi.is_none()
    }

    /// Gives the descriptors that [`take_descriptors`](Self::take_descriptors) took back.
    pub(super) fn give_descriptors(&mut self, [output, errors, pmi]: Parked) {
        self.output = Some(output.into());
        self.errors = Some(errors.into());
        self.pmi = Some(pmi.into());
    }

    /// Returns the descriptors to watch; outputs only if there is room for their data, and PMI
    /// requests only if they are read.
    pub(super) fn watched(
        &self,
        has_room: impl Fn(OutputStream) -> bool,
        pmi_requests: PmiRequests,
    ) -> impl Iterator<Item = (RawFd, Interest, RankDescriptor)> {
        let of = |pipe: &Option<File>, target| {
            let pipe = pipe.as_ref().filter(|_| has_room(target))?;
            Some((pipe.as_raw_fd(), Interest::Read, RankDescriptor::Output(target)))
        };
        let pmi = self.pmi.as_ref().and_then(|end| match self.answers.is_empty() {
            true if pmi_requests == PmiRequests::Wait => None,
            true => Some((end.as_raw_fd(), Interest::Read, RankDescriptor::Pmi)),
            false => Some((end.as_raw_fd(), Interest::Write, RankDescriptor::Pmi)),
        });
        [of(&self.output, OutputStream::Output), of(&self.errors, OutputStream::Errors), pmi]
            .into_iter()
            .flatten()
    }

    /// Reads some of the process's output, at most `room` bytes. Returns the number of bytes.
    pub(super) fn read(
        &mut self,
        target: OutputStream,
        room: usize,
        reports: &mut Vec<AgentReport>,
    ) -> usize {
        let channel = match target {
            OutputStream::Output => &mut self.output,
            OutputStream::Errors => &mut self.errors,
        };
        let Some(pipe) = channel else { return 0 };
        let mut bytes = vec![0; READ_BYTES_MAX];
        match pipe.read(&mut bytes[..room.min(READ_BYTES_MAX)]) {
            Ok(length) if length > 0 => {
                reports.push(AgentReport::Output(self.number, target, bytes[..length].to_vec()));
                length
            }
            Err(error) if is_no_end(&error) => 0,
            _ => {
                *channel = None;
                reports.push(AgentReport::OutputClosed(self.number, target));
                0
            }
        }
    }

    /// Reads all output of the process, which has ended. Returns the number of bytes.
    pub(super) fn drain(&mut self, target: OutputStream, reports: &mut Vec<AgentReport>) -> usize {
        let mut total = 0;
        while total < LEFT_BYTES_MAX {
            match self.read(target, READ_BYTES_MAX, reports) {
                0 => break,
                length => total += length,
            }
        }
        total
    }

    /// Reads the process's requests to the PMI server, if it has received all answers.
    pub(super) fn read_pmi(&mut self, reports: &mut Vec<AgentReport>) {
        self.send_answers();
        let mut bytes = vec![0; READ_BYTES_MAX];
        let Some(pmi) = self.pmi.as_mut().filter(|_| self.answers.is_empty()) else { return };
        match socket::receive_from(pmi.as_fd(), &mut bytes) {
            Ok((length, sender)) if length > 0 => {
                let bytes = &bytes[..length];
                self.has_joined = true;
                let data = match self.note_member(sender, bytes) {
                    Some(other) => self.refusal(sender, other).into_bytes(),
                    None => bytes.to_vec(),
                };
                reports.push(AgentReport::PmiData(self.number, data));
            }
            Err(error) if is_no_end(&error) => {}
            _ => {
                self.pmi = None;
                reports.push(AgentReport::PmiClosed(self.number));
            }
        }
    }

    /// Records which process has initialized MPI as this rank. If another process still uses MPI as
    /// this rank, returns that process: the two would read each other's answers.
    fn note_member(&mut self, sender: i32, bytes: &[u8]) -> Option<i32> {
        if bytes.starts_with(b"cmd=init ") {
            let before = self.member.replace(sender).filter(|&before| before != sender);
            return before.filter(|&before| before > 0 && !process::has_ended(before));
        }
        if bytes.starts_with(b"cmd=finalize") && self.member == Some(sender) {
            self.member = None;
        }
        None
    }

    /// Returns the request with which the process ends the job, because it is the second one to use
    /// this rank.
    fn refusal(&self, sender: i32, other: i32) -> String {
        let reason = format!(
            "rank {} on {}: process {sender} has called MPI_Init while process {other}, of the \
             same rank, uses MPI; a rank can be only one process of MPI at a time: let one finish \
             before the next begins, or start them as separate ranks (mpirun -n 1 ./a : -n 1 ./b)",
            self.number,
            host_name()
        );
        format!("cmd=abort exitcode=1 {ABORT_REASON}={}\n", reason::encode(&reason))
    }

    /// Adds an answer for the process, which [`send_answers`](Self::send_answers) sends.
    pub(super) fn answer(&mut self, line: &str) {
        self.answers.extend_from_slice(line.as_bytes());
        self.answers.push(b'\n');
    }

    /// Closes the connection to the PMI server. Answers that the process has not received are
    /// dropped.
    pub(super) fn close_pmi(&mut self) {
        self.send_answers();
        self.pmi = None;
    }

    /// Sends the process the answers that it has not received.
    pub(super) fn send_answers(&mut self) {
        while let Some(pmi) = self.pmi.as_mut().filter(|_| !self.answers.is_empty()) {
            match pmi.write(&self.answers) {
                Ok(length) => drop(self.answers.drain(..length)),
                Err(error) if is_no_end(&error) => return,
                // A process that has ended needs no answer; its earlier requests are still read.
                Err(_) => self.answers.clear(),
            }
        }
    }

    /// Sends a signal to the process and the others in its group.
    pub(super) fn signal(&self, number: i32) {
        if !self.has_ended {
            // The process group may have just ended.
            let _ = process::kill(-self.process, number);
        }
    }
}

/// Creates a pipe: the ends for reading and for writing.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = process::pipe()?;
    Ok((reader.into(), writer.into()))
}
