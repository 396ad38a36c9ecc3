//! What network drivers share: how rails of two processes are paired, and a table of peers.

use std::str::FromStr;
use std::time::Duration;

use base::GateId;

use crate::{Directory, Driver, DriverError, Sink};

/// A pair of rails: the index of a rail of this process, or of the process with the lower rank, and
/// that of a rail of the other process.
pub type RailPair = (usize, usize);

/// Reads the card of a peer from a directory.
///
/// # Errors
/// The card cannot be had, or is malformed.
pub fn read_card<C: FromStr<Err = String>>(
    directory: &mut dyn Directory,
    gate: GateId,
) -> Result<C, DriverError> {
    directory.card(gate)?.parse().map_err(|message| DriverError { message })
}

/// Reads a card: a version, what describes the process, and an entry for each of its rails,
/// separated by commas.
///
/// # Errors
/// The text is no card of that version.
pub fn parse_card<P, E>(
    text: &str,
    version: &str,
    process: impl Fn(&str) -> Option<P>,
    end: impl Fn(&str) -> Option<E>,
) -> Result<(P, Vec<E>), String> {
    let parse = || {
        let mut words = text.split(',');
        words.next().filter(|word| *word == version)?;
        Some((process(words.next()?)?, words.map(end).collect::<Option<_>>()?))
    };
    parse().ok_or_else(|| format!("\"{text}\" is no card of this version of Combray"))
}

/// Pairs the rails of two processes: each rail with the first rail of the other process that is
/// near it and still unpaired. No rail is used twice.
pub fn pair_rails<E>(lower: &[E], upper: &[E], are_near: impl Fn(&E, &E) -> bool) -> Vec<RailPair> {
    let mut taken = vec![false; upper.len()];
    let mut pairs = Vec::new();
    for (index, end) in lower.iter().enumerate() {
        let partner = (0..upper.len()).find(|&other| !taken[other] && are_near(end, &upper[other]));
        if let Some(other) = partner {
            taken[other] = true;
            pairs.push((index, other));
        }
    }
    pairs
}

/// Returns what `pairs` computes from the cards of two processes, the lower rank first, from this
/// process's point of view: its own rails first.
pub fn pairs_from<C>(
    own: (GateId, &C),
    peer: (GateId, &C),
    pairs: impl Fn(&C, &C) -> Vec<RailPair>,
) -> Vec<RailPair> {
    if own.0 < peer.0 {
        return pairs(own.1, peer.1);
    }
    pairs(peer.1, own.1).into_iter().map(|(theirs, ours)| (ours, theirs)).collect()
}

/// Whether `gate` is reached over another rail than this one, of any driver. If a silent rail is
/// the only one, it is kept for long, since the peer may be late or stopped, or the network down
/// for a while. If another rail works, the silent rail is the one that failed.
pub fn is_reached_otherwise(
    driver: &dyn Driver,
    gate: GateId,
    rail: usize,
    sink: &dyn Sink,
) -> bool {
    let mut others = (0..driver.rails().len()).filter(|other| *other != rail);
    others.any(|other| driver.reaches(gate, other)) || sink.is_reached_elsewhere(gate)
}

/// Returns how long to wait before a lost rail is tried again, after `failures` failed attempts.
pub fn restore_pause(failures: u32) -> Duration {
    let (first, last) = RESTORE_PAUSES;
    first.saturating_mul(1 << failures.min(16)).min(last)
}

const RESTORE_PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(8));

/// The state of peers, indexed by gate.
#[derive(Debug)]
pub struct PeerTable<P>(Vec<Option<Box<P>>>);

impl<P> PeerTable<P> {
    /// Returns the state of a peer, if there is any.
    #[inline]
    pub fn get(&self, gate: GateId) -> Option<&P> {
        self.0.get(gate.0 as usize)?.as_deref()
    }

    /// Returns the state of a peer for changes, if there is any.
    #[inline]
    pub fn get_mut(&mut self, gate: GateId) -> Option<&mut P> {
        self.0.get_mut(gate.0 as usize)?.as_deref_mut()
    }

