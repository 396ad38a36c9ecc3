//! One process of the job, with the ends of its pipes.

use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

use sys::process::{self, End, Interest};

use super::super::Application;
use crate::lines::Lines;

/// A started process.
pub(super) struct Rank {
    pub process: i32,
    /// How it ended, once it has.
    pub end: Option<End>,
    output: Option<ChildStdout>,
    errors: Option<ChildStderr>,
    /// Where the launcher's input goes, if that is a terminal.
    input: Option<ChildStdin>,
    typed: Vec<u8>,
    pmi: Option<UnixStream>,
    output_lines: Lines,
    error_lines: Lines,
}

/// Which of its descriptors is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Output,
    Errors,
    Input,
    Pmi,
}

const STANDARD_INPUT: RawFd = 0;

impl Rank {
    pub(super) fn start(
        number: u32,
        size: u32,
        application: &Application,
        job: &str,
        tagged: bool,
    ) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(&application.program);
        command.args(&application.arguments);
        if let Some(folder) = &application.folder {
            command.current_dir(folder);
        }
        for (name, value) in variables(number, size, job) {
            command.env(name, value);
        }
        command.envs(&application.variables);
        command.env("PMI_FD", theirs.as_raw_fd().to_string());
        // A terminal's foreground belongs to the launcher, so what is typed there is passed on.
        let typing = number == 0 && io::stdin().is_terminal();
        command.stdin(match (number, typing) {
            (0, true) => Stdio::piped(),
            (0, false) => Stdio::inherit(),
            _ => Stdio::null(),
        });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = process::spawn_bound(&mut command, theirs.as_fd())?;
        for descriptor in [
            child.stdout.as_ref().map(AsRawFd::as_raw_fd),
            child.stderr.as_ref().map(AsRawFd::as_raw_fd),
            Some(ours.as_raw_fd()),
        ] {
            descriptor.map_or(Ok(()), process::set_nonblocking)?;
        }
        let tag = if tagged { format!("[{number}] ") } else { String::new() };
        Ok(Self {
            process: child.id() as i32,
            end: None,
            output: child.stdout.take(),
            errors: child.stderr.take(),
            input: child.stdin.take(),
            typed: Vec::new(),
            pmi: Some(ours),
            output_lines: Lines::new(tag.clone()),
            error_lines: Lines::new(tag),
        })
    }

    /// The descriptors to watch.
    pub(super) fn watched(&self) -> impl Iterator<Item = (RawFd, Interest, Stream)> {
        let read = Interest::Read;
        let output = self.output.as_ref().map(|end| (end.as_raw_fd(), read, Stream::Output));
        let errors = self.errors.as_ref().map(|end| (end.as_raw_fd(), read, Stream::Errors));
        let pmi = self.pmi.as_ref().map(|end| (end.as_raw_fd(), read, Stream::Pmi));
        let input = self.input.as_ref().map(|end| match self.typed.is_empty() {
            true => (STANDARD_INPUT, read, Stream::Input),
            false => (end.as_raw_fd(), Interest::Write, Stream::Input),
        });
        [output, errors, pmi, input].into_iter().flatten()
    }

    /// Passes on what the process has written.
    ///
    /// # Errors
    /// Nobody reads the launcher's own output.
    pub(super) fn forward(&mut self, stream: Stream) -> io::Result<()> {
        if stream == Stream::Output {
            let out = &mut io::stdout().lock();
            forward_from(&mut self.output, &mut self.output_lines, out)
        } else {
            let out = &mut io::stderr().lock();
            forward_from(&mut self.errors, &mut self.error_lines, out)
        }
    }

    /// Passes on all that is in the pipes now.
    pub(super) fn drain(&mut self) {
        // A failure shows again at the next regular pass.
        let _ = self.forward(Stream::Output);
        let _ = self.forward(Stream::Errors);
    }

    /// Passes on what was typed.
    pub(super) fn feed(&mut self) {
        if self.typed.is_empty() {
            let mut bytes = [0; 4096];
            match io::stdin().lock().read(&mut bytes) {
                Ok(0) | Err(_) => self.input = None,
                Ok(length) => self.typed.extend_from_slice(&bytes[..length]),
            }
            return;
        }
        let Some(input) = &mut self.input else { return };
        match input.write(&self.typed) {
            Ok(written) => drop(self.typed.drain(..written)),
            Err(_) => self.input = None,
        }
    }

    /// What the process said to the PMI server.
    pub(super) fn hear(&mut self) -> Vec<u8> {
        let mut bytes = [0; 4096];
        let Some(pmi) = &mut self.pmi else { return Vec::new() };
        match pmi.read(&mut bytes) {
            Ok(length) if length > 0 => bytes[..length].to_vec(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Vec::new(),
            _ => {
                self.pmi = None;
                Vec::new()
            }
        }
    }

    /// Answers the process.
    pub(super) fn tell(&mut self, line: &str) {
        if let Some(pmi) = &mut self.pmi {
            // Answers are short and each was asked for, so they fit the socket; a process that is
            // gone needs none.
            let _ = pmi.write_all(format!("{line}\n").as_bytes());
        }
    }

    /// Whether nothing more can come from it.
    pub(super) fn is_silent(&self) -> bool {
        self.output.is_none() && self.errors.is_none()
    }

    pub(super) fn finish(&mut self) {
        self.drain();
        // As above: a failure to write has been dealt with.
        let _ = self.output_lines.finish(&mut io::stdout().lock());
        let _ = self.error_lines.finish(&mut io::stderr().lock());
    }

    /// What it wrote last: to its error output, or else to its output.
    pub(super) fn last_lines(&self) -> Vec<&str> {
        let errors: Vec<&str> = self.error_lines.recent().collect();
        if errors.is_empty() { self.output_lines.recent().collect() } else { errors }
    }
}

fn forward_from(
    pipe: &mut Option<impl Read>,
    lines: &mut Lines,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut bytes = [0; 16 << 10];
    while let Some(end) = pipe {
        match end.read(&mut bytes) {
            Ok(0) => {
                *pipe = None;
                lines.finish(out)?;
            }
            Ok(length) => lines.take(&bytes[..length], out)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(_) => *pipe = None,
        }
    }
    Ok(())
}

/// What a rank learns from its environment: our own names, PMI's, and those that scripts written
/// for other libraries read.
fn variables(rank: u32, size: u32, job: &str) -> Vec<(&'static str, String)> {
    let (rank, size) = (rank.to_string(), size.to_string());
    let of_rank = [
        "COMBRAY_RANK",
        "COMBRAY_LOCAL_RANK",
        "PMI_RANK",
        "PMI_LOCAL_RANK",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "MPI_LOCALRANKID",
    ];
    let of_size = [
        "COMBRAY_SIZE",
        "COMBRAY_LOCAL_SIZE",
        "PMI_SIZE",
        "PMI_LOCAL_SIZE",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "MPI_LOCALNRANKS",
    ];
    let ranks = of_rank.into_iter().map(|name| (name, rank.clone()));
    let sizes = of_size.into_iter().map(|name| (name, size.clone()));
    let mut all: Vec<_> = ranks.chain(sizes).collect();
    all.push(("COMBRAY_JOB", job.to_owned()));
    all
}
