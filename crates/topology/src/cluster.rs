//! The hosts of a job below their switches, as one tree.
//!
//! A description has lines like these; a `#` begins a comment:
//!
//! ```text
//! switch top: left right
//! switch left: node[1-4]
//! switch right: node[5-8]
//! machine node[1-8]: package:2 core:8 pu:2
//! ```
//!
//! Networks that are no trees have lines of other kinds, one or several `link` lines or one of the
//! others. Hosts of a torus or mesh are listed with the last coordinate varying fastest; a
//! dragonfly has groups, routers of each group, and hosts of each router.
//!
//! ```text
//! link spine1: leaf[1-4]
//! link leaf1 cost=2: node[1-8]
//! torus 8x8x8: node[0-511]
//! mesh 4x4 cost=1x3: node[0-15]
//! dragonfly 9x4x2: node[0-71]
//! ```
//!
//! The dump of an InfiniBand network (`ibnetdiscover`) is a description, too. Lines of Slurm's
//! `topology.conf` (`SwitchName=left Nodes=node[1-4]`) are accepted too.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base::GridDimension;
use sys::environment;

use crate::infiniband;
use crate::network::{Builder, COST_MAX, HostNetwork, Router};
use crate::tree::ParentRelation;
use crate::{Kind, Object, ObjectId, Topology, TopologyError};

/// A parsed description of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// The hosts in the order in which the description names them.
    hosts: Vec<String>,
    /// For each switch or host, the switch above it.
    above: HashMap<String, Arc<str>>,
    /// For each host, its hardware: a file name or a synthetic description, as written.
    machines: HashMap<String, Arc<str>>,
    /// The network, if it is described by more than the switches above hosts.
    network: Option<HostNetwork>,
}

/// What the lines of a description have given so far.
#[derive(Default)]
struct Lines {
    /// The switches, with the names below them.
    switches: Vec<(String, Vec<String>)>,
    links: Builder,
}

/// One host of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterMember {
    /// The switches above it, outermost first.
    pub switches: Vec<String>,
    /// The host name.
    pub host: String,
    /// The topology of the host, if it is known.
    pub machine: Option<Topology>,
}

/// The maximum number of hosts, and of switches one above another.
const NAMES_MAX: usize = 100_000;
const HEIGHT_MAX: usize = 16;

/// A description has one torus, mesh or dragonfly, or links.
const SECOND_NETWORK: &str = "it describes a second network";

