//! Open ports, and the ways in which the roots of two jobs get a connection over them.

mod unproved;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use base::{Error, ErrorClass, Result};
use socket2::{Domain, Protocol, Socket, Type};
use sys::process::{self, Interest};

use crate::handshake::PortSide;
use crate::link::{LinkFailure, RootLink};
use crate::port_name::{PortKey, PortName, PortSecret};
use unproved::UnprovedLinks;

/// The ports that a process has open, by name.
#[derive(Debug, Default)]
pub struct Ports(RefCell<HashMap<String, Rc<Port>>>);

/// An open port: a socket that listens, and what proves that a connection is meant for it.
pub struct Port {
    listener: TcpListener,
    name: PortName,
    /// From which the key is computed, if processes know a secret in place of the key.
    number: Option<PortKey>,
    /// Whether a connecting process must encrypt what follows the handshake.
    is_encrypted: bool,
    /// Connections that have not proved yet that they have the key.
    unproved: RefCell<UnprovedLinks<RootLink>>,
    /// How many connections are accepted before the others go on.
    accepted_max: usize,
    /// Whether as many were accepted the last time as may be, so that more may wait.
    has_more: Cell<bool>,
}

/// How many unproved connections a port of MPI has at a time, to which one process connects, and
/// how many the port of an endpoint has, to which many may connect at once.
const UNPROVED_MAX: usize = 16;
const UNPROVED_OF_ENDPOINT_MAX: usize = 256;

/// A look at so many unproved connections takes a few microseconds.
const CROWD_MIN: usize = 8;

/// How long a connection may take to prove that it has the key.
const PROOF_TIME_MAX: Duration = Duration::from_secs(10);

impl Ports {
    /// Opens a port (`MPI_Open_port`), and returns its name.
    ///
    /// # Errors
    /// `Other` if the system refuses a socket or random numbers.
    pub fn open(&self) -> Result<String> {
        let port = Port::open(UNPROVED_MAX).map_err(|cause| {
            Error::new(ErrorClass::Other, format!("no port can be opened: {cause}"))
        })?;
        let name = port.name.to_string();
        self.0.borrow_mut().insert(name.clone(), Rc::new(port));
        Ok(name)
    }

    /// Closes a port (`MPI_Close_port`). A call that accepts on it goes on.
    ///
    /// # Errors
    /// `Port` if this process has no open port of that name.
    pub fn close(&self, name: &str) -> Result<()> {
        let closed = self.0.borrow_mut().remove(name);
        closed.map(drop).ok_or_else(|| Self::unknown(name))
    }

    /// Returns an open port.
    ///
    /// # Errors
    /// `Port` if this process has no open port of that name.
    pub fn get(&self, name: &str) -> Result<Rc<Port>> {
        self.0.borrow().get(name).cloned().ok_or_else(|| Self::unknown(name))
    }

    fn unknown(name: &str) -> Error {
        match name.parse::<PortName>() {
            Err(error) => error,
            Ok(_) => Error::new(
                ErrorClass::Port,
                "this process has no open port of that name: the root of MPI_Comm_accept must be \
                 the process that called MPI_Open_port, and the port must not be closed",
            ),
        }
    }
}

impl Port {
    /// Opens a port to which many processes may connect at once. Its URI contains the key, or
    /// nothing secret if those processes have the `secret`.
    ///
    /// # Errors
    /// The system refuses a socket or random numbers.
    pub fn for_many(secret: Option<&PortSecret>) -> io::Result<Self> {
        let mut port = Self::open(UNPROVED_OF_ENDPOINT_MAX)?;
        port.is_encrypted = secret.is_some_and(PortSecret::is_encrypted);
        if let Some(key) = secret.and_then(|secret| secret.key_for(&port.name.key)) {
            port.number = Some(port.name.key);
            port.name.key = key;
        }
        Ok(port)
    }

