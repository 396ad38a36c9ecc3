//! The state of each peer, and of its connections.

use std::collections::HashMap;
use std::time::Instant;

use base::GateId;
use driver::{DriverError, RailPair, pairs_from};

use crate::card::{AddressCard, links};

/// The index of a connection among the sockets.
pub(crate) type Slot = usize;

/// The state of an own rail to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RailConnection {
    /// No link uses the rail, or it was lost.
    Closed,
    /// Not connected yet, or the peer is about to connect.
    Open,
    /// This process is connecting.
    Begun(Slot),
    /// Connected.
    Stands(Slot),
    /// To be connected again: the peer has ended the handshake, as it has little room for
    /// unauthenticated connections, or the connection was lost.
    Again(Retry),
}

/// When a connection is attempted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retry {
    pub at: Instant,
    /// When it failed first, and how many times it has failed.
    pub since: Instant,
    pub failures: u32,
}

/// A peer whose card has been read.
#[derive(Debug)]
pub(crate) struct TcpPeer {
    pub card: AddressCard,
    /// The pairs of rails to connect (own rail, peer's rail), by the link's number.
    pub links: Vec<RailPair>,
    /// By own rail.
    pub ways: Vec<RailConnection>,
    /// By own rail: whether it was lost and must be connected again, however long that takes.
    pub restoring: Vec<bool>,
    /// Why rails failed, by own rail, for users.
    pub failures: Vec<(usize, String)>,
    /// Whether the peer had left when the last connection to it ended.
    pub departed: bool,
}

/// The peers whose cards have been read.
#[derive(Debug, Default)]
pub(crate) struct Peers(HashMap<u32, TcpPeer>);

impl Peers {
    pub(crate) fn get(&self, gate: GateId) -> Option<&TcpPeer> {
        self.0.get(&gate.0)
    }

    pub(crate) fn get_mut(&mut self, gate: GateId) -> Option<&mut TcpPeer> {
        self.0.get_mut(&gate.0)
    }

    /// Returns when the next link must be attempted again.
    pub(crate) fn first_retry(&self) -> Option<Instant> {
        let ways = self.0.values().flat_map(|peer| &peer.ways);
        let times = ways.filter_map(|way| match way {
            RailConnection::Again(retry) => Some(retry.at),
            _ => None,
        });
        times.min()
    }

    /// Returns which links, to which peers, must be attempted again by now.
    pub(crate) fn due(&self, now: Instant) -> Vec<(GateId, usize)> {
        let due = |way: &RailConnection| matches!(way, RailConnection::Again(it) if it.at <= now);
        let of_peer = |(&gate, peer): (&u32, &TcpPeer)| {
            let links = (0..peer.links.len()).filter(|&link| due(&peer.ways[peer.links[link].0]));
            links.map(move |link| (GateId(gate), link)).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of_peer).collect()
    }

    /// Adds a peer with its card.
    ///
    /// # Errors
    /// The card has no rail in common with the own one.
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
    /// Returns the own rails that lead to the peer, will do so, or did so until they were lost;
    /// both sides must get equal counts. None if the peer has finished.
    pub(crate) fn rails(&self) -> Vec<usize> {
        let is_link = |rail| self.links.iter().any(|link| link.0 == rail);
        let leads = |rail: &usize| match self.ways[*rail] {
            RailConnection::Closed => !self.departed && is_link(*rail),
            _ => true,
        };
        (0..self.ways.len()).filter(leads).collect()
    }

    /// Describes why rails failed.
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
