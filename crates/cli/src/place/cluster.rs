//! The tree of places that the user describes: machines that are all alike, or hosts of which only
//! the slots are known.

use std::collections::HashMap;
use std::fmt::Write;

use clap::ValueEnum;
use launcher::Host;
use placement::{Branch, BranchTree};
use serde_json::{Value, json};
use topology::{CpuSet, Kind, ObjectId, Scope, Topology};

/// The unit that takes one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Unit {
    /// A core with all its hardware threads.
    Core,
    /// A hardware thread.
    Thread,
}

/// The machines, and the hardware threads of each leaf of the tree.
pub struct TargetMachines {
    /// The tree.
    pub tree: BranchTree,
    /// By leaf, in the order of the machines: the name of the host, and its hardware threads;
    /// `None` means the whole host.
    leaves: Vec<(String, Option<CpuSet>)>,
}

/// The maximum number of machines; a larger number is a typing error.
const MACHINES_MAX: usize = 65_536;

impl TargetMachines {
    /// Builds the tree. Without hosts the machines are called node0 and so on; a single machine is
    /// called localhost.
    ///
    /// # Errors
    /// A message for the user: the description is malformed, or does not fit the hosts.
    pub fn new(topology: Option<&str>, hosts: &[Host], per: Unit) -> Result<Self, String> {
        let Some(topology) = topology else {
            if !hosts.is_empty() {
                return Ok(Self::of_slots(hosts));
            }
            let here = Topology::this_machine(Scope::Devices).map_err(|error| error.to_string())?;
            return Ok(Self::of_machines(&here, per, &[1], &["localhost".to_owned()], hosts));
        };
        let (counts, machine) = split(topology)?;
        let machine = Topology::described(machine).map_err(|error| error.to_string())?;
        let count: usize = counts.iter().product();
        if machine[machine.root()].kind == Kind::Cluster {
            return Self::of_cluster(&machine, per, &counts, hosts);
        }
        let names: Vec<String> = match (hosts.is_empty(), count) {
            (true, 1) => vec!["localhost".to_owned()],
            (true, _) => (0..count).map(|number| format!("node{number}")).collect(),
            (false, _) => hosts.iter().map(|host| host.name.clone()).collect(),
        };
        if !counts.is_empty() && names.len() != count {
            return Err(format!(
                "--topology describes {count} machines, but there are {} hosts",
                names.len()
            ));
        }
        let counts = if counts.is_empty() { vec![names.len()] } else { counts };
        Ok(Self::of_machines(&machine, per, &counts, &names, hosts))
    }

    /// Builds the tree of a described cluster. Machines that are not among the hosts get no ranks.
    fn of_cluster(
        cluster: &Topology,
        per: Unit,
        counts: &[usize],
        hosts: &[Host],
    ) -> Result<Self, String> {
        if !counts.is_empty() {
            return Err(
                "--topology: a file that describes a cluster contains the number of machines"
                    .to_owned(),
            );
        }
        let machines = cluster.of_kind(Kind::Machine);
        let name = |id: ObjectId| cluster[id].label();
        if let Some(host) =
            hosts.iter().find(|host| !machines.iter().any(|id| name(*id) == host.name))
        {
            return Err(format!("--topology describes no machine {}", host.name));
        }
        let mut leaves = Vec::new();
        if let Some(network) = cluster.network() {
            let by_name: HashMap<String, ObjectId> =
                machines.into_iter().map(|id| (name(id), id)).collect();
            let mut all = Vec::new();
            for host in network.hosts() {
                let mut machine = below_switches(cluster, by_name[host], per, hosts, &mut leaves);
                number(&mut machine);
                all.push(machine);
            }
            let distances = network.distances()?;
            return Ok(Self { tree: BranchTree::over_network(&all, distances, 1), leaves });
        }
        let mut root = below_switches(cluster, cluster.root(), per, hosts, &mut leaves);
        number(&mut root);
        Ok(Self { tree: BranchTree::new(&root), leaves })
    }

    /// Builds a tree of hosts with nothing but slots.
    fn of_slots(hosts: &[Host]) -> Self {
        let leaves = hosts.iter().map(|host| (host.name.clone(), None)).collect();
        let machine =
            |host: &Host| Branch { is_machine: true, ..Branch::leaf(host.slots.unwrap_or(1)) };
        let root = Branch::of(2, hosts.iter().map(machine).collect());
        Self { tree: BranchTree::new(&root), leaves }
    }

