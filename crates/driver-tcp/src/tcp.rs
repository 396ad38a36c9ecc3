//! The driver: rails, sockets and the handling of their events.

use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use base::limits::CACHE_LINE;
use base::{GateId, RailProfile};
use driver::{
    Directory, Driver, DriverError, Fill, NetworkSelection, PairSecret, Part, PeerEnd, PeerReach,
    Settings, Sink,
};
use links::{LinkTable, Peer, PeerRail};
use memory::placing::{addresses_of, keep_on_node};
use socket2::{Domain, Protocol, Socket, Type};

use crate::attempt::{Attempt, HandshakeTerms};
use crate::card::{AddressCard, Endpoint};
use crate::connection::{INBOX_BYTES, ReadOutcome, TcpConnection, Written};
use crate::frame::{self, FrameKind, HEAD_BYTES, PACKET_BYTES_MAX};
use crate::interfaces::{self, Interface};
use crate::peers::{IpNetworks, RailConnection, Slot};
use crate::poller::{Poller, ReadySocket, SocketInterest};
use crate::sealed::is_tampering;
use unauthenticated::UnauthenticatedConnections;

mod attempts;
mod leave;
mod silence;
mod unauthenticated;

/// The settings of the driver.
#[derive(Clone, Debug)]
pub struct Options {
    /// The interfaces to use.
    pub selection: NetworkSelection,
    /// The version of the contents, in which both sides must agree.
    pub records: u32,
    /// A machine from which nothing was received for this long counts as failed.
    pub silence: Duration,
}

/// The rails to processes of other machines.
pub struct Tcp {
    links: LinkTable<IpNetworks>,
    options: Options,
    interfaces: Vec<Interface>,
    poller: Poller,
    sockets: Vec<Option<WatchedSocket>>,
    free: Vec<Slot>,
    inbox: Box<[u8]>,
    packet: Box<[u8]>,
    /// The connection on which the last data arrived: the next will often arrive there, too.
    hot: Option<Slot>,
    /// Connections on which something was posted since the last poll.
    posted: Vec<Slot>,
    /// Connections on which writing fails.
    failing: Vec<Slot>,
    connections: usize,
    unsettled: usize,
    stuck: usize,
    /// Whether this process is leaving, so that nothing must be sent any more.
    is_leaving: bool,
    polls: u32,
    check_due: Instant,
    unauthenticated: UnauthenticatedConnections,
    /// When the next rail must be connected again.
    again_at: Option<Instant>,
    /// Warnings for the user.
    troubles: Vec<String>,
    sent: Vec<(GateId, usize, u64)>,
    carried: Vec<(usize, u64, u64)>,
}

/// A socket that the poller watches.
enum WatchedSocket {
    Listener(TcpListener),
    Attempt(Box<Attempt>),
    Connection(Box<TcpConnection>),
}

/// How often attempts and silent connections are checked.
const CHECK_PERIOD: Duration = Duration::from_millis(250);

/// The connection on which the last data arrived is read in each poll. The other connections are
/// polled once in this many polls, ...
const POLLS_PER_CHECK: u32 = 4;
/// ... and if there are no others, the sockets are polled for new ones once in this many polls.
const POLLS_PER_CHECK_ALONE: u32 = 32;

/// The speed that is assumed for a rail that declares none, in bytes per microsecond.
const SPEED_ASSUMED: u64 = 1000;

/// The lengths in bytes of messages that are pushed. A shorter one goes in a packet: both ends copy
/// it in less time than the receiver needs for a second read.
const PUSHED_BYTES: Range<usize> = (32 << 10) + 1..(256 << 10) + 1;

/// The backlog that is reported for a rail that is not connected yet.
const NOT_YET: u64 = 1 << 40;

/// Creates the driver of a process, as the table of drivers requires.
///
/// # Errors
/// The settings name networks in a way that makes no sense, or the system refuses sockets.
pub fn open(
    own: GateId,
    settings: &Settings,
    directory: Box<dyn Directory>,
) -> Result<Option<Box<dyn Driver>>, DriverError> {
    let selection = NetworkSelection::parse(&settings.networks);
    let selection =
        selection.map_err(|wrong| DriverError { message: format!("COMBRAY_NET: {wrong}") })?;
    let options = Options { selection, records: settings.records, silence: settings.silence };
    Ok(Some(Box::new(Tcp::create(own, options, directory)?)))
}

