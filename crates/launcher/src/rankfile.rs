//! Rankfiles, which give each rank its host and the hardware threads on which it runs; no I/O.

use std::collections::HashMap;

use crate::placement::{HostAssignment, is_host_name};
use crate::rank_slots::RankSlots;

/// Where one rank runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankPlace {
    /// The host.
    pub host: String,
    /// The hardware threads; none: the process is bound as without a rankfile.
    pub slots: Option<RankSlots>,
}

/// Reads a rankfile: lines such as `rank 3=node0 slot=4-5` or `rank 3=node0 slot=1:0`, in any
/// order. Text after a `#` is ignored. Returns the places by rank.
///
/// # Errors
/// A message for users: a line is not understood, or a rank is missing or occurs twice.
pub fn read(text: &str) -> Result<Vec<RankPlace>, String> {
    let mut places: Vec<Option<RankPlace>> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let (rank, place) = read_line(line).ok_or_else(|| {
            format!(
                "line {number}: \"{line}\" does not have the form rank 3=node0 slot=4-5, with the \
                 numbers of hardware threads, or rank 3=node0 slot=1:0-2, with a package and its \
                 cores"
            )
        })?;
        if rank >= RANKS_MAX {
            return Err(format!("line {number}: ranks must be below {RANKS_MAX}"));
        }
        if places.len() <= rank {
            places.resize(rank + 1, None);
        }
        if places[rank].replace(place).is_some() {
            return Err(format!("line {number}: rank {rank} has a place already"));
        }
    }
    if places.is_empty() {
        return Err("it names no rank".to_owned());
    }
    let numbered = places.into_iter().enumerate();
    numbered.map(|(rank, place)| place.ok_or_else(|| format!("rank {rank} is missing"))).collect()
}

/// The maximal number of ranks; higher ranks are typing errors.
const RANKS_MAX: usize = 1 << 20;

fn read_line(line: &str) -> Option<(usize, RankPlace)> {
    let (rank, rest) = line.strip_prefix("rank")?.split_once('=')?;
    let mut words = rest.split_whitespace();
    let is_host = |host: &&str| match host.strip_prefix('+') {
        Some(_) => position(host).is_some(),
        None => is_host_name(host),
    };
    let host = words.next().filter(is_host)?;
    let slots = match words.next() {
        None => None,
        Some(word) => Some(RankSlots::parse(word.strip_prefix("slot=")?)?),
    };
    let place = RankPlace { host: host.to_owned(), slots };
    words.next().is_none().then_some((rank.trim().parse().ok()?, place))
}

/// Returns the position that a name such as `+n2` means: the third of the hosts of the job.
fn position(host: &str) -> Option<usize> {
    host.strip_prefix("+n")?.parse().ok()
}

/// Replaces the positions in `places` by the names of the hosts at them.
///
/// # Errors
/// A message for users: there are fewer hosts.
pub fn name_hosts(places: &mut [RankPlace], hosts: &[String]) -> Result<(), String> {
    for (rank, place) in places.iter_mut().enumerate() {
        let Some(number) = position(&place.host) else { continue };
        let host = hosts.get(number).ok_or_else(|| {
            format!(
                "the rankfile names the host {} for rank {rank}, but the job has only {}: {}",
                place.host,
                hosts.len(),
                hosts.join(", ")
            )
        })?;
        place.host.clone_from(host);
    }
    Ok(())
}

/// Returns the hosts of `processes` processes according to these places. `is_local` decides which
/// names mean this machine.
///
/// # Errors
/// A message for users: there are more processes than places.
pub(crate) fn placement(
    places: &[RankPlace],
    processes: usize,
    is_local: impl Fn(&str) -> bool,
) -> Result<HostAssignment, String> {
    if processes > places.len() {
        return Err(format!(
            "{processes} processes are requested, but the rankfile has places for {}",
            places.len()
        ));
    }
    let mut placement = HostAssignment::default();
    let mut positions: HashMap<&str, usize> = HashMap::new();
    for place in &places[..processes] {
        let position = *positions.entry(&place.host).or_insert_with(|| {
            placement.position(Some(place.host.clone()).filter(|host| !is_local(host)))
        });
        placement.ranks.push(position);
    }
    Ok(placement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rankfiles_are_read() {
        let places =
            read("# costs\nrank 1=b slot=p0-1,p4\n\nrank 0 = a # first\nrank 2=b slot=1:0-2")
                .unwrap();
        let shown: Vec<String> = places
            .iter()
            .map(|place| match &place.slots {
                Some(slots) => format!("{} {slots}", place.host),
                None => place.host.clone(),
            })
            .collect();
        assert_eq!(shown, ["a", "b 0-1,4", "b 1:0-2"]);
        let placement = placement(&places, 3, |host| host == "b").unwrap();
        assert_eq!(placement.hosts, [Some("a".to_owned()), None]);
        assert_eq!(placement.ranks, [0, 1, 1]);
    }

    #[test]
    fn hosts_are_named_by_their_positions() {
        let mut places = read("rank 0=+n1 slot=0\nrank 1=c\nrank 2=+n0").unwrap();
        let hosts = |places: &[RankPlace]| -> Vec<String> {
            places.iter().map(|p| p.host.clone()).collect()
        };
        assert!(
            name_hosts(&mut places.clone(), &["a".to_owned()])
                .unwrap_err()
                .contains("+n1 for rank 0")
        );
        name_hosts(&mut places, &["a", "b"].map(str::to_owned)).unwrap();
        assert_eq!(hosts(&places), ["b", "c", "a"]);
    }

    #[test]
    fn faults_are_told() {
        let fault = |text: &str| read(text).unwrap_err();
        assert!(fault("# nothing").contains("no rank"));
        assert!(fault("rank 0=a\nrank 0=b").contains("line 2: rank 0 has a place"));
        assert!(fault("rank 1=a").contains("rank 0 is missing"));
        assert!(fault("rank 99999999=a").contains("below"));
        for line in [
            "0=a",
            "rank x=a",
            "rank 0=",
            "rank 0=a slot=x",
            "rank 0=a slot=",
            "rank 0=a slot=0:",
            "rank 0=a slot=p0:1",
            "rank 0=-o",
            "rank 0=$(id)",
            "rank 0=a b",
            "rank 0=+a",
            "rank 0=+n",
        ] {
            assert!(fault(line).contains("does not have the form"), "{line}");
        }
        let places = read("rank 0=a").unwrap();
        assert!(placement(&places, 2, |_| false).unwrap_err().contains("places for 1"));
    }
}
