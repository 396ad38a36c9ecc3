//! The hosts of a network as nested groups of hosts that are near to each other, so that ranks can
//! be divided among them.

use base::{GridDimension, NetworkDistances};
use fastrand::Rng;

use crate::bisection::bisect;
use crate::graph::{AffinityGraph, Half};
use crate::refinement::Bounds;

/// A host, or a group of groups.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HostGroup {
    Host(u32),
    Groups(Vec<HostGroup>),
}

/// A fixed seed, so that equal input gives equal groups.
const SEED: u64 = 0x6e65_7477;

/// Returns all hosts of a network, of which there is at least one, as nested groups.
pub(crate) fn nested(distances: &NetworkDistances) -> HostGroup {
    match distances {
        NetworkDistances::Grid(dimensions) => {
            let whole = dimensions.iter().map(|dimension| (0, dimension.extent)).collect();
            of_box(dimensions, whole)
        }
        NetworkDistances::Attached { .. } => {
            let mut rng = Rng::with_seed(SEED);
            of_hosts(distances, (0..distances.hosts() as u32).collect(), &mut rng)
        }
    }
}

impl HostGroup {
    /// Joins groups to one; a single group stays as it is.
    fn of(mut groups: Vec<Self>) -> Self {
        if groups.len() == 1 { groups.remove(0) } else { Self::Groups(groups) }
    }

    /// The hosts from left to right.
    pub fn hosts(&self) -> Vec<u32> {
        match self {
            Self::Host(host) => vec![*host],
            Self::Groups(groups) => groups.iter().flat_map(Self::hosts).collect(),
        }
    }
}

/// Cuts a box of hosts across its longest dimension. For each dimension, the first coordinate and
/// the one after the last.
fn of_box(dimensions: &[GridDimension], part: Vec<(u32, u32)>) -> HostGroup {
    let length = |(dimension, (begin, end)): (&GridDimension, &(u32, u32))| {
        u64::from(dimension.step.max(1)) * u64::from(end - begin - 1)
    };
    let lengths: Vec<u64> = dimensions.iter().zip(&part).map(length).collect();
    let longest = (0..part.len()).rev().max_by_key(|&dimension| lengths[dimension]);
    let longest = longest.filter(|&dimension| lengths[dimension] > 0);
    let Some(longest) = longest else {
        let host = dimensions.iter().zip(&part);
        return HostGroup::Host(host.fold(0, |at, (one, (begin, _))| at * one.extent + begin));
    };
    let (begin, end) = part[longest];
    let middle = begin.midpoint(end);
    let half = |range| {
        let mut half = part.clone();
        half[longest] = range;
        of_box(dimensions, half)
    };
    HostGroup::Groups(vec![half((begin, middle)), half((middle, end))])
}

/// Divides hosts into groups in which all hosts are nearer to each other than to other groups; if
/// there are none, into halves.
fn of_hosts(distances: &NetworkDistances, hosts: Vec<u32>, rng: &mut Rng) -> HostGroup {
    if let [only] = hosts[..] {
        return HostGroup::Host(only);
    }
    let mut between: Vec<u64> = pairs(distances, &hosts).map(|(_, _, distance)| distance).collect();
    between.sort_unstable();
    between.dedup();
    // The greatest distance does not separate anything.
    between.pop();
    let groups = between.iter().rev().find_map(|&limit| within(distances, &hosts, limit));
    let groups = match groups {
        Some(groups) if groups.len() > GROUPS_MAX && between.len() > 1 => {
            let first = groups.iter().map(|group| group[0]).collect::<Vec<_>>();
            return of_groups(distances, &first, groups, rng);
        }
        Some(groups) => groups,
        None if between.is_empty() => {
            return HostGroup::of(hosts.into_iter().map(HostGroup::Host).collect());
        }
        None => halves(distances, &hosts, rng),
    };
    HostGroup::of(groups.into_iter().map(|group| of_hosts(distances, group, rng)).collect())
}

/// More groups than these that are not equally far from each other are divided in halves.
const GROUPS_MAX: usize = 4;

/// Divides groups, of which the first hosts are given, into halves.
fn of_groups(
    distances: &NetworkDistances,
    first: &[u32],
    groups: Vec<Vec<u32>>,
    rng: &mut Rng,
) -> HostGroup {
    if groups.len() <= GROUPS_MAX {
        return HostGroup::of(
            groups.into_iter().map(|group| of_hosts(distances, group, rng)).collect(),
        );
    }
    let halves = halves(distances, first, rng);
    let half = |half: &Vec<u32>, rng: &mut Rng| {
        let own = groups.iter().filter(|group| half.contains(&group[0]));
        of_groups(distances, half, own.cloned().collect(), rng)
    };
    HostGroup::of(halves.iter().map(|hosts| half(hosts, rng)).collect())
}