impl Tcp {
    /// Creates the rails of the process `own`: one for each usable interface, on which it listens.
    ///
    /// # Errors
    /// The system refuses sockets.
    pub fn create(
        own: GateId,
        options: Options,
        directory: Box<dyn Directory>,
    ) -> Result<Self, DriverError> {
        let error = |cause: io::Error| DriverError {
            message: format!("connections to other machines cannot be prepared: {cause}"),
        };
        let poller = Poller::new().map_err(|cause| error(sys::refused("epoll_create1", &cause)))?;
        let card = AddressCard::of_this_machine();
        let mut tcp = Self {
            links: LinkTable::new(own, card, directory, options.silence, Instant::now()),
            interfaces: Vec::new(),
            poller,
            sockets: Vec::new(),
            free: Vec::new(),
            inbox: vec![0; INBOX_BYTES + CACHE_LINE].into(),
            packet: vec![0; HEAD_BYTES + PACKET_BYTES_MAX].into(),
            hot: None,
            posted: Vec::new(),
            failing: Vec::new(),
            connections: 0,
            unsettled: 0,
            is_leaving: false,
            stuck: 0,
            polls: 0,
            check_due: Instant::now(),
            unauthenticated: UnauthenticatedConnections::new(),
            again_at: None,
            troubles: Vec::new(),
            sent: Vec::new(),
            carried: Vec::new(),
            options,
        };
        for interface in interfaces::usable(&tcp.options.selection) {
            // An address on which this process cannot listen is skipped.
            if let Ok(listener) = listen(interface.address) {
                tcp.add_rail(interface, listener).map_err(error)?;
            }
        }
        Ok(tcp)
    }

    fn add_rail(&mut self, interface: Interface, listener: TcpListener) -> io::Result<()> {
        let address = listener.local_addr()?;
        self.links.card.ends.push(Endpoint { address, prefix: interface.prefix });
        self.links.rails.push(profile(&interface));
        self.interfaces.push(interface);
        self.insert(WatchedSocket::Listener(listener), SocketInterest::Read)?;
        Ok(())
    }

