//! The network of a cluster as a graph: hosts, switches, and the links between them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use base::{GridDimension, NetworkDistances};

/// A network: hosts and switches with links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostNetwork {
    /// The names of hosts, then of switches.
    names: Vec<String>,
    /// The indices of the names.
    numbers: HashMap<String, u32>,
    /// The number of hosts.
    hosts: usize,
    links: Vec<NetworkLink>,
    /// If the hosts are a grid: its dimensions.
    grid: Option<Vec<GridDimension>>,
}

/// A link, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NetworkLink {
    /// The indices of both ends, first hosts, then switches; the lower one first.
    pub ends: (u32, u32),
    /// The cost of a byte on it; 1 unless the description says otherwise.
    pub cost: u32,
    /// The number of parallel cables.
    pub cables: u32,
}

/// The maximum number of hosts and switches, of links, of dimensions, and of switches with hosts.
const VERTICES_MAX: usize = 100_000;
const LINKS_MAX: usize = 1_000_000;
const DIMENSIONS_MAX: usize = 6;
const ATTACHMENTS_MAX: usize = 4096;

/// The maximum cost of a link, so that sums of costs cannot overflow.
pub(crate) const COST_MAX: u32 = 10_000;

impl HostNetwork {
    /// A grid of hosts. The last dimension varies fastest.
    pub(crate) fn grid(dimensions: Vec<GridDimension>, hosts: Vec<String>) -> Result<Self, String> {
        let points = dimensions
            .iter()
            .try_fold(1_usize, |all, one| all.checked_mul(one.extent as usize))
            .filter(|points| (1..=VERTICES_MAX).contains(points));
        if dimensions.len() > DIMENSIONS_MAX || points != Some(hosts.len()) {
            return Err(format!(
                "the extents must be at most {DIMENSIONS_MAX} numbers, whose product is the number \
                 of hosts, {}",
                hosts.len()
            ));
        }
        let mut network = Builder::default();
        let mut stride = 1;
        for dimension in dimensions.iter().rev() {
            let extent = dimension.extent as usize;
            for host in 0..hosts.len() {
                let at = host / stride % extent;
                let is_last = at + 1 == extent;
                if !is_last || (dimension.is_periodic && extent > 2) {
                    let next = host - at * stride + (at + 1) % extent * stride;
                    network.link(&hosts[host], &hosts[next], dimension.step)?;
                }
            }
            stride *= extent;
        }
        Ok(Self { grid: Some(dimensions), ..network.finish(hosts)? })
    }

    /// A dragonfly: groups of routers, all linked with each other; each two groups are linked once,
    /// over the routers in turn. Returns the network, and for each router its group and hosts.
    pub(crate) fn dragonfly(
        [groups, routers, each]: [usize; 3],
        hosts: Vec<String>,
    ) -> Result<(Self, Vec<Router>), String> {
        let count = groups.checked_mul(routers).and_then(|all| all.checked_mul(each));
        if count != Some(hosts.len()) || count == Some(0) || routers > 1024 || groups > 2048 {
            return Err(format!(
                "the product of groups, routers of a group and hosts of a router must be the number \
                 of hosts, {}, with at most 2048 groups of 1024 routers",
                hosts.len()
            ));
        }
        let name = |group: usize, router: usize| format!("group{group}-router{router}");
        let mut network = Builder::default();
        let mut all = Vec::new();
        for group in 0..groups {
            for router in 0..routers {
                let first = (group * routers + router) * each;
                let own = hosts[first..first + each].to_vec();
                for host in &own {
                    network.link(host, &name(group, router), 1)?;
                }
                for other in router + 1..routers {
                    network.link(&name(group, router), &name(group, other), 1)?;
                }
                all.push(Router { group, name: name(group, router), hosts: own });
            }
            // The port of a group to another one, if the group itself is left out, belongs to the
            // router with this share of all ports.
            let ports = (groups - 1).div_ceil(routers).max(1);
            for other in group + 1..groups {
                let (here, there) = ((other - 1) / ports, group / ports);
                network.link(&name(group, here), &name(other, there), 1)?;
            }
        }
        Ok((network.finish(hosts)?, all))
    }

