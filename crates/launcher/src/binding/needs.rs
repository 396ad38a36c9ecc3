//! Chooses places by what processes need, on whatever levels a machine has.
//!
//! A description names groups of ranks with their needs: `0-7: memory; 0-3: synchronise`, or the
//! needs of all ranks: `cache:3, memory:2, near=ib0`. Groups are nested or disjoint. A group that
//! shares memory intensively gets one NUMA node if there is room, one that shares data in caches a
//! shared cache. A group that synchronises often gets the smallest part of the machine that has
//! room. A group that needs memory bandwidth is spread over NUMA nodes. A group that communicates
//! over the network is placed near an interface. If needs contradict each other, the part with the
//! least weighted sum of what they lack is chosen.

use std::cmp::Reverse;
use std::collections::HashSet;

use topology::{CpuSet, Kind, ObjectId, Topology};

use super::Cpuset;

/// A need of a group of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupNeed {
    pub kind: NeedKind,
    /// How much it counts beside the other needs of the group, at least 1.
    pub weight: u8,
    /// The interface that must be near; empty: any.
    pub interface: String,
}

/// What a group of processes needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NeedKind {
    /// The group shares memory intensively.
    Memory,
    /// The group shares data that caches hold.
    Cache,
    /// The group needs memory bandwidth.
    Bandwidth,
    /// The group synchronises often.
    Synchronise,
    /// The group communicates over the network.
    Network,
}

/// The keywords of descriptions.
const WORDS: [(&str, NeedKind); 8] = [
    ("memory", NeedKind::Memory),
    ("cache", NeedKind::Cache),
    ("bandwidth", NeedKind::Bandwidth),
    ("synchronise", NeedKind::Synchronise),
    ("synchronize", NeedKind::Synchronise),
    ("sync", NeedKind::Synchronise),
    ("network", NeedKind::Network),
    ("near", NeedKind::Network),
];

/// The largest weight of a need.
const WEIGHT_MAX: u8 = 100;

/// What the groups of a job need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// From large to small; an empty set of ranks stands for all.
    pub(crate) groups: Vec<(CpuSet, Vec<GroupNeed>)>,
}

impl Needs {
    /// Reads a description: groups separated by semicolons or line ends, and comments after `#`.
    ///
    /// # Errors
    /// A message for users: which text is not understood.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut groups = Vec::new();
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        for entry in lines.flat_map(|line| line.split(';')).map(str::trim) {
            if entry.is_empty() {
                continue;
            }
            let group = read_group(entry).ok_or_else(|| {
                let words = WORDS.map(|(word, _)| word).join(", ");
                format!(
                    "\"{entry}\" is not a group; write ranks and needs, as in \"0-3: memory, \
                     network\", or the needs of all, as in \"cache:3, near=eth0\"; needs are \
                     {words}, with weights up to {WEIGHT_MAX}"
                )
            })?;
            groups.push(group);
        }
        groups.sort_by_key(|(ranks, _)| (!ranks.is_empty(), Reverse(ranks.len())));
        for (index, (ranks, _)) in groups.iter().enumerate() {
            let crosses = |(other, _): &&(CpuSet, Vec<GroupNeed>)| {
                ranks.intersects(other) && !ranks.is_subset(other)
            };
            if let Some((other, _)) = groups[..index].iter().find(crosses) {
                return Err(format!(
                    "the groups {other} and {ranks} overlap; each must lie in the other or apart \
                     from it"
                ));
            }
        }
        Ok(Self { groups })
    }

    /// Whether a group needs to be near an interface, so that the devices must be detected.
    pub fn names_network(&self) -> bool {
        self.groups.iter().any(|(_, needs)| wants(needs, NeedKind::Network))
    }

    /// Returns the cpusets of these ranks on a machine.
    ///
    /// # Errors
    /// A message for users: there are not enough cores.
    pub(super) fn plan(
        &self,
        topology: &Topology,
        machine: ObjectId,
        ranks: &[u32],
    ) -> Result<Vec<Cpuset>, String> {
        let mut needs = self.groups.iter().flat_map(|(_, needs)| needs);
        let is_missing = |need: &&GroupNeed| {
            !need.interface.is_empty() && topology.interface(&need.interface).is_none()
        };
        if let Some(need) = needs.find(is_missing) {
            return Err(format!(
                "--needs near={0}: this machine has no interface {0}; combray topo lists them",
                need.interface
            ));
        }
        let cores = topology.of_kind_in(machine, Kind::Core);
        let each = cores.len() / ranks.len();
        if each == 0 {
            return Err(format!(
                "{} processes must be placed by their needs, but this machine has {} cores for \
                 them; start fewer, or leave --needs out",
                ranks.len(),
                cores.len()
            ));
        }
        let free = cores.into_iter().collect();
        let mut placer =
            Placer { topology, machine, ranks, each, free, cpusets: vec![None; ranks.len()] };
        let all: CpuSet = ranks.iter().map(|rank| *rank as usize).collect();
        placer.place(&all, &[], machine, &self.groups);
        Ok(placer.cpusets)
    }
}

