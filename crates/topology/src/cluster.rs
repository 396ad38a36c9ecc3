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
//! Lines of Slurm's `topology.conf` (`SwitchName=left Nodes=node[1-4]`) are accepted too.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sys::environment;

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

impl Cluster {
    /// Parses a description.
    ///
    /// # Errors
    /// A line is malformed, or contradicts another line. The error is a sentence with the number of
    /// the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut cluster = Self::default();
        let mut switches = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                let read = cluster.read(line, &mut switches);
                read.map_err(|wrong| format!("line {number}: {wrong}"))?;
            }
        }
        let known: HashSet<String> = switches.iter().map(|(switch, _)| switch.clone()).collect();
        let below = switches.into_iter().flat_map(|(_, below): (String, Vec<String>)| below);
        let is_new = |name: &String| !known.contains(name) && !cluster.machines.contains_key(name);
        cluster.hosts.extend(below.filter(is_new));
        if cluster.hosts.is_empty() {
            return Err("it names no machine".to_owned());
        }
        match cluster.hosts.iter().find(|host| cluster.switches_above(host).is_none()) {
            Some(host) => Err(format!("the switches above {host} form a cycle")),
            None => Ok(cluster),
        }
    }

    fn read(
        &mut self,
        line: &str,
        switches: &mut Vec<(String, Vec<String>)>,
    ) -> Result<(), String> {
        if let Some((switch, below)) = of_slurm(line) {
            return self.add_switch(switch, &below, switches);
        }
        let wrong = || {
            format!(
                "\"{line}\" is neither \"switch NAME: NAMES\" nor \"machine NAMES: DESCRIPTION\""
            )
        };
        let (head, rest) = line.split_once(':').ok_or_else(wrong)?;
        match head.split_once(char::is_whitespace) {
            Some(("switch", name)) => self.add_switch(name.trim(), rest, switches),
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

    fn add_switch(
        &mut self,
        switch: &str,
        below: &str,
        switches: &mut Vec<(String, Vec<String>)>,
    ) -> Result<(), String> {
        if switch.is_empty() || switch.contains(char::is_whitespace) {
            return Err(format!("\"{switch}\" is not the name of a switch"));
        }
        if switch.len() > NAME_BYTES_MAX {
            return Err("a name in it is too long".to_owned());
        }
        let below = names_of(below)?;
        let shared: Arc<str> = switch.into();
        for name in &below {
            if let Some(other) = self.above.insert(name.clone(), shared.clone()) {
                return Err(format!("{name} is below {switch}, but also below {other}"));
            }
        }
        switches.push((switch.to_owned(), below));
        check_count(self.above.len())
    }

    /// The names of the hosts.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
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
        Ok(Self::cluster(&members))
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
