//! What PMI-1 and PMI-2 share: a connection to the launcher, and the negotiation of the version.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileTypeExt;
use std::time::Duration;

use sys::process::Interest;
use sys::signals::without_pipe_signal;

use crate::{JoinError, leaving};

/// A connection to a launcher.
pub(super) struct Wire {
    reader: BufReader<File>,
    writer: File,
    is_socket: bool,
}

/// The `key=value` words of an answer.
pub(super) type Words = HashMap<String, String>;

/// The maximal length of a launcher's answer in bytes.
pub(super) const ANSWER_BYTES_MAX: u64 = 128 << 10;

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// PMI-1.
    One,
    /// PMI-2.
    Two,
}

impl Wire {
    /// Uses `stream` as the connection to a launcher.
    pub(super) fn new(stream: File) -> Result<Self, JoinError> {
        let gone = |cause: io::Error| JoinError::gone(&cause.to_string());
        let writer = stream.try_clone().map_err(gone)?;
        let is_socket = stream.metadata().map_err(gone)?.file_type().is_socket();
        Ok(Self { reader: BufReader::new(stream), writer, is_socket })
    }

    /// Sends the id of this process to the launcher, at whose address all processes connect.
    /// Returns rank and size.
    pub(super) fn introduce(&mut self, id: &str) -> Result<(u32, u32), JoinError> {
        self.send_line(&format!("cmd=initack pmiid={id}"))?;
        self.read_answer("initack")?;
        let (mut rank, mut size) = (None, None);
        // `debug` is in the last of these lines.
        loop {
            let words = self.read_answer("set")?;
            rank = rank.or(number(&words, "rank"));
            size = size.or(number(&words, "size"));
            if words.contains_key("debug") {
                break;
            }
        }
        match (rank, size) {
            (Some(rank), Some(size)) if rank < size => Ok((rank, size)),
            _ => Err(JoinError::new("the launcher sent no valid rank and size")),
        }
    }

    /// Proposes a version of the protocol; returns the launcher's answer if it speaks the version.
    pub(super) fn greet(&mut self, version: Version) -> Result<Option<Words>, JoinError> {
        let (version, subversion) = match version {
            Version::One => ("1", "1"),
            Version::Two => ("2", "0"),
        };
        self.send_line(&format!("cmd=init pmi_version={version} pmi_subversion={subversion}"))?;
        let answer = self.read_answer("response_to_init")?;
        let is = |key: &str, value: &str| answer.get(key).is_none_or(|answer| answer == value);
        let is_spoken = is("rc", "0") && is("pmi_version", version);
        Ok(is_spoken.then_some(answer))
    }

    /// Calls `gone` on another thread when the launcher closes the connection.
    pub(super) fn when_closed(&self, gone: fn()) {
        if let Ok(connection) = self.writer.try_clone() {
            leaving::when_closed(connection, gone);
        }
    }

    pub(super) fn send_line(&mut self, line: &str) -> Result<(), JoinError> {
        self.transmit(format!("{line}\n").as_bytes())
    }

    pub(super) fn transmit(&mut self, bytes: &[u8]) -> Result<(), JoinError> {
        let sent = match self.is_socket {
            true => self.send(bytes),
            false => without_pipe_signal(|| self.writer.write_all(bytes)),
        };
        sent.map_err(|cause| JoinError::gone(&cause.to_string()))
    }

    /// Sends without SIGPIPE: a program that loses its launcher must get an error, not be killed.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match sys::socket::send(self.writer.as_fd(), &[IoSlice::new(rest)]) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until an answer has begun to arrive, at most `patience`. Returns whether it has.
    pub(super) fn has_answer(&self, patience: Duration) -> Result<bool, JoinError> {
        if !self.reader.buffer().is_empty() {
            return Ok(true);
        }
        let watched = [(self.reader.get_ref().as_raw_fd(), Interest::Read)];
        let ready = sys::process::poll(&watched, Some(patience));
        ready.map(|ready| ready[0]).map_err(|cause| JoinError::gone(&cause.to_string()))
    }

    /// Receives a line of PMI-1, whose command must be `expected`.
    pub(super) fn read_answer(&mut self, expected: &str) -> Result<Words, JoinError> {
        self.read_one_of([expected]).map(|(_, words)| words)
    }

    /// Receives a line of PMI-1, whose command must be one of `expected`. Returns which one it is.
    pub(super) fn read_one_of<const N: usize>(
        &mut self,
        expected: [&str; N],
    ) -> Result<(usize, Words), JoinError> {
        let mut answer = String::new();
        // Bounded, because the other end may be no launcher.
        let length = (&mut self.reader).take(ANSWER_BYTES_MAX).read_line(&mut answer);
        match length {
            Ok(_) if answer.ends_with('\n') => {}
            Ok(0) => return Err(JoinError::gone("it closed the connection")),
            Ok(_) => return Err(JoinError::gone("its last answer is incomplete")),
            Err(cause) => return Err(JoinError::gone(&cause.to_string())),
        }
        let words: Words = answer
            .split_whitespace()
            .filter_map(|word| word.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let which = expected.iter().position(|one| words.get("cmd").is_some_and(|c| c == one));
        if let Some(which) = which {
            return Ok((which, words));
        }
        Err(JoinError::new(format!(
            "the launcher answered \"{}\" where PMI-1 requires {}; this happens when two \
             processes of a rank use MPI at the same time, because they read each other's answers",
            answer.trim_end(),
            expected.join(" or ")
        )))
    }

    /// Receives `length` bytes.
    pub(super) fn receive_bytes(&mut self, length: usize) -> Result<Vec<u8>, JoinError> {
        let mut bytes = vec![0; length];
        match self.reader.read_exact(&mut bytes) {
            Ok(()) => Ok(bytes),
            Err(cause) => Err(JoinError::gone(&cause.to_string())),
        }
    }
}

/// The maximal lengths of keys and values, including a terminating zero byte, as launchers count.
pub(super) struct Limits {
    pub(super) key_bytes: u32,
    pub(super) value_bytes: u32,
}

impl Limits {
    /// The limits of launchers that do not report any.
    pub(super) const USUAL: Self = Self { key_bytes: 64, value_bytes: 1024 };

    /// Refuses keys and values that the launcher would truncate or misread.
    pub(super) fn check(&self, key: &str, value: &str) -> Result<(), JoinError> {
        for (what, text, limit) in
            [("key", key, self.key_bytes), ("value", value, self.value_bytes)]
        {
            if text.len() >= limit as usize || text.contains(char::is_whitespace) {
                return Err(JoinError::new(format!(
                    "the launcher cannot store {key}: the {what} is too long ({} bytes, at most \
                     {}) or contains blanks",
                    text.len(),
                    limit - 1
                )));
            }
        }
        Ok(())
    }
}

/// Returns the key of a value of the process `rank` in the key space of the whole job.
pub(super) fn own_key(key: &str, rank: u32) -> String {
    format!("{key}-{rank}")
}

/// Returns a number from the launcher's answer; none where it is -1 or missing.
pub(super) fn number(words: &Words, key: &str) -> Option<u32> {
    words.get(key).and_then(|text| text.trim().parse().ok())
}