fn read_group(entry: &str) -> Option<(CpuSet, Vec<GroupNeed>)> {
    let ranks = |text: &str| {
        CpuSet::from_list(&text.replace(' ', "")).filter(|ranks: &CpuSet| !ranks.is_empty())
    };
    let of_some = entry.split_once(':').and_then(|(head, needs)| Some((ranks(head)?, needs)));
    let (ranks, needs) = of_some.unwrap_or((CpuSet::default(), entry));
    let words = needs.split([',', ' ']).map(str::trim).filter(|word| !word.is_empty());
    let needs: Vec<GroupNeed> = words.map(read_need).collect::<Option<_>>()?;
    (!needs.is_empty()).then_some((ranks, needs))
}

/// Reads a need: a keyword, for `near` an interface after `=`, and a weight after `:`.
fn read_need(word: &str) -> Option<GroupNeed> {
    let (word, weight) = match word.rsplit_once(':') {
        Some((word, weight)) => (word, weight.parse().ok()?),
        None => (word, 1),
    };
    let (word, interface) = word.split_once('=').unwrap_or((word, ""));
    let kind = WORDS.iter().find(|(known, _)| *known == word)?.1;
    let names_one = word == "near";
    let is_right = (1..=WEIGHT_MAX).contains(&weight) && names_one != interface.is_empty();
    is_right.then(|| GroupNeed { kind, weight, interface: interface.to_owned() })
}

fn wants(needs: &[GroupNeed], kind: NeedKind) -> bool {
    needs.iter().any(|need| need.kind == kind)
}

struct Placer<'a> {
    topology: &'a Topology,
    machine: ObjectId,
    ranks: &'a [u32],
    /// The number of cores for each process.
    each: usize,
    free: HashSet<ObjectId>,
    cpusets: Vec<Cpuset>,
}

