//! The connection of the launcher of a spawned job to the process that spawned it, over the
//! launcher's standard input.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};

use std::time::Instant;

use launch::spawning::{PORT_BYTES_MAX, RELEASE, SpawnReport};
use sys::process::{self, Interest};

use crate::is_no_end;
use crate::protocol::START_TIME_MAX;

/// The connection to the process that spawned the job.
#[derive(Debug)]
pub struct ParentLink {
    socket: File,
    /// Whether the job no longer depends on the process.
    is_released: bool,
}

/// What became of the process that spawned the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParentState {
    Connected,
    /// The job no longer depends on it.
    Released,
    /// It has ended while the jobs were connected.
    Ended,
}

impl ParentLink {
    /// Takes the connection from the standard input.
    ///
    /// # Errors
    /// The system's: the standard input is closed.
    pub fn open() -> io::Result<Self> {
        let socket = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        process::set_nonblocking(socket.as_raw_fd())?;
        Ok(Self { socket, is_released: false })
    }

    /// Waits for the name of the port to which the processes of the job connect.
    ///
    /// # Errors
    /// The process has ended or gives no port; a message for the user.
    pub(super) fn port(&mut self) -> Result<String, String> {
        let (mut line, deadline) = (Vec::new(), Instant::now() + START_TIME_MAX);
        loop {
            let mut bytes = [0; PORT_BYTES_MAX];
            match self.socket.read(&mut bytes) {
                Ok(length) if length > 0 => line.extend_from_slice(&bytes[..length]),
                Err(error) if is_no_end(&error) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    let watched = [(self.socket.as_raw_fd(), Interest::Read)];
                    match process::poll(&watched, Some(left)) {
                        Ok(ready) if ready == [true] => {}
                        Ok(_) => return Err("the process that spawns it opens no port".to_owned()),
                        Err(error) => return Err(error.to_string()),
                    }
                }
                _ => return Err("the process that spawns it has ended".to_owned()),
            }
            // Nothing follows the line before the processes have connected.
            if let Some(name) = line.strip_suffix(b"\n") {
                return Ok(String::from_utf8_lossy(name).into_owned());
            }
            if line.len() > PORT_BYTES_MAX {
                return Err("the process that spawns it sends no name of a port".to_owned());
            }
        }
    }

    /// Reports to the process. A process that has ended or has left needs no report, and one that
    /// does not read them has been sent few enough to fit into the socket.
    pub fn report(&self, report: &SpawnReport) {
        if !self.is_released {
            let _ = (&self.socket).write_all(report.to_string().as_bytes());
        }
    }

    /// Returns the descriptor to watch, until the job is released.
    pub(super) fn watched(&self) -> Option<(RawFd, Interest)> {
        (!self.is_released).then_some((self.socket.as_raw_fd(), Interest::Read))
    }

    /// Reads what the process sent.
    pub(super) fn read(&mut self) -> ParentState {
        let mut bytes = [0; 16];
        match self.socket.read(&mut bytes) {
            Ok(length) if length > 0 => {
                self.is_released |= bytes[..length].contains(&RELEASE);
                if self.is_released { ParentState::Released } else { ParentState::Connected }
            }
            Err(error) if is_no_end(&error) => ParentState::Connected,
            _ => {
                // Nothing more arrives. Once released, nothing is read.
                self.is_released = true;
                ParentState::Ended
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;

    fn link() -> (ParentLink, std::os::unix::net::UnixStream) {
        let (ours, theirs) = sys::socket::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (ParentLink { socket: File::from(OwnedFd::from(ours)), is_released: false }, theirs)
    }

    #[test]
    fn a_job_follows_its_parent_until_it_is_released() {
        let (mut link, theirs) = link();
        assert_eq!(link.read(), ParentState::Connected);
        drop(theirs);
        assert_eq!(link.read(), ParentState::Ended);
        assert!(link.watched().is_none(), "the end is noticed once");

        let (mut link, mut theirs) = self::link();
        theirs.write_all(&[RELEASE]).unwrap();
        assert_eq!(link.read(), ParentState::Released);
        assert!(link.watched().is_none());
    }

    #[test]
    fn the_port_arrives_in_pieces_before_the_release() {
        let (mut link, mut theirs) = link();
        let sender = std::thread::spawn(move || {
            for piece in [&b"the na"[..], b"me", b"\n"] {
                theirs.write_all(piece).unwrap();
            }
            theirs
        });
        assert_eq!(link.port().as_deref(), Ok("the name"));
        sender.join().unwrap().write_all(&[RELEASE]).unwrap();
        assert_eq!(link.read(), ParentState::Released);

        let (mut link, theirs) = self::link();
        drop(theirs);
        assert!(link.port().unwrap_err().contains("has ended"));
        let (mut link, mut theirs) = self::link();
        theirs.write_all(&[b'x'; 2 * PORT_BYTES_MAX]).unwrap();
        assert!(link.port().unwrap_err().contains("no name"));
    }

    #[test]
    fn reports_arrive_as_lines() {
        let (link, mut theirs) = link();
        link.report(&SpawnReport::Started);
        link.report(&SpawnReport::Ended(3));
        drop(link);
        let mut text = String::new();
        theirs.read_to_string(&mut text).unwrap();
        assert_eq!(text, "started\nended 3\n");
    }
}