    /// The names of hosts and switches: hosts first.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The names of the hosts.
    pub fn hosts(&self) -> &[String] {
        &self.names[..self.hosts]
    }

    /// The index of a host.
    pub(crate) fn host(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied().filter(|number| (*number as usize) < self.hosts)
    }

    /// Checks that links connect all hosts, and that at most 4096 switches have hosts.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.grid.is_some() {
            return Ok(());
        }
        let neighbors = self.neighbors();
        let far = from(&neighbors, 0);
        if let Some(host) = (0..self.hosts).find(|host| far[*host].is_none()) {
            return Err(format!("no links connect {} and {}", self.names[0], self.names[host]));
        }
        let places: HashSet<u32> =
            (0..self.hosts as u32).map(|host| self.attachment(&neighbors, host).0).collect();
        match places.len() <= ATTACHMENTS_MAX {
            true => Ok(()),
            false => Err(format!("more than {ATTACHMENTS_MAX} switches have hosts")),
        }
    }

    /// The names of the switches.
    pub fn switches(&self) -> &[String] {
        &self.names[self.hosts..]
    }

    /// All links.
    pub fn links(&self) -> &[NetworkLink] {
        &self.links
    }

    /// The dimensions of a grid of hosts; `None` for other networks.
    pub fn dimensions(&self) -> Option<&[GridDimension]> {
        self.grid.as_deref()
    }

    /// The name of the only switch to which a host is linked, if it is linked to nothing else.
    pub(crate) fn switch_of(&self) -> Vec<Option<&str>> {
        let neighbors = self.neighbors();
        let places = (0..self.hosts as u32).map(|host| self.attachment(&neighbors, host).0);
        let name = |place: usize| Some(&*self.names[place]).filter(|_| place >= self.hosts);
        places.map(|place| name(place as usize)).collect()
    }

    /// The switch of a host that is linked to nothing else, with the cost of that link; of another
    /// host, itself.
    fn attachment(&self, neighbors: &[Vec<(u32, u32)>], host: u32) -> (u32, u32) {
        match neighbors[host as usize][..] {
            [(switch, cost)] if switch as usize >= self.hosts => (switch, cost),
            _ => (host, 0),
        }
    }

    /// The neighbors of each host and switch, with the costs of the links.
    fn neighbors(&self) -> Vec<Vec<(u32, u32)>> {
        let mut neighbors = vec![Vec::new(); self.names.len()];
        for NetworkLink { ends: (one, other), cost, .. } in &self.links {
            neighbors[*one as usize].push((*other, *cost));
            neighbors[*other as usize].push((*one, *cost));
        }
        neighbors
    }

    /// For each link, how many pairs of hosts share it: each pair uses all shortest ways to equal
    /// parts at each fork.
    pub fn shares(&self) -> Vec<f64> {
        let neighbors = self.neighbors();
        let numbers: HashMap<(u32, u32), usize> =
            self.links.iter().zip(0..).map(|(link, number)| (link.ends, number)).collect();
        let mut shares = vec![0.0; self.links.len()];
        for host in 0..self.hosts as u32 {
            let far = from(&neighbors, host);
            let mut order: Vec<u32> = (0..self.names.len() as u32).collect();
            order.sort_by_key(|place| Reverse(far[*place as usize]));
            // What comes from places that are farther away and from the place itself.
            let mut flows = vec![0.0; self.names.len()];
            flows[..self.hosts].fill(1.0);
            for place in order.into_iter().filter(|place| *place != host) {
                let own = far[place as usize].unwrap_or_default();
                let is_before = |(neighbor, cost): &&(u32, u32)| {
                    far[*neighbor as usize].is_some_and(|distance| distance + cost == own)
                };
                let before: Vec<u32> =
                    neighbors[place as usize].iter().filter(is_before).map(|one| one.0).collect();
                for &neighbor in &before {
                    let part = flows[place as usize] / before.len() as f64;
                    flows[neighbor as usize] += part;
                    let ends = (place.min(neighbor), place.max(neighbor));
                    // Each pair is seen from both hosts.
                    shares[numbers[&ends]] += part / 2.0;
                }
            }
        }
        shares
    }

    /// The distances between the hosts.
    ///
    /// # Errors
    /// A sentence: two hosts are not connected, or more than 4096 switches have hosts.
    pub fn distances(&self) -> Result<NetworkDistances, String> {
        if let Some(dimensions) = &self.grid {
            return Ok(NetworkDistances::Grid(dimensions.clone()));
        }
        let neighbors = self.neighbors();
        let mut attachments: Vec<u32> = Vec::new();
        let mut known: HashMap<u32, u32> = HashMap::new();
        let mut hosts = Vec::with_capacity(self.hosts);
        for host in 0..self.hosts as u32 {
            let (place, up) = self.attachment(&neighbors, host);
            let number = *known.entry(place).or_insert(attachments.len() as u32);
            if number as usize == attachments.len() {
                attachments.push(place);
            }
            hosts.push((number, up));
        }
        if attachments.len() > ATTACHMENTS_MAX {
            return Err(format!("more than {ATTACHMENTS_MAX} switches have hosts"));
        }
        let mut between = Vec::with_capacity(attachments.len().pow(2));
        for &place in &attachments {
            let far = from(&neighbors, place);
            for &other in &attachments {
                between.push(far[other as usize].ok_or_else(|| {
                    let [one, other] = [place, other].map(|place| &self.names[place as usize]);
                    format!("no links connect {one} and {other}")
                })?);
            }
        }
        Ok(NetworkDistances::Attached { hosts, between })
    }
}