    /// Builds a tree of machines with these names that are all alike, below switches with `counts`
    /// children each.
    fn of_machines(
        machine: &Topology,
        per: Unit,
        counts: &[usize],
        names: &[String],
        hosts: &[Host],
    ) -> Self {
        let mut sets = Vec::new();
        let mut branch = branch(machine, machine.root(), per, &mut sets);
        branch.is_machine = true;
        let mut leaves = Vec::new();
        let mut level: Vec<Branch> = Vec::new();
        for (number, name) in names.iter().enumerate() {
            let mut one = branch.clone();
            if let Some(slots) = hosts.get(number).and_then(|host| host.slots) {
                limit(&mut one, slots as usize, sets.len());
            }
            level.push(one);
            leaves.extend(sets.iter().map(|set| (name.clone(), Some(set.clone()))));
        }
        // From the machines upwards, joins those below one switch.
        for &count in counts.iter().rev() {
            level = level.chunks(count.max(1)).map(together).collect();
        }
        let mut root = together(&level);
        number(&mut root);
        Self { tree: BranchTree::new(&root), leaves }
    }

    /// The places of ranks in the format of `combray run --rankfile`.
    pub fn rankfile(&self, leaves: &[u32]) -> String {
        let mut text = String::new();
        for (rank, &leaf) in leaves.iter().enumerate() {
            let (host, threads) = &self.leaves[leaf as usize];
            // Writing to a string does not fail.
            let _ = write!(text, "rank {rank}={host}");
            if let Some(threads) = threads {
                let _ = write!(text, " slot={threads}");
            }
            text.push('\n');
        }
        text
    }

    /// The places of ranks as JSON.
    pub fn places(&self, leaves: &[u32]) -> Value {
        let place = |(rank, &leaf): (usize, &u32)| {
            let (host, threads) = &self.leaves[leaf as usize];
            let threads = threads.as_ref().map(ToString::to_string);
            json!({ "rank": rank, "host": host, "leaf": leaf, "threads": threads })
        };
        leaves.iter().enumerate().map(place).collect()
    }
}

/// The branch of a switch with everything below it, or of a machine with the slots of the host of
/// this name.
fn below_switches(
    cluster: &Topology,
    id: ObjectId,
    per: Unit,
    hosts: &[Host],
    leaves: &mut Vec<(String, Option<CpuSet>)>,
) -> Branch {
    let object = &cluster[id];
    if object.kind != Kind::Machine {
        let below = object.children.iter();
        let below: Vec<Branch> =
            below.map(|&id| below_switches(cluster, id, per, hosts, leaves)).collect();
        return together(&below);
    }
    let name = object.label();
    let host = hosts.iter().find(|host| host.name == name);
    let mut sets = Vec::new();
    let mut machine = branch(cluster, id, per, &mut sets);
    machine.is_machine = true;
    let is_known = !object.threads.is_empty();
    match host {
        Some(host) if is_known => {
            if let Some(slots) = host.slots {
                limit(&mut machine, slots as usize, sets.len());
            }
        }
        Some(host) => machine.slots = host.slots.unwrap_or(1),
        None if !hosts.is_empty() => for_leaves(&mut machine, &mut |leaf| leaf.slots = 0),
        None if !is_known => machine.slots = 1,
        None => {}
    }
    leaves.extend(sets.into_iter().map(|set| (name.clone(), is_known.then_some(set))));
    machine
}

/// Joins several branches into one; a single branch stays as it is.
fn together(branches: &[Branch]) -> Branch {
    match branches {
        [only] => only.clone(),
        several => Branch::of(0, several.to_vec()),
    }
}

/// Splits the numbers of switches and nodes off a description.
fn split(what: &str) -> Result<(Vec<usize>, &str), String> {
    let mut counts = Vec::new();
    let mut rest = what.trim();
    while let Some((word, count)) =
        rest.split_whitespace().next().and_then(|word| word.split_once(':'))
    {
        if !matches!(word.to_lowercase().as_str(), "switch" | "node" | "machine") {
            break;
        }
        let number = count.parse().ok().filter(|number| (1..=MACHINES_MAX).contains(number));
        counts.push(number.ok_or_else(|| {
            format!("--topology: \"{word}:{count}\" needs a number from 1 to {MACHINES_MAX}")
        })?);
        rest = rest.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim());
    }
    if counts
        .iter()
        .try_fold(1_usize, |all, count| all.checked_mul(*count).filter(|all| *all <= MACHINES_MAX))
        .is_none()
    {
        return Err(format!("--topology describes more than {MACHINES_MAX} machines"));
    }
    if rest.is_empty() {
        return Err("--topology does not describe the inside of machines; add for example core:8"
            .to_owned());
    }
    Ok((counts, rest))
}

