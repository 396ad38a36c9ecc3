//! The protocol between the launcher and an agent on another machine; no I/O.
//!
//! The agent begins with a line that contains its version. Anything before that line is not from
//! the agent: the shell that started it may have printed a greeting. Then both sides send frames: a
//! byte for the type, the length of the rest with 32 bits (little-endian), and the rest. Numbers
//! have 32 bits. Texts are preceded by their length.

mod connections;
mod fields;
mod policy;
mod report_parser;
mod rules;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use sys::process::End;

use crate::binding::Policy;
use crate::rank_slots::RankSlots;
pub use connections::{
    AgentStart, ConnectionEvent, ConnectionOrder, ForwardedReports, PART_BYTES_MAX,
};
use fields::{Emit, Frames, Parse};
pub(crate) use report_parser::ReportParser;
pub(crate) use rules::{OrderRules, ReportRules};

/// The version of the protocol.
pub(crate) const VERSION: u32 = 12;

/// The beginning of the agent's first line.
const GREETING: &str = "combray-agent/";

/// The first byte of a heartbeat of an agent.
const HEARTBEAT_REPORT: u8 = 73;

/// The maximal length of a frame in bytes. The order that starts processes is the longest: it holds
/// arguments and variables.
const FRAME_BYTES_MAX: usize = 16 << 20;

/// How much output an agent may send for each target before the launcher grants new credit.
pub const OUTPUT_BYTES_MAX: u32 = 256 << 10;

/// How much input the launcher may send for rank 0 before the agent reports that rank 0 has read
/// it.
pub(crate) const INPUT_BYTES_MAX: u32 = 64 << 10;

/// How long a level of the tree of hosts may take: to start its agents, or, when all agents run, to
/// start the processes.
pub(crate) const START_TIME_MAX: Duration = Duration::from_secs(60);

/// The stream to which a process wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
}

/// A program, with what each machine needs to start it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramStart {
    /// The path, as the user wrote it.
    pub path: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The names and values of variables that are set for it.
    pub variables: Vec<(OsString, OsString)>,
    /// The working directory. `None`: that of the launcher, which other machines may lack.
    pub folder: Option<PathBuf>,
}

/// The processes of one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// The name of the job.
    pub job: String,
    /// The number of processes of the job on all machines.
    pub size: u32,
    /// The programs that run on this machine.
    pub programs: Vec<ProgramStart>,
    /// For each process its rank, and the index of its program.
    pub ranks: Vec<(u32, u32)>,
    /// How the processes are bound.
    pub policy: Policy,
    /// Whether each process reports where it is bound.
    pub reports_bindings: bool,
    /// Whether the variables are reported that are set for pools of threads.
    pub reports_pools: bool,
    /// Whether the launcher's output is a terminal, so that each process gets one, too.
    pub has_terminal: bool,
    /// For each process the hardware threads that the user chose, if any.
    pub slots: Vec<Option<RankSlots>>,
    /// The memory for the trace of each process, in bytes; 0: there is no trace.
    pub trace_bytes: u32,
}

/// An order of the launcher to a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentOrder {
    /// Start these processes. It is the first order, and is sent once.
    Start(Start),
    /// Pass this to rank 0 as standard input. Empty: the input has ended.
    Input(Vec<u8>),
    /// Write this line, an answer, to the PMI connection of a rank.
    Answer(u32, String),
    /// Close the PMI connection of a rank, even if it has not received all answers.
    ClosePmi(u32),
    /// Send a signal to one rank, or to all.
    Signal(Option<u32>, i32),
    /// Credit for this many more bytes of output.
    OutputCredit(OutputStream, u32),
    /// All ranks have ended: end what they left behind, send the last output, and end.
    Close,
    /// The launcher is alive.
    Heartbeat,
    /// Ask all ranks in which calls they wait.
    Ask,
    /// Publish to all ranks how many processes of the job have failed while the others go on.
    PublishFailures(u32),
    /// Send what a rank has recorded for the trace of the job, from this offset on.
    SendTrace(u32, u32),
    /// Do this with the connection to the agent of the host with this index, which is below this
    /// one in the tree.
    Connection(u32, ConnectionOrder),
    /// Send this message to the launcher of a spawned job, which has this connection to the
    /// machine's agent.
    ToSpawned(u32, Vec<u8>),
}

