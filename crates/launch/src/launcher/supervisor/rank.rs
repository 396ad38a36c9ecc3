//! One process of the job, with the ends of its pipes.

use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use sys::process::{self, DescriptorLimit, End, Interest};

use super::super::Application;
use super::outlets::{Outlets, Target};
use super::variables;
use crate::lines::{Form, Lines};

/// A started process.
pub(super) struct Rank {
    pub process: i32,
    /// How it ended, once it has.
    pub end: Option<End>,
    /// It is ended while others go on; when it is killed if it does not end by itself.
    pub doomed: Option<Instant>,
    output: Channel,
    errors: Channel,
    pmi: Option<UnixStream>,
    /// Answers that the process has not taken yet; nothing more is heard from it until it has.
    answers: Vec<u8>,
}

/// What all ranks have in common.
pub(super) struct Common<'a> {
    pub size: u32,
    pub job: &'a str,
    pub tagged: bool,
    /// The limit that the person set; the supervisor may need more for itself.
    pub descriptors: DescriptorLimit,
}

/// How many descriptors of a rank the supervisor holds, and while it starts one.
const DESCRIPTORS: u64 = 3;
const DESCRIPTORS_AT_START: u64 = 32;

impl<'a> Common<'a> {
    /// Makes room for the descriptors of `size` ranks.
    pub(super) fn new(size: u32, job: &'a str, tagged: bool) -> io::Result<Self> {
        let descriptors = DescriptorLimit::read()?;
        let needed = u64::from(size) * DESCRIPTORS + DESCRIPTORS_AT_START;
        if needed > descriptors.soft {
            // Where even the hard limit is too low, starting the rank that is too many fails.
            let soft = needed.min(descriptors.hard);
            DescriptorLimit { soft, ..descriptors }.set()?;
        }
        Ok(Self { size, job, tagged, descriptors })
    }
}

/// One of the two outputs of a process.
struct Channel {
    pipe: Option<PipeReader>,
    lines: Lines,
}

/// Which of its descriptors is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Writes(Target),
    Pmi,
}

/// How much is read at once.
const READ_BYTES_MAX: usize = 64 << 10;

/// How much is read at most from the pipe of a process that has ended: as much as a pipe can hold.
/// What it left behind may still write to it.
const LEFT_BYTES_MAX: usize = 1 << 20;