/// The pairs of hosts, by index, with their distances.
fn pairs<'a>(
    distances: &'a NetworkDistances,
    hosts: &'a [u32],
) -> impl Iterator<Item = (usize, usize, u64)> + 'a {
    let from = move |one: usize| {
        (0..one).map(move |other| (one, other, distances.between(hosts[one], hosts[other])))
    };
    (0..hosts.len()).flat_map(from)
}

/// The groups of hosts that are at most `limit` apart, if that is an equivalence with several
/// groups.
fn within(distances: &NetworkDistances, hosts: &[u32], limit: u64) -> Option<Vec<Vec<u32>>> {
    let mut groups: Vec<Vec<u32>> = Vec::new();
    for &host in hosts {
        let is_near = |other: &u32| distances.between(host, *other) <= limit;
        // In an equivalence the first member of a group represents all.
        match groups.iter_mut().find(|group| is_near(&group[0])) {
            Some(group) => group.push(host),
            None => groups.push(vec![host]),
        }
    }
    let mut group_of = vec![0; hosts.len()];
    let place = |host: &u32| hosts.binary_search(host).unwrap_or_default();
    for (number, group) in groups.iter().enumerate() {
        group.iter().for_each(|host| group_of[place(host)] = number);
    }
    let is_equivalence = pairs(distances, hosts)
        .all(|(one, other, distance)| (distance <= limit) == (group_of[one] == group_of[other]));
    (groups.len() > 1 && is_equivalence).then_some(groups)
}

/// Two halves between which few hosts are neighbours.
fn halves(distances: &NetworkDistances, hosts: &[u32], rng: &mut Rng) -> Vec<Vec<u32>> {
    let mut nearest = vec![u64::MAX; hosts.len()];
    for (one, other, distance) in pairs(distances, hosts) {
        nearest[one] = nearest[one].min(distance);
        nearest[other] = nearest[other].min(distance);
    }
    let mut graph = AffinityGraph { starts: vec![0], ..AffinityGraph::default() };
    for (one, &host) in hosts.iter().enumerate() {
        for (other, &neighbor) in hosts.iter().enumerate() {
            let is_near = distances.between(host, neighbor) <= nearest[one].max(nearest[other]);
            if one != other && is_near {
                graph.edges.push((other as u32, 1));
            }
        }
        graph.starts.push(graph.edges.len() as u32);
        graph.sizes.push(1);
        graph.fixed.push(None);
    }
    let count = hosts.len() as u64;
    let (least, most) = (count * 2 / 5, count.div_ceil(2) + count / 10);
    let sides = bisect(&graph, Bounds { least: least.max(1), most: most.min(count - 1) }, rng);
    let side = |wanted: Half| {
        let on_side = hosts.iter().zip(&sides).filter(|(_, side)| **side == wanted);
        on_side.map(|(host, _)| *host).collect()
    };
    vec![side(Half::Left), side(Half::Right)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(extents: &[u32]) -> NetworkDistances {
        let dimension = |&extent: &u32| GridDimension { extent, is_periodic: true, step: 1 };
        NetworkDistances::Grid(extents.iter().map(dimension).collect())
    }

    #[test]
    fn grids_are_cut_across_their_longest_dimension() {
        let HostGroup::Groups(halves) = nested(&grid(&[2, 4])) else { panic!("one host") };
        assert_eq!(halves[0].hosts(), [0, 1, 4, 5]);
        assert_eq!(halves[1].hosts(), [2, 3, 6, 7]);
        let mut all = nested(&grid(&[3, 5, 1, 2])).hosts();
        all.sort_unstable();
        assert_eq!(all, (0..30).collect::<Vec<_>>());
    }

    #[test]
    fn hosts_of_one_switch_are_a_group() {
        // Three switches with two hosts each, listed in turn; the first two are nearer.
        let network = NetworkDistances::Attached {
            hosts: (0..6).map(|host| (host % 3, 1)).collect(),
            between: vec![0, 2, 4, 2, 0, 4, 4, 4, 0],
        };
        let host = HostGroup::Host;
        let pair = |a, b| HostGroup::Groups(vec![host(a), host(b)]);
        let near = HostGroup::Groups(vec![pair(0, 3), pair(1, 4)]);
        assert_eq!(nested(&network), HostGroup::Groups(vec![near, pair(2, 5)]));
    }

    #[test]
    fn a_ring_of_switches_is_cut_in_halves() {
        let ring = grid(&[8]);
        let between = (0..64).map(|pair| ring.between(pair / 8, pair % 8) as u32).collect();
        let network =
            NetworkDistances::Attached { hosts: (0..8).map(|host| (host, 1)).collect(), between };
        let HostGroup::Groups(halves) = nested(&network) else { panic!("one host") };
        let mut left = halves[0].hosts();
        left.sort_unstable();
        let steps = left.windows(2).filter(|pair| pair[1] - pair[0] == 1).count();
        assert!(halves.len() == 2 && left.len() == 4 && steps >= 2, "{left:?}");
    }
}