impl Cluster {
    /// Parses a description.
    ///
    /// # Errors
    /// A line is malformed, or contradicts another line. The error is a sentence with the number of
    /// the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut cluster = Self::default();
        if infiniband::is_dump(text) {
            cluster.network = Some(infiniband::parse(text)?);
            return cluster.completed(Lines::default());
        }
        let mut lines = Lines::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                let read = cluster.read(line, &mut lines);
                read.map_err(|wrong| format!("line {number}: {wrong}"))?;
            }
        }
        cluster.completed(lines)
    }

    /// Finds the hosts, and the network of links.
    fn completed(mut self, mut lines: Lines) -> Result<Self, String> {
        let switches: HashSet<&String> = lines.switches.iter().map(|(switch, _)| switch).collect();
        let mut known: HashSet<String> = self.machines.keys().cloned().collect();
        let below = lines.switches.iter().flat_map(|(_, below)| below);
        let in_network = self.network.iter().flat_map(|network| network.hosts());
        for name in below.chain(in_network).filter(|name| !switches.contains(name)) {
            if known.insert(name.clone()) {
                self.hosts.push(name.clone());
            }
        }
        if !lines.links.is_empty() {
            if self.network.is_some() {
                return Err(SECOND_NETWORK.to_owned());
            }
            for (switch, below) in &lines.switches {
                for name in below {
                    lines.links.link(switch, name, 1)?;
                }
            }
            let hosts = match self.hosts.is_empty() {
                true => lines.links.ends(),
                false => self.hosts.clone(),
            };
            self.hosts.clone_from(&hosts);
            self.network = Some(lines.links.finish(hosts)?);
        }
        if let Some(network) = &self.network {
            for (host, switch) in network.hosts().iter().zip(network.switch_of()) {
                let Some(switch) = switch else { continue };
                self.above.entry(host.clone()).or_insert_with(|| switch.into());
            }
            network.check()?;
            if let Some(outside) = self.hosts.iter().find(|host| network.host(host).is_none()) {
                return Err(format!("{outside} is not in the network"));
            }
            // In the order of the network.
            self.hosts = network.hosts().to_vec();
        }
        if self.hosts.is_empty() {
            return Err("it names no machine".to_owned());
        }
        match self.hosts.iter().find(|host| self.switches_above(host).is_none()) {
            Some(host) => Err(format!("the switches above {host} form a cycle")),
            None => Ok(self),
        }
    }

    fn read(&mut self, line: &str, lines: &mut Lines) -> Result<(), String> {
        if let Some((switch, below)) = of_slurm(line) {
            return self.add_switch(switch, &below, lines);
        }
        let wrong = || {
            format!(
                "\"{line}\" is neither \"switch NAME: NAMES\" nor \"machine NAMES: DESCRIPTION\", \
                 nor a torus, mesh, dragonfly or link"
            )
        };
        let (head, rest) = line.split_once(':').ok_or_else(wrong)?;
        match head.split_once(char::is_whitespace) {
            Some(("switch", name)) => self.add_switch(name.trim(), rest, lines),
            Some(("link", words)) => {
                let (name, costs) = with_costs(words)?;
                let cost = costs.map_or(Ok(1), |costs| the_only(&costs))?;
                check_name(&name)?;
                names_of(rest)?.iter().try_for_each(|other| lines.links.link(&name, other, cost))
            }
            Some((kind @ ("torus" | "mesh" | "dragonfly"), words)) => {
                if self.network.is_some() {
                    return Err(SECOND_NETWORK.to_owned());
                }
                self.add_network(kind, words, names_of(rest)?)
            }
            Some(("machine", names)) => {
                let description: Arc<str> = rest.trim().into();
                for host in names_of(names)? {
                    if self.machines.insert(host.clone(), description.clone()).is_some() {
                        return Err(format!("{host} was described before"));
                    }
                    self.hosts.push(host);
                }
                check_count(self.machines.len())
            }
            _ => Err(wrong()),
        }
    }

    /// Adds a network of this kind and these extents.
    fn add_network(&mut self, kind: &str, words: &str, hosts: Vec<String>) -> Result<(), String> {
        let (extents, costs) = with_costs(words)?;
        let extents = numbers(&extents, NAMES_MAX as u32)?;
        if hosts.iter().collect::<HashSet<_>>().len() < hosts.len() {
            return Err("it names a host twice".to_owned());
        }
        if kind == "dragonfly" {
            let [groups, routers, each] = extents[..] else {
                return Err("a dragonfly needs GROUPSxROUTERSxHOSTS".to_owned());
            };
            let sizes = [groups, routers, each].map(|size| size as usize);
            let (network, routers) = HostNetwork::dragonfly(sizes, hosts)?;
            for Router { group, name, hosts } in routers {
                let shared: Arc<str> = name.as_str().into();
                for host in hosts {
                    self.add_above(host, &shared)?;
                }
                self.add_above(name, &format!("group{group}").into())?;
            }
            self.network = Some(network);
            return Ok(());
        }
        let costs = costs.unwrap_or_else(|| vec![1; extents.len()]);
        if costs.len() != extents.len() {
            return Err(format!("a {kind} needs a cost for each of its dimensions"));
        }
        let is_periodic = kind == "torus";
        let pairs = extents.iter().zip(&costs);
        let dimensions =
            pairs.map(|(&extent, &step)| GridDimension { extent, is_periodic, step }).collect();
        self.network = Some(HostNetwork::grid(dimensions, hosts)?);
        Ok(())
    }

    fn add_above(&mut self, name: String, switch: &Arc<str>) -> Result<(), String> {
        match self.above.insert(name.clone(), switch.clone()) {
            Some(other) => Err(format!("{name} is below {switch}, but also below {other}")),
            None => Ok(()),
        }
    }

    fn add_switch(&mut self, switch: &str, below: &str, lines: &mut Lines) -> Result<(), String> {
        check_name(switch)?;
        let below = names_of(below)?;
        let shared: Arc<str> = switch.into();
        for name in &below {
            self.add_above(name.clone(), &shared)?;
        }
        lines.switches.push((switch.to_owned(), below));
        check_count(self.above.len())
    }

    /// The names of the hosts.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// The network between the hosts, if the description has more than switches above hosts.
    pub fn network(&self) -> Option<&HostNetwork> {
        self.network.as_ref()
    }

    /// The hardware of a host as the description gives it: a file name or a synthetic description.
    pub fn machine(&self, host: &str) -> Option<&str> {
        self.machines.get(host).map(|description| &**description)
    }

    /// The switches above a host, outermost first. `None`: the switches form a cycle.
    pub fn switches_above(&self, host: &str) -> Option<Vec<String>> {
        let mut above: Vec<String> =
            std::iter::successors(self.above.get(host), |switch| self.above.get(&***switch))
                .take(HEIGHT_MAX + 1)
                .map(|switch| switch.to_string())
                .collect();
        above.reverse();
        (above.len() <= HEIGHT_MAX).then_some(above)
    }
}

