//! Connections that are being established: when they begin, and how they end.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use base::GateId;
use links::PeerRail;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::Socket;

use super::silence::ask_regularly;
use super::unauthenticated::{describe_limit, lacks_descriptors};
use super::{Tcp, WatchedSocket};
use crate::attempt::{Attempt, AttemptProgress, AttemptSide};
use crate::connection::TcpConnection;
use crate::handshake::{ConnectionClaim, HandshakeReply};
use crate::pacing::send_without_pauses;
use crate::peers::{RailConnection, Retry, Slot};
use crate::poller::SocketInterest;
use crate::stream::RailStream;

/// A machine that has not answered after this time is given up. So is a peer that has ended one
/// handshake after another for this long, ...
const CONNECT_MAX: Duration = Duration::from_secs(20);

/// ... but not before this many failures, as this process may have polled rarely.
const FAILURES_MIN: u32 = 8;

/// The pause before a connection is attempted again doubles each time.
const RETRY_FIRST: Duration = Duration::from_millis(2);
const RETRY_MAX: Duration = Duration::from_millis(500);

/// How long a process that connects again waits for the other machine, so that it can authenticate
/// at once: unauthenticated connections are closed first.
const MACHINE_MAX: Duration = Duration::from_millis(10);

/// If a rail was lost and others work, a machine must answer within this time.
const RESTORE_CONNECT_MAX: Duration = Duration::from_secs(3);

/// How many unsent bytes a socket may hold where several rails share the work: data that waits in a
/// socket is bound to its rail.
const UNSENT_BYTES_MAX: u32 = 256 << 10;

impl Tcp {
    /// Begins a connection over a rail, unless one side has already begun.
    pub(super) fn begin(&mut self, gate: GateId, rail: usize) {
        let Some(peer) = self.links.peer_mut(gate) else { return };
        let Some(link) = peer.pairs.iter().position(|pair| pair.0 == rail) else { return };
        let to = peer.card.ends[peer.pairs[link].1].address;
        let retry = match peer.rails[rail].any_link_mut() {
            Some(RailConnection::Open) => None,
            Some(RailConnection::Again(retry)) => Some(*retry),
            _ => return,
        };
        let side = AttemptSide::Here { gate, rail, link: link as u32 };
        match self.connect_to(rail, to, side, retry) {
            Ok(slot) => {
                self.set_way(gate, rail, RailConnection::Begun(slot));
                if retry.is_some() {
                    self.go_on_soon(slot);
                }
            }
            Err(error) if lacks_descriptors(&error) && self.close_oldest_unauthenticated() => {
                self.begin(gate, rail);
            }
            Err(error) => self.fail_to_connect(gate, rail, retry, &to.to_string(), &error),
        }
    }

    fn connect_to(
        &mut self,
        rail: usize,
        to: SocketAddr,
        side: AttemptSide,
        retry: Option<Retry>,
    ) -> io::Result<Slot> {
        let socket = connecting(self.interfaces[rail].address, to)?;
        ask_regularly(&socket, self.links.silence.limit)?;
        let limit = match side {
            AttemptSide::Here { gate, rail, .. } if self.is_restoring(gate, rail) => {
                RESTORE_CONNECT_MAX
            }
            _ => CONNECT_MAX,
        };
        let mut attempt = Attempt::new(socket.into(), side, Instant::now() + limit)?;
        attempt.retry = retry;
        self.insert(WatchedSocket::Attempt(Box::new(attempt)), SocketInterest::ReadAndWrite)
    }

    /// Waits a moment for the other machine.
    #[cold]
    fn go_on_soon(&mut self, slot: Slot) {
        let Some(WatchedSocket::Attempt(attempt)) = &self.sockets[slot] else { return };
        let limit = Timespec::try_from(MACHINE_MAX).ok();
        let mut connected = [PollFd::new(&attempt.stream, PollFlags::OUT)];
        if poll(&mut connected, limit.as_ref()).is_ok_and(|ready| ready > 0) {
            self.go_on(slot);
        }
    }

