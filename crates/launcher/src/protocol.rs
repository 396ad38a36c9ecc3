//! What the launcher and an agent on another machine say to each other; no I/O.
//!
//! The agent begins with a line that tells its version. What stands before that line is not its
//! own: the shell that started it may have greeted. Then both send frames: a byte that tells what
//! it is, the length of the rest as 32 bits (least byte first), and the rest. Numbers have 32 bits,
//! texts their length before them.

mod fields;
mod policy;
mod report_parser;
mod rules;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use sys::process::End;

use crate::binding::{Policy, Seat};
use fields::{Emit, Frames, Parse};
pub(crate) use report_parser::ReportParser;
pub(crate) use rules::{OrderRules, ReportRules};

/// The version of all that stands here.
pub(crate) const VERSION: u32 = 6;

/// How the agent's first line begins.
const GREETING: &str = "combray-agent/";

/// No frame is longer. What starts processes is the longest: it holds arguments and variables.
const FRAME_BYTES_MAX: usize = 16 << 20;

/// How much output an agent may send for each target before the launcher has made use of it.
pub(crate) const OUTPUT_BYTES_MAX: u32 = 256 << 10;

/// The same for what goes to the standard input of rank 0.
pub(crate) const INPUT_BYTES_MAX: u32 = 64 << 10;

/// How long all hosts may take to start their processes.
pub(crate) const START_TIME_MAX: Duration = Duration::from_secs(60);

/// Where a process wrote something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputStream {
    Output,
    Errors,
}

/// A program as each machine needs it in order to start it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgramStart {
    /// As the user wrote it.
    pub path: OsString,
    pub arguments: Vec<OsString>,
    pub variables: Vec<(OsString, OsString)>,
    /// None: the launcher's, which only the launcher's own machine can be sure to have.
    pub folder: Option<PathBuf>,
}

/// The processes of one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Start {
    /// The name of the job.
    pub job: String,
    /// How many processes the job has on all machines.
    pub size: u32,
    pub programs: Vec<ProgramStart>,
    /// For each process its rank, and the position of its program.
    pub ranks: Vec<(u32, u32)>,
    /// How they are to be bound.
    pub policy: Policy,
    /// Whether each reports where it is bound.
    pub reports_bindings: bool,
    /// Whether the launcher's output is a terminal, so that each shall find one.
    pub has_terminal: bool,
    /// For each process the hardware threads on which the user wants it, if that was said.
    pub seats: Vec<Seat>,
}

/// What the launcher asks of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AgentOrder {
    /// Start these processes. It is the first order, and comes once.
    Start(Start),
    /// Give this to rank 0 as standard input; nothing means that there is no more.
    Input(Vec<u8>),
    /// Write this line to the PMI connection of a rank.
    Answer(u32, String),
    /// Close the PMI connection of a rank, without waiting for it to take its answers.
    ClosePmi(u32),
    /// Send a signal to one rank, or to all.
    Signal(Option<u32>, i32),
    /// So many more bytes of output can be taken.
    OutputCredit(OutputStream, u32),
    /// All ranks have ended: end what they left behind, send the last of their output, and leave.
    Close,
    /// The launcher is still there.
    Heartbeat,
    /// Ask all ranks what they do.
    Ask,
}

/// What a machine reports to the launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AgentReport {
    /// All processes have been started; their numbers in the order of [`Start::ranks`].
    Started(Vec<i32>),
    /// They cannot be started, and none is left.
    StartFailed(String),
    /// A rank wrote this.
    Output(u32, OutputStream, Vec<u8>),
    /// A rank has closed one of its outputs.
    OutputClosed(u32, OutputStream),
    /// A rank sent this to the PMI server.
    PmiData(u32, Vec<u8>),
    /// A rank has closed its connection to the PMI server.
    PmiClosed(u32),
    /// A rank has ended.
    Ended(u32, End),
    /// Rank 0 has taken so many bytes of its standard input.
    InputTaken(u32),
    /// The agent is still there.
    Heartbeat,
    /// What a rank does, as far as it or the system tells.
    Answer(u32, LocalAnswer),
}

