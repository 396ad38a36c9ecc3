//! The connections of the launchers of spawned jobs to the supervisor or agent of their machine.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixListener;

use sys::process::{self, Interest};

use super::address;
use super::line_socket::LineSocket;
use crate::is_no_end;
use crate::local_processes::make_room;
use crate::protocol::AgentReport;

/// The connections.
#[derive(Debug, Default)]
pub(crate) struct SpawnedLinks {
    listener: Option<UnixListener>,
    open: Vec<SpawnedLink>,
    /// The number of the next connection.
    next: u32,
    /// For how many connections this process has made room.
    room: usize,
    /// How many connections there were when the system allowed no further one.
    refused_at: Option<usize>,
}

#[derive(Debug)]
struct SpawnedLink {
    number: u32,
    socket: LineSocket,
}

/// The maximal number of connections. Further ones wait until some have ended.
const LINKS_MAX: usize = 1024;

/// For how many connections room is made at once.
const ROOM: usize = 16;

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
        let has_room = self.open.len() < self.refused_at.unwrap_or(LINKS_MAX);
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
        if self.open.len() >= self.room {
            self.room += ROOM;
            // If the limit cannot be raised, accepting shows it.
            let _ = make_room(ROOM as u32);
        }
        let stream = match self.listener.as_ref().map(UnixListener::accept) {
            Some(Ok((stream, _))) => stream,
            // Otherwise it would be tried again at once.
            Some(Err(error)) if !is_no_end(&error) => {
                self.refused_at = Some(self.open.len().max(1));
                return;
            }
            _ => return,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawned::{AddressedOrder, LauncherAbove, SpawnedNotice, SpawnedOrder, encoded};

    /// Serves all that is ready until nothing is.
    fn serve(links: &mut SpawnedLinks) -> Vec<AgentReport> {
        let mut reports = Vec::new();
        loop {
            let mut watched = Vec::new();
            links.watched(&mut watched);
            let ready = process::poll(&watched, Some(std::time::Duration::ZERO)).unwrap();
            if !ready.contains(&true) {
                return reports;
            }
            links.serve(&ready, &mut reports);
        }
    }

    #[test]
    fn launchers_connect_speak_and_end() {
        let mut links = SpawnedLinks::listen();
        let own = std::process::id();
        let mut above: Vec<LauncherAbove> =
            (0..2 * ROOM).map(|_| LauncherAbove::connect(own).unwrap()).collect();
        assert!(serve(&mut links).is_empty());
        assert_eq!(links.open.len(), above.len());
        above[3].report(SpawnedNotice::Hosts);
        let [AgentReport::FromSpawned(3, message)] = &serve(&mut links)[..] else { panic!() };
        assert!(String::from_utf8_lossy(message).contains(&above[3].job));
        let order = AddressedOrder { job: above[3].job.clone(), order: SpawnedOrder::Taken };
        links.send(3, &encoded(&order));
        links.send(99, &encoded(&order));
        assert_eq!(above[3].read(), (vec![order], true));
        above.remove(3);
        assert_eq!(serve(&mut links), [AgentReport::SpawnedClosed(3)]);
        drop(links);
        assert!(!above[0].read().1, "the supervisor has ended");
    }
}