/// A router of a dragonfly.
pub(crate) struct Router {
    pub group: usize,
    pub name: String,
    pub hosts: Vec<String>,
}

/// The distance of every place from this one; `None` if there is no way.
fn from(neighbors: &[Vec<(u32, u32)>], place: u32) -> Vec<Option<u32>> {
    let mut distances = vec![None; neighbors.len()];
    let mut next = BinaryHeap::from([Reverse((0_u32, place))]);
    while let Some(Reverse((distance, place))) = next.pop() {
        let known = &mut distances[place as usize];
        if known.is_some() {
            continue;
        }
        *known = Some(distance);
        for &(neighbor, cost) in &neighbors[place as usize] {
            if distances[neighbor as usize].is_none() {
                next.push(Reverse((distance.saturating_add(cost), neighbor)));
            }
        }
    }
    distances
}

/// Collects links by the names of their ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Builder {
    links: Vec<(String, String, u32)>,
}

impl Builder {
    /// Adds a link; if it exists already, another cable.
    pub fn link(&mut self, one: &str, other: &str, cost: u32) -> Result<(), String> {
        if one == other {
            return Err(format!("{one} is linked with itself"));
        }
        if self.links.len() >= LINKS_MAX {
            return Err("it contains too many links".to_owned());
        }
        self.links.push((one.to_owned(), other.to_owned(), cost));
        Ok(())
    }

    /// The network of these hosts; all other names are switches.
    pub fn finish(self, hosts: Vec<String>) -> Result<HostNetwork, String> {
        let count = hosts.len();
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let mut names = Vec::new();
        let ends = self.links.iter().flat_map(|(one, other, _)| [one, other]);
        for name in hosts.iter().chain(ends) {
            if !numbers.contains_key(name) {
                numbers.insert(name.clone(), names.len() as u32);
                names.push(name.clone());
            }
        }
        if names.len() > VERTICES_MAX {
            return Err("it contains too many names".to_owned());
        }
        let mut cables: HashMap<(u32, u32), (u32, u32)> = HashMap::new();
        for (one, other, cost) in &self.links {
            let (one, other) = (numbers[one], numbers[other]);
            let link = cables.entry((one.min(other), one.max(other))).or_insert((*cost, 0));
            if link.0 != *cost {
                let [one, other] = [one, other].map(|place| &names[place as usize]);
                return Err(format!("the links between {one} and {other} have two costs"));
            }
            link.1 += 1;
        }
        let mut links: Vec<NetworkLink> = cables
            .into_iter()
            .map(|(ends, (cost, cables))| NetworkLink { ends, cost, cables })
            .collect();
        links.sort_unstable();
        Ok(HostNetwork { names, numbers, hosts: count, links, grid: None })
    }