    /// Returns the interfaces, in the order of the rails.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    fn standing(&self, gate: GateId, rail: usize) -> Option<Slot> {
        match self.links.get(gate, rail)? {
            RailConnection::Stands(slot) => Some(*slot),
            _ => None,
        }
    }

    fn connection(&self, gate: GateId, rail: usize) -> Option<&TcpConnection> {
        match self.sockets.get(self.standing(gate, rail)?)? {
            Some(WatchedSocket::Connection(connection)) => Some(connection),
            _ => None,
        }
    }

    fn insert(&mut self, socket: WatchedSocket, wanted: SocketInterest) -> io::Result<Slot> {
        let slot = self.free.pop().unwrap_or(self.sockets.len());
        let added = match &socket {
            WatchedSocket::Listener(listener) => self.poller.add(listener, slot as u64, wanted),
            WatchedSocket::Attempt(attempt) => {
                self.poller.add(&attempt.stream, slot as u64, wanted)
            }
            WatchedSocket::Connection(connection) => {
                self.poller.add(&connection.stream, slot as u64, wanted)
            }
        };
        added?;
        self.unsettled += usize::from(
            matches!(&socket, WatchedSocket::Attempt(attempt) if !attempt.is_unauthenticated()),
        );
        if slot == self.sockets.len() {
            self.sockets.push(None);
        }
        self.sockets[slot] = Some(socket);
        Ok(slot)
    }

    fn remove(&mut self, slot: Slot) -> Option<WatchedSocket> {
        let socket = self.sockets[slot].take()?;
        self.free.push(slot);
        self.posted.retain(|&posted| posted != slot);
        self.failing.retain(|&failing| failing != slot);
        self.hot = self.hot.filter(|&hot| hot != slot);
        self.disconnect(&socket);
        match &socket {
            WatchedSocket::Attempt(attempt) if attempt.is_unauthenticated() => {
                self.unauthenticated.forget(slot)
            }
            WatchedSocket::Attempt(_) => self.unsettled -= 1,
            WatchedSocket::Connection(connection) => {
                self.connections -= 1;
                self.stuck -= usize::from(connection.watched);
            }
            WatchedSocket::Listener(..) => {}
        }
        Some(socket)
    }

    /// Stops watching a socket that is about to be closed, and shuts down its connection. This also
    /// works if a child process that was forked without the C library's knowledge has the socket.
    fn disconnect(&self, socket: &WatchedSocket) {
        let stream = match socket {
            WatchedSocket::Listener(listener) => return self.poller.remove(listener),
            WatchedSocket::Attempt(attempt) => &attempt.stream,
            WatchedSocket::Connection(connection) => connection.stream.socket(),
        };
        self.poller.remove(stream);
        // A broken connection is already shut down.
        let _ = stream.shutdown(Shutdown::Both);
    }

    /// Handles the result of posting something to a connection.
    fn after_posting(&mut self, slot: Slot, result: io::Result<()>) {
        self.posted.push(slot);
        self.after_writing(slot, result);
    }

    fn after_writing(&mut self, slot: Slot, result: io::Result<()>) {
        match result {
            Ok(()) => self.watch_if_stuck(slot),
            Err(error) => self.fail_to_write(slot, error),
        }
    }

    /// Records that writing to a connection fails. What the peer wrote before is read first.
    #[cold]
    fn fail_to_write(&mut self, slot: Slot, error: io::Error) {
        let Some(WatchedSocket::Connection(connection)) = &mut self.sockets[slot] else { return };
        connection.fail(error);
        self.failing.push(slot);
        self.watch_if_stuck(slot);
    }

    /// Watches for room to write exactly while something is not written.
    fn watch_if_stuck(&mut self, slot: Slot) {
        let Some(WatchedSocket::Connection(connection)) = &mut self.sockets[slot] else { return };
        let stuck = connection.is_stuck();
        if stuck == connection.watched {
            return;
        }
        connection.watched = stuck;
        self.stuck = if stuck { self.stuck + 1 } else { self.stuck - 1 };
        let wanted = if stuck { SocketInterest::ReadAndWrite } else { SocketInterest::Read };
        if let Err(error) = self.poller.watch(&connection.stream, slot as u64, wanted) {
            self.break_off(slot, &error);
        }
    }

    /// Closes a connection that has failed.
    fn break_off(&mut self, slot: Slot, error: &io::Error) {
        let Some(WatchedSocket::Connection(connection)) = self.remove(slot) else { return };
        let error = connection.failed.as_ref().unwrap_or(error);
        let why = match error.kind() {
            _ if is_tampering(error) => return self.end_tampered(connection.gate, error),
            _ if connection.departed => "it has finished".to_owned(),
            ErrorKind::UnexpectedEof => "it closed the connection: it has ended".to_owned(),
            // The kernel's probes were unanswered, too.
            ErrorKind::TimedOut => self.describe_silence(connection.gate, connection.rail, None),
            _ => error.to_string(),
        };
        let (gate, rail) = (connection.gate, connection.rail);
        self.end(gate, rail, &why);
        if connection.departed {
            self.note_departure(gate);
        }
        // If the peer had left and nothing was sent to it since, the failure has no effect.
        if !connection.departed || connection.awaited {
            self.links.report_loss(gate, rail);
        }
    }

    /// Ends all connections with a peer after something between both has changed what it has sent
    /// on one of them.
    #[cold]
    fn end_tampered(&mut self, gate: GateId, error: &io::Error) {
        let why = error.to_string();
        self.links.peer_mut(gate).into_iter().for_each(|peer| peer.was_tampered_with = true);
        for rail in 0..self.links.rails.len() {
            if self.links.get(gate, rail).is_some() {
                self.standing(gate, rail).into_iter().for_each(|slot| drop(self.remove(slot)));
                self.lose(gate, rail, &why);
            }
        }
    }

    /// Records that a peer has left: lost rails to it are not needed any more.
    fn note_departure(&mut self, gate: GateId) {
        self.links.peer_mut(gate).into_iter().for_each(|peer| peer.departed = true);
        for (gate, rail) in self.links.needless_attempts() {
            self.give_up(gate, rail);
        }
    }

    /// Marks a rail to a peer as lost, and reports that.
    fn lose(&mut self, gate: GateId, rail: usize, why: &str) {
        self.end(gate, rail, why);
        self.links.report_loss(gate, rail);
    }

    fn end(&mut self, gate: GateId, rail: usize, why: &str) {
        let message = format!("over {}: {why}", self.interfaces[rail].name);
        self.links.end(gate, rail, message);
    }

    /// Handles an attempt to post on a rail that is not connected: if it never will be, the loss is
    /// reported.
    #[cold]
    fn refuse(&mut self, gate: GateId, rail: usize) {
        if self.links.get(gate, rail).is_none() {
            self.links.report_loss(gate, rail);
        }
    }

    /// Changes the state of a rail that is in use, or is restored.
    fn set_way(&mut self, gate: GateId, rail: usize, way: RailConnection) {
        let known = self.links.rail_mut(gate, rail).and_then(PeerRail::any_link_mut);
        known.into_iter().for_each(|known| *known = way);
        if let RailConnection::Again(retry) = way {
            self.again_at = Some(self.again_at.map_or(retry.at, |at| at.min(retry.at)));
        }
    }

    /// Returns the terms of a connection that this process initiates to `to`, or that another
    /// process initiates.
    fn agreement(&mut self, to: Option<GateId>) -> Result<HandshakeTerms, DriverError> {
        let records = self.options.records;
        let Some(gate) = to else {
            let plain = |secret| PairSecret { secret, is_encrypted: false };
            let secret = self.links.directory.secret().map(plain);
            let mut others = self.links.directory.other_secrets();
            // A job of one process has no secret of its own.
            let secret = secret.or_else(|error| others.pop().ok_or(error))?;
            return Ok(HandshakeTerms { own: self.links.own.0, to: 0, secret, others, records });
        };
        let (own, to) = match self.links.directory.between_jobs(gate) {
            Some(pair) => (pair.own_gate.0, pair.peer_rank),
            None => (self.links.own.0, gate.0),
        };
        let secret = self.pair_secret(gate)?;
        Ok(HandshakeTerms { own, to, secret, others: Vec::new(), records })
    }

    /// Returns the secret that this process has in common with the process behind `gate`.
    fn pair_secret(&mut self, gate: GateId) -> Result<PairSecret, DriverError> {
        let is_encrypted = self.links.is_encrypted(gate);
        self.links.secret_of(gate).map(|secret| PairSecret { secret, is_encrypted })
    }

    /// Returns the peer; its card is read if that was not done yet.
    fn meet(&mut self, gate: GateId) -> Result<&mut Peer<IpNetworks>, DriverError> {
        self.links.meet(gate, |_, _| Ok(((), RailConnection::Open)))
    }

    fn run_events(&mut self, sink: &mut dyn Sink) -> bool {
        let Ok(events) = self.poller.ready() else { return false };
        let mut active = false;
        for event in events {
            active |= self.run_event(event, sink);
        }
        let now = Instant::now();
        if self.again_at.is_some_and(|at| now >= at) {
            self.begin_again(now);
        }
        if now >= self.check_due {
            self.check_due = now + CHECK_PERIOD;
            self.check_silence(now, sink);
        }
        active
    }

    fn run_event(&mut self, event: ReadySocket, sink: &mut dyn Sink) -> bool {
        let slot = event.number as Slot;
        match self.sockets.get(slot) {
            Some(Some(WatchedSocket::Listener(..))) => self.accept(slot),
            Some(Some(WatchedSocket::Attempt(_))) => self.go_on(slot),
            Some(Some(WatchedSocket::Connection(_))) => {
                if event.writable {
                    self.flush(slot);
                }
                return event.readable && self.receive(slot, sink) || event.writable;
            }
            _ => {}
        }
        false
    }

    fn flush(&mut self, slot: Slot) {
        let Some(Some(WatchedSocket::Connection(connection))) = self.sockets.get_mut(slot) else {
            return;
        };
        let mut written = Written::default();
        let result = connection.flush(&mut written);
        self.note_written(slot, written);
        self.after_writing(slot, result);
    }

    fn note_written(&mut self, slot: Slot, written: Written) {
        let Some(Some(WatchedSocket::Connection(connection))) = self.sockets.get(slot) else {
            return;
        };
        let (gate, rail) = (connection.gate, connection.rail);
        self.sent.extend(written.sent.into_iter().map(|token| (gate, rail, token)));
        if let Some((bytes, nanoseconds)) = written.carried {
            self.carried.push((rail, bytes, nanoseconds.max(1)));
        }
    }

    /// Reads from a connection; returns whether anything arrived.
    fn receive(&mut self, slot: Slot, sink: &mut dyn Sink) -> bool {
        let Some(Some(WatchedSocket::Connection(connection))) = self.sockets.get_mut(slot) else {
            return false;
        };
        let gate = connection.gate;
        match connection.receive(from_line(&mut self.inbox), sink) {
            Ok(ReadOutcome::Nothing) => {
                let failed = connection.failed.take();
                failed.is_some_and(|error| {
                    self.break_off(slot, &error);
                    true
                })
            }
            Ok(ReadOutcome::Something) => {
                self.hot = Some(slot);
                true
            }
            Ok(ReadOutcome::Instead(other)) => {
                if let Some(slot) = self.standing(gate, other) {
                    self.remove(slot);
                }
                self.lose(gate, other, "its packets arrived over another interface");
                self.receive(slot, sink)
            }
            Err(error) => {
                self.break_off(slot, &error);
                true
            }
        }
    }

    /// Reports what has happened since the last poll.
    #[inline]
    fn report(&mut self, sink: &mut dyn Sink) -> bool {
        let is_any = !self.sent.is_empty() || !self.carried.is_empty() || !self.troubles.is_empty();
        if is_any {
            self.report_all(sink);
        }
        self.links.report(sink) || is_any
    }

    fn report_all(&mut self, sink: &mut dyn Sink) {
        for trouble in self.troubles.drain(..) {
            sink.trouble(&trouble);
        }
        for (gate, rail, token) in self.sent.drain(..) {
            sink.sent(gate, rail, token);
        }
        for (rail, bytes, nanoseconds) in self.carried.drain(..) {
            sink.carried(rail, bytes, nanoseconds);
        }
    }
}