/// The branch of an object with all units below it. Levels with a single child are omitted.
fn branch(machine: &Topology, id: ObjectId, per: Unit, sets: &mut Vec<CpuSet>) -> Branch {
    let object = &machine[id];
    let is_unit = match per {
        Unit::Core => matches!(object.kind, Kind::Core | Kind::Thread),
        Unit::Thread => object.kind == Kind::Thread,
    };
    let interfaces = interfaces_near(machine, id);
    if is_unit || object.children.is_empty() {
        sets.push(object.threads.clone());
        return Branch { interfaces, ..Branch::leaf(u32::from(!object.threads.is_empty())) };
    }
    let mut children: Vec<Branch> =
        object.children.iter().map(|&child| branch(machine, child, per, sets)).collect();
    if children.len() == 1 {
        let mut only = children.remove(0);
        only.interfaces += interfaces;
        return only;
    }
    Branch { interfaces, ..Branch::of(0, children) }
}

/// The number of network interfaces whose nearest object is this one.
fn interfaces_near(machine: &Topology, id: ObjectId) -> u32 {
    let devices = machine.devices().into_iter().filter(|device| machine.is_interface(*device));
    devices.filter(|device| machine.near(*device) == Some(id)).count() as u32
}

/// Limits a machine to this many slots, from the left. If it has more slots than leaves, all leaves
/// share them.
fn limit(branch: &mut Branch, slots: usize, leaves: usize) {
    let each = slots.div_ceil(leaves.max(1)).max(1);
    let mut left = slots;
    for_leaves(branch, &mut |leaf| {
        if leaf.slots > 0 {
            leaf.slots = each.min(left) as u32;
            left -= each.min(left);
        }
    });
}

fn for_leaves(branch: &mut Branch, act: &mut dyn FnMut(&mut Branch)) {
    if branch.children.is_empty() {
        act(branch);
    }
    branch.children.iter_mut().for_each(|child| for_leaves(child, act));
}

/// Sets the cost of a byte to two hops for each level. Returns the number of levels.
fn number(branch: &mut Branch) -> u64 {
    let levels = branch.children.iter_mut().map(number).max();
    levels.map_or(0, |below| {
        branch.crossing = 2 * (below + 1);
        below + 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(topology: &str, hosts: &[Host]) -> TargetMachines {
        TargetMachines::new(Some(topology), hosts, Unit::Core).unwrap()
    }

    /// Two packages of two cores, the second with a network interface.
    const MACHINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../topology/tests/odd.xml");

    #[test]
    fn switches_and_nodes_stand_before_what_hwloc_knows() {
        assert_eq!(split("switch:2 node:4 package:2 core:8"), Ok((vec![2, 4], "package:2 core:8")));
        assert_eq!(split("core:8"), Ok((vec![], "core:8")));
        assert!(split("node:4").unwrap_err().contains("inside"));
        assert!(split("node:x core:2").unwrap_err().contains("number"));
        assert!(split("node:60000 switch:60000 core:2").unwrap_err().contains("more than"));
    }

    #[test]
    fn machines_are_alike() {
        let two = cluster(&format!("node:2 {MACHINE}"), &[]);
        let one = cluster(MACHINE, &[]);
        assert_eq!(two.leaves.len(), 2 * one.leaves.len());
        let [last_of_one, last_of_two] =
            [&one, &two].map(|targets| targets.leaves.len() as u32 - 1);
        let farthest = one.tree.crossing(0, last_of_one);
        assert_eq!(two.tree.crossing(0, last_of_one), farthest);
        assert_eq!(two.tree.crossing(0, last_of_two), farthest + 2);
        assert!(one.rankfile(&[0]).starts_with("rank 0=localhost slot="));
        assert!(two.rankfile(&[0, one.leaves.len() as u32]).contains("rank 1=node1 slot="));
    }

    #[test]
    fn hosts_have_their_slots() {
        let host = |name: &str, slots| Host { name: name.to_owned(), slots, slots_max: None };
        let hosts = [host("a", Some(2)), host("b", None)];
        let bare = TargetMachines::new(None, &hosts, Unit::Core).unwrap();
        assert_eq!(bare.rankfile(&[1, 0]), "rank 0=b\nrank 1=a\n");
        let slots = |tree: &BranchTree| -> Vec<u32> {
            tree.listed().into_iter().map(|leaf| tree.slots(leaf)).collect()
        };
        assert_eq!(slots(&bare.tree), [2, 1]);
        let known = cluster(MACHINE, &hosts);
        let of_first = known.tree.leaf_count() as usize / 2;
        assert_eq!(slots(&known.tree)[..of_first].iter().sum::<u32>(), 2);
        let many = cluster(MACHINE, &[host("a", Some(1000))]);
        assert_eq!(slots(&many.tree).iter().sum::<u32>(), 1000);
        assert!(
            TargetMachines::new(Some(&format!("node:3 {MACHINE}")), &hosts, Unit::Core).is_err()
        );
    }
}