/// What is known of a rank on its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LocalAnswer {
    /// The process itself, where the launcher may have started a script around it.
    pub process: i32,
    /// What the system says that it does.
    pub state: Option<String>,
    /// Of one that did not answer: where in the kernel it waits.
    pub kernel: Option<String>,
    /// What it says itself.
    pub answer: Option<Vec<u8>>,
}

/// The line with which an agent begins.
pub(crate) fn greeting() -> String {
    format!("{GREETING}{VERSION} {}\n", env!("CARGO_PKG_VERSION"))
}

impl AgentOrder {
    /// Appends the frame; false, and nothing, if it would be too long.
    pub(crate) fn emit(&self, out: &mut Vec<u8>) -> bool {
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
                frame.push(u8::from(start.has_terminal));
                frame.list(&start.seats, |frame, seat| {
                    frame.list(seat.as_slice(), Emit::threads);
                });
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
                has_terminal: fields.byte()? != 0,
                seats: fields.list(|fields| fields.option(Parse::threads))?,
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

impl AgentReport {
    /// Appends the frame; false, and nothing, if it would be too long.
    pub(crate) fn emit(&self, out: &mut Vec<u8>) -> bool {
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
            Self::PmiClosed(rank) => {
                frame.push(70);
                frame.number(*rank);
            }
            Self::Ended(rank, end) => {
                frame.push(71);
                frame.number(*rank);
                let (is_signal, number) = match *end {
                    End::Code(code) => (0, code),
                    End::Signal(number) => (1, number),
                };
                frame.push(is_signal);
                frame.number(number as u32);
            }
            Self::InputTaken(bytes) => {
                frame.push(72);
                frame.number(*bytes);
            }
            Self::Heartbeat => frame.push(73),
            Self::Answer(rank, local) => {
                frame.push(74);
                frame.number(*rank);
                frame.number(local.process as u32);
                frame.list(local.state.as_slice(), |frame, state| frame.text(state.as_bytes()));
                frame.list(local.kernel.as_slice(), |frame, place| frame.text(place.as_bytes()));
                frame.list(local.answer.as_slice(), |frame, answer| frame.text(answer));
            }
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
            71 => {
                let rank = fields.number()?;
                let is_signal = fields.byte()? != 0;
                let number = fields.number()? as i32;
                Self::Ended(rank, if is_signal { End::Signal(number) } else { End::Code(number) })
            }
            72 => Self::InputTaken(fields.number()?),
            73 => Self::Heartbeat,
            74 => Self::Answer(
                fields.number()?,
                LocalAnswer {
                    process: fields.number()? as i32,
                    state: fields.option(Parse::string)?,
                    kernel: fields.option(Parse::string)?,
                    answer: fields.option(|fields| Some(fields.text()?.to_vec()))?,
                },
            ),
            _ => return None,
        })
    }
}

/// The agent's side: bytes in, orders out.
#[derive(Debug, Default)]
pub(crate) struct OrderParser {
    frames: Frames,
    rules: OrderRules,
}

impl OrderParser {
    /// Takes bytes, and appends the orders that are whole now.
    ///
    /// # Errors
    /// A text for people: what came is no order, or one that may not be sent now.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<AgentOrder>,
    ) -> Result<(), String> {
        self.frames.push(bytes);
        while let Some(frame) = self.frames.take()? {
            let order = fields::parse(frame, AgentOrder::parse).ok_or("what came is no order")?;
            self.rules.follow(&order)?;
            out.push(order);
        }
        Ok(())
    }

    /// The ranks that are to be started, in ascending order; none before that order.
    pub(crate) fn ranks(&self) -> &[u32] {
        self.rules.ranks()
    }
}

#[cfg(test)]
mod tests;