    /// Attempts those connections again whose time has come.
    #[cold]
    pub(super) fn begin_again(&mut self, now: Instant) {
        let is_due =
            |way: &RailConnection| matches!(way, RailConnection::Again(retry) if retry.at <= now);
        let due = self.links.names_where(|rail| rail.link.as_ref().is_some_and(is_due));
        for (gate, rail) in due.into_iter().chain(self.links.attempts_due(now)) {
            self.begin(gate, rail);
        }
        let retries = self.links.iter().filter_map(|way| match way {
            RailConnection::Again(retry) => Some(retry.at),
            _ => None,
        });
        self.again_at = retries.chain(self.links.next_attempt()).min();
    }

    fn is_restoring(&self, gate: GateId, rail: usize) -> bool {
        self.links.peer(gate).is_some_and(|peer| peer.rails[rail].is_restoring())
    }

    /// Advances an attempt.
    pub(super) fn go_on(&mut self, slot: Slot) {
        let Some(WatchedSocket::Attempt(attempt)) = &self.sockets[slot] else { return };
        let to = match attempt.side {
            AttemptSide::Here { gate, .. } => Some(gate),
            AttemptSide::There => None,
        };
        let agreement = match self.agreement(to) {
            Ok(agreement) => agreement,
            Err(error) => return self.fail(slot, io::Error::other(error.message)),
        };
        let Some(WatchedSocket::Attempt(attempt)) = &mut self.sockets[slot] else { return };
        match attempt.go_on(&agreement) {
            Ok(AttemptProgress::Waits) => {
                // Room to write is of no interest once the connection is established.
                let connected = attempt.stream.peer_addr().is_ok();
                if connected && matches!(attempt.side, AttemptSide::Here { .. }) {
                    let _ = self.poller.watch(&attempt.stream, slot as u64, SocketInterest::Read);
                }
            }
            Ok(AttemptProgress::Decided(reply)) => self.decided(slot, reply),
            Ok(AttemptProgress::Opened(nonce)) => self.opened(slot, nonce),
            Ok(AttemptProgress::Introduced(introduction)) => self.introduced(slot, introduction),
            Err(error) => self.fail(slot, error),
        }
    }

    /// Ends an attempt that failed.
    pub(super) fn fail(&mut self, slot: Slot, error: io::Error) {
        let Some(WatchedSocket::Attempt(attempt)) = self.remove(slot) else { return };
        let AttemptSide::Here { gate, rail, link } = attempt.side else {
            self.links.refused += 1;
            return;
        };
        let peer = self.links.peer(gate);
        let to = peer.and_then(|peer| peer.card.ends.get(peer.pairs[link as usize].1));
        let to = to.map_or(String::new(), |end| end.address.to_string());
        self.fail_to_connect(gate, rail, attempt.retry, &to, &error);
    }

    /// Schedules another attempt, if the peer may have ended the handshake for lack of room, this
    /// process has no descriptor, or the network was down for a moment.
    #[cold]
    fn fail_to_connect(
        &mut self,
        gate: GateId,
        rail: usize,
        before: Option<Retry>,
        to: &str,
        error: &io::Error,
    ) {
        let now = Instant::now();
        let (since, failures) = before.map_or((now, 0), |retry| (retry.since, retry.failures));
        let failures = failures + 1;
        if self.is_restoring(gate, rail) {
            return self.set_way(gate, rail, RailConnection::Open);
        }
        if self.is_leaving {
            // The peer may have left before. A process that posts later begins a new connection.
            return self.set_way(gate, rail, RailConnection::Open);
        }
        let has_time = |limit| now < since + limit || failures < FAILURES_MIN;
        let may_have_room = was_ended_by_peer(error) || lacks_descriptors(error);
        let may_come_back = is_unreachable(error) && has_time(self.links.silence.limit);
        if may_have_room && has_time(CONNECT_MAX) || may_come_back {
            let pause = RETRY_FIRST.saturating_mul(1 << (failures - 1).min(16)).min(RETRY_MAX);
            let at = if failures == 1 { now } else { now + pause };
            return self.set_way(gate, rail, RailConnection::Again(Retry { at, since, failures }));
        }
        let why = match error.kind() {
            ErrorKind::TimedOut => "no process answers".to_owned(),
            _ if lacks_descriptors(error) => describe_limit(error),
            _ if was_ended_by_peer(error) => format!(
                "it ended the handshake {failures} times in {:.0} s: {error}",
                (now - since).as_secs_f64()
            ),
            _ => error.to_string(),
        };
        self.lose(gate, rail, &format!("{to}: {why}"));
    }

