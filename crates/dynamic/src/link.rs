//! A connection between the roots of two jobs: a socket with its handshake.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use base::{Error, ErrorClass, Result};

use crate::handshake::{Handshake, Nonce, PortRefusal, PortSide};
use crate::port_name::PortKey;

/// The connection between the roots of two jobs.
pub struct RootLink {
    stream: TcpStream,
    handshake: Handshake,
    /// Until when the next step of the other root must have arrived.
    deadline: Instant,
    limit: Duration,
}

/// How many bytes are read at a time, and how many such reads a call makes at most.
const READ_BYTES: usize = 16 << 10;
const READS_MAX: usize = 64;

impl RootLink {
    /// Begins the handshake on a connected socket, whose other side must answer each step within
    /// `limit`. The accepting side can insist on encryption, which the connecting side decides.
    ///
    /// # Errors
    /// `Other` if the system refuses random numbers, or to make the socket nonblocking.
    pub(crate) fn new(
        stream: TcpStream,
        side: (PortSide, bool),
        key: PortKey,
        limit: Duration,
    ) -> Result<Self> {
        let system = |cause: io::Error| Error::new(ErrorClass::Other, cause.to_string());
        let mut nonce = Nonce::default();
        sys::random::fill(&mut nonce).map_err(system)?;
        stream.set_nonblocking(true).map_err(system)?;
        // Small frames follow each other; a failure only makes them slower.
        let _ = stream.set_nodelay(true);
        let handshake = Handshake::new(side, key, wire::VERSION, nonce);
        Ok(Self { stream, handshake, deadline: Instant::now() + limit, limit })
    }

    /// Sets how long the other side may take for each step from now on.
    pub fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
        self.deadline = Instant::now() + limit;
    }

    /// Whether both roots have proved that they have the key of the port.
    pub fn is_proved(&self) -> bool {
        self.handshake.is_proved()
    }

    /// Returns the nonce with which the other side, which has connected, has proved that it has
    /// the key of the port; none before that. The proof may be replayed.
    pub(crate) fn opening_nonce(&self) -> Option<Nonce> {
        self.handshake.opening_nonce()
    }

    /// Sends and receives what is possible now.
    ///
    /// # Errors
    /// The other side is refused, has closed the connection, or did not answer in time. Once it
    /// is proved, frames that arrived before can still be taken.
    pub(crate) fn advance(&mut self) -> std::result::Result<(), LinkFailure> {
        let received = self.receive();
        // A refused peer of another version learns the own version.
        let sent = self.send();
        received?;
        sent?;
        match Instant::now() < self.deadline {
            true => Ok(()),
            false => Err(LinkFailure::Silent(self.limit)),
        }
    }

    fn send(&mut self) -> std::result::Result<(), LinkFailure> {
        while !self.handshake.to_send.is_empty() {
            match self.stream.write(&self.handshake.to_send) {
                Ok(count) => drop(self.handshake.to_send.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(LinkFailure::Lost(error.kind())),
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> std::result::Result<(), LinkFailure> {
        let mut bytes = [0; READ_BYTES];
        for _ in 0..READS_MAX {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(LinkFailure::Lost(ErrorKind::UnexpectedEof)),
                Ok(count) => {
                    self.handshake.take(&bytes[..count]).map_err(LinkFailure::Refused)?;
                    // A stranger that sends a byte now and then gets no more time.
                    if self.is_proved() {
                        self.deadline = Instant::now() + self.limit;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(LinkFailure::Lost(error.kind())),
            }
        }
        Ok(())
    }

    /// Adds a frame to what [`advance`](Self::advance) sends.
    pub fn send_frame(&mut self, body: &[u8]) {
        self.handshake.send_frame(body);
        self.deadline = Instant::now() + self.limit;
    }

    /// Advances the connection, and returns the next frame if it has arrived.
    ///
    /// # Errors
    /// `Port`: the connection is of no use any more.
    pub fn poll_frame(&mut self) -> Result<Option<Vec<u8>>> {
        let advanced = self.advance();
        match self.handshake.next_frame() {
            Ok(Some(frame)) => Ok(Some(frame)),
            Ok(None) => advanced.map(|()| None).map_err(LinkFailure::into_error),
            Err(refusal) => Err(LinkFailure::Refused(refusal).into_error()),
        }
    }

    /// Whether everything that follows the handshake is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.handshake.is_encrypted()
    }

    /// Returns a secret that only both roots have.
    pub fn secret(&self) -> [u8; 32] {
        self.handshake.secret()
    }
}

impl fmt::Debug for RootLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootLink(to {:?})", self.stream.peer_addr().ok())
    }
}

/// Why a connection between two roots is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkFailure {
    /// The other side is not what it must be.
    Refused(PortRefusal),
    /// The other side has closed the connection, or the network has lost it.
    Lost(ErrorKind),
    /// The other side did not answer for this long.
    Silent(Duration),
}

impl LinkFailure {
    /// Returns the error that a program sees.
    pub fn into_error(self) -> Error {
        let (class, detail) = match self {
            Self::Refused(PortRefusal::Stranger) => (
                ErrorClass::Port,
                "the process at the address of the port is not one of Combray: the port was \
                 closed, or its process has ended"
                    .to_owned(),
            ),
            Self::Refused(PortRefusal::OtherVersion) => (
                ErrorClass::Port,
                "the other job runs another version of Combray: install one version for both"
                    .to_owned(),
            ),
            Self::Refused(PortRefusal::WrongKey) => (
                ErrorClass::Port,
                "another port has this address now: the port of this name was closed, or the \
                 name was changed on its way"
                    .to_owned(),
            ),
            Self::Refused(PortRefusal::BadFrame) => {
                (ErrorClass::Port, "data of the other job was changed on the way".to_owned())
            }
            Self::Refused(PortRefusal::Unencrypted) => (
                ErrorClass::Port,
                "the other endpoint encrypts, which its URI shows by a \"+\": pass the whole text \
                 of combray_endpoint_uri, unchanged"
                    .to_owned(),
            ),
            Self::Lost(kind) => (
                ErrorClass::Port,
                format!(
                    "the other job has ended the connection ({kind}): see whether its call failed"
                ),
            ),
            Self::Silent(limit) => (
                ErrorClass::Port,
                format!(
                    "the other job has not answered for {} s: do all processes of both communicators \
                     call MPI_Comm_accept or MPI_Comm_connect with this port?",
                    limit.as_secs()
                ),
            ),
        };
        Error::new(class, detail)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn a_stranger_that_sends_a_byte_now_and_then_is_given_up_in_time() {
        const LIMIT: Duration = Duration::from_millis(50);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stranger = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let mut link = RootLink::new(stream, (PortSide::Accepts, false), [1; 16], LIMIT).unwrap();
        // Fewer bytes than a greeting has.
        for _ in 0..20 {
            stranger.write_all(b"C").unwrap();
            thread::sleep(LIMIT / 5);
            if link.advance().is_err() {
                return;
            }
        }
        panic!("it is kept as long as it sends something");
    }
}