    /// Stores the state of a peer.
    pub fn insert(&mut self, gate: GateId, peer: P) {
        let index = gate.0 as usize;
        if self.0.len() <= index {
            self.0.resize_with(index + 1, || None);
        }
        self.0[index] = Some(Box::new(peer));
    }

    /// Iterates over all peers that have a state.
    pub fn iter(&self) -> impl Iterator<Item = (GateId, &P)> {
        let all = (0..).map(GateId).zip(&self.0);
        all.filter_map(|(gate, peer)| Some((gate, peer.as_deref()?)))
    }

    /// Returns all links of all peers as peer and own rail; each peer's links are indexed by own
    /// rail.
    pub fn link_names<L>(&self, links: impl Fn(&P) -> &[Option<L>]) -> Vec<(GateId, usize)> {
        let of_peer = |(gate, peer)| {
            let links = links(peer).iter().enumerate();
            let rails = links.filter(|(_, link)| link.is_some()).map(|(rail, _)| rail);
            rails.map(move |rail| (gate, rail)).collect::<Vec<_>>()
        };
        self.iter().flat_map(of_peer).collect()
    }
}

impl<P> Default for PeerTable<P> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rails_are_used_with_one_other_each_whoever_asks() {
        let (one, other) = (vec![1, 2, 2, 7], vec![2, 1, 1]);
        let pairs = |lower: &Vec<u8>, upper: &Vec<u8>| pair_rails(lower, upper, |a, b| a == b);
        assert_eq!(pairs(&one, &other), [(0, 1), (1, 0)]);
        let (low, high) = (GateId(3), GateId(4));
        assert_eq!(pairs_from((low, &one), (high, &other), pairs), [(0, 1), (1, 0)]);
        assert_eq!(pairs_from((high, &one), (low, &other), pairs), [(1, 0), (0, 1)]);
        assert_eq!(pairs_from((high, &other), (low, &one), pairs), [(1, 0), (0, 1)]);
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let pauses = [0, 1, 2, 4, 40].map(|failures| restore_pause(failures).as_millis());
        assert_eq!(pauses, [500, 1000, 2000, 8000, 8000]);
    }

    #[test]
    fn a_table_knows_the_peers_that_it_was_told_of() {
        let mut table = PeerTable::default();
        assert!(table.get(GateId(0)).is_none() && table.get_mut(GateId(7)).is_none());
        table.insert(GateId(3), "three");
        table.insert(GateId(1), "one");
        *table.get_mut(GateId(3)).unwrap() = "3";
        assert_eq!(table.iter().collect::<Vec<_>>(), [(GateId(1), &"one"), (GateId(3), &"3")]);
        assert_eq!((table.get(GateId(2)), table.get(GateId(1))), (None, Some(&"one")));
    }

    #[test]
    fn links_are_named_by_peer_and_rail() {
        let mut table = PeerTable::default();
        table.insert(GateId(2), vec![None, Some(()), Some(())]);
        table.insert(GateId(0), vec![None]);
        table.insert(GateId(1), vec![Some(())]);
        let named = [(GateId(1), 0), (GateId(2), 1), (GateId(2), 2)];
        assert_eq!(table.link_names(|links| links), named);
    }

    #[test]
    fn a_card_that_cannot_be_read_is_told() {
        let mut directory = |gate: GateId| match gate.0 {
            0 => Ok("7".to_owned()),
            _ => Ok("seven".to_owned()),
        };
        #[derive(Debug, PartialEq)]
        struct Seven(u8);
        impl FromStr for Seven {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                text.parse().map(Self).map_err(|_| format!("{text} is no card"))
            }
        }
        assert_eq!(read_card(&mut directory, GateId(0)), Ok(Seven(7)));
        let wrong: Result<Seven, _> = read_card(&mut directory, GateId(1));
        assert_eq!(wrong.unwrap_err().message, "seven is no card");
    }
}
