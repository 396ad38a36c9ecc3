//! A connection between two launchers on one machine that carries lines.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use sys::process::Interest;

use super::MESSAGE_BYTES_MAX;
use crate::is_no_end;

/// A connection, and the bytes that wait in either direction.
#[derive(Debug)]
pub(super) struct LineSocket {
    pub stream: UnixStream,
    received: Vec<u8>,
    waiting: Vec<u8>,
}

/// How many bytes are read at once.
const READ_BYTES_MAX: usize = 16 << 10;

impl LineSocket {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { stream, received: Vec::new(), waiting: Vec::new() }
    }

    /// Returns the descriptor, and what to wait for. Nothing is read while the other end does not
    /// read what waits for it.
    pub(super) fn watched(&self) -> (RawFd, Interest) {
        let interest = if self.waiting.is_empty() { Interest::Read } else { Interest::Write };
        (self.stream.as_raw_fd(), interest)
    }

    /// Sends a line, or the part of it for which there is room.
    pub(super) fn send(&mut self, line: &[u8]) -> io::Result<()> {
        self.waiting.extend_from_slice(line);
        self.waiting.push(b'\n');
        self.write()
    }

    fn write(&mut self) -> io::Result<()> {
        while !self.waiting.is_empty() {
            match self.stream.write(&self.waiting) {
                Ok(length) => drop(self.waiting.drain(..length)),
                Err(error) if is_no_end(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes or reads what can be, and appends the lines that are complete now.
    ///
    /// # Errors
    /// The other end is closed, or has sent a line that is too long. The lines count.
    pub(super) fn serve(&mut self, lines: &mut Vec<Vec<u8>>) -> io::Result<()> {
        if !self.waiting.is_empty() {
            if self.write().is_ok() {
                return Ok(());
            }
            // The other end reads no more, but its last lines may not be read yet.
            self.waiting.clear();
        }
        let mut bytes = [0; READ_BYTES_MAX];
        match self.stream.read(&mut bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => self.received.extend_from_slice(&bytes[..length]),
            Err(error) if is_no_end(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
        while let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
            let mut line: Vec<u8> = self.received.drain(..=end).collect();
            line.pop();
            lines.push(line);
        }
        match self.received.len() <= MESSAGE_BYTES_MAX {
            true => Ok(()),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_arrive_whole_and_long_ones_are_refused() {
        let (ours, mut theirs) = sys::socket::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut socket = LineSocket::new(ours);
        let mut lines = Vec::new();
        for piece in [&b"on"[..], b"e\ntwo\nth", b"ree"] {
            theirs.write_all(piece).unwrap();
            socket.serve(&mut lines).unwrap();
        }
        assert_eq!(lines, [&b"one"[..], b"two"]);
        let flood = std::thread::spawn(move || theirs.write_all(&[b'x'; 2 * MESSAGE_BYTES_MAX]));
        let refused = loop {
            if let Err(error) = socket.serve(&mut lines) {
                break error;
            }
        };
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        drop(socket);
        assert!(flood.join().unwrap().is_err(), "the connection is closed");
    }

    #[test]
    fn a_line_for_which_there_is_no_room_is_sent_later() {
        let (ours, theirs) = sys::socket::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut sender = LineSocket::new(ours);
        let mut receiver = LineSocket::new(theirs);
        let long = vec![b'y'; MESSAGE_BYTES_MAX - 1];
        sender.send(&long).unwrap();
        let mut lines = Vec::new();
        while lines.is_empty() {
            receiver.serve(&mut lines).unwrap();
            if sender.watched().1 == Interest::Write {
                sender.serve(&mut Vec::new()).unwrap();
            }
        }
        assert_eq!(lines, [long]);
        assert_eq!(sender.watched().1, Interest::Read);
    }
}