/// A report of a machine to the launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentReport {
    /// All processes were started; their ids in the order of [`Start::ranks`].
    Started(Vec<i32>),
    /// The processes cannot be started, and none is left.
    StartFailed(String),
    /// A rank wrote this.
    Output(u32, OutputStream, Vec<u8>),
    /// A rank has closed one of its outputs.
    OutputClosed(u32, OutputStream),
    /// A rank sent this to the PMI server.
    PmiData(u32, Vec<u8>),
    /// A rank has closed its connection to the PMI server.
    PmiClosed(u32),
    /// A rank that is about to end has reported this about its crash.
    Crashed(u32, String),
    /// A rank has ended.
    Ended(u32, End),
    /// Rank 0 has read this many bytes of its standard input.
    InputTaken(u32),
    /// The agent is alive.
    Heartbeat,
    /// What a rank does, as far as it or the kernel reports it.
    Answer(u32, LocalAnswer),
    /// A part of what a rank has recorded for the trace of the job.
    TracePart(u32, TracePart),
    /// This has happened to the connection to the agent of the host with this index.
    Connection(u32, ConnectionEvent),
    /// The launcher of a spawned job, which has this connection, has sent this message.
    FromSpawned(u32, Vec<u8>),
    /// That connection has ended.
    SpawnedClosed(u32),
}

/// A part of what a rank has recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracePart {
    /// The number of bytes before.
    pub offset: u32,
    /// The number of bytes of all parts; 0: nothing was recorded.
    pub total: u32,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl TracePart {
    fn emit(&self, frame: &mut impl Emit) {
        frame.number(self.offset);
        frame.number(self.total);
        frame.text(&self.bytes);
    }
}

impl LocalAnswer {
    fn emit(&self, frame: &mut impl Emit) {
        frame.number(self.process as u32);
        frame.list(self.state.as_slice(), |frame, state| frame.text(state.as_bytes()));
        frame.list(self.kernel.as_slice(), |frame, place| frame.text(place.as_bytes()));
        frame.list(self.answer.as_slice(), |frame, answer| frame.text(answer));
    }
}

/// The largest length of a part, in bytes.
pub(crate) const TRACE_PART_BYTES_MAX: usize = 1 << 20;

/// The largest length of all parts, in bytes: more than the largest memory for a trace.
pub(crate) const TRACE_BYTES_MAX: u32 = 128 << 20;

/// What a machine reports about a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalAnswer {
    /// The process id of the rank itself; the launcher may have started a script that runs it.
    pub process: i32,
    /// The state that the kernel reports.
    pub state: Option<String>,
    /// For a process that did not answer: where in the kernel it waits.
    pub kernel: Option<String>,
    /// The answer of the process.
    pub answer: Option<Vec<u8>>,
}

/// Returns the first line of an agent.
pub fn greeting() -> String {
    format!("{GREETING}{VERSION} {}\n", env!("CARGO_PKG_VERSION"))
}

impl AgentOrder {
    /// Appends the frame. Returns false, and appends nothing, if it would be too long.
    pub fn emit(&self, out: &mut Vec<u8>) -> bool {
        fields::frame(out, |frame| match self {
            Self::Start(start) => {
                frame.push(1);
                frame.text(start.job.as_bytes());
                frame.number(start.size);
                frame.list(&start.programs, emit_program);
                frame.list(&start.ranks, |frame, (rank, program)| {
                    frame.number(*rank);
                    frame.number(*program);
                });
                policy::emit(frame, &start.policy);
                frame.push(u8::from(start.reports_bindings));
                frame.push(u8::from(start.reports_pools));
                frame.push(u8::from(start.has_terminal));
                frame.list(&start.slots, |frame, slots| {
                    frame.list(slots.as_slice(), |frame, slots| {
                        frame.text(slots.to_string().as_bytes());
                    });
                });
                frame.number(start.trace_bytes);
            }
            Self::Input(bytes) => {
                frame.push(2);
                frame.text(bytes);
            }
            Self::Answer(rank, line) => {
                frame.push(3);
                frame.number(*rank);
                frame.text(line.as_bytes());
            }
            Self::Signal(rank, number) => {
                frame.push(4);
                frame.list(rank.as_slice(), |frame, rank| frame.number(*rank));
                frame.number(*number as u32);
            }
            Self::OutputCredit(target, bytes) => {
                frame.push(5);
                frame.target(*target);
                frame.number(*bytes);
            }
            Self::Close => frame.push(6),
            Self::Heartbeat => frame.push(7),
            Self::ClosePmi(rank) => {
                frame.push(8);
                frame.number(*rank);
            }
            Self::Ask => frame.push(9),
            Self::PublishFailures(count) => {
                frame.push(10);
                frame.number(*count);
            }
            Self::SendTrace(rank, offset) => {
                frame.push(13);
                frame.number(*rank);
                frame.number(*offset);
            }
            Self::Connection(host, order) => {
                frame.push(11);
                frame.number(*host);
                order.emit(frame);
            }
            Self::ToSpawned(link, message) => {
                frame.push(12);
                frame.number(*link);
                frame.text(message);
            }
        })
    }