    fn open(unproved_max: usize) -> io::Result<Self> {
        let (mut key, mut seed) = (PortKey::default(), [0; 8]);
        sys::random::fill(&mut key)?;
        sys::random::fill(&mut seed)?;
        let listener = listen()?;
        listener.set_nonblocking(true)?;
        let name = PortName::new(key, listener.local_addr()?.port(), &own_addresses());
        let unproved = UnprovedLinks::new(unproved_max, u64::from_ne_bytes(seed));
        Ok(Self {
            listener,
            name,
            number: None,
            is_encrypted: false,
            unproved: RefCell::new(unproved),
            accepted_max: unproved_max,
            has_more: Cell::new(false),
        })
    }

    /// Returns the address of the port as a URI, which contains the key unless processes have a
    /// secret in common.
    pub fn uri(&self) -> String {
        self.name.to_uri(self.number, self.is_encrypted)
    }

    /// Whether the port must be polled although its [socket](Self::socket) is not reported as
    /// readable again: connections may wait to be accepted, or have been accepted and have not
    /// proved yet that they have the key.
    pub fn must_be_polled(&self) -> bool {
        self.has_more.get() || !self.unproved.borrow().is_empty()
    }

    /// Whether a look at all connections that have not proved that they have the key takes long.
    pub fn is_crowded(&self) -> bool {
        self.unproved.borrow().len() > CROWD_MIN
    }

    /// Returns how many connections were closed because their other sides did not prove that they
    /// have the key: within the time, or before others needed their place.
    pub fn refused(&self) -> u64 {
        self.unproved.borrow().refused()
    }

    /// Returns the socket that becomes readable when another process connects.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Returns a connection whose other side has proved that it has the key of the port, if there
    /// is one now. Its other side must answer each further step within `limit`.
    ///
    /// # Errors
    /// `Other` if the system accepts no connections, for example because it has no descriptors
    /// left. Those that wait are not reported again, so call this again after a while.
    pub fn poll_accept(&self, limit: Duration) -> Result<Option<RootLink>> {
        let mut unproved = self.unproved.borrow_mut();
        let mut refused = None;
        // Accepting takes several times as long as looking whether there is a connection.
        let listener = (self.listener.as_raw_fd(), Interest::Read);
        let are_there = process::poll(&[listener], Some(Duration::ZERO));
        let are_there = are_there.map_or(true, |ready| ready == [true]);
        self.has_more.set(false);
        // Not more at a time, so that a flood of connections does not keep this from serving them.
        let accepted_max = if are_there { self.accepted_max } else { 0 };
        for count in 1..=accepted_max {
            match self.listener.accept() {
                Ok((stream, _)) => unproved.add(RootLink::new(
                    stream,
                    (PortSide::Accepts, self.is_encrypted),
                    self.name.key,
                    limit.min(PROOF_TIME_MAX),
                )?),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if is_of_connection(&error) => {}
                Err(error) => {
                    let detail = format!("the port accepts no connections: {error}");
                    refused = Some(Error::new(ErrorClass::Other, detail));
                    break;
                }
            }
            self.has_more.set(count == accepted_max);
        }
        // Connections that have been accepted may have the descriptors that are missing.
        let Some(mut link) = unproved.take_proved() else {
            return refused.map_or(Ok(None), Err);
        };
        link.set_limit(limit);
        Ok(Some(link))
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The name contains the key.
        write!(f, "Port({})", self.name.port)
    }
}

/// Whether accepting failed because a connection ended, and not because of the listening socket.
fn is_of_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Interrupted
            | ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::TimedOut
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
    )
}

/// Listens on all addresses of this host: of IPv6 and IPv4, or of IPv4 only where the system has no
/// IPv6.
fn listen() -> io::Result<TcpListener> {
    let both = || -> io::Result<TcpListener> {
        let socket = Socket::new(Domain::IPV6, Type::STREAM.cloexec(), Some(Protocol::TCP))?;
        socket.set_only_v6(false)?;
        socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)).into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    };
    both().or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))
}

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 4096;

/// Returns the addresses at which other hosts may reach this one, those of IPv4 first: not those of
/// the loopback interface, nor addresses that are valid on one link only.
fn own_addresses() -> Vec<IpAddr> {
    let all = if_addrs::get_if_addrs().unwrap_or_default();
    let usable = all.iter().filter(|one| !one.is_loopback() && !one.is_link_local());
    let mut addresses: Vec<IpAddr> = usable.map(if_addrs::Interface::ip).collect();
    addresses.sort_by_key(IpAddr::is_ipv6);
    addresses
}