impl Driver for Tcp {
    fn rails(&self) -> &[RailProfile] {
        &self.links.rails
    }

    fn card(&self) -> String {
        self.links.card.to_string()
    }

    fn reaches_other_jobs(&self) -> bool {
        true
    }

    fn connect(&mut self, gate: GateId) -> Result<PeerReach, DriverError> {
        let peer = self.meet(gate)?;
        let (rails, pairs) = (peer.reached_over(), peer.pairs.clone());
        pairs.into_iter().for_each(|(rail, _)| self.begin(gate, rail));
        Ok(PeerReach { rails, fetches: false })
    }

    #[inline]
    fn has_room(&self, gate: GateId, rail: usize) -> bool {
        match self.links.get(gate, rail) {
            Some(RailConnection::Stands(_)) => {
                self.connection(gate, rail).is_none_or(TcpConnection::has_room)
            }
            Some(_) => false,
            // An attempt to post will report that the rail is lost.
            None => self.links.peer(gate).is_some(),
        }
    }

    fn post_packet(&mut self, gate: GateId, rail: usize, length: usize, fill: Fill<'_>) -> bool {
        let Some(slot) = self.standing(gate, rail) else {
            self.refuse(gate, rail);
            return false;
        };
        let Some(WatchedSocket::Connection(connection)) = &mut self.sockets[slot] else {
            return false;
        };
        if !connection.has_room() {
            return false;
        }
        connection.awaited = true;
        self.packet[..HEAD_BYTES].copy_from_slice(&frame::head(FrameKind::Packet, length));
        fill((&mut self.packet[HEAD_BYTES..HEAD_BYTES + length]).into());
        let result = connection.post(&self.packet[..HEAD_BYTES + length]);
        self.after_posting(slot, result);
        true
    }