fn check_name(switch: &str) -> Result<(), String> {
    if switch.is_empty() || switch.contains(char::is_whitespace) {
        return Err(format!("\"{switch}\" is not the name of a switch"));
    }
    if switch.len() > NAME_BYTES_MAX {
        return Err("a name in it is too long".to_owned());
    }
    Ok(())
}

/// Splits the costs of links off, as in `8x8 cost=1x2`.
fn with_costs(words: &str) -> Result<(String, Option<Vec<u32>>), String> {
    let words: Vec<&str> = words.split_whitespace().collect();
    match words[..] {
        [only] => Ok((only.to_owned(), None)),
        [first, second] if second.starts_with("cost=") => {
            Ok((first.to_owned(), Some(numbers(&second["cost=".len()..], COST_MAX)?)))
        }
        _ => Err(format!("\"{}\" is not a name or size with an optional cost=1", words.join(" "))),
    }
}

/// Parses numbers from 1 to `most` with `x` between them.
fn numbers(text: &str, most: u32) -> Result<Vec<u32>, String> {
    let number = |word: &str| word.parse().ok().filter(|number| (1..=most).contains(number));
    let all: Option<Vec<u32>> = text.split('x').map(number).collect();
    all.ok_or_else(|| format!("\"{text}\" is not a list of numbers such as 4x4, from 1 to {most}"))
}

fn the_only(costs: &[u32]) -> Result<u32, String> {
    match costs {
        [only] => Ok(*only),
        _ => Err("a link has one cost".to_owned()),
    }
}

/// The switch, and the list of names below it, from a line of Slurm's `topology.conf`.
fn of_slurm(line: &str) -> Option<(&str, String)> {
    let pairs: Vec<(&str, &str)> =
        line.split_whitespace().map(|word| word.split_once('=')).collect::<Option<_>>()?;
    let value = |wanted: &str| {
        pairs.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| *value)
    };
    let below = ["Nodes", "Switches"].into_iter().filter_map(value).collect::<Vec<_>>().join(",");
    Some((value("SwitchName")?, below))
}

/// Parses names separated by commas or spaces, in which `[1-3,7]` stands for several numbers.
fn names_of(text: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    let mut depth = 0;
    let word_end = |letter: char| {
        depth += i32::from(letter == '[') - i32::from(letter == ']');
        depth == 0 && (letter == ',' || letter.is_whitespace())
    };
    for word in text.split(word_end).filter(|word| !word.is_empty()) {
        expand(word, &mut names)?;
    }
    if names.is_empty() { Err("it contains no names".to_owned()) } else { Ok(names) }
}

/// The maximum length of a host's or switch's name, and the maximum number of brackets in it.
const NAME_BYTES_MAX: usize = 255;
const BRACKETS_MAX: usize = 8;

fn check_count(names: usize) -> Result<(), String> {
    if names <= NAMES_MAX { Ok(()) } else { Err("it contains too many names".to_owned()) }
}

