//! Detects rails over which nothing arrives from a peer.
//!
//! Providers report when a peer has ended. If the peer's machine, or the network to it, has failed,
//! they may try to reach it for a quarter of an hour. So if the endpoints have IP addresses, the
//! peer's kernel is probed. It answers also for a process that computes, or is stopped. Silence
//! counts only if the kernel has answered before: some networks drop such probes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use driver::Liveness;
use links::{Ends, KeepAlive, LinkCheck, LinkName, RailPair};

use super::{LostWith, Ofi};
use crate::card::OfiCard;
use crate::link::OfiLink;
use crate::message::MessageKind;

/// The numbers of address families, as libfabric and the kernel use them.
const IPV4: u16 = 2;
const IPV6: u16 = 10;

impl Ofi {
    /// Pings peers, and gives up links over which nothing, or not everything, arrives.
    pub(super) fn check_links(&mut self, now: Instant) {
        for ((gate, rail), check) in self.links.check_links(self.arrivals, now) {
            match check {
                LinkCheck::Lost(why) => self.lose(gate, rail, &why, LostWith::Packets),
                LinkCheck::Ping | LinkCheck::Silent => self.ping((gate, rail)),
            }
        }
    }

    /// Pings a peer: the provider reports if the peer does not exist any more, and the peer notices
    /// if a message before the ping is missing.
    fn ping(&mut self, (gate, rail): LinkName) {
        let may_ping = self.links.get(gate, rail).is_some_and(OfiLink::may_ping);
        if may_ping && self.ports[rail].endpoint.has_free_slot() {
            self.transmit((gate, rail), MessageKind::Ping, 0, &mut |_| {});
        }
    }
}

/// Returns the state of a link over a pair of rails, on which nothing has arrived.
pub(super) fn keep_alive(ends: &Ends<'_, OfiCard>, (rail, other): RailPair) -> KeepAlive {
    let own = ip_address(&ends.own.1.ends[rail].address);
    let peer = ip_address(&ends.peer.1.ends[other].address);
    KeepAlive::of_probed(Liveness::new(own.zip(peer).map(|(own, peer)| (own, peer, 0))))
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
    fn addresses_of_ip_are_known() {
        assert_eq!(ip_address(&endpoint([10, 0, 0, 7])), Some(IpAddr::from([10, 0, 0, 7])));
        let six = [&IPV6.to_ne_bytes()[..], &[0; 6], &[9; 16], &[0; 4]].concat();
        assert_eq!(ip_address(&six), Some(IpAddr::from([9; 16])));
        assert_eq!([&b""[..], b"x", &[2, 0, 1, 1, 1], &[77; 30]].map(ip_address), [None; 4]);
    }
}