/// A connection to a port of another job that is being established.
pub struct PortSearch {
    key: PortKey,
    /// Whether the connection must be encrypted.
    is_encrypted: bool,
    /// The addresses that were not tried yet, the next one last.
    places: Vec<SocketAddr>,
    connecting: Option<(Socket, SocketAddr, Instant)>,
    link: Option<(RootLink, SocketAddr)>,
    /// When an address whose connection was closed is tried again, and until when.
    retry: Option<(Instant, Instant)>,
    /// Why the last address was of no use.
    failure: Option<Error>,
    limit: Duration,
    /// How long a connection is tried again that the other side has closed.
    retry_max: Duration,
    /// How long the machine at an address may take to answer, before the next address is tried.
    machine_max: Duration,
    /// Until when addresses are tried again whose machine has not answered.
    unanswered_until: Option<Instant>,
}

/// How long a connection is tried again that the other side has closed before the end of the
/// handshake, as a port does that has too many unproved ones; and the time between two trials.
const RETRY_TIME_MAX: Duration = Duration::from_secs(5);
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// How long the machine at an address may take to answer, if the limit is not shorter.
const MACHINE_TIME_MAX: Duration = Duration::from_secs(5);

/// How long addresses are tried again whose machine has not answered, as while more processes
/// connect to a port than may wait to be accepted.
const UNANSWERED_TIME_MAX: Duration = Duration::from_secs(20);

/// Stands for the port that a search is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PortTarget(PortKey, bool);

impl fmt::Debug for PortTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It is the key.
        f.write_str("PortTarget")
    }
}

impl fmt::Debug for PortSearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is left out.
        write!(f, "PortSearch({} addresses left)", self.places.len())
    }
}

impl PortSearch {
    /// Begins to connect to the port of this name. Its process must answer within `limit`.
    ///
    /// # Errors
    /// `Port` if it is not the name of a port.
    pub fn new(name: &str, limit: Duration) -> Result<Self> {
        Ok(Self::of(&name.parse()?, false, (limit, RETRY_TIME_MAX)))
    }

    /// Begins to connect to the port with this [URI](Port::uri). Its process must answer within
    /// `limit`.
    ///
    /// # Errors
    /// `Port` if it is not the URI of a port, or contains no key and there is no `secret`.
    pub fn of_uri(uri: &str, limit: Duration, secret: Option<&PortSecret>) -> Result<Self> {
        // Many may connect at the same time.
        let (name, port_encrypts) = PortName::from_uri(uri, secret)?;
        let is_encrypted = port_encrypts || secret.is_some_and(PortSecret::is_encrypted);
        Ok(Self::of(&name, is_encrypted, (limit, limit)))
    }

    fn of(name: &PortName, is_encrypted: bool, (limit, retry_max): (Duration, Duration)) -> Self {
        let mut places = name.places();
        places.reverse();
        let (connecting, link, retry, failure, unanswered_until) = Default::default();
        let machine_max = limit.min(MACHINE_TIME_MAX);
        Self {
            key: name.key,
            is_encrypted,
            places,
            connecting,
            link,
            retry,
            failure,
            limit,
            retry_max,
            machine_max,
            unanswered_until,
        }
    }

    /// Returns a number that is equal for all searches for one port, and different for others.
    pub fn target(&self) -> PortTarget {
        PortTarget(self.key, self.is_encrypted)
    }

    /// Advances; returns the connection when the process of the port has proved that it has the
    /// key.
    ///
    /// # Errors
    /// `Port` if no address leads to the port.
    pub fn poll(&mut self) -> Result<Option<RootLink>> {
        if self.link.is_some() {
            return self.poll_link();
        }
        if self.retry.is_some_and(|(at, _)| Instant::now() < at) {
            return Ok(None);
        }
        if self.connecting.is_none() {
            self.connect_to_next()?;
        }
        self.poll_connecting()
    }

