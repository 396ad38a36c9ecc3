//! How rails of two processes are paired, from the cards of both.

use base::GateId;
use driver::{Driver, Sink};

/// A pair of rails: the index of a rail of this process, or of the process that comes first, and
/// that of a rail of the other process.
pub type RailPair = (usize, usize);

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
    parse().ok_or_else(|| {
        format!("\"{text}\" is not the contact information of a process of this version of Combray")
    })
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
pub(crate) fn pairs_from<C>(
    own: (GateId, &C),
    peer: (GateId, &C),
    pairs: impl Fn(&C, &C) -> Vec<RailPair>,
) -> Vec<RailPair> {
    if own.0 < peer.0 {
        return pairs(own.1, peer.1);
    }
    pairs(peer.1, own.1).into_iter().map(|(theirs, ours)| (ours, theirs)).collect()
}

/// Describes to users that two processes have no pair of rails, and what they can do about it: the
/// reason, and the interfaces of this process and of the other one.
pub(crate) fn describe_no_pair(reason: &str, own: &[String], other: &[String]) -> String {
    let list = |ends: &[String]| match ends {
        [] => "no network interface".to_owned(),
        ends => ends.join(", "),
    };
    format!(
        "{reason}: this process can use {}, that one {}. COMBRAY_NET names the drivers, interfaces \
         or networks to use",
        list(own),
        list(other)
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_without_a_common_network_are_described_with_the_interfaces_of_both() {
        let own = ["eth0".to_owned(), "eth1".to_owned()];
        assert_eq!(
            describe_no_pair("no network connects both processes", &own, &[]),
            "no network connects both processes: this process can use eth0, eth1, that one no \
             network interface. COMBRAY_NET names the drivers, interfaces or networks to use"
        );
    }

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
}
