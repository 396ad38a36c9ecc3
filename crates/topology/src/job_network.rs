//! The network between the machines of a job, as the launcher sends it to the processes.

use std::fmt;

use base::{GridDimension, NetworkDistances};

use crate::HostNetwork;
use crate::network::COST_MAX;

/// The distances between the machines of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobNetwork {
    distances: NetworkDistances,
    /// The host in the network of each machine, in the order of the lowest ranks on them.
    hosts: Vec<u32>,
}

/// The maximum number of machines, and of points of a grid.
const HOSTS_MAX: usize = 100_000;

/// The maximum number of dimensions.
const DIMENSIONS_MAX: usize = 6;

impl JobNetwork {
    /// Creates the network of the machines of these names. `None` if some are not in the network,
    /// or its distances are not known.
    pub fn new(network: &HostNetwork, machines: &[String]) -> Option<Self> {
        let hosts: Option<Vec<u32>> = machines.iter().map(|name| network.host(name)).collect();
        let hosts = hosts?;
        match network.distances().ok()? {
            distances @ NetworkDistances::Grid(_) => Some(Self { distances, hosts }),
            NetworkDistances::Attached { hosts: all, between } => {
                let columns = between.len().isqrt();
                let own: Vec<(u32, u32)> = hosts.iter().map(|host| all[*host as usize]).collect();
                let mut used: Vec<u32> = own.iter().map(|one| one.0).collect();
                used.sort_unstable();
                used.dedup();
                let across =
                    |one: u32, other: u32| between[one as usize * columns + other as usize];
                let between =
                    used.iter().flat_map(|one| used.iter().map(|other| across(*one, *other)));
                let between = between.collect();
                let number = |switch| used.binary_search(&switch).unwrap_or_default() as u32;
                let attached = own.into_iter().map(|(switch, up)| (number(switch), up)).collect();
                let distances = NetworkDistances::Attached { hosts: attached, between };
                Some(Self { distances, hosts: (0..hosts.len() as u32).collect() })
            }
        }
    }

    /// The distances between the hosts of the network.
    pub fn distances(&self) -> &NetworkDistances {
        &self.distances
    }

    /// The host of each machine, in the order of the lowest ranks on the machines.
    pub fn hosts(&self) -> &[u32] {
        &self.hosts
    }

    /// Parses what [`Display`](fmt::Display) has written. `None` if the text is malformed.
    pub fn from_text(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        match words[..] {
            ["grid", dimensions, hosts] => {
                let dimensions =
                    dimensions.split('x').map(dimension).collect::<Option<Vec<_>>>()?;
                let points = dimensions
                    .iter()
                    .try_fold(1_usize, |all, one| all.checked_mul(one.extent as usize))
                    .filter(|points| *points <= HOSTS_MAX)?;
                let hosts = numbers(hosts)?;
                let is_known = hosts.iter().all(|host| (*host as usize) < points);
                let is_valid = is_known && dimensions.len() <= DIMENSIONS_MAX;
                is_valid.then_some(Self { distances: NetworkDistances::Grid(dimensions), hosts })
            }
            ["switches", hosts, between] => {
                let pair = |word: &str| {
                    let (switch, up) = word.split_once(':')?;
                    Some((switch.parse().ok()?, bounded(up)?))
                };
                let attached: Vec<(u32, u32)> =
                    hosts.split(',').map(pair).collect::<Option<_>>()?;
                let between: Vec<u32> = between.split(',').map(bounded).collect::<Option<_>>()?;
                let switches = between.len().isqrt();
                let is_valid = switches * switches == between.len()
                    && attached.len() <= HOSTS_MAX
                    && attached.iter().all(|(switch, _)| (*switch as usize) < switches);
                let hosts = (0..attached.len() as u32).collect();
                let distances = NetworkDistances::Attached { hosts: attached, between };
                is_valid.then_some(Self { distances, hosts })
            }
            _ => None,
        }
    }
}

/// A distance: at most that of the longest way with the greatest costs.
fn bounded(word: &str) -> Option<u32> {
    word.parse().ok().filter(|distance| *distance <= u32::MAX / 4)
}

/// A dimension such as `8p1`: the extent, whether it is periodic, and the cost of a step.
fn dimension(word: &str) -> Option<GridDimension> {
    let kind = word.find(['p', 'm'])?;
    let step = word[kind + 1..].parse().ok().filter(|step| (1..=COST_MAX).contains(step))?;
    let extent = word[..kind].parse().ok().filter(|extent| *extent > 0)?;
    Some(GridDimension { extent, is_periodic: word[kind..].starts_with('p'), step })
}

/// A list such as `0-3,7`.
fn numbers(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || all.len() + (last - first) as usize >= HOSTS_MAX {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

impl fmt::Display for JobNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.distances {
            NetworkDistances::Grid(dimensions) => {
                let word = |one: &GridDimension| {
                    format!("{}{}{}", one.extent, if one.is_periodic { 'p' } else { 'm' }, one.step)
                };
                let dimensions: Vec<String> = dimensions.iter().map(word).collect();
                let run = |run: &[u32]| match run {
                    [first, .., last] => format!("{first}-{last}"),
                    _ => run[0].to_string(),
                };
                let runs = self.hosts.chunk_by(|one, next| one.checked_add(1) == Some(*next));
                let runs: Vec<String> = runs.map(run).collect();
                write!(f, "grid {} {}", dimensions.join("x"), runs.join(","))
            }
            NetworkDistances::Attached { hosts, between } => {
                let hosts: Vec<String> =
                    hosts.iter().map(|(switch, up)| format!("{switch}:{up}")).collect();
                let between: Vec<String> = between.iter().map(u32::to_string).collect();
                write!(f, "switches {} {}", hosts.join(","), between.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cluster;

    #[test]
    fn distances_of_a_job_are_those_of_the_network() {
        for text in ["torus 4x3 cost=1x2: n[0-11]", "mesh 12: n[0-11]", "dragonfly 3x2x2: n[0-11]"]
        {
            let cluster = Cluster::parse(text).unwrap();
            let network = cluster.network().unwrap();
            let all = network.distances().unwrap();
            let machines = [11, 3, 4, 5, 0].map(|number| format!("n{number}"));
            let job = JobNetwork::new(network, &machines).unwrap();
            for (one, name) in machines.iter().enumerate() {
                for (other, peer) in machines.iter().enumerate() {
                    let number = |name: &str| name[1..].parse::<u32>().unwrap();
                    assert_eq!(
                        job.distances().between(job.hosts()[one], job.hosts()[other]),
                        all.between(number(name), number(peer)),
                        "{text}: {name} {peer}"
                    );
                }
            }
            assert_eq!(JobNetwork::from_text(&job.to_string()), Some(job), "{text}");
            assert_eq!(JobNetwork::new(network, &["other".to_owned()]), None);
        }
    }

    #[test]
    fn malformed_texts_are_no_networks() {
        for text in [
            "",
            "grid",
            "grid 4p1 4",
            "grid 4q1 0",
            "grid 0p1 0",
            "grid 4p0 0",
            "grid 4p1 3-1",
            "grid 400000p1 0",
            "grid 4p1 0-4294967295",
            "switches 1:1 0",
            "switches 0:1 0,1",
            "switches 0:x 0",
            "switches 0:1 4294967295",
            "tree 0 0",
        ] {
            assert_eq!(JobNetwork::from_text(text), None, "{text}");
        }
    }
}
