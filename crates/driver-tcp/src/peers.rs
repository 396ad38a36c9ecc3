//! What is known of each peer, and of its connections.

use std::collections::HashMap;
use std::time::Instant;

use base::GateId;
use driver::{DriverError, RailPair, pairs_from};

use crate::card::{AddressCard, links};

/// A connection's place among the sockets.
pub(crate) type Slot = usize;

/// How an own rail to a peer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RailConnection {
    /// No link uses it, or it was lost.
    Closed,
    /// Nobody has begun yet, or the peer is about to.
    Open,
    /// This process has begun.
    Begun(Slot),
    /// It stands.
    Stands(Slot),
    /// The peer has ended the handshake, as it has little room for those who have not proved who
    /// they are, or the connection was lost; it is begun again.
    Again(Retry),
}

/// When a connection is begun again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retry {
    pub at: Instant,
    /// When it failed first, and how often it has failed.
    pub since: Instant,
    pub failures: u32,
}

/// A peer of which something is known.
#[derive(Debug)]
pub(crate) struct TcpPeer {
    pub card: AddressCard,
    /// The pairs of rails to connect: own rail, peer's rail; by the link's number.
    pub links: Vec<RailPair>,
    /// By own rail.
    pub ways: Vec<RailConnection>,
    /// By own rail, whether it was lost and is to be connected again, for as long as it takes.
    pub restoring: Vec<bool>,
    /// What became of rails that do not work, by own rail, for people.
    pub failures: Vec<(usize, String)>,
    /// Whether it had taken leave when a connection to it ended last.
    pub departed: bool,
}

/// The peers of which something is known.
#[derive(Debug, Default)]
pub(crate) struct Peers(HashMap<u32, TcpPeer>);

impl Peers {
    pub(crate) fn get(&self, gate: GateId) -> Option<&TcpPeer> {
        self.0.get(&gate.0)
    }

    pub(crate) fn get_mut(&mut self, gate: GateId) -> Option<&mut TcpPeer> {
        self.0.get_mut(&gate.0)
    }

    /// When a link is to be begun again at the earliest.
    pub(crate) fn first_retry(&self) -> Option<Instant> {
        let ways = self.0.values().flat_map(|peer| &peer.ways);
        let times = ways.filter_map(|way| match way {
            RailConnection::Again(retry) => Some(retry.at),
            _ => None,
        });
        times.min()
    }

    /// Which links, to which peers, are to be begun again by now.
    pub(crate) fn due(&self, now: Instant) -> Vec<(GateId, usize)> {
        let due = |way: &RailConnection| matches!(way, RailConnection::Again(it) if it.at <= now);
        let of_peer = |(&gate, peer): (&u32, &TcpPeer)| {
            let links = (0..peer.links.len()).filter(|&link| due(&peer.ways[peer.links[link].0]));
            links.map(move |link| (GateId(gate), link)).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of_peer).collect()
    }

    /// Takes in the card of a peer.
    ///
    /// # Errors
    /// It has nothing in common with the own one.
    pub(crate) fn meet(
        &mut self,
        own: (GateId, &AddressCard),
        gate: GateId,
        card: AddressCard,
    ) -> Result<&mut TcpPeer, DriverError> {
        let links = pairs_from(own, (gate, &card), links);
        if links.is_empty() {
            return Err(no_way(own.1, &card));
        }
        let mut ways = vec![RailConnection::Closed; own.1.ends.len()];
        links.iter().for_each(|link| ways[link.0] = RailConnection::Open);
        let restoring = vec![false; ways.len()];
        let failures = Vec::new();
        let peer = TcpPeer { card, links, ways, restoring, failures, departed: false };
        Ok(self.0.entry(gate.0).or_insert(peer))
    }
}

impl TcpPeer {
    /// The own rails that lead there, will, or did until they were lost, which both sides must
    /// count alike; not those of a peer that has finished.
    pub(crate) fn rails(&self) -> Vec<usize> {
        let is_link = |rail| self.links.iter().any(|link| link.0 == rail);
        let leads = |rail: &usize| match self.ways[*rail] {
            RailConnection::Closed => !self.departed && is_link(*rail),
            _ => true,
        };
        (0..self.ways.len()).filter(leads).collect()
    }

    /// What became of the rails that do not work.
    pub(crate) fn describe_failures(&self) -> String {
        let all: Vec<&str> = self.failures.iter().map(|(_, why)| why.as_str()).collect();
        all.join("; ")
    }
}

fn no_way(own: &AddressCard, other: &AddressCard) -> DriverError {
    let list = |card: &AddressCard| match &card.ends[..] {
        [] => "no network interface".to_owned(),
        ends => ends.iter().map(|end| end.address.ip().to_string()).collect::<Vec<_>>().join(", "),
    };
    DriverError {
        message: format!(
            "there is no way to it: this process can use {}, that one {}. \
             COMBRAY_NET names the interfaces or networks to use",
            list(own),
            list(other)
        ),
    }
}
