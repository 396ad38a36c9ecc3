//! Forwards what is typed at the launcher's terminal to rank 0.
//!
//! Only the foreground process group of a terminal may read from it. That is the group of the
//! launcher, not of the ranks. A job of one process that would only see what the launcher passes on
//! gets the terminal itself: its group comes to the foreground. As the shell knows only the
//! launcher, that is stopped with the process, and the process gets the terminal again when the
//! launcher is continued.

use std::io::{self, IsTerminal, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use sys::process::{self, Interest, signal};
use sys::terminal;

use crate::supervisor::input_source::InputSource;

/// The launcher's side.
pub(super) struct TerminalInput {
    /// None when there is no terminal, rank 0 does not read any more, or the input has ended.
    pipe: Option<PipeWriter>,
    /// Bytes that were typed, but not taken by rank 0 yet.
    typed: Vec<u8>,
}

const TERMINAL: RawFd = 0;

/// Whether this process has a terminal for its input and outputs, and may hand it to another one.
pub(super) fn is_ours() -> bool {
    let all = [io::stdin().is_terminal(), io::stdout().is_terminal(), io::stderr().is_terminal()];
    all == [true; 3] && terminal::is_foreground(TERMINAL)
}

/// Takes the terminal back after its process has ended. A shell takes it from this process anyway.
pub(super) fn take_back() {
    if let Ok(group) = process::group(0) {
        let _ = terminal::bring_to_foreground(TERMINAL, group);
    }
}

/// Gives the terminal to the group of `process` if the group of the launcher has it, as after `fg`.
/// Returns whether it did.
pub(super) fn pass_on(launcher: u32, process: i32) -> bool {
    process::group(launcher as i32).is_ok_and(|group| {
        terminal::is_foreground_group(TERMINAL, group)
            && terminal::bring_to_foreground(TERMINAL, process).is_ok()
    })
}

/// Acts on the stop of `process`, which has the terminal, by signal `number`. A process that needed
/// the terminal gets it if the shell has given it to the launcher. Otherwise the group of the
/// launcher is stopped, so that the shell notices.
pub(super) fn follow_stop(launcher: u32, process: i32, number: i32) {
    let needs_terminal = matches!(number, signal::SIGTTIN | signal::SIGTTOU);
    // Processes may have just ended.
    if needs_terminal && pass_on(launcher, process) {
        let _ = process::kill(-process, signal::SIGCONT);
    } else if let Ok(group) = process::group(launcher as i32) {
        let _ = process::kill(-group, signal::SIGTSTP);
    }
}

/// How often the launcher checks whether it has come to the foreground.
const FOREGROUND_CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl TerminalInput {
    /// Creates the state of a launcher without input from a terminal.
    pub(super) fn none() -> Self {
        Self { pipe: None, typed: Vec::new() }
    }

    /// Creates the launcher's side, and what rank 0 reads.
    pub(super) fn open() -> io::Result<(Self, InputSource)> {
        if !io::stdin().is_terminal() {
            return Ok((Self::none(), InputSource::Inherited));
        }
        let (reader, writer) = process::pipe()?;
        process::set_nonblocking(writer.as_raw_fd())?;
        Ok((Self { pipe: Some(writer), typed: Vec::new() }, InputSource::Typed(reader)))
    }

    /// Returns what to watch now. In the background of its terminal the launcher must not read.
    pub(super) fn watched(&self) -> Option<(RawFd, Interest)> {
        let pipe = self.pipe.as_ref()?;
        if !self.typed.is_empty() {
            return Some((pipe.as_raw_fd(), Interest::Write));
        }
        terminal::is_foreground(TERMINAL).then_some((TERMINAL, Interest::Read))
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