impl Rank {
    /// Starts process `number`; `typed` is where it reads what is typed at the launcher's terminal.
    pub(super) fn start(
        number: u32,
        application: &Application,
        common: &Common<'_>,
        typed: Option<PipeReader>,
    ) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let (output, their_output) = io::pipe()?;
        let (errors, their_errors) = io::pipe()?;
        let mut command = Command::new(&application.program);
        command.args(&application.arguments);
        if let Some(folder) = &application.folder {
            command.current_dir(folder);
        }
        let inherited = std::env::vars_os().map(|pair| pair.0);
        for name in variables::stale(inherited) {
            command.env_remove(name);
        }
        command.envs(&application.variables);
        command.envs(variables::of_rank(number, common.size, common.job));
        command.env("PMI_FD", theirs.as_raw_fd().to_string());
        command.stdin(match (number, typed) {
            (0, Some(typed)) => Stdio::from(OwnedFd::from(typed)),
            (0, None) => Stdio::inherit(),
            _ => Stdio::null(),
        });
        command.stdout(OwnedFd::from(their_output)).stderr(OwnedFd::from(their_errors));
        let child = process::spawn_bound(&mut command, theirs.as_fd(), common.descriptors)?;
        for descriptor in [output.as_raw_fd(), errors.as_raw_fd(), ours.as_raw_fd()] {
            process::set_nonblocking(descriptor)?;
        }
        let tag = if common.tagged { format!("[{number}] ") } else { String::new() };
        let is_alone = common.size == 1 && !common.tagged;
        let form = if is_alone { Form::Plain } else { Form::Whole };
        let channel = |pipe| Channel { pipe: Some(pipe), lines: Lines::new(tag.clone(), form) };
        Ok(Self {
            process: child.id() as i32,
            end: None,
            doomed: None,
            output: channel(output),
            errors: channel(errors),
            pmi: Some(ours),
            answers: Vec::new(),
        })
    }

    /// The descriptors to watch.
    pub(super) fn watched(
        &self,
        outlets: &Outlets,
    ) -> impl Iterator<Item = (RawFd, Interest, Stream)> {
        let of = |channel: &Channel, target| {
            let pipe = channel.pipe.as_ref().filter(|_| !outlets.is_full(target))?;
            Some((pipe.as_raw_fd(), Interest::Read, Stream::Writes(target)))
        };
        let pmi = self.pmi.as_ref().map(|end| match self.answers.is_empty() {
            true => (end.as_raw_fd(), Interest::Read, Stream::Pmi),
            false => (end.as_raw_fd(), Interest::Write, Stream::Pmi),
        });
        [of(&self.output, Target::Output), of(&self.errors, Target::Errors), pmi]
            .into_iter()
            .flatten()
    }

    fn channel(&mut self, target: Target) -> &mut Channel {
        match target {
            Target::Output => &mut self.output,
            Target::Errors => &mut self.errors,
        }
    }

    /// Passes on some of what the process has written.
    pub(super) fn forward(&mut self, target: Target, outlets: &mut Outlets) {
        self.channel(target).forward(outlets.queue(target));
    }

    /// Passes on all that the process, which has ended, has written.
    pub(super) fn drain(&mut self, outlets: &mut Outlets) {
        for target in [Target::Output, Target::Errors] {
            let channel = self.channel(target);
            let mut left = LEFT_BYTES_MAX;
            while left > 0 {
                match channel.forward(outlets.queue(target)) {
                    0 => break,
                    length => left = left.saturating_sub(length),
                }
            }
            channel.lines.finish(outlets.queue(target));
        }
    }

    /// Whether it wrote something to its output that is no whole line, perhaps a question.
    pub(super) fn has_partial_line(&self) -> bool {
        self.output.lines.has_partial()
    }

    /// Passes on what it wrote to its output, though it is no whole line.
    pub(super) fn show_partial_line(&mut self, outlets: &mut Outlets) {
        self.output.lines.show_partial(outlets.queue(Target::Output));
    }

    /// What the process said to the PMI server.
    pub(super) fn hear(&mut self) -> Vec<u8> {
        self.send_answers();
        let mut bytes = [0; 4096];
        let Some(pmi) = self.pmi.as_mut().filter(|_| self.answers.is_empty()) else {
            return Vec::new();
        };
        match pmi.read(&mut bytes) {
            Ok(length) if length > 0 => bytes[..length].to_vec(),
            Err(error) if is_no_end(&error) => Vec::new(),
            _ => {
                self.pmi = None;
                Vec::new()
            }
        }
    }

    /// Answers the process.
    pub(super) fn tell(&mut self, line: &str) {
        self.answers.extend_from_slice(line.as_bytes());
        self.answers.push(b'\n');
        self.send_answers();
    }

    fn send_answers(&mut self) {
        while let Some(pmi) = self.pmi.as_mut().filter(|_| !self.answers.is_empty()) {
            match pmi.write(&self.answers) {
                Ok(length) => drop(self.answers.drain(..length)),
                Err(error) if is_no_end(&error) => return,
                // A process that is gone needs no answer; reading finds what it said before.
                Err(_) => self.answers.clear(),
            }
        }
    }

    /// Whether it can still be heard.
    pub(super) fn is_connected(&self) -> bool {
        self.pmi.is_some()
    }

    /// Whether nothing more can come from it.
    pub(super) fn is_silent(&self) -> bool {
        self.output.pipe.is_none() && self.errors.pipe.is_none()
    }

    /// What it wrote last: to its error output, or else to its output.
    pub(super) fn last_lines(&self) -> Vec<String> {
        let errors: Vec<String> = self.errors.lines.recent().collect();
        if errors.is_empty() { self.output.lines.recent().collect() } else { errors }
    }
}

impl Channel {
    /// Reads once; returns how much there was.
    fn forward(&mut self, out: &mut Vec<u8>) -> usize {
        let Some(pipe) = &mut self.pipe else { return 0 };
        let mut bytes = [0; READ_BYTES_MAX];
        match pipe.read(&mut bytes) {
            Ok(length) if length > 0 => {
                self.lines.take(&bytes[..length], out);
                length
            }
            Err(error) if is_no_end(&error) => 0,
            _ => {
                self.pipe = None;
                self.lines.finish(out);
                0
            }
        }
    }
}

/// Whether more may come later.
fn is_no_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