    /// Handles the other side's reply on an attempt that began here.
    fn decided(&mut self, slot: Slot, reply: HandshakeReply) {
        let Some(WatchedSocket::Attempt(attempt)) = &self.sockets[slot] else { return };
        let AttemptSide::Here { gate, rail, .. } = attempt.side else { return };
        match reply {
            HandshakeReply::Welcome => self.settle(slot, gate, rail),
            HandshakeReply::Crossing => {
                self.remove(slot);
                self.set_way(gate, rail, RailConnection::Open);
            }
        }
    }

    /// Handles the claim of a process of this job, or of a connected one, to become a connection.
    fn introduced(&mut self, slot: Slot, introduction: ConnectionClaim) {
        let gate = GateId(introduction.from);
        let Some(WatchedSocket::Attempt(attempt)) = &self.sockets[slot] else { return };
        // A process of a connected job must not pass for a process of this one, or of a third.
        let proved = attempt.secret;
        if self.pair_secret(gate).ok() != proved {
            return self.fail(slot, ErrorKind::PermissionDenied.into());
        }
        let comes_first = self.links.comes_before(gate);
        let link = introduction.link as usize;
        let pair = self.meet(gate).ok().and_then(|peer| peer.pairs.get(link).copied());
        let Some((rail, _)) = pair else { return drop(self.remove(slot)) };
        let known = self.links.rail_mut(gate, rail).and_then(PeerRail::any_link_mut);
        let Some(way) = known.copied() else { return drop(self.remove(slot)) };
        let reply = match way {
            RailConnection::Begun(_) if comes_first => HandshakeReply::Crossing,
            RailConnection::Begun(mine) => {
                self.remove(mine);
                HandshakeReply::Welcome
            }
            RailConnection::Open | RailConnection::Again(_) => HandshakeReply::Welcome,
            RailConnection::Stands(_) => return drop(self.remove(slot)),
        };
        let Some(WatchedSocket::Attempt(attempt)) = &mut self.sockets[slot] else { return };
        let outcome = attempt.reply(reply);
        match reply {
            HandshakeReply::Welcome if outcome.is_ok() => self.settle(slot, gate, rail),
            _ => drop(self.remove(slot)),
        }
    }

    /// Turns an attempt into a connection.
    fn settle(&mut self, slot: Slot, gate: GateId, rail: usize) {
        let Some(WatchedSocket::Attempt(attempt)) = self.sockets[slot].take() else { return };
        self.unsettled -= 1;
        let several = self.links.peer(gate).is_some_and(|peer| peer.pairs.len() > 1);
        if several {
            // Without this limit, a rail only gets more than its share.
            let _ = socket2::SockRef::from(&attempt.stream).set_tcp_notsent_lowat(UNSENT_BYTES_MAX);
        }
        let stream = RailStream::new(attempt.stream, attempt.sealing);
        let connection = TcpConnection::new(stream, gate, rail);
        let _ = self.poller.watch(&connection.stream, slot as u64, SocketInterest::Read);
        self.sockets[slot] = Some(WatchedSocket::Connection(Box::new(connection)));
        self.connections += 1;
        self.set_way(gate, rail, RailConnection::Stands(slot));
        self.links.note_restored(gate, rail);
        if self.is_leaving {
            self.say_goodbye(slot);
        }
    }
}

/// Whether the other side, which may have had no room, has ended a handshake.
fn was_ended_by_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::NotConnected
    )
}

/// Whether the network is unreachable now, as while an interface is down.
fn is_unreachable(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
            | ErrorKind::AddrNotAvailable
    )
}

/// Creates a socket that is about to connect from an address of this machine.
fn connecting(from: IpAddr, to: SocketAddr) -> io::Result<Socket> {
    let socket = super::socket(SocketAddr::new(from, 0))?;
    socket.set_tcp_nodelay(true)?;
    send_without_pauses(&socket);
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => Err(error),
        _ => Ok(socket),
    }
}