    fn parse(kind: u8, fields: &mut Parse<'_>) -> Option<Self> {
        Some(match kind {
            1 => Self::Start(Start {
                job: fields.string()?,
                size: fields.number()?,
                programs: fields.list(parse_program)?,
                ranks: fields.list(|fields| Some((fields.number()?, fields.number()?)))?,
                policy: policy::parse(fields)?,
                reports_bindings: fields.byte()? != 0,
                reports_pools: fields.byte()? != 0,
                has_terminal: fields.byte()? != 0,
                slots: fields
                    .list(|fields| fields.option(|fields| RankSlots::parse(&fields.string()?)))?,
                trace_bytes: fields.number().filter(|bytes| *bytes < TRACE_BYTES_MAX)?,
            }),
            2 => Self::Input(fields.text()?.to_vec()),
            3 => Self::Answer(fields.number()?, fields.string()?),
            4 => {
                let rank = fields.option(Parse::number)?;
                let number = fields.number()? as i32;
                (1..=64).contains(&number).then_some(Self::Signal(rank, number))?
            }
            5 => Self::OutputCredit(fields.target()?, fields.number()?),
            6 => Self::Close,
            7 => Self::Heartbeat,
            8 => Self::ClosePmi(fields.number()?),
            9 => Self::Ask,
            10 => Self::PublishFailures(fields.number()?),
            13 => Self::SendTrace(fields.number()?, fields.number()?),
            11 => Self::Connection(fields.number()?, ConnectionOrder::parse(fields)?),
            12 => Self::ToSpawned(fields.number()?, fields.text()?.to_vec()),
            _ => return None,
        })
    }
}

fn emit_program(frame: &mut Vec<u8>, program: &ProgramStart) {
    frame.os_text(&program.path);
    frame.list(&program.arguments, |frame, argument| frame.os_text(argument));
    frame.list(&program.variables, |frame, (name, value)| {
        frame.os_text(name);
        frame.os_text(value);
    });
    frame.list(program.folder.as_slice(), |frame, folder| frame.os_text(folder.as_os_str()));
}

fn parse_program(fields: &mut Parse<'_>) -> Option<ProgramStart> {
    Some(ProgramStart {
        path: fields.os_text()?,
        arguments: fields.list(Parse::os_text)?,
        variables: fields.list(|fields| Some((fields.os_text()?, fields.os_text()?)))?,
        folder: fields.option(Parse::os_text)?.map(PathBuf::from),
    })
}

fn emit_end(frame: &mut Vec<u8>, end: End) {
    let (is_signal, number) = match end {
        End::Code(code) => (0, code),
        End::Signal(number) => (1, number),
    };
    frame.push(is_signal);
    frame.number(number as u32);
}

/// Appends the number of a report, and the number that it contains.
fn emit_number(frame: &mut Vec<u8>, report: u8, number: u32) {
    frame.push(report);
    frame.number(number);
}

fn parse_end(fields: &mut Parse<'_>) -> Option<End> {
    let is_signal = fields.flag()?;
    let number = fields.number()? as i32;
    Some(if is_signal { End::Signal(number) } else { End::Code(number) })
}

