//! The state of rails to peers.

use std::time::Instant;

use links::{Network, RailPair};

use crate::card::{AddressCard, links};

/// The index of a connection among the sockets.
pub(crate) type Slot = usize;

/// The state of an own rail to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RailConnection {
    /// Not connected yet, or the peer is about to connect.
    Open,
    /// This process is connecting.
    Begun(Slot),
    /// Connected.
    Stands(Slot),
    /// To be connected again: the peer has ended the handshake, as it has little room for
    /// unauthenticated connections.
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

/// Networks of IP.
pub(crate) struct IpNetworks;

impl Network for IpNetworks {
    type Card = AddressCard;
    type Link = RailConnection;
    type Rail = ();

    fn pairs(lower: &AddressCard, upper: &AddressCard) -> Vec<RailPair> {
        links(lower, upper)
    }

    const NO_PAIR: &str = "no network connects both processes";

    fn interface_names(card: &AddressCard) -> Vec<String> {
        card.ends.iter().map(|end| end.address.ip().to_string()).collect()
    }

    /// The driver notes it when a connection ends.
    fn has_departed(_: &RailConnection) -> bool {
        false
    }
}