/// Expands a word such as `node[08-10]` and adds the names to the list.
fn expand(word: &str, names: &mut Vec<String>) -> Result<(), String> {
    let wrong = || format!("\"{word}\" is not a name such as node7 or node[1-8]");
    if word.matches('[').count() > BRACKETS_MAX {
        return Err(wrong());
    }
    let Some((before, rest)) = word.split_once('[') else {
        // Without this limit, thousands of longer names would exhaust the memory.
        if word.len() > NAME_BYTES_MAX {
            return Err("a name in it is too long".to_owned());
        }
        names.push(word.to_owned());
        return check_count(names.len());
    };
    let (list, after) = rest.split_once(']').ok_or_else(wrong)?;
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (from, to): (u64, u64) = first.parse().ok().zip(last.parse().ok()).ok_or_else(wrong)?;
        if from > to || to - from >= NAMES_MAX as u64 {
            return Err(wrong());
        }
        for number in from..=to {
            expand(&format!("{before}{number:0width$}{after}", width = first.len()), names)?;
        }
    }
    Ok(())
}

/// The switches above this host, outermost first, from the environment that Slurm sets. Empty if
/// Slurm does not set it.
pub fn switches_by_slurm() -> Vec<String> {
    let address = environment::text("SLURM_TOPOLOGY_ADDR")
        .zip(environment::text("SLURM_TOPOLOGY_ADDR_PATTERN"));
    address.and_then(|(address, pattern)| in_address(&address, &pattern)).unwrap_or_default()
}

/// The switches in an address (`top.left.node3`) with such a pattern (`switch.switch.node`).
/// `None`: the address does not fit the pattern.
pub(crate) fn in_address(address: &str, pattern: &str) -> Option<Vec<String>> {
    let kinds: Vec<&str> = pattern.split('.').collect();
    // A host name may itself contain dots.
    let parts: Vec<&str> = address.splitn(kinds.len(), '.').collect();
    let (node, above) = parts.split_last()?;
    let fits = parts.len() == kinds.len() && *kinds.last()? == "node" && !node.is_empty();
    // A level that Slurm does not know has an empty name.
    let switches = above.iter().filter(|name| !name.is_empty()).map(|name| (*name).to_owned());
    fits.then(|| switches.collect())
}

impl Topology {
    /// Builds the tree of several hosts below their switches, in the given order. Hardware threads
    /// keep the numbers that they have on their host.
    pub fn cluster(members: &[ClusterMember]) -> Self {
        let mut cluster = Self::default();
        let root = cluster.add(Object::new(Kind::Cluster), None);
        let mut switches: HashMap<&[String], ObjectId> = HashMap::new();
        for member in members {
            let mut above = root;
            for length in 1..=member.switches.len() {
                let path = &member.switches[..length];
                above = *switches.entry(path).or_insert_with(|| {
                    let name = Some(path[length - 1].clone());
                    let switch = Object { name, ..Object::new(Kind::Switch) };
                    cluster.add(switch, Some((above, ParentRelation::Child)))
                });
            }
            cluster.add_machine(member, above);
        }
        cluster.number();
        cluster
    }

    fn add_machine(&mut self, member: &ClusterMember, above: ObjectId) {
        let name = Some(member.host.clone());
        let place = Some((above, ParentRelation::Child));
        let Some(machine) = &member.machine else {
            self.add(Object { name, ..Object::new(Kind::Machine) }, place);
            return;
        };
        let id = self.take_over(machine, machine.root(), place);
        self.change(id).name = name;
        let holders: Vec<ObjectId> = self.ancestors(id).collect();
        for holder in holders {
            self.change(holder).threads.extend(machine.threads().iter());
        }
    }

    /// Copies an object of another tree with everything below it.
    fn take_over(
        &mut self,
        other: &Self,
        id: ObjectId,
        place: Option<(ObjectId, ParentRelation)>,
    ) -> ObjectId {
        let old = &other[id];
        let bare = Object { children: vec![], memories: vec![], devices: vec![], ..old.clone() };
        let copy = self.add(bare, place);
        let below = [
            (&old.children, ParentRelation::Child),
            (&old.memories, ParentRelation::Memory),
            (&old.devices, ParentRelation::Device),
        ];
        for (ids, relation) in below {
            for &id in ids {
                self.take_over(other, id, Some((copy, relation)));
            }
        }
        copy
    }