impl Placer<'_> {
    /// Places the ranks of a group: first the groups inside it, then the remaining ranks.
    fn place(
        &mut self,
        group: &CpuSet,
        needs: &[GroupNeed],
        within: ObjectId,
        all: &[(CpuSet, Vec<GroupNeed>)],
    ) {
        let region = self.region(group, needs, within);
        let mut left = group.clone();
        // The next smaller groups. Groups inside these are placed by them.
        let mut inner: Vec<(usize, CpuSet, &Vec<GroupNeed>)> = Vec::new();
        for (index, (ranks, needs)) in all.iter().enumerate() {
            let own = if ranks.is_empty() { left.clone() } else { ranks.intersection(&left) };
            if !own.is_empty() && !inner.iter().any(|(_, taken, _)| own.is_subset(taken)) {
                inner.push((index, own, needs));
            }
        }
        // Groups with the narrowest choice come first.
        inner.sort_by_key(|(_, _, needs)| {
            (
                !wants(needs, NeedKind::Network),
                !wants(needs, NeedKind::Synchronise),
                !wants(needs, NeedKind::Cache),
                wants(needs, NeedKind::Bandwidth),
            )
        });
        for (index, ranks, needs) in inner {
            self.place(&ranks, needs, region, &all[index + 1..]);
            left = left.without(&ranks);
        }
        for rank in left.iter() {
            let cores = if wants(needs, NeedKind::Bandwidth) {
                self.spread(region)
            } else {
                self.next(region)
            };
            let Some(local) = self.ranks.iter().position(|known| *known as usize == rank) else {
                continue;
            };
            cores.iter().for_each(|core| {
                self.free.remove(core);
            });
            let threads = cores.iter().map(|core| &self.topology[*core].threads);
            self.cpusets[local] = Some(threads.fold(CpuSet::default(), |all, one| all.union(one)));
        }
    }

    /// Returns the part of the machine in which a group gets its places: that with the least cost
    /// among those with room; of several, the smallest.
    fn region(&self, group: &CpuSet, needs: &[GroupNeed], within: ObjectId) -> ObjectId {
        if needs.iter().all(|need| need.kind == NeedKind::Bandwidth) {
            return within;
        }
        let wanted = group.len() * self.each;
        let gains_from_caches =
            wants(needs, NeedKind::Synchronise) || wants(needs, NeedKind::Cache);
        let mut candidates = Vec::new();
        self.topology.visit(within, &mut |id| {
            let object = &self.topology[id];
            let is_part = !object.kind.is_device() && !object.threads.is_empty();
            // A group that shares memory gains nothing from a part smaller than its NUMA node.
            let is_small = !gains_from_caches
                && self.topology.of_kind_in(id, Kind::NumaNode).is_empty()
                && self.topology.holder(id, Kind::NumaNode).is_some();
            if is_part && !is_small && self.free_in(id).len() >= wanted {
                candidates.push(id);
            }
        });
        let farthest = |interface: &str| {
            let ways = candidates.iter().map(|id| self.way_to_network(*id, interface));
            ways.max().unwrap_or_default().max(1)
        };
        let farthest: Vec<usize> = needs.iter().map(|need| farthest(&need.interface)).collect();
        let key = |id: &ObjectId| {
            let lacks = needs.iter().zip(&farthest);
            let cost =
                lacks.map(|(need, far)| usize::from(need.weight) * self.lack(*id, need, *far));
            let size = self.topology[*id].threads.len();
            (cost.sum::<usize>(), size, self.free_in(*id).len())
        };
        candidates.iter().copied().min_by_key(key).unwrap_or(within)
    }

    /// Returns what a part of the machine lacks for a need, in thousandths: 0 if the need is met,
    /// 1000 for the whole machine, or for the part that is farthest from an interface.
    fn lack(&self, id: ObjectId, need: &GroupNeed, farthest: usize) -> usize {
        let share = |part: usize, whole: usize| 1000 * part / whole.max(1);
        let crossed = |kind: Kind| {
            let count = |within| self.topology.of_kind_in(within, kind).len().saturating_sub(1);
            share(count(id), count(self.machine))
        };
        match need.kind {
            NeedKind::Memory => crossed(Kind::NumaNode),
            NeedKind::Cache => self.topology.shared_cache(self.machine).map_or(0, crossed),
            NeedKind::Synchronise => {
                share(self.topology[id].threads.len(), self.topology[self.machine].threads.len())
            }
            NeedKind::Network => share(self.way_to_network(id, &need.interface), farthest),
            NeedKind::Bandwidth => 0,
        }
    }

    /// Returns how far an object is from the interface with this name, or from the nearest one
    /// whose place is known, if the name is empty.
    fn way_to_network(&self, id: ObjectId, name: &str) -> usize {
        let is_it = |device: &ObjectId| match name.is_empty() {
            true => self.topology.is_interface(*device),
            false => self.topology.interface(name) == Some(*device),
        };
        let interfaces = self.topology.devices().into_iter().filter(is_it);
        let places = interfaces.filter_map(|device| self.topology.near(device));
        places.map(|place| self.topology.hops(id, place)).min().unwrap_or_default()
    }

    /// Returns the free cores in an object, from left to right.
    fn free_in(&self, id: ObjectId) -> Vec<ObjectId> {
        let mut cores = self.topology.of_kind_in(id, Kind::Core);
        cores.retain(|core| self.free.contains(core));
        cores
    }

    /// Returns the next free cores for one process.
    fn next(&self, region: ObjectId) -> Vec<ObjectId> {
        let mut cores = self.free_in(region);
        if cores.len() < self.each {
            cores = self.free_in(self.machine);
        }
        cores.truncate(self.each);
        cores
    }

    /// Returns free cores for one process in the NUMA node with the most free cores.
    fn spread(&self, region: ObjectId) -> Vec<ObjectId> {
        let nodes = self.topology.of_kind_in(region, Kind::NumaNode);
        let emptiest = nodes.into_iter().min_by_key(|node| Reverse(self.free_in(*node).len()));
        self.next(emptiest.unwrap_or(region))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the NUMA nodes of the cpusets of `processes` processes on a described machine.
    fn nodes(machine: &str, processes: u32, text: &str) -> String {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/machines/");
        let text_of_machine = std::fs::read_to_string(format!("{folder}{machine}.xml")).unwrap();
        let topology = Topology::from_xml(&text_of_machine).unwrap();
        let ranks: Vec<u32> = (0..processes).collect();
        let needs = Needs::parse(text).unwrap();
        let cpusets = needs.plan(&topology, topology.root(), &ranks).unwrap();
        let mut used = CpuSet::default();
        let node = |cpuset: &Cpuset| {
            let threads = cpuset.as_ref().unwrap();
            assert!(!threads.intersects(&used), "no core is given away twice");
            used = used.union(threads);
            let all = topology.of_kind(Kind::NumaNode);
            let inside = all.iter().filter(|id| topology[**id].threads.intersects(threads));
            inside.map(|id| topology[*id].logical.to_string()).collect::<Vec<_>>().join("+")
        };
        cpusets.iter().map(node).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn groups_get_what_they_need() {
        // Eight nodes of eight cores, four in each package; interfaces near 1, 2 and 6.
        let many = |processes, text| nodes("many-chiplets", processes, text);
        assert_eq!(many(16, "0-15: bandwidth"), "0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7");
        assert_eq!(many(64, "8-15: memory").split(' ').nth(8), Some("0"));
        assert_eq!(many(32, "0-3: memory; 4-7: memory"), {
            let rest = "2 2 2 2 3 3 3 3 4 4 4 4 5 5 5 5 6 6 6 6 7 7 7 7";
            format!("0 0 0 0 1 1 1 1 {rest}")
        });
        assert_eq!(many(64, "40: network").split(' ').nth(40), Some("1"));
        assert_eq!(many(8, "0: network; 1: network; 2: network"), "1 2 6 0 3 4 5 7");
    }

    #[test]
    fn groups_lie_within_groups() {
        let two = |text| nodes("two-sockets", 8, text);
        assert_eq!(two("0-3: memory; 4-7: memory"), "0 0 0 0 1 1 1 1");
        assert_eq!(two("0-3: memory; 2-3: network"), "0 0 0 0 1 1 1 1");
        assert_eq!(two("4-7: memory, network; 6-7: synchronise"), "1 1 1 1 0 0 0 0");
        assert_eq!(two("0-7: bandwidth; 0-1: synchronise"), "0 0 1 1 0 1 0 1");
    }

    #[test]
    fn weights_decide_where_needs_contradict_each_other() {
        // Interfaces near 1, 2 and 6; ranks 0 to 7 fill node 1, so that the others have to choose.
        let of_last = |needs: &str| {
            let text = format!("0-7: network:9, memory:9; 8-15: {needs}");
            nodes("many-chiplets", 64, &text).split(' ').nth(8).unwrap().to_owned()
        };
        assert_eq!(of_last("memory"), "0");
        assert_eq!(of_last("memory, network"), "2");
    }

    /// The nodes with interfaces are full, and node 0 has two free cores: the last group is
    /// together on node 3, or, one step nearer to the interfaces, anywhere in their package.
    #[test]
    fn the_larger_weight_wins() {
        let of_last = |needs: &str| {
            let full = |ranks| format!("{ranks}: network:9, memory:9; ");
            let all = ["0-7", "8-15", "16-23"].map(full).concat();
            let text = format!("{all}24-29: network; 30-33: {needs}");
            let all = nodes("many-chiplets", 64, &text);
            all.split(' ').skip(30).take(4).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of_last("memory:5, network"), "3 3 3 3");
        assert_eq!(of_last("memory, network:5"), "0 0 3 3");
    }

    #[test]
    fn needs_without_ranks_are_those_of_all() {
        let all = |text| nodes("two-sockets", 8, text);
        assert_eq!(all("cache:3, memory:2"), all("0-7: cache:3, memory:2"), "all ranks");
        assert_eq!(all("0-3: cache:3"), "0 0 0 0 1 1 1 1");
    }

    #[test]
    fn a_named_interface_is_near() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/machines/");
        let text = std::fs::read_to_string(format!("{folder}emulated.xml")).unwrap();
        let topology = Topology::from_xml(&text).unwrap();
        let place = |words: &str| {
            let needs = Needs::parse(words).unwrap();
            assert!(needs.names_network());
            let cpusets = needs.plan(&topology, topology.root(), &[0, 1, 2, 3])?;
            Ok::<_, String>(cpusets[3].as_ref().unwrap().to_string())
        };
        assert_eq!(place("3: near=enp33s0"), Ok("0-1".into()));
        assert_eq!(place("3: near=enp65s0:5, memory"), Ok("4-5".into()));
        let error = place("near=ib0").unwrap_err();
        assert!(error.contains("no interface ib0"), "{error}");
    }

    #[test]
    fn what_is_not_understood_is_reported() {
        let message = |text| Needs::parse(text).unwrap_err();
        assert!(message("0-3").contains("is not a group"));
        assert!(message("0-3: moon").contains("needs are memory"));
        assert!(message("x: memory").contains("\"x: memory\""));
        for wrong in ["memory:0", "memory:101", "memory:x", "near", "near=:2", "cache=eth0"] {
            assert!(message(wrong).contains("as in \"cache:3"), "{wrong}");
        }
        assert!(message("0-3: memory; 2-5: memory").contains("overlap"));
        assert_eq!(Needs::parse("# nothing\n\n"), Ok(Needs::default()));
        let needs = Needs::parse("0-1: sync\n2: network # far").unwrap();
        assert!(needs.names_network() && needs.groups.len() == 2);
    }
}
