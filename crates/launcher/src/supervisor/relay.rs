//! Forwards the launcher's standard input to a rank 0 on another machine.

use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use crate::is_no_end;
use crate::protocol::{AgentOrder, INPUT_BYTES_MAX};

/// The source of the input, and how much may be read from it.
pub(super) struct Relay {
    /// None when the input has ended.
    source: Option<File>,
    /// How many bytes rank 0 can accept.
    room: u32,
}

impl Relay {
    /// Opens what is typed at the launcher's terminal, or else the launcher's standard input.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn open(typed: Option<PipeReader>) -> io::Result<Self> {
        let descriptor = match typed {
            Some(pipe) => OwnedFd::from(pipe),
            None => io::stdin().as_fd().try_clone_to_owned()?,
        };
        Ok(Self { source: Some(File::from(descriptor)), room: INPUT_BYTES_MAX })
    }

    /// Returns the descriptor to watch.
    pub(super) fn watched(&self) -> Option<RawFd> {
        let source = self.source.as_ref().filter(|_| self.room > 0)?;
        Some(source.as_raw_fd())
    }

    /// Reads once; returns the order to send.
    pub(super) fn read(&mut self) -> Option<AgentOrder> {
        let source = self.source.as_mut()?;
        let mut bytes = vec![0; self.room.min(INPUT_BYTES_MAX) as usize];
        match source.read(&mut bytes) {
            Ok(length) if length > 0 => {
                bytes.truncate(length);
                self.room -= length as u32;
                Some(AgentOrder::Input(bytes))
            }
            Err(error) if is_no_end(&error) => None,
            _ => {
                self.source = None;
                Some(AgentOrder::Input(Vec::new()))
            }
        }
    }

    /// Records that rank 0 can accept `bytes` more bytes.
    pub(super) fn grant(&mut self, bytes: u32) {
        self.room = self.room.saturating_add(bytes);
    }
}
