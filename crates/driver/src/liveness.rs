//! Whether a silent peer lives, as far as its system answers for it.
//!
//! A process that computes, or is stopped, sends nothing, and is no reason to give up a rail. Its
//! system answers all the same, where the interfaces have IP addresses: it refuses a connection to
//! a port where nobody listens. (It also refuses datagrams, but tells of that once a second only,
//! however many processes ask.) A process may hold a port of its own, to which nobody sends
//! anything but a question. While the process exists its system takes that, and refuses it
//! afterwards.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use sys::forks;

/// A system is asked so often at most.
const ASK_PERIOD: Duration = Duration::from_secs(1);

/// Nobody listens there: the port of the discard protocol.
const DISCARD_PORT: u16 = 9;

/// The port that a process holds as long as it exists.
#[derive(Debug)]
pub struct LifePort {
    socket: UdpSocket,
    /// Its number.
    pub number: u16,
}

/// What is known of a silent peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerLife {
    /// Its system has answered since the last look.
    SystemAnswers,
    /// Its system has told that the process exists no more.
    Ended,
    /// Nothing was heard.
    Unknown,
}

/// Asks the system of one peer over one pair of interfaces.
#[derive(Debug)]
pub struct Liveness {
    /// The own address, and the peer's with the port that its process holds.
    addresses: Option<(IpAddr, IpAddr, u16)>,
    system: Option<Socket>,
    process: Option<UdpSocket>,
    asked_at: Option<Duration>,
}

impl LifePort {
    /// Takes a port on this address; none, if the system gives none.
    pub fn hold(address: IpAddr) -> Option<Self> {
        let socket = UdpSocket::bind((address, 0)).ok()?;
        let number = socket.local_addr().ok()?.port();
        forks::keep_from_children(&socket);
        Some(Self { socket, number })
    }
}

impl Drop for LifePort {
    fn drop(&mut self) {
        forks::release(&self.socket);
    }
}

impl Liveness {
    /// None: nobody can be asked. A process without a port of its own, for which 0 stands, is never
    /// found to have ended.
    pub fn new(addresses: Option<(IpAddr, IpAddr, u16)>) -> Self {
        Self { addresses, system: None, process: None, asked_at: None }
    }

    /// Asks now and then, by a clock that goes on; returns what has been heard since it was called
    /// last.
    pub fn look(&mut self, now: Duration) -> PeerLife {
        let Some((own, peer, port)) = self.addresses else { return PeerLife::Unknown };
        if self.process.as_ref().is_some_and(is_refused) {
            return PeerLife::Ended;
        }
        let answers = self.system.as_ref().is_some_and(has_answered);
        if answers {
            self.system = None;
        }
        if self.asked_at.is_none_or(|asked_at| now >= asked_at + ASK_PERIOD) {
            self.asked_at = Some(now);
            self.system = connection(own, (peer, DISCARD_PORT).into());
            if port != 0 {
                self.process = self.process.take().or_else(|| datagrams(own, (peer, port).into()));
                // What it says of the one before is looked at next time.
                let _ = self.process.as_ref().map(|socket| socket.send(&[0]));
            }
        }
        if answers { PeerLife::SystemAnswers } else { PeerLife::Unknown }
    }

    /// The peer was heard: it is not asked any more.
    pub fn rest(&mut self) {
        (self.system, self.process) = (None, None);
    }
}

/// A connection that begins.
fn connection(own: IpAddr, to: SocketAddr) -> Option<Socket> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).ok()?;
    socket.set_nonblocking(true).ok()?;
    socket.bind(&SocketAddr::from((own, 0)).into()).ok()?;
    match socket.connect(&to.into()) {
        Err(error) if error.kind() != ErrorKind::ConnectionRefused && !is_underway(&error) => None,
        _ => Some(socket),
    }
}

/// EINPROGRESS, for which the standard library has no name.
fn is_underway(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(115)
}

/// Whether a system has refused a connection, or taken it.
fn has_answered(connection: &Socket) -> bool {
    match connection.take_error() {
        Ok(Some(error)) => error.kind() == ErrorKind::ConnectionRefused,
        _ => connection.peer_addr().is_ok(),
    }
}

fn datagrams(own: IpAddr, to: SocketAddr) -> Option<UdpSocket> {
    let socket = UdpSocket::bind((own, 0)).ok()?;
    socket.set_nonblocking(true).ok()?;
    socket.connect(to).ok()?;
    Some(socket)
}

/// Whether a system has refused what was sent.
fn is_refused(socket: &UdpSocket) -> bool {
    socket.recv(&mut [0; 8]).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

    use super::*;

    /// Looks until this is heard, or another thing that is told.
    fn hears(liveness: &mut Liveness, now: &mut Duration, wanted: PeerLife) {
        let start = Instant::now();
        while liveness.look(*now) != wanted {
            assert!(start.elapsed() < Duration::from_secs(60), "{wanted:?}");
            thread::sleep(Duration::from_millis(1));
            *now += ASK_PERIOD / 10;
        }
    }

    #[test]
    fn a_system_answers_for_its_machine_and_tells_when_the_process_has_ended() {
        let own = IpAddr::from([127, 0, 0, 1]);
        let port = LifePort::hold(own).unwrap();
        let mut liveness = Liveness::new(Some((own, own, port.number)));
        let mut now = Duration::ZERO;
        for _ in 0..20 {
            assert_ne!(liveness.look(now), PeerLife::Ended);
            hears(&mut liveness, &mut now, PeerLife::SystemAnswers);
        }
        drop(port);
        hears(&mut liveness, &mut now, PeerLife::Ended);
        assert_eq!(Liveness::new(None).look(now), PeerLife::Unknown);
    }

    #[test]
    fn nobody_answers_for_a_machine_that_is_not_there() {
        // An address for documentation, to which there is no way from here.
        let (own, peer) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([192, 0, 2, 1]));
        let mut liveness = Liveness::new(Some((own, peer, 7)));
        for second in 0..5 {
            assert_eq!(liveness.look(Duration::from_secs(second)), PeerLife::Unknown);
        }
    }
}
