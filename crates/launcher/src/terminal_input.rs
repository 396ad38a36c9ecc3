//! Forwards what is typed at the launcher's terminal to rank 0.
//!
//! Only the foreground process group of a terminal may read from it. That is the group of the
//! launcher, not of the ranks.

use std::io::{self, IsTerminal, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use sys::process::{self, Interest};

/// The launcher's side.
pub(super) struct TerminalInput {
    /// None when there is no terminal, rank 0 does not read any more, or the input has ended.
    pipe: Option<PipeWriter>,
    /// Bytes that were typed, but not taken by rank 0 yet.
    typed: Vec<u8>,
}

const TERMINAL: RawFd = 0;

/// How often the launcher checks whether it has come to the foreground.
const FOREGROUND_CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl TerminalInput {
    /// Creates the state of a launcher without input from a terminal.
    pub(super) fn none() -> Self {
        Self { pipe: None, typed: Vec::new() }
    }

    /// Creates the launcher's side, and the pipe that rank 0 reads if standard input is a terminal.
    pub(super) fn open() -> io::Result<(Self, Option<PipeReader>)> {
        if !io::stdin().is_terminal() {
            return Ok((Self::none(), None));
        }
        let (reader, writer) = process::pipe()?;
        process::set_nonblocking(writer.as_raw_fd())?;
        Ok((Self { pipe: Some(writer), typed: Vec::new() }, Some(reader)))
    }

    /// Returns what to watch now. In the background of its terminal the launcher must not read.
    pub(super) fn watched(&self) -> Option<(RawFd, Interest)> {
        let pipe = self.pipe.as_ref()?;
        if !self.typed.is_empty() {
            return Some((pipe.as_raw_fd(), Interest::Write));
        }
        process::is_foreground(TERMINAL).then_some((TERMINAL, Interest::Read))
    }

    /// Returns after how long to check again: the kernel does not notify a running process that it
    /// has come to the foreground.
    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        let is_in_background = self.pipe.is_some() && self.watched().is_none();
        is_in_background.then_some(FOREGROUND_CHECK_INTERVAL)
    }

    /// Serves the descriptor that is ready.
    pub(super) fn serve(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        if self.typed.is_empty() {
            let mut bytes = [0; 4096];
            match io::stdin().lock().read(&mut bytes) {
                Ok(length) if length > 0 => self.typed.extend_from_slice(&bytes[..length]),
                _ => self.pipe = None,
            }
            return;
        }
        match pipe.write(&self.typed) {
            Ok(written) => drop(self.typed.drain(..written)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Rank 0 does not read any more.
            Err(_) => self.pipe = None,
        }
    }
}
