//! Finds out whether a silent peer is alive by the answers of its kernel.
//!
//! A process that computes or is stopped sends nothing, which is no reason to give up a rail. Where
//! the interfaces have IP addresses, the kernel of its machine answers nevertheless: it refuses a
//! connection to a port on which no process listens. (It also refuses datagrams, but reports that
//! at most once a second, however many processes ask.) A process may hold a UDP port of its own, to
//! which peers send nothing but a probe. While the process exists, its kernel accepts the probe;
//! afterwards the kernel refuses it.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use sys::forks;

/// After this time a probe counts as dropped: a busy machine may answer that much later.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The port of the discard protocol, on which no process listens.
const DISCARD_PORT: u16 = 9;

/// The UDP port that a process holds as long as it exists.
#[derive(Debug)]
pub struct LifePort {
    socket: UdpSocket,
    /// The port number.
    pub number: u16,
}

/// What the probes of a silent peer have shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerLife {
    /// Its kernel has answered since the last call.
    SystemAnswers,
    /// Its kernel has reported that the process does not exist any more.
    Ended,
    /// There was no answer.
    Unknown,
}

/// Probes a silent peer.
pub trait Probe {
    /// Sends a probe, unless one may still be answered, or the last one was sent less than `period`
    /// before the time `now` of a monotonic clock. Returns what the probes have shown since the
    /// last call.
    fn check(&mut self, now: Duration, period: Duration) -> PeerLife;

    /// Stops the probes, because the peer has sent something.
    fn rest(&mut self);
}

/// Probes one peer and its kernel over one pair of interfaces.
#[derive(Debug)]
pub struct Liveness {
    /// The own address, the peer's address, and the port that the peer process holds.
    addresses: Option<(IpAddr, IpAddr, u16)>,
    system: Option<Socket>,
    process: Option<UdpSocket>,
    asked_at: Option<Duration>,
}

impl LifePort {
    /// Binds a port on this address; none if the system has no port.
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
    /// Prepares probes between these addresses; none: no probes are sent. A peer that holds no
    /// port, which 0 stands for, is never reported as ended.
    pub fn new(addresses: Option<(IpAddr, IpAddr, u16)>) -> Self {
        Self { addresses, system: None, process: None, asked_at: None }
    }
}

impl Probe for Liveness {
    fn check(&mut self, now: Duration, period: Duration) -> PeerLife {
        let Some((own, peer, port)) = self.addresses else { return PeerLife::Unknown };
        if self.process.as_ref().is_some_and(is_refused) {
            return PeerLife::Ended;
        }
        let answers = self.system.as_ref().is_some_and(has_answered);
        if answers {
            self.system = None;
        }
        let period = if self.system.is_some() { period.max(ANSWER_TIMEOUT) } else { period };
        if self.asked_at.is_none_or(|asked_at| now >= asked_at + period) {
            self.asked_at = Some(now);
            self.system = connection(own, (peer, DISCARD_PORT).into());
            if port != 0 {
                self.process = self.process.take().or_else(|| datagrams(own, (peer, port).into()));
                // The answer to this probe is read by the next call.
                let _ = self.process.as_ref().map(|socket| socket.send(&[0]));
            }
        }
        if answers { PeerLife::SystemAnswers } else { PeerLife::Unknown }
    }

    fn rest(&mut self) {
        (self.system, self.process) = (None, None);
    }
}

/// Starts to connect from `own` to `to`.
fn connection(own: IpAddr, to: SocketAddr) -> Option<Socket> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).ok()?;
    socket.set_nonblocking(true).ok()?;
    socket.bind(&SocketAddr::from((own, 0)).into()).ok()?;
    match socket.connect(&to.into()) {
        Err(error) if error.kind() != ErrorKind::ConnectionRefused && !is_underway(&error) => None,
        _ => Some(socket),
    }
}

/// Whether the error is EINPROGRESS, for which the standard library has no name.
fn is_underway(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(115)
}

/// Whether the peer's kernel has refused or accepted a connection.
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

/// Whether the peer's kernel has refused the last probe.
fn is_refused(socket: &UdpSocket) -> bool {
    socket.recv(&mut [0; 8]).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

    use super::*;

    const PERIOD: Duration = Duration::from_secs(1);

    /// Calls `check` until it returns `wanted`.
    fn reaches(liveness: &mut Liveness, now: &mut Duration, wanted: PeerLife) {
        let start = Instant::now();
        while liveness.check(*now, PERIOD) != wanted {
            assert!(start.elapsed() < Duration::from_secs(60), "{wanted:?}");
            thread::sleep(Duration::from_millis(1));
            *now += PERIOD / 10;
        }
    }

    #[test]
    fn a_system_answers_for_its_machine_and_tells_when_the_process_has_ended() {
        let own = IpAddr::from([127, 0, 0, 1]);
        let port = LifePort::hold(own).unwrap();
        let mut liveness = Liveness::new(Some((own, own, port.number)));
        let mut now = Duration::ZERO;
        for _ in 0..20 {
            assert_ne!(liveness.check(now, PERIOD), PeerLife::Ended);
            reaches(&mut liveness, &mut now, PeerLife::SystemAnswers);
        }
        drop(port);
        reaches(&mut liveness, &mut now, PeerLife::Ended);
        assert_eq!(Liveness::new(None).check(now, PERIOD), PeerLife::Unknown);
    }

    #[test]
    fn nobody_answers_for_a_machine_that_is_not_there() {
        // An address reserved for documentation, to which there is no route.
        let (own, peer) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([192, 0, 2, 1]));
        let mut liveness = Liveness::new(Some((own, peer, 7)));
        for second in 0..5 {
            assert_eq!(liveness.check(Duration::from_secs(second), PERIOD), PeerLife::Unknown);
        }
    }
}
