//! Whether the machine of a silent peer lives: its system refuses datagrams that nobody wants.
//!
//! A process that computes, or is stopped, answers no frames, and is no reason to give up a rail.
//! Its system answers all the same, where the interfaces have IP addresses.

use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};

use crate::timing::{MILLISECOND, Time};

/// Systems tell not much more often that nobody is there.
const ASK_PERIOD: Time = 1000 * MILLISECOND;

/// Nobody listens there: the port of the discard protocol.
const PORT: u16 = 9;

/// Asks the system of one peer over one pair of interfaces.
#[derive(Debug)]
pub(crate) struct Liveness {
    addresses: Option<(IpAddr, IpAddr)>,
    socket: Option<UdpSocket>,
    asked_at: Time,
}

impl Liveness {
    pub(crate) fn new(addresses: Option<(IpAddr, IpAddr)>) -> Self {
        Self { addresses, socket: None, asked_at: 0 }
    }

    /// Asks now and then; returns whether the system has answered since it was called last.
    pub(crate) fn look(&mut self, now: Time) -> bool {
        if self.socket.is_none() {
            self.socket = self.addresses.and_then(|(own, peer)| {
                let socket = UdpSocket::bind((own, 0)).ok()?;
                socket.set_nonblocking(true).ok()?;
                socket.connect((peer, PORT)).ok()?;
                Some(socket)
            });
        }
        let Some(socket) = &self.socket else { return false };
        let is_refusal = |error: std::io::Error| error.kind() == ErrorKind::ConnectionRefused;
        let mut answered = match socket.recv(&mut [0; 8]) {
            Ok(_) => true,
            Err(error) => is_refusal(error),
        };
        if now >= self.asked_at + ASK_PERIOD {
            self.asked_at = now;
            answered |= socket.send(&[0]).is_err_and(is_refusal);
        }
        answered
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_system_answers_for_its_machine() {
        let own = IpAddr::from([127, 0, 0, 1]);
        // Also where each look asks again.
        for step in [MILLISECOND, ASK_PERIOD] {
            let mut liveness = Liveness::new(Some((own, own)));
            let (start, mut now) = (Instant::now(), ASK_PERIOD);
            while !liveness.look(now) {
                assert!(start.elapsed() < Duration::from_secs(10));
                thread::sleep(Duration::from_millis(1));
                now += step;
            }
        }
        assert!(!Liveness::new(None).look(0));
    }
}
