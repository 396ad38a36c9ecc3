//! Detects machines from which nothing arrives.
//!
//! Kernels answer for their machines: where no data is in flight, each side's kernel probes the
//! other's from time to time (keepalive), also while the process computes, or is stopped, or does
//! not read. So a living machine is noticed several times within the limit, however slow the
//! network is. A limit on how long data may stay unacknowledged (TCP_USER_TIMEOUT) is not needed;
//! it would end connections to processes that do not read.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use base::GateId;
use driver::Sink;
use links::is_reached_otherwise;
use socket2::{Socket, TcpKeepalive};

use super::{Tcp, WatchedSocket};
use crate::peers::Slot;

/// How many times within the limit a kernel probes the peer's.
const ASKED_WITHIN_LIMIT: u32 = 5;
/// The kernel gives up after this many limits: later than this process, if it polls.
const LIMITS_OF_SYSTEM: u32 = 2;

/// A rail is lost when its peer's machine has acknowledged nothing for this long, in spite of
/// repeated probes, and the peer is reached over another rail, of any driver.
const SILENCE_OF_RAIL_MAX: Duration = Duration::from_secs(2);
const UNANSWERED_MAX: u8 = 3;

/// Lets the kernel probe the peer's when nothing has arrived for a part of the limit of silence.
pub(super) fn ask_regularly(socket: &Socket, limit: Duration) -> io::Result<()> {
    let period = (limit / ASKED_WITHIN_LIMIT).max(Duration::from_secs(1));
    let retries = (limit * LIMITS_OF_SYSTEM).div_duration_f64(period).ceil() as u32;
    let keepalive = TcpKeepalive::new().with_time(period).with_interval(period);
    socket.set_tcp_keepalive(&keepalive.with_retries(retries))
}

impl Tcp {
    /// Gives up attempts that have waited too long, and connections that have fallen silent.
    pub(super) fn check_silence(&mut self, now: Instant, sink: &dyn Sink) {
        self.end_pause(now);
        let passed = self.links.silence.passed(now);
        for slot in 0..self.sockets.len() {
            match &self.sockets[slot] {
                Some(WatchedSocket::Attempt(attempt)) if attempt.is_late(now) => {
                    self.end_late(slot, now);
                }
                Some(WatchedSocket::Connection(_)) => {
                    self.check_connection(slot, passed, sink);
                }
                _ => {}
            }
        }
    }

    /// Gives up an attempt that has waited too long, unless the other side has answered: this
    /// process may have been stopped, and one poll reports only some of the sockets that are ready.
    #[cold]
    fn end_late(&mut self, slot: Slot, now: Instant) {
        self.go_on(slot);
        if matches!(&self.sockets[slot], Some(WatchedSocket::Attempt(one)) if one.is_late(now)) {
            self.fail(slot, io::ErrorKind::TimedOut.into());
        }
    }

    fn check_connection(&mut self, slot: usize, passed: Option<Duration>, sink: &dyn Sink) {
        let Some(WatchedSocket::Connection(connection)) = &self.sockets[slot] else { return };
        let (gate, rail) = (connection.gate, connection.rail);
        let others = is_reached_otherwise(self, gate, rail, sink);
        // The last rails to their peers are checked less often.
        if !others && passed.is_none() {
            return;
        }
        let Some(WatchedSocket::Connection(connection)) = &mut self.sockets[slot] else { return };
        let Ok(health) = sys::socket::health(connection.stream.as_fd()) else { return };
        let silence = match passed {
            Some(passed) => connection.quiet.check(health.segments, passed),
            None => connection.quiet.lasted,
        };
        let is_rail_silent =
            health.unanswered >= UNANSWERED_MAX && health.silence >= SILENCE_OF_RAIL_MAX;
        if silence >= self.links.silence.limit || others && is_rail_silent {
            let silence = silence.max(health.silence);
            let why = self.describe_silence(gate, rail, Some(silence));
            self.break_off(slot, &io::Error::other(why));
        }
    }

    /// Describes to users that nothing arrives from the machine of a peer.
    #[cold]
    pub(super) fn describe_silence(
        &self,
        gate: GateId,
        rail: usize,
        silence: Option<Duration>,
    ) -> String {
        let whose = self.links.peer(gate).map(|peer| {
            let pair = peer.pair_of(rail);
            let address = pair.and_then(|pair| peer.card.ends.get(pair.1));
            let address = address.map_or(String::new(), |end| end.address.ip().to_string());
            match peer.card.host.as_str() {
                "" => address,
                host => format!("{host} ({address})"),
            }
        });
        let whose = whose.unwrap_or_default();
        let long =
            silence.map_or(String::new(), |silence| format!(" for {:.0} s", silence.as_secs_f64()));
        format!(
            "nothing was received from {whose}{long}: the machine, or the network to it, has failed"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use driver::conformance::{RecordingSink, SharedCards};
    use driver::{Driver, NetworkSelection};

    use super::*;
    use crate::tcp::Options;

    fn create(own: u32, cards: &Arc<Mutex<Vec<String>>>) -> Tcp {
        let options = Options {
            selection: NetworkSelection::parse("lo").unwrap(),
            records: 1,
            silence: Duration::from_secs(10),
        };
        let directory = SharedCards(Arc::clone(cards), [1; 32]);
        Tcp::create(GateId(own), options, Box::new(directory)).unwrap()
    }

    /// As after a stop of the process for longer than the limit of attempts: the kernel has
    /// established all connections meanwhile, many more than one poll reports.
    #[test]
    fn attempts_whose_machines_have_answered_while_the_process_was_stopped_are_kept() {
        const PEERS: u32 = 200;
        let cards = Arc::default();
        let (mut one, other) = (create(0, &cards), create(1, &cards));
        *cards.lock().unwrap() = vec![other.card(); 1 + PEERS as usize];
        for peer in 1..=PEERS {
            one.connect(GateId(peer)).unwrap();
        }
        let now = Instant::now();
        for socket in one.sockets.iter_mut().flatten() {
            if let WatchedSocket::Attempt(attempt) = socket {
                attempt.deadline = now - Duration::from_secs(1);
            }
        }
        one.check_due = now;
        let mut sink = RecordingSink::default();
        one.poll(&mut sink);
        one.poll(&mut sink);
        assert_eq!(sink.lost, []);
    }
}
