//! Forwards the launcher's standard input to a rank 0 on another machine.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use super::input_source::InputSource;
use crate::is_no_end;

/// The source of the input.
pub(super) struct Relay {
    /// None when the input has ended.
    source: Option<File>,
}

impl Relay {
    /// Opens the source of the input.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn open(input: InputSource) -> io::Result<Self> {
        let descriptor = match input {
            InputSource::Typed(pipe) => OwnedFd::from(pipe),
            InputSource::Inherited | InputSource::Terminal => {
                io::stdin().as_fd().try_clone_to_owned()?
            }
            InputSource::Nothing => OwnedFd::from(File::open("/dev/null")?),
        };
        Ok(Self { source: Some(File::from(descriptor)) })
    }

    /// Returns the descriptor to watch.
    pub(super) fn watched(&self) -> Option<RawFd> {
        self.source.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Reads once, `room` bytes at most. The result is empty at the end of the input.
    pub(super) fn read(&mut self, room: u32) -> Option<Vec<u8>> {
        let source = self.source.as_mut()?;
        let mut bytes = vec![0; room as usize];
        match source.read(&mut bytes) {
            Ok(length) if length > 0 => {
                bytes.truncate(length);
                Some(bytes)
            }
            Err(error) if is_no_end(&error) => None,
            _ => {
                self.source = None;
                Some(Vec::new())
            }
        }
    }
}
