//! The launcher's own output: a queue for each stream, written without ever blocking on a reader.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use sys::process::{self, Interest};

use crate::protocol::OutputStream;

/// Both outputs of the launcher.
pub(super) struct OutputQueues {
    output: OutputQueue,
    /// None when both go to one place, where neither may be written inside a line of the other.
    errors: Option<OutputQueue>,
}

/// One place to write to.
pub(super) struct OutputQueue {
    file: File,
    /// The bytes that wait, appended at the end.
    pub queue: Vec<u8>,
    /// How many bytes of the queue are written.
    written: usize,
    is_closed: bool,
}

/// How many bytes a pipe that is ready accepts without blocking the writer (PIPE_BUF).
const WRITE_BYTES_MAX: usize = 4096;

/// How many writes are done in a row before other descriptors get their turn.
const WRITES_MAX: usize = 64;

impl OutputQueues {
    pub(super) fn open() -> io::Result<Self> {
        let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let errors = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let place = |file: &File| file.metadata().map(|data| (data.dev(), data.ino(), data.rdev()));
        let is_same = place(&output)? == place(&errors)?;
        let errors = (!is_same).then(|| OutputQueue::new(errors));
        Ok(Self { output: OutputQueue::new(output), errors })
    }

    fn output_queue(&mut self, target: OutputStream) -> &mut OutputQueue {
        match (target, &mut self.errors) {
            (OutputStream::Errors, Some(errors)) => errors,
            _ => &mut self.output,
        }
    }

    /// Returns the queue to which output is appended.
    pub(super) fn queue(&mut self, target: OutputStream) -> &mut Vec<u8> {
        &mut self.output_queue(target).queue
    }

    /// Returns how many bytes wait for each output.
    pub(super) fn waiting(&self) -> [usize; 2] {
        let errors = self.errors.as_ref().unwrap_or(&self.output);
        [self.output.waiting(), errors.waiting()]
    }

    /// Returns the descriptors to watch until they accept more.
    pub(super) fn watched(&self) -> impl Iterator<Item = (RawFd, OutputStream)> {
        let output = (Some(&self.output), OutputStream::Output);
        [output, (self.errors.as_ref(), OutputStream::Errors)].into_iter().filter_map(
            |(output_queue, target)| {
                let output_queue = output_queue.filter(|output_queue| !output_queue.is_empty())?;
                Some((output_queue.file.as_raw_fd(), target))
            },
        )
    }

    /// Writes as much as is accepted without blocking.
    ///
    /// # Errors
    /// Standard output accepts no more: its reader has ended, or the disk is full. All later output
    /// there is dropped. An error output without reader is no error.
    pub(super) fn write(&mut self, target: OutputStream) -> io::Result<()> {
        let is_own = target == OutputStream::Errors && self.errors.is_some();
        let result = self.output_queue(target).write();
        if is_own { Ok(()) } else { result }
    }
}

impl OutputQueue {
    pub(super) fn new(file: File) -> Self {
        Self { file, queue: Vec::new(), written: 0, is_closed: false }
    }

    /// Returns how many bytes wait.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len() - self.written
    }

    /// Whether no bytes wait.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting() == 0
    }

    /// Writes as much as is accepted without blocking.
    ///
    /// # Errors
    /// The system's; all later output is dropped.
    pub(super) fn write(&mut self) -> io::Result<()> {
        let result = if self.is_closed { Ok(()) } else { self.push() };
        self.is_closed |= result.is_err();
        if self.is_closed {
            self.written = self.queue.len();
        }
        self.queue.drain(..self.written);
        self.written = 0;
        result
    }

    fn push(&mut self) -> io::Result<()> {
        let watched = [(self.file.as_raw_fd(), Interest::Write)];
        for _ in 0..WRITES_MAX {
            let rest = &self.queue[self.written..];
            if rest.is_empty() || !process::poll(&watched, Some(Duration::ZERO))?[0] {
                break;
            }
            match self.file.write(&rest[..rest.len().min(WRITE_BYTES_MAX)]) {
                Ok(length) => self.written += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Another program has made the shared file description non-blocking.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl AsRawFd for OutputQueue {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}