    /// The names that have only one link: the hosts of a network of switches.
    pub fn ends(&self) -> Vec<String> {
        let mut counts: HashMap<&str, u32> = HashMap::new();
        let ends = || self.links.iter().flat_map(|(one, other, _)| [one, other]);
        ends().for_each(|end| *counts.entry(end).or_default() += 1);
        let mut seen = HashSet::new();
        ends().filter(|end| counts[&***end] == 1 && seen.insert(*end)).cloned().collect()
    }

    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hosts(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("n{number}")).collect()
    }

    #[test]
    fn groups_of_a_dragonfly_are_one_link_apart() {
        let (network, routers) = HostNetwork::dragonfly([9, 4, 2], hosts(72)).unwrap();
        assert_eq!((network.hosts().len(), network.switches().len()), (72, 36));
        // 72 to hosts, 6 in each group, one between each two groups.
        assert_eq!(network.links().len(), 72 + 9 * 6 + 36);
        assert_eq!((routers.len(), routers[5].group), (36, 1));
        let distances = network.distances().unwrap();
        let from_first = |host| distances.between(0, host);
        assert_eq!([from_first(1), from_first(2), from_first(7)], [2, 3, 3]);
        let far = (8..72).map(from_first);
        assert_eq!((far.clone().min(), far.max()), (Some(3), Some(5)));
        // Each router has two links to other groups.
        for router in network.switches() {
            let is_router = |end: u32| &network.names()[end as usize] == router;
            let group = |end: u32| network.names()[end as usize].split_once('-').map(|one| one.0);
            let out = network.links().iter().filter(|link| {
                let (one, other) = link.ends;
                (is_router(one) || is_router(other))
                    && one >= 72
                    && other >= 72
                    && group(one) != group(other)
            });
            assert_eq!(out.count(), 2, "{router}");
        }
    }

    #[test]
    fn hosts_that_nothing_connects_are_named() {
        let mut two = Builder::default();
        two.link("a", "s", 1).unwrap();
        two.link("b", "t", 1).unwrap();
        let network = two.finish(vec!["a".to_owned(), "b".to_owned()]).unwrap();
        assert_eq!(network.distances().unwrap_err(), "no links connect s and t");
    }

    #[test]
    fn pairs_share_links() {
        let dimension = GridDimension { extent: 4, is_periodic: true, step: 1 };
        let ring = HostNetwork::grid(vec![dimension], hosts(4)).unwrap();
        // Four pairs of neighbors and two opposite pairs, each on both ways.
        assert_eq!(ring.shares(), [2.0; 4]);
        let mut star = Builder::default();
        for host in ["a", "b", "c"] {
            star.link(host, "s", 1).unwrap();
        }
        let star = star.finish(["a", "b", "c"].map(str::to_owned).to_vec()).unwrap();
        assert_eq!(star.shares(), [2.0; 3]);
    }

    #[test]
    fn cables_are_counted() {
        let mut links = Builder::default();
        for (one, other) in [("a", "s"), ("s", "a"), ("b", "s")] {
            links.link(one, other, 3).unwrap();
        }
        let network = links.finish(vec!["a".to_owned(), "b".to_owned()]).unwrap();
        let cables: Vec<u32> = network.links().iter().map(|link| link.cables).collect();
        assert_eq!(cables, [2, 1]);
        assert_eq!(network.distances().unwrap().between(0, 1), 6);
    }

    proptest! {
        /// The distances of a grid by coordinates are those along its links.
        #[test]
        fn grids_are_graphs(
            described in prop::collection::vec((1_u32..6, any::<bool>(), 1_u32..4), 1..4),
        ) {
            let dimensions: Vec<GridDimension> = described
                .iter()
                .map(|&(extent, is_periodic, step)| GridDimension { extent, is_periodic, step })
                .collect();
            let count = dimensions.iter().map(|one| one.extent as usize).product();
            let network = HostNetwork::grid(dimensions, hosts(count)).unwrap();
            let by_links = HostNetwork { grid: None, ..network.clone() }.distances().unwrap();
            let by_coordinates = network.distances().unwrap();
            for one in 0..count as u32 {
                for other in 0..count as u32 {
                    prop_assert_eq!(
                        by_links.between(one, other),
                        by_coordinates.between(one, other)
                    );
                }
            }
        }
    }
}
