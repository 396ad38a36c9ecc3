//! The connections of the launchers of spawned jobs to the supervisor or agent of their machine.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixListener;

use sys::process::{self, Interest};

use super::address;
use super::line_socket::LineSocket;
use crate::protocol::AgentReport;

/// The connections.
#[derive(Debug, Default)]
pub(crate) struct SpawnedLinks {
    listener: Option<UnixListener>,
    open: Vec<SpawnedLink>,
    /// The number of the next connection.
    next: u32,
}

#[derive(Debug)]
struct SpawnedLink {
    number: u32,
    socket: LineSocket,
}

/// The maximal number of connections. Further ones wait until some have ended.
const LINKS_MAX: usize = 1024;

impl SpawnedLinks {
    /// Listens. If the system does not allow it, spawned jobs end with the job that spawned them.
    pub(crate) fn listen() -> Self {
        let open = || -> io::Result<UnixListener> {
            let listener = UnixListener::bind_addr(&address(process::user(), std::process::id())?)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        Self { listener: open().ok(), ..Self::default() }
    }

    /// Appends the descriptors to watch.
    pub(crate) fn watched(&self, list: &mut Vec<(RawFd, Interest)>) {
        let has_room = self.open.len() < LINKS_MAX;
        let listener = self.listener.as_ref().filter(|_| has_room);
        list.extend(listener.map(|listener| (listener.as_raw_fd(), Interest::Read)));
        list.extend(self.open.iter().map(|link| link.socket.watched()));
    }

    /// Serves the connections that are ready, in the order of [`watched`](Self::watched).
    pub(crate) fn serve(&mut self, ready: &[bool], reports: &mut Vec<AgentReport>) {
        let (listening, links) = ready.split_at(ready.len().saturating_sub(self.open.len()));
        let mut ready = links.iter();
        self.open.retain_mut(|link| ready.next() != Some(&true) || link.serve(reports));
        if listening == [true] {
            self.accept();
        }
    }

    /// Sends a message to the launcher at the other end of a connection.
    pub(crate) fn send(&mut self, link: u32, message: &[u8]) {
        if let Some(link) = self.open.iter_mut().find(|one| one.number == link) {
            // The end of the connection is noticed when it is read.
            let _ = link.socket.send(message);
        }
    }

    /// Accepts a connection from a process of the user.
    fn accept(&mut self) {
        let Some(Ok((stream, _))) = self.listener.as_ref().map(UnixListener::accept) else {
            return;
        };
        let user = sys::socket::peer_user(stream.as_fd());
        if user.is_ok_and(|user| user == process::user()) && stream.set_nonblocking(true).is_ok() {
            self.open.push(SpawnedLink { number: self.next, socket: LineSocket::new(stream) });
            self.next = self.next.wrapping_add(1);
        }
    }
}

impl SpawnedLink {
    /// Returns false when the connection has ended.
    fn serve(&mut self, reports: &mut Vec<AgentReport>) -> bool {
        let mut lines = Vec::new();
        let outcome = self.socket.serve(&mut lines);
        let number = self.number;
        reports.extend(lines.into_iter().map(|line| AgentReport::FromSpawned(number, line)));
        if outcome.is_err() {
            reports.push(AgentReport::SpawnedClosed(number));
        }
        outcome.is_ok()
    }
}