    fn poll_link(&mut self) -> Result<Option<RootLink>> {
        let Some((mut link, place)) = self.link.take() else { return Ok(None) };
        match link.advance() {
            Ok(()) if link.is_proved() => return Ok(Some(link)),
            Ok(()) => self.link = Some((link, place)),
            // The process was reached, and does not accept.
            Err(failure @ LinkFailure::Silent(_)) => return Err(failure.into_error()),
            Err(failure) => {
                if matches!(failure, LinkFailure::Lost(_)) {
                    self.try_again(place);
                }
                self.failure = Some(failure.into_error());
            }
        }
        Ok(None)
    }

    /// Sends the opening as soon as the connection is there: others make room first.
    fn poll_connecting(&mut self) -> Result<Option<RootLink>> {
        if let Some((socket, place, deadline)) = self.connecting.take() {
            match has_connected(&socket) {
                Ok(true) => {
                    let side = (PortSide::Connects, self.is_encrypted);
                    let link = RootLink::new(socket.into(), side, self.key, self.limit)?;
                    self.link = Some((link, place));
                    return self.poll_link();
                }
                Ok(false) if Instant::now() < deadline => {
                    self.connecting = Some((socket, place, deadline));
                }
                Ok(false) => {
                    self.note_unreachable(place, &ErrorKind::TimedOut.into());
                    if self.unanswered_until.is_some_and(|until| Instant::now() < until) {
                        // After the other addresses.
                        self.places.insert(0, place);
                    }
                }
                Err(error) => {
                    if error.kind() == ErrorKind::ConnectionReset {
                        self.try_again(place);
                    }
                    self.note_unreachable(place, &error);
                }
            }
        }
        Ok(None)
    }

    fn connect_to_next(&mut self) -> Result<()> {
        let Some(place) = self.places.pop() else {
            let nothing = || Error::new(ErrorClass::Port, "the port has no address");
            return Err(self.failure.take().unwrap_or_else(nothing));
        };
        match begin_to_connect(place) {
            Ok(socket) => {
                let now = Instant::now();
                let longest = self.limit.min(self.retry_max).min(UNANSWERED_TIME_MAX);
                self.unanswered_until.get_or_insert(now + longest);
                self.connecting = Some((socket, place, now + self.machine_max));
            }
            Err(error) => self.note_unreachable(place, &error),
        }
        Ok(())
    }

    /// Tries an address once more after a pause, unless the time for that is over.
    fn try_again(&mut self, place: SocketAddr) {
        let now = Instant::now();
        let until = self.retry.map_or(now + self.limit.min(self.retry_max), |(_, until)| until);
        if now < until {
            self.retry = Some((now + RETRY_PAUSE, until));
            self.places.push(place);
        }
    }

    fn note_unreachable(&mut self, place: SocketAddr, cause: &io::Error) {
        // A refusal of the right key or version says more than that another address is unreachable.
        self.failure.get_or_insert_with(|| {
            let detail = format!(
                "no process listens at the address {place} of the port ({cause}): the port was \
                 closed, its process has ended, or a firewall is between the hosts"
            );
            Error::new(ErrorClass::Port, detail)
        });
    }
}