    fn post_part(&mut self, gate: GateId, rail: usize, part: Part) {
        let Some(slot) = self.standing(gate, rail) else { return self.refuse(gate, rail) };
        let Some(WatchedSocket::Connection(connection)) = &mut self.sockets[slot] else { return };
        connection.awaited = true;
        let mut written = Written::default();
        let result = connection.post_part(part, &mut written);
        self.note_written(slot, written);
        self.after_posting(slot, result);
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> bool {
        for slot in self.posted.drain(..) {
            if let Some(WatchedSocket::Connection(connection)) = &mut self.sockets[slot] {
                connection.posted = false;
            }
        }
        let mut active = self.report(sink);
        for slot in std::mem::take(&mut self.failing) {
            active |= self.receive(slot, sink);
            if matches!(&self.sockets[slot], Some(WatchedSocket::Connection(it)) if it.failed.is_some())
            {
                self.failing.push(slot);
            }
        }
        if let Some(hot) = self.hot {
            active |= self.receive(hot, sink);
        }
        self.polls = self.polls.wrapping_add(1);
        let alone = self.connections <= 1 && self.unsettled == 0;
        let period = if alone { POLLS_PER_CHECK_ALONE } else { POLLS_PER_CHECK };
        // A process that sleeps between two polls must not count them.
        let is_time = |active: bool| !active && Instant::now() >= self.check_due;
        if self.stuck > 0
            || self.hot.is_none()
            || self.polls.is_multiple_of(period)
            || is_time(active)
        {
            active |= self.run_events(sink);
        }
        active | self.report(sink)
    }

    fn reaches(&self, gate: GateId, rail: usize) -> bool {
        self.standing(gate, rail).is_some()
    }

    fn backlog(&self, gate: GateId, rail: usize) -> u64 {
        self.connection(gate, rail).map_or(NOT_YET, TcpConnection::backlog)
    }

    fn give_up(&mut self, gate: GateId, rail: usize) {
        let used = self.links.give_up(gate, rail);
        if let Some(RailConnection::Begun(slot) | RailConnection::Stands(slot)) = used {
            self.remove(slot);
        }
        self.sent.retain(|sent| (sent.0, sent.1) != (gate, rail));
    }

    fn forget(&mut self, gate: GateId, _end: PeerEnd) {
        for rail in 0..self.links.rails.len() {
            self.give_up(gate, rail);
            // An attempt in which the rail was used while it was being restored.
            self.links.stop_restoring(gate, rail);
        }
        self.links.forget(gate);
    }

    fn restore(&mut self, gate: GateId, rail: usize) {
        let now = Instant::now();
        self.links.restore((gate, rail), now, |_, _, _, _| RailConnection::Open);
        self.again_at = self.again_at.into_iter().chain(self.links.next_attempt()).min();
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.poller.descriptor())
    }

