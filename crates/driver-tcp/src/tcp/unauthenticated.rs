//! Connections that have not proven yet that a process of the job is at the other end.
//!
//! They have a bounded share of the descriptors, and each address has a bounded share of that. When
//! the share is used up, the oldest connection is closed, unless its first message has arrived and
//! authenticates it. A process of the job to which that happens connects again, and sends that
//! message immediately.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::silence::ask_regularly;
use super::{Tcp, WatchedSocket};
use crate::attempt::{Attempt, AttemptSide};
use crate::handshake::Nonce;
use crate::pacing::send_without_pauses;
use crate::peers::Slot;
use crate::poller::SocketInterest;

/// The connections to this process that have not been opened by a process of the job.
pub(super) struct UnauthenticatedConnections {
    /// Oldest first.
    all: VecDeque<(Slot, IpAddr)>,
    limit: usize,
    /// The nonces of openings by processes of the job, oldest first: each may be used only once.
    openings: VecDeque<Nonce>,
    /// Until when no connections are accepted, as there are no descriptors.
    paused: Option<Instant>,
    /// How many times in a row there were no descriptors, and whether the user has been warned.
    pauses: u32,
    reported: bool,
}

/// The maximal number of such connections; fewer if the limit of descriptors is low.
const UNAUTHENTICATED_MAX: usize = 32;
/// One in this many descriptors may be used for them.
const DESCRIPTORS_PER_UNAUTHENTICATED: usize = 8;

/// A connection that has not been opened after this time is closed.
const UNAUTHENTICATED_TIME_MAX: Duration = Duration::from_secs(10);

/// The limit for a process of the job that has begun a handshake, which may compute before it
/// continues.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(3600);

/// How many openings are remembered.
const OPENINGS_KEPT: usize = 4096;

/// How many connections are accepted before the other sockets are polled.
const ACCEPTED_AT_ONCE: usize = 16;

/// How long no connections are accepted when there are no descriptors, and after how many such
/// pauses in a row the user is warned.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSES_UNREPORTED: u32 = 10;

impl UnauthenticatedConnections {
    pub(super) fn new() -> Self {
        let descriptors = sys::descriptor::limit().unwrap_or(1024);
        let limit = (descriptors / DESCRIPTORS_PER_UNAUTHENTICATED).clamp(2, UNAUTHENTICATED_MAX);
        Self {
            all: VecDeque::new(),
            limit,
            openings: VecDeque::new(),
            paused: None,
            pauses: 0,
            reported: false,
        }
    }

    /// Removes a connection that is closed or opened.
    pub(super) fn forget(&mut self, slot: Slot) {
        self.all.retain(|one| one.0 != slot);
    }

    fn has(&self, slot: Slot) -> bool {
        self.all.iter().any(|one| one.0 == slot)
    }

    /// Returns which connection must be closed when one arrives from `address`, if any.
    fn surplus(&self, address: IpAddr) -> Option<Slot> {
        let count = |of: IpAddr| self.all.iter().filter(|one| one.1 == of).count();
        let is_full = self.all.len() >= self.limit;
        let from = if count(address) >= self.limit.div_ceil(2) {
            address
        } else {
            // Of several addresses with equal counts, the oldest connection.
            let all = self.all.iter().rev().filter(|_| is_full);
            all.max_by_key(|one| count(one.1))?.1
        };
        self.all.iter().find(|one| one.1 == from).map(|one| one.0)
    }

    /// Whether no connection was opened with this nonce before.
    pub(super) fn is_new(&mut self, nonce: Nonce) -> bool {
        if self.openings.contains(&nonce) {
            return false;
        }
        if self.openings.len() == OPENINGS_KEPT {
            self.openings.pop_front();
        }
        self.openings.push_back(nonce);
        true
    }
}

impl Tcp {
    /// Accepts connections.
    pub(super) fn accept(&mut self, slot: Slot) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let Some(WatchedSocket::Listener(listener)) = &self.sockets[slot] else { return };
            match listener.accept() {
                Ok((stream, from)) => {
                    self.unauthenticated.pauses = 0;
                    self.add_unauthenticated(stream.into(), from.ip());
                }
                Err(error) if lacks_descriptors(&error) => {
                    if !self.close_oldest_unauthenticated() {
                        return self.pause(&error);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // It was closed again.
                Err(_) => {}
            }
        }
    }

    fn add_unauthenticated(&mut self, socket: socket2::Socket, from: IpAddr) {
        let prepared = socket.set_nonblocking(true).and_then(|()| socket.set_tcp_nodelay(true));
        send_without_pauses(&socket);
        let prepared = prepared.and_then(|()| ask_regularly(&socket, self.links.silence.limit));
        while let Some(surplus) = self.unauthenticated.surplus(from) {
            self.close_unless_opened(surplus);
        }
        let deadline = Instant::now() + UNAUTHENTICATED_TIME_MAX;
        let attempt =
            prepared.and_then(|()| Attempt::new(socket.into(), AttemptSide::There, deadline));
        let Ok(attempt) = attempt else { return };
        // A process of the job that gets no room tries again, or reports it.
        let Ok(slot) = self.insert(WatchedSocket::Attempt(Box::new(attempt)), SocketInterest::Read)
        else {
            return;
        };
        self.unauthenticated.all.push_back((slot, from));
        // Mostly the opening has already arrived.
        self.go_on(slot);
    }

