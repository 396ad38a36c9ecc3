//! Chooses places by what processes need, on whatever levels a machine has.
//!
//! A description names groups of ranks with their needs: `0-7: memory; 0-3: synchronise`. Groups
//! are nested or disjoint. A group that shares memory intensively gets one NUMA node if there is
//! room. A group that synchronises often gets the smallest part of the machine that has room. A
//! group that needs memory bandwidth is spread over NUMA nodes. A group that communicates over the
//! network is placed near an interface.

use std::cmp::Reverse;
use std::collections::HashSet;

use topology::{CpuSet, Kind, ObjectId, Topology};

use super::Cpuset;

/// What a group of processes needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupNeed {
    /// The group shares memory intensively.
    Memory,
    /// The group needs memory bandwidth.
    Bandwidth,
    /// The group synchronises often.
    Synchronise,
    /// The group communicates over the network.
    Network,
}

/// The keywords of descriptions.
const WORDS: [(&str, GroupNeed); 6] = [
    ("memory", GroupNeed::Memory),
    ("bandwidth", GroupNeed::Bandwidth),
    ("synchronise", GroupNeed::Synchronise),
    ("synchronize", GroupNeed::Synchronise),
    ("sync", GroupNeed::Synchronise),
    ("network", GroupNeed::Network),
];

/// What the groups of a job need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// From large to small.
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
                     network\"; needs are {words}"
                )
            })?;
            groups.push(group);
        }
        groups.sort_by_key(|(ranks, _)| Reverse(ranks.len()));
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
        self.groups.iter().any(|(_, needs)| needs.contains(&GroupNeed::Network))
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
    let (ranks, needs) = entry.split_once(':')?;
    let ranks = CpuSet::from_list(&ranks.replace(' ', "")).filter(|ranks| !ranks.is_empty())?;
    let words = needs.split([',', ' ']).map(str::trim).filter(|word| !word.is_empty());
    let need = |word: &str| WORDS.iter().find(|(known, _)| *known == word).map(|(_, need)| *need);
    let needs: Vec<GroupNeed> = words.map(need).collect::<Option<_>>()?;
    (!needs.is_empty()).then_some((ranks, needs))
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
            let own = ranks.intersection(&left);
            if !own.is_empty() && !inner.iter().any(|(_, taken, _)| own.is_subset(taken)) {
                inner.push((index, own, needs));
            }
        }
        // Groups with the narrowest choice come first.
        inner.sort_by_key(|(_, _, needs)| {
            (
                !needs.contains(&GroupNeed::Network),
                !needs.contains(&GroupNeed::Synchronise),
                needs.contains(&GroupNeed::Bandwidth),
            )
        });
        for (index, ranks, needs) in inner {
            self.place(&ranks, needs, region, &all[index + 1..]);
            left = left.without(&ranks);
        }
        for rank in left.iter() {
            let cores = if needs.contains(&GroupNeed::Bandwidth) {
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

    /// Returns the part of the machine in which a group gets its places.
    fn region(&self, group: &CpuSet, needs: &[GroupNeed], within: ObjectId) -> ObjectId {
        let wants = |need| needs.contains(&need);
        if !wants(GroupNeed::Memory) && !wants(GroupNeed::Synchronise) && !wants(GroupNeed::Network)
        {
            return within;
        }
        let wanted = group.len() * self.each;
        let mut candidates = Vec::new();
        self.topology.visit(within, &mut |id| {
            let object = &self.topology[id];
            let is_part = !object.kind.is_device() && !object.threads.is_empty();
            // A group that shares memory gains nothing from a part smaller than its NUMA node.
            let is_small = !wants(GroupNeed::Synchronise)
                && self.topology.of_kind_in(id, Kind::NumaNode).is_empty()
                && self.topology.holder(id, Kind::NumaNode).is_some();
            if is_part && !is_small && self.free_in(id).len() >= wanted {
                candidates.push(id);
            }
        });
        let key = |id: &ObjectId| {
            let far = if wants(GroupNeed::Network) { self.way_to_network(*id) } else { 0 };
            (self.topology[*id].threads.len(), far, self.free_in(*id).len())
        };
        // The nearest part comes before the smallest only for groups that neither share memory nor
        // synchronise.
        let best = match wants(GroupNeed::Memory) || wants(GroupNeed::Synchronise) {
            true => candidates.into_iter().min_by_key(key),
            false => candidates.into_iter().min_by_key(|id| (self.way_to_network(*id), key(id))),
        };
        best.unwrap_or(within)
    }

    /// Returns how far an object is from the nearest network interface whose place is known.
    fn way_to_network(&self, id: ObjectId) -> usize {
        let devices = self.topology.devices().into_iter();
        let interfaces = devices.filter(|device| self.topology.is_interface(*device));
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
    fn what_is_not_understood_is_reported() {
        let message = |text| Needs::parse(text).unwrap_err();
        assert!(message("0-3").contains("is not a group"));
        assert!(message("0-3: moon").contains("needs are memory"));
        assert!(message("x: memory").contains("\"x: memory\""));
        assert!(message("0-3: memory; 2-5: memory").contains("overlap"));
        assert_eq!(Needs::parse("# nothing\n\n"), Ok(Needs::default()));
        let needs = Needs::parse("0-1: sync\n2: network # far").unwrap();
        assert!(needs.names_network() && needs.groups.len() == 2);
    }
}
