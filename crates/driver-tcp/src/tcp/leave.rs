//! Leaving the peers at the end.

use std::thread;
use std::time::{Duration, Instant};

use driver::{Driver, Sink};

use super::{Tcp, WatchedSocket};
use crate::connection::TcpConnection;
use crate::frame::{self, FrameKind};
use crate::peers::Slot;

/// How often a process that has left checks whether the other machines have received what it sent.
const DELIVERY_PERIOD: Duration = Duration::from_millis(1);

impl Tcp {
    /// Leaves all peers: they learn that no more data will arrive, and that the end of this process
    /// is no failure. Posting later cancels that. Waits until they have left too, or for `limit`.
    /// Peers that have not left must have received what was sent, however late they poll: what the
    /// kernel still holds is lost when they answer a process that has ended. Attempts that are in
    /// progress are not needed any more; but if the other side has a connection already, it must
    /// receive the goodbye, too.
    pub(super) fn close(&mut self, sink: &mut dyn Sink, limit: Duration) {
        let deadline = Instant::now() + limit;
        while !self.is_flushed() && Instant::now() < deadline {
            self.poll(sink);
        }
        self.is_leaving = true;
        self.connections().for_each(|(_, connection)| connection.has_taken_leave = false);
        self.say_goodbye();
        while !(self.all(|connection| connection.departed) && self.has_all_replies())
            && Instant::now() < deadline
        {
            if !self.poll(sink) {
                thread::yield_now();
            }
            self.say_goodbye();
        }
        while !self.all(|connection| connection.departed || connection.has_delivered()) {
            self.poll(sink);
            self.say_goodbye();
            thread::sleep(DELIVERY_PERIOD);
        }
        self.is_leaving = false;
    }

    /// Whether no peer still has to decide about an attempt of this process.
    fn has_all_replies(&self) -> bool {
        self.sockets.iter().flatten().all(|socket| match socket {
            WatchedSocket::Attempt(attempt) => !attempt.awaits_reply(),
            _ => true,
        })
    }

    /// Says goodbye on all connections, also on those that peers have established since.
    fn say_goodbye(&mut self) {
        let goodbye = frame::head(FrameKind::Goodbye, 0);
        let mut posted = Vec::new();
        for (slot, connection) in self.connections().filter(|(_, one)| !one.has_taken_leave) {
            connection.has_taken_leave = true;
            // A peer that has ended does not need it.
            let _ = connection.post(&goodbye);
            posted.push(slot);
        }
        self.posted.append(&mut posted);
    }

    fn connections(&mut self) -> impl Iterator<Item = (Slot, &mut TcpConnection)> {
        self.sockets.iter_mut().enumerate().filter_map(|(slot, socket)| match socket {
            Some(WatchedSocket::Connection(connection)) => Some((slot, &mut **connection)),
            _ => None,
        })
    }

    fn all(&self, is_so: impl Fn(&TcpConnection) -> bool) -> bool {
        self.sockets.iter().flatten().all(|socket| match socket {
            WatchedSocket::Connection(connection) => is_so(connection),
            _ => true,
        })
    }
}
