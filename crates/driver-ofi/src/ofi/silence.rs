//! Detects rails over which nothing arrives from a peer.
//!
//! Providers report when a peer has ended. If the peer's machine, or the network to it, has failed,
//! they may try to reach it for a quarter of an hour. So if the endpoints have IP addresses, the
//! peer's kernel is probed. It answers also for a process that computes, or is stopped. Silence
//! counts only if the kernel has answered before: some networks drop such probes.

use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use base::GateId;
use driver::{Liveness, PeerLife};

use super::{LostWith, Ofi};

/// What has arrived from a peer over a rail.
#[derive(Debug)]
pub(super) struct HeardPeer {
    /// Whether a message has arrived since the last check.
    pub is_heard: bool,
    /// For how long none has arrived, and its kernel has not answered, as far as this process has
    /// checked.
    silence: Duration,
    liveness: Liveness,
    /// Whether its kernel has ever answered.
    answers: bool,
}

/// When silence is counted.
#[derive(Debug)]
pub(super) struct SilenceClock {
    began: Instant,
    looked: Instant,
}

/// How many times silence is counted within its limit.
const LOOKS_PER_SILENCE: u32 = 20;

/// Between two checks, silence counts for no longer than this: the process may have been stopped,
/// or may have computed, and messages that arrived meanwhile may not be taken yet.
const COUNTED_BETWEEN_LOOKS: Duration = Duration::from_secs(2);

/// The part of the limit of silence after which the kernel is probed.
const UNASKED_PART: u32 = 4;

/// The numbers of address families, as libfabric and the kernel use them.
const IPV4: u16 = 2;
const IPV6: u16 = 10;

impl HeardPeer {
    /// Creates the state of a peer, given the addresses of the own endpoint and of the peer's.
    pub(super) fn new(own: &[u8], peer: &[u8]) -> Self {
        let addresses = ip_address(own).zip(ip_address(peer)).map(|(own, peer)| (own, peer, 0));
        let liveness = Liveness::new(addresses);
        Self { is_heard: false, silence: Duration::ZERO, liveness, answers: false }
    }

    /// Counts the time that has passed, and sends a probe if it is time to. Returns whether the
    /// peer's machine counts as failed.
    fn is_dead(&mut self, now: Duration, passed: Duration, limit: Duration) -> bool {
        self.silence = if mem::take(&mut self.is_heard) {
            Duration::ZERO
        } else {
            self.silence + passed.min(COUNTED_BETWEEN_LOOKS)
        };
        if self.answers && self.silence < limit / UNASKED_PART {
            self.liveness.rest();
            return false;
        }
        if self.liveness.look(now) == PeerLife::SystemAnswers {
            self.answers = true;
            self.silence = Duration::ZERO;
        }
        self.answers && self.silence >= limit
    }
}

impl SilenceClock {
    pub(super) fn new(now: Instant) -> Self {
        Self { began: now, looked: now }
    }
}

impl Ofi {
    /// Gives up links to peers whose machine has not answered for too long.
    pub(super) fn look_for_silence(&mut self, now: Instant) {
        let passed = now - self.clock.looked;
        if passed < self.silence / LOOKS_PER_SILENCE {
            return;
        }
        self.clock.looked = now;
        for (gate, rail) in self.links.names() {
            if let Some(why) = self.judge_silence(gate, rail, now, passed) {
                self.lose(gate, rail, &why, LostWith::Packets);
            }
        }
    }

    fn judge_silence(
        &mut self,
        gate: GateId,
        rail: usize,
        now: Instant,
        passed: Duration,
    ) -> Option<String> {
        let (elapsed, limit) = (now - self.clock.began, self.silence);
        let known = self.links.rail_mut(gate, rail)?;
        let link = known.link.as_ref()?;
        if !link.is_used || link.has_departed {
            return None;
        }
        let heard = known.state.heard.as_mut()?;
        let is_dead = heard.is_dead(elapsed, passed, limit);
        is_dead.then(|| {
            let seconds = mem::take(&mut heard.silence).as_secs();
            format!(
                "rank {}, and the system of its machine, have answered nothing for {seconds} s",
                gate.0
            )
        })
    }
}

/// Returns the IP address in libfabric's address of an endpoint, if there is one.
fn ip_address(bytes: &[u8]) -> Option<IpAddr> {
    match u16::from_ne_bytes(*bytes.first_chunk()?) {
        IPV4 => Some(Ipv4Addr::from(*bytes.get(4..)?.first_chunk::<4>()?).into()),
        IPV6 => Some(Ipv6Addr::from(*bytes.get(8..)?.first_chunk::<16>()?).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(address: [u8; 4]) -> Vec<u8> {
        [&IPV4.to_ne_bytes()[..], &[0x12, 0x34], &address, &[0; 8]].concat()
    }

    #[test]
    fn only_a_system_that_has_answered_before_is_taken_for_dead() {
        const LIMIT: Duration = Duration::from_secs(10);
        let own = endpoint([127, 0, 0, 1]);
        let mut heard = HeardPeer::new(&own, &own);
        let (start, mut now) = (Instant::now(), Duration::ZERO);
        let step = LIMIT / LOOKS_PER_SILENCE;
        while !heard.answers {
            assert!(!heard.is_dead(now, step, LIMIT));
            assert!(start.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(1));
            now += step;
        }
        // From here on, no kernel answers.
        heard.liveness = Liveness::new(None);
        let looks = (1..).find(|_| heard.is_dead(Duration::ZERO, step, LIMIT));
        assert_eq!(looks, Some(LOOKS_PER_SILENCE));
        heard.is_heard = true;
        assert!(!heard.is_dead(Duration::ZERO, step, LIMIT));
        // A pause of this process does not count as silence.
        assert!(!heard.is_dead(Duration::ZERO, 3 * LIMIT, LIMIT));
        let mut unheard = HeardPeer::new(&own, b"no address");
        assert!(!(0..100).any(|_| unheard.is_dead(Duration::ZERO, step, LIMIT)));
    }

    #[test]
    fn addresses_of_ip_are_known() {
        assert_eq!(ip_address(&endpoint([10, 0, 0, 7])), Some(IpAddr::from([10, 0, 0, 7])));
        let six = [&IPV6.to_ne_bytes()[..], &[0; 6], &[9; 16], &[0; 4]].concat();
        assert_eq!(ip_address(&six), Some(IpAddr::from([9; 16])));
        assert_eq!([&b""[..], b"x", &[2, 0, 1, 1, 1], &[77; 30]].map(ip_address), [None; 4]);
    }
}