    /// Closes the oldest connection without an opening, for its descriptor. Returns whether there
    /// was one.
    pub(super) fn close_oldest_unauthenticated(&mut self) -> bool {
        while let Some(&(slot, _)) = self.unauthenticated.all.front() {
            if self.close_unless_opened(slot) {
                return true;
            }
        }
        false
    }

    /// Closes a connection, unless its opening has arrived meanwhile. Returns whether it is closed.
    fn close_unless_opened(&mut self, slot: Slot) -> bool {
        self.go_on(slot);
        if self.unauthenticated.has(slot) {
            self.remove(slot);
        }
        self.sockets[slot].is_none()
    }

    /// Records that a connection was opened with a valid proof.
    pub(super) fn opened(&mut self, slot: Slot, nonce: Nonce) {
        self.unauthenticated.forget(slot);
        self.unsettled += 1;
        if !self.unauthenticated.is_new(nonce) {
            // The opening was recorded, and is replayed.
            return drop(self.remove(slot));
        }
        if let Some(WatchedSocket::Attempt(attempt)) = &mut self.sockets[slot] {
            attempt.deadline = Instant::now() + HANDSHAKE_TIME_MAX;
        }
        self.go_on(slot);
    }

    /// Stops accepting connections for a while: there are no descriptors.
    #[cold]
    fn pause(&mut self, error: &io::Error) {
        self.unauthenticated.paused = Some(Instant::now() + PAUSE);
        self.unauthenticated.pauses += 1;
        self.watch_listeners(SocketInterest::Failures);
        if self.unauthenticated.pauses > PAUSES_UNREPORTED && !self.unauthenticated.reported {
            self.unauthenticated.reported = true;
            self.troubles.push(format!(
                "no more processes can connect to this process, because no file descriptors are \
                 left: {}",
                describe_limit(error)
            ));
        }
    }

    /// Accepts connections again after a pause.
    pub(super) fn end_pause(&mut self, now: Instant) {
        if self.unauthenticated.paused.is_some_and(|until| until <= now) {
            self.unauthenticated.paused = None;
            self.watch_listeners(SocketInterest::Read);
        }
    }

    fn watch_listeners(&self, wanted: SocketInterest) {
        for (slot, socket) in self.sockets.iter().enumerate() {
            if let Some(WatchedSocket::Listener(listener)) = socket {
                let _ = self.poller.watch(listener, slot as u64, wanted);
            }
        }
    }
}

/// Whether a call failed because there are too many descriptors, or no memory for one more.
pub(super) fn lacks_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let lacking = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    lacking.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Names the limit that was reached.
pub(super) fn describe_limit(error: &io::Error) -> String {
    if error.raw_os_error() != Some(rustix::io::Errno::MFILE.raw_os_error()) {
        return format!("{error}, on this machine (sysctl fs.file-max)");
    }
    let limit =
        sys::descriptor::limit().map_or(String::new(), |limit| format!(" {limit} descriptors"));
    format!("the limit for a process is{limit} here; `ulimit -n` raises it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn table(limit: usize) -> UnauthenticatedConnections {
        UnauthenticatedConnections { limit, ..UnauthenticatedConnections::new() }
    }

    /// Does what [`Tcp::add_unauthenticated`] does.
    fn come(table: &mut UnauthenticatedConnections, slot: Slot, from: IpAddr) {
        while let Some(surplus) = table.surplus(from) {
            table.forget(surplus);
        }
        table.all.push_back((slot, from));
    }

    #[test]
    fn one_address_replaces_its_own_connections() {
        let mut table = table(8);
        come(&mut table, 0, address(1));
        (1..1000).for_each(|slot| come(&mut table, slot, address(2)));
        assert_eq!(table.all.len(), 5);
        assert_eq!(table.all[0], (0, address(1)), "the oldest, from elsewhere, is kept");
        assert_eq!(table.all.back(), Some(&(999, address(2))), "the youngest is kept");
    }

    #[test]
    fn many_addresses_find_no_more_room_than_one() {
        let mut table = table(8);
        for slot in 0..1000 {
            come(&mut table, slot, address((slot % 250) as u8));
            assert!(table.all.len() <= 8);
        }
        assert_eq!(table.all.front().map(|one| one.0), Some(992));
    }

    #[test]
    fn an_opening_is_taken_once() {
        let mut table = table(8);
        assert!(table.is_new([1; 16]));
        assert!(!table.is_new([1; 16]));
        for number in 0..2 * OPENINGS_KEPT as u64 {
            let mut nonce = [0; 16];
            nonce[..8].copy_from_slice(&number.to_le_bytes());
            assert!(table.is_new(nonce));
        }
        assert_eq!(table.openings.len(), OPENINGS_KEPT);
    }
}