fn begin_to_connect(place: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(place), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&place.into()) {
        Err(error) if error.raw_os_error() != Some(sys::errno::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

/// Whether a socket that began to connect is connected.
fn has_connected(socket: &Socket) -> io::Result<bool> {
    match socket.take_error()? {
        Some(error) => Err(error),
        None => Ok(socket.peer_addr().is_ok()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::thread;

    use super::*;
    use crate::handshake::Handshake;

    const LIMIT: Duration = Duration::from_secs(20);

    /// Polls a search and a port until both have a connection, or the search has failed.
    fn meet(port: &Port, search: &mut PortSearch) -> Result<(RootLink, RootLink)> {
        let (mut found, mut accepted) = (None, None);
        loop {
            accepted = accepted.or(port.poll_accept(LIMIT)?);
            if found.is_none() {
                found = search.poll()?;
            }
            match (found, accepted) {
                (Some(found), Some(accepted)) => return Ok((found, accepted)),
                waiting => (found, accepted) = waiting,
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_port_is_found_at_an_address_of_ipv6() {
        if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
            return;
        }
        let ports = Ports::default();
        let name = ports.open().unwrap();
        let port = ports.get(&name).unwrap();
        let addresses = [IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let name = PortName { addresses: addresses.into(), ..port.name.clone() };
        let mut search = PortSearch::new(&name.to_string(), LIMIT).unwrap();
        // The next address, of IPv4, is not used.
        search.places.drain(..search.places.len() - 1);
        let (found, accepted) = meet(&port, &mut search).unwrap();
        assert_eq!(found.secret(), accepted.secret());
    }

    #[test]
    fn a_port_is_found_by_its_name_among_garbage() {
        let ports = Ports::default();
        let name = ports.open().unwrap();
        let port = ports.get(&name).unwrap();
        let place = (Ipv4Addr::LOCALHOST, port.name.port);
        // More connections than the port keeps: silent ones, and some that send garbage.
        let strangers: Vec<TcpStream> = (0..40)
            .map(|number: u8| {
                let mut stranger = TcpStream::connect(place).unwrap();
                if number.is_multiple_of(2) {
                    stranger.write_all(&[number; 100]).unwrap();
                }
                stranger
            })
            .collect();
        let mut search = PortSearch::new(&name, LIMIT).unwrap();
        let (mut found, mut accepted) = meet(&port, &mut search).unwrap();
        found.send_frame(b"hello");
        let frame = loop {
            found.advance().unwrap();
            if let Some(frame) = accepted.poll_frame().unwrap() {
                break frame;
            }
        };
        assert_eq!(frame, b"hello");
        assert_eq!(found.secret(), accepted.secret());
        drop((strangers, found));
        let error = loop {
            match accepted.poll_frame() {
                Ok(frame) => assert_eq!(frame, None),
                Err(error) => break error,
            }
        };
        assert_eq!(error.class, ErrorClass::Port, "the other side has closed the connection");
    }

    /// Polls a search until it has connected and sent its opening.
    fn open(search: &mut PortSearch) {
        while search.link.is_none() {
            assert!(search.poll().unwrap().is_none());
        }
    }

    /// Opens a port, and connects a search to it: the port, its place, and the search.
    fn sought() -> (Rc<Port>, (Ipv4Addr, u16), PortSearch) {
        let ports = Ports::default();
        let name = ports.open().unwrap();
        let port = ports.get(&name).unwrap();
        let mut search = PortSearch::new(&name, LIMIT).unwrap();
        open(&mut search);
        let place = (Ipv4Addr::LOCALHOST, port.name.port);
        (port, place, search)
    }

    #[test]
    fn a_flood_of_connections_does_not_keep_a_job_from_connecting() {
        let (port, place, mut search) = sought();
        let stranger = |_| TcpStream::connect(place).unwrap();
        let strangers: Vec<TcpStream> = (0..10 * UNPROVED_MAX).map(stranger).collect();
        (0..20).for_each(|_| assert!(port.poll_accept(LIMIT).unwrap().is_none()));
        assert!(port.refused() as usize >= strangers.len() - UNPROVED_MAX);
        assert!(meet(&port, &mut search).is_ok());
        assert!(search.failure.is_none(), "the first attempt succeeds");
    }

    #[test]
    fn a_job_connects_again_when_others_with_the_key_take_all_room() {
        let (port, place, mut search) = sought();
        let other = |number| {
            let (key, nonce) = (port.name.key, [number; 16]);
            let opening =
                Handshake::new((PortSide::Connects, false), key, wire::VERSION, nonce).to_send;
            let mut other = TcpStream::connect(place).unwrap();
            other.write_all(&opening).unwrap();
            assert!(port.poll_accept(LIMIT).unwrap().is_none());
            other
        };
        // Each closes one of the connections, with the same probability.
        let _others: Vec<TcpStream> = (0..=u8::MAX).map(other).collect();
        assert!(meet(&port, &mut search).is_ok());
        assert!(search.failure.is_some(), "an attempt was in vain");
    }

    /// The socket is reported as readable when a connection arrives, and not again for those that
    /// are left when the port has accepted some.
    #[test]
    fn a_job_behind_connections_that_have_ended_is_not_forgotten() {
        let port = Port::for_many(None).unwrap();
        let place = (Ipv4Addr::LOCALHOST, port.name.port);
        (0..2 * UNPROVED_OF_ENDPOINT_MAX).for_each(|_| drop(TcpStream::connect(place).unwrap()));
        let mut search = PortSearch::of_uri(&port.uri(), LIMIT, None).unwrap();
        while search.link.is_none() {
            assert!(search.poll().unwrap().is_none());
        }
        let mut accepted = port.poll_accept(LIMIT).unwrap();
        while accepted.is_none() {
            assert!(port.must_be_polled(), "the search has connected and is not accepted");
            assert!(search.poll().unwrap().is_none());
            accepted = port.poll_accept(LIMIT).unwrap();
        }
        assert!(!port.must_be_polled());
    }

    /// The kernel does not answer a process that connects while too many wait to be accepted.
    #[test]
    fn a_machine_that_does_not_answer_for_a_moment_is_tried_again() {
        let port = Port::for_many(None).unwrap();
        let crowded = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        crowded.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        crowded.listen(0).unwrap();
        let place = crowded.local_addr().unwrap().as_socket().unwrap();
        let mut search = PortSearch::of_uri(&port.uri(), LIMIT, None).unwrap();
        (search.places, search.machine_max) = (vec![place], Duration::from_millis(20));
        let waiting: Vec<Socket> = (0..4).map(|_| begin_to_connect(place).unwrap()).collect();
        while search.failure.is_none() {
            assert!(search.poll().unwrap().is_none() && search.link.is_none());
        }
        drop(waiting);
        crowded.set_nonblocking(true).unwrap();
        while search.link.is_none() {
            _ = crowded.accept();
            assert!(search.poll().unwrap().is_none());
        }
    }

    #[test]
    fn a_recorded_opening_takes_no_place() {
        let port = Port::for_many(None).unwrap();
        let place = (Ipv4Addr::LOCALHOST, port.name.port);
        let mut client = TcpStream::connect(place).unwrap();
        let opening =
            Handshake::new((PortSide::Connects, false), port.name.key, wire::VERSION, [5; 16]);
        client.write_all(&opening.to_send).unwrap();
        let until = |refused| {
            while port.refused() < refused {
                assert!(port.poll_accept(LIMIT).unwrap().is_none());
            }
        };
        let mut replay = TcpStream::connect(place).unwrap();
        replay.write_all(&opening.to_send).unwrap();
        until(1);
        // Strangers make room for each other.
        let silent = |_| TcpStream::connect(place).unwrap();
        let strangers: Vec<TcpStream> = (0..2 * UNPROVED_OF_ENDPOINT_MAX).map(silent).collect();
        until(strangers.len() as u64 + 2 - UNPROVED_OF_ENDPOINT_MAX as u64);
        client.set_nonblocking(true).unwrap();
        let mut answer = [0; 128];
        assert_eq!(client.read(&mut answer).unwrap(), 64, "greeting and proof");
        assert_eq!(client.read(&mut answer).unwrap_err().kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn a_closed_port_and_a_wrong_key_are_reported() {
        let ports = Ports::default();
        let name = ports.open().unwrap();
        let port = ports.get(&name).unwrap();
        let other = PortName { key: [1; 16], ..port.name.clone() }.to_string();
        let mut search = PortSearch::new(&other, LIMIT).unwrap();
        let error = meet(&port, &mut search).unwrap_err();
        assert!(error.detail.contains("another port has this address"), "{error}");
        drop(port);
        ports.close(&name).unwrap();
        assert_eq!(ports.close(&name).unwrap_err().class, ErrorClass::Port);
        assert!(ports.get("nonsense").unwrap_err().detail.contains("unchanged"));
        let mut search = PortSearch::new(&name, LIMIT).unwrap();
        let error = loop {
            match search.poll() {
                Ok(found) => assert!(found.is_none()),
                Err(error) => break error,
            }
        };
        assert!(error.detail.contains("no process listens"), "{error}");
    }

    #[test]
    fn a_port_on_which_no_process_accepts_is_given_up() {
        let ports = Ports::default();
        let name = ports.open().unwrap();
        let mut search = PortSearch::new(&name, Duration::from_millis(50)).unwrap();
        let error = loop {
            match search.poll() {
                Ok(found) => assert!(found.is_none()),
                Err(error) => break error,
            }
        };
        assert!(error.detail.contains("has not answered"), "{error}");
    }
}