    fn wakes_for_room(&self) -> bool {
        true
    }

    fn is_flushed(&self) -> bool {
        self.stuck == 0
    }

    fn refused(&self) -> u64 {
        self.links.refused
    }

    fn keep_buffers_on(&mut self, node: u32) {
        for buffer in [&self.inbox, &self.packet] {
            keep_on_node(addresses_of(buffer), node);
        }
    }

    /// The peer has said goodbye, and no connection to it remains.
    fn has_departed(&self, gate: GateId) -> bool {
        self.links.has_departed(gate)
    }

    fn was_tampered_with(&self, gate: GateId) -> bool {
        self.links.peer(gate).is_some_and(|peer| peer.was_tampered_with)
    }

    fn leave(&mut self, sink: &mut dyn Sink, limit: Duration) {
        self.close(sink, limit);
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        self.sockets.iter().flatten().for_each(|socket| self.disconnect(socket));
    }
}

fn profile(interface: &Interface) -> RailProfile {
    RailProfile {
        name: format!("{}:{}", interfaces::DRIVER, interface.name),
        packet_bytes_max: PACKET_BYTES_MAX,
        eager_bytes_max: 32 << 10,
        fetch_segment_bytes_min: 0,
        latency_ns: 5_000,
        bandwidth_bytes_per_us: interface.speed.unwrap_or(SPEED_ASSUMED),
        // The time to write and read a packet, and for the polls in between.
        packet_ns: 6_000,
        bulk: true,
        pushed_bytes: PUSHED_BYTES,
    }
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Creates a socket that listens on an address of this machine, on a port that the kernel chooses.
fn listen(address: std::net::IpAddr) -> io::Result<TcpListener> {
    let socket = socket(SocketAddr::new(address, 0))?;
    socket.listen(4096)?;
    Ok(socket.into())
}

/// Returns the bytes from the beginning of a cache line on. What arrives begins a page of the
/// kernel in most cases; see [`frame::part_head`].
fn from_line(bytes: &mut [u8]) -> &mut [u8] {
    let start = bytes.as_ptr().align_offset(CACHE_LINE);
    &mut bytes[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrives_is_read_to_the_beginning_of_a_cache_line() {
        let mut bytes = vec![0; 3 * CACHE_LINE];
        for from in 0..CACHE_LINE {
            let aligned = from_line(&mut bytes[from..]);
            assert!(aligned.as_ptr().addr().is_multiple_of(CACHE_LINE));
            assert!(aligned.len() > CACHE_LINE);
        }
    }
}