    /// Builds the cluster that a text describes. `machine` reads the file or the synthetic
    /// description of a host.
    ///
    /// # Errors
    /// The text, or the description of a host, is malformed.
    pub(crate) fn cluster_from_text(
        text: &str,
        machine: impl Fn(&str) -> Result<Self, TopologyError>,
    ) -> Result<Self, TopologyError> {
        let wrong = |reason: String| TopologyError::NotACluster { reason };
        let cluster = Cluster::parse(text).map_err(wrong)?;
        let mut known: HashMap<&str, Self> = HashMap::new();
        let mut members = Vec::new();
        for host in cluster.hosts() {
            let described = cluster.machine(host);
            if let Some(words) = described
                && !known.contains_key(words)
            {
                known.insert(words, machine(words)?);
            }
            members.push(ClusterMember {
                switches: cluster.switches_above(host).unwrap_or_default(),
                host: host.clone(),
                machine: described.and_then(|words| known.get(words)).cloned(),
            });
        }
        Ok(Self::cluster(&members).with_network(cluster.network().cloned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "switch top: left right   # two of them\n\
                        switch left: node[08-10]\n\
                        SwitchName=right Nodes=b,c[1,3] LinkSpeed=100\n\
                        \n\
                        machine node[08-10],b: package:2 core:2 pu:1\n";

    #[test]
    fn machines_are_below_switches() {
        let cluster = Cluster::parse(TEXT).unwrap();
        assert_eq!(cluster.hosts(), ["node08", "node09", "node10", "b", "c1", "c3"]);
        assert_eq!(cluster.switches_above("node09").unwrap(), ["top", "left"]);
        assert_eq!(cluster.switches_above("c3").unwrap(), ["top", "right"]);
        assert_eq!(cluster.machine("b"), Some("package:2 core:2 pu:1"));
        assert_eq!(cluster.machine("c1"), None);
    }

    #[test]
    fn networks_are_graphs() {
        let torus = Cluster::parse("torus 2x3 cost=4x1: n[0-5]\nmachine n5,n0: core:2").unwrap();
        assert_eq!(torus.hosts()[..2], ["n0", "n1"]);
        let distances = |cluster: &Cluster| cluster.network().unwrap().distances().unwrap();
        assert_eq!(distances(&torus).between(0, 5), 5);
        assert!(torus.switches_above("n3").unwrap().is_empty());
        let fly = Cluster::parse("dragonfly 3x2x1: n[0-5]").unwrap();
        assert_eq!(fly.switches_above("n3").unwrap(), ["group1", "group1-router1"]);
        // Two leaf switches below two spines.
        let links = "link spine1: leaf1,leaf2\nlink spine2 cost=3: leaf[1-2]\n\
                     link leaf1: a,b\nlink leaf2: c";
        let clos = Cluster::parse(links).unwrap();
        assert_eq!(clos.hosts(), ["a", "b", "c"]);
        assert_eq!([distances(&clos).between(0, 1), distances(&clos).between(0, 2)], [2, 4]);
        let tree =
            Cluster::parse("switch leaf1: a b\nswitch leaf2: c\nlink top: leaf[1-2]").unwrap();
        assert_eq!(tree.switches_above("b").unwrap(), ["leaf1"]);
        assert_eq!([distances(&tree).between(0, 1), distances(&tree).between(0, 2)], [2, 4]);
    }

    #[test]
    fn what_is_wrong_is_reported_with_its_line() {
        for (text, expected) in [
            ("switch a: b\nmoon", "line 2: \"moon\" is neither"),
            ("switch a: b\nswitch c: b", "line 2: b is below c, but also below a"),
            ("switch a: node[3-1]", "line 1: \"node[3-1]\" is not a name"),
            ("switch a: node[1-", "line 1: \"node[1-\" is not a name"),
            ("switch a:", "line 1: it contains no names"),
            ("machine a: x\nmachine a: y", "line 2: a was described before"),
            ("switch a: b n\nswitch b: a", "form a cycle"),
            ("# nothing", "names no machine"),
            ("torus 2x2: n[1-5]", "line 1: the extents"),
            ("torus 2x0: n[1-5]", "line 1: \"2x0\" is not a list"),
            ("torus 70000x70000x70000x70000: n1", "line 1: the extents"),
            ("torus 2 cost=1x2: n[1-2]", "line 1: a torus needs a cost for each"),
            ("torus 2: a a", "line 1: it names a host twice"),
            ("torus 2: a b\nmesh 2: c d", "line 2: it describes a second network"),
            ("torus 2: a b\nlink a: b", "it describes a second network"),
            ("torus 2: a b\nmachine c: core:1", "c is not in the network"),
            ("dragonfly 2x2: n[1-4]", "line 1: a dragonfly needs"),
            ("dragonfly 2x2x2: n[1-4]", "line 1: the product of groups"),
            ("link a: a", "line 1: a is linked with itself"),
            ("link a cost=1x2: b", "line 1: a link has one cost"),
            ("link a: b\nlink b cost=2: a", "have two costs"),
            ("link a: b\nlink c: d", "no links connect"),
            ("switch a: n[1-999999999999]", "not a name"),
            ("switch a: n[1-90000][1-90000]", "too many"),
            ("switch a: n[1-90000]\nswitch b: m[1-90000]", "line 2: it contains too many names"),
            ("machine n[1-90000]: x\nmachine m[1-90000]: x", "line 2: it contains too many names"),
            (&format!("switch {}: a", "s".repeat(256)), "line 1: a name in it is too long"),
        ] {
            let Err(wrong) = Cluster::parse(text) else { panic!("{text:?} is read") };
            assert!(wrong.contains(expected), "{text:?}: {wrong}");
        }
    }

    /// Time and memory must not grow with the square of the number of names.
    #[test]
    fn as_many_machines_as_there_may_be_are_read_at_once() {
        let description = "package:2 ".repeat(1000);
        let text = format!("switch a: n[1-100000]\nmachine n[50001-100000]: {description}");
        let begun = std::time::Instant::now();
        let cluster = Cluster::parse(&text).unwrap();
        assert_eq!(cluster.hosts().len(), NAMES_MAX);
        assert_eq!(cluster.machine("n70000"), Some(description.trim()));
        assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
    }

    #[test]
    fn slurm_tells_where_a_machine_is() {
        let path = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(
            in_address("top.left.node3", "switch.switch.node"),
            Some(path(&["top", "left"]))
        );
        assert_eq!(in_address("node3", "node"), Some(path(&[])));
        assert_eq!(in_address("a.n.domain", "switch.node"), Some(path(&["a"])));
        assert_eq!(in_address("node3", "switch.node"), None);
        assert_eq!(in_address("", "node"), None);
        assert_eq!(in_address("a.b", "switch.switch"), None);
    }

    #[test]
    fn cluster_and_machines_are_one_tree() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/machines/emulated.xml");
        let text =
            "switch top: left right\nswitch left: a b\nswitch right: c\nmachine a c: emulated";
        let read = |words: &str| {
            assert_eq!(words, "emulated");
            Topology::from_xml(&std::fs::read_to_string(folder).unwrap())
        };
        let tree = Topology::cluster_from_text(text, read).unwrap();
        assert_eq!(tree[tree.root()].kind, Kind::Cluster);
        let machines = tree.of_kind(Kind::Machine);
        let names: Vec<String> = machines.iter().map(|id| tree[*id].label()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(tree.of_kind(Kind::Switch).len(), 3);
        assert_eq!(tree.of_kind(Kind::NumaNode).len(), 8);
        // By the common switch, or by the root.
        let hops = |to: usize| tree.hops(machines[0], machines[to]);
        assert_eq!((hops(1), hops(2)), (2, 4));
        let network = tree.interface("enp33s0").unwrap();
        assert_eq!(tree.locality(network).unwrap().node, Some(0));
    }
}
