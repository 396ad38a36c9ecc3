//! Taking leave of the peers.

use std::thread;
use std::time::{Duration, Instant};

use driver::{Driver, Sink};

use super::{Tcp, WatchedSocket};
use crate::connection::TcpConnection;
use crate::frame::{self, FrameKind};
use crate::peers::Slot;

/// How often a process that has taken leave looks whether the others' machines have what it sent.
const DELIVERY_PERIOD: Duration = Duration::from_millis(1);

impl Tcp {
    /// Takes leave of all peers: they learn that nothing more will come, and that it is no fault if
    /// the process ends; what is posted later takes that back. Waits until they have taken leave
    /// too, or for `limit`. Those who have not must have what was sent, however late they look, as
    /// what the system still holds is lost when they answer a process that has ended. Connections
    /// that are on their way are not needed any more; but where the other side has one already, it
    /// must hear the same.
    pub(super) fn close(&mut self, sink: &mut dyn Sink, limit: Duration) {
        let deadline = Instant::now() + limit;
        while !self.is_flushed() && Instant::now() < deadline {
            self.poll(sink);
        }
        self.is_leaving = true;
        self.connections().for_each(|(_, connection)| connection.has_taken_leave = false);
        self.say_goodbye();
        while !(self.all(|connection| connection.departed) && self.has_all_verdicts())
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

    /// Whether no peer is to say whether it takes part in a connection.
    fn has_all_verdicts(&self) -> bool {
        self.sockets.iter().flatten().all(|socket| match socket {
            WatchedSocket::Attempt(attempt) => !attempt.awaits_verdict(),
            _ => true,
        })
    }

    /// Takes leave on all connections, also on those that peers have begun since.
    fn say_goodbye(&mut self) {
        let goodbye = frame::head(FrameKind::Goodbye, 0);
        let mut posted = Vec::new();
        for (slot, connection) in self.connections().filter(|(_, one)| !one.has_taken_leave) {
            connection.has_taken_leave = true;
            // Whoever has gone does not need to hear it.
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