impl AgentReport {
    /// Appends the frame. Returns false, and appends nothing, if it would be too long.
    pub fn emit(&self, out: &mut Vec<u8>) -> bool {
        fields::frame(out, |frame| match self {
            Self::Started(processes) => {
                frame.push(65);
                frame.list(processes, |frame, process| frame.number(*process as u32));
            }
            Self::StartFailed(why) => {
                frame.push(66);
                frame.text(why.as_bytes());
            }
            Self::Output(rank, target, bytes) => {
                frame.push(67);
                frame.number(*rank);
                frame.target(*target);
                frame.text(bytes);
            }
            Self::OutputClosed(rank, target) => {
                frame.push(68);
                frame.number(*rank);
                frame.target(*target);
            }
            Self::PmiData(rank, bytes) => {
                frame.push(69);
                frame.number(*rank);
                frame.text(bytes);
            }
            Self::PmiClosed(rank) => emit_number(frame, 70, *rank),
            Self::Ended(rank, end) => {
                frame.push(71);
                frame.number(*rank);
                emit_end(frame, *end);
            }
            Self::Crashed(rank, text) => {
                frame.push(78);
                frame.number(*rank);
                frame.text(text.as_bytes());
            }
            Self::InputTaken(bytes) => emit_number(frame, 72, *bytes),
            Self::Heartbeat => frame.push(HEARTBEAT_REPORT),
            Self::Answer(rank, local) => {
                frame.push(74);
                frame.number(*rank);
                local.emit(frame);
            }
            Self::TracePart(rank, part) => {
                frame.push(79);
                frame.number(*rank);
                part.emit(frame);
            }
            Self::Connection(host, event) => {
                frame.push(75);
                frame.number(*host);
                event.emit(frame);
            }
            Self::FromSpawned(link, message) => {
                frame.push(76);
                frame.number(*link);
                frame.text(message);
            }
            Self::SpawnedClosed(link) => emit_number(frame, 77, *link),
        })
    }

    fn parse(kind: u8, fields: &mut Parse<'_>) -> Option<Self> {
        Some(match kind {
            65 => Self::Started(fields.list(|fields| Some(fields.number()? as i32))?),
            66 => Self::StartFailed(fields.string()?),
            67 => Self::Output(fields.number()?, fields.target()?, fields.text()?.to_vec()),
            68 => Self::OutputClosed(fields.number()?, fields.target()?),
            69 => Self::PmiData(fields.number()?, fields.text()?.to_vec()),
            70 => Self::PmiClosed(fields.number()?),
            71 => Self::Ended(fields.number()?, parse_end(fields)?),
            72 => Self::InputTaken(fields.number()?),
            HEARTBEAT_REPORT => Self::Heartbeat,
            74 => Self::Answer(
                fields.number()?,
                LocalAnswer {
                    process: fields.number()? as i32,
                    state: fields.option(Parse::string)?,
                    kernel: fields.option(Parse::string)?,
                    answer: fields.option(|fields| Some(fields.text()?.to_vec()))?,
                },
            ),
            79 => {
                let (rank, offset, total) = (fields.number()?, fields.number()?, fields.number()?);
                Self::TracePart(rank, TracePart { offset, total, bytes: fields.text()?.to_vec() })
            }
            75 => Self::Connection(fields.number()?, ConnectionEvent::parse(fields)?),
            76 => Self::FromSpawned(fields.number()?, fields.text()?.to_vec()),
            77 => Self::SpawnedClosed(fields.number()?),
            78 => Self::Crashed(fields.number()?, fields.string()?),
            _ => return None,
        })
    }
}

/// The agent's side: bytes in, orders out.
#[derive(Debug, Default)]
pub struct OrderParser {
    frames: Frames,
    rules: OrderRules,
}

impl OrderParser {
    /// Accepts bytes, and appends the orders that are complete now.
    ///
    /// # Errors
    /// A message for users: the bytes are not an order, or the order may not be sent now.
    pub fn receive(&mut self, bytes: &[u8], out: &mut Vec<AgentOrder>) -> Result<(), String> {
        self.frames.push(bytes);
        while let Some(frame) = self.frames.take()? {
            let order =
                fields::parse(frame, AgentOrder::parse).ok_or("the data is not an order")?;
            self.rules.follow(&order)?;
            out.push(order);
        }
        Ok(())
    }

    /// Returns the ranks to be started, in ascending order; empty before that order.
    pub fn ranks(&self) -> &[u32] {
        self.rules.ranks()
    }
}

#[cfg(test)]
mod tests;
