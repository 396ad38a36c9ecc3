//! Where the rails of a process are on its machine, and what follows for the process.
//!
//! A rail whose locality is not known is left out of every decision.

use base::{RailId, RailProfile};
use engine::Engine;
use launch::{Job, JoinError};
use sys::{cores, numa};
use topology::{CpuSet, Locality, NEAR, Parts, Topology};

use crate::{configuration, machine};

/// Where the rails are, and where this process communicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RailLocalities {
    /// The place of each rail; none if it is not known, or if the rail belongs to no interface.
    pub places: Vec<Option<RailPlace>>,
    /// The index of the nearest rail.
    pub nearest: Option<usize>,
    /// Where the process communicates, if there is a choice.
    pub preferred_locality: Option<PreferredLocality>,
}

/// Where a rail's interface is, as seen from a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RailPlace {
    /// The locality of the interface: what is near it.
    pub locality: Locality,
    /// The distance of the process from it; [`NEAR`] if the process may run near it.
    pub distance: u32,
}

/// The locality at which a process with a choice communicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreferredLocality {
    /// The near hardware threads; none if all hardware threads on which the process may run are
    /// near.
    pub threads: Option<CpuSet>,
    /// The NUMA node for the library's buffers.
    pub node: Option<u32>,
}

impl RailLocalities {
    /// Returns the distance of the process from the nearest rail.
    pub(crate) fn distance(&self) -> Option<u32> {
        Some(self.places.get(self.nearest?)?.as_ref()?.distance)
    }

    /// Determines the places of these rails, for the process with this rank and its current cpuset.
    pub(crate) fn of(rails: &[RailProfile], rank: u32) -> Self {
        let Some(tree) = machine::tree_with_devices() else { return Self::default() };
        let cpuset: CpuSet = cores::allowed().into_iter().collect();
        let interface = |rail: &RailProfile| {
            (rail.interface().unwrap_or("").to_owned(), rail.bandwidth_bytes_per_us)
        };
        let interfaces: Vec<(String, u64)> = rails.iter().map(interface).collect();
        Self::seen_from(tree, &cpuset, &interfaces, rank)
    }

    /// Determines the places of interfaces, given by their names and speeds, for a process with
    /// the cpuset `cpuset` and this rank.
    pub fn seen_from(
        tree: &Topology,
        cpuset: &CpuSet,
        interfaces: &[(String, u64)],
        rank: u32,
    ) -> Self {
        let places = places(tree, interfaces.iter().map(|(name, _)| name.as_str()), cpuset);
        let speeds: Vec<u64> = interfaces.iter().map(|interface| interface.1).collect();
        let nearest = nearest(&places, &speeds, rank as usize);
        let place = nearest.and_then(|rail| places.get(rail)?.as_ref());
        let preferred_locality = place.and_then(|place| preferred_locality(place, cpuset));
        Self { places, nearest, preferred_locality }
    }
}

/// Returns the NUMA node near the interface with this name, if this process may run there.
pub(crate) fn node_of_interface(name: &str) -> Option<u32> {
    let tree = machine::tree_with_devices()?;
    let cpuset: CpuSet = cores::allowed().into_iter().collect();
    let places = places(tree, std::iter::once(name), &cpuset);
    preferred_locality(places.first()?.as_ref()?, &cpuset)?.node
}

/// Initializes the models of rails with figures for the distance of this process; for `company` see
/// `RailFigures::seen_from`. Rails whose place is not known, and near ones, are left alone.
pub(crate) fn follow(engine: &mut Engine, rail_localities: &RailLocalities, company: f64) {
    for (number, place) in rail_localities.places.iter().enumerate() {
        let Some(place) = place.as_ref().filter(|place| place.distance > NEAR) else { continue };
        let rail = RailId(number as u8);
        let name = engine.rails()[usize::from(rail.0)].name.clone();
        let seen = engine.model(rail).figures().seen_from(place.distance, company);
        engine.believe(&name, &seen);
    }
}

/// Whether memory of this machine can be near an interface or far from it.
pub(crate) fn has_several_nodes() -> bool {
    numa::nodes().is_ok_and(|nodes| nodes.len() > 1)
}

/// Whether the locality of interfaces matters to this process: its machine has several NUMA nodes,
/// and some processes of the job may be on other machines.
///
/// # Errors
/// The launcher has ended.
pub(crate) fn matters(job: &Job) -> Result<bool, JoinError> {
    if !has_several_nodes() {
        return Ok(false);
    }
    let all_here = match configuration::processes_here() {
        _ if configuration::node().is_some() => false,
        Some(count) => count == job.size(),
        None => {
            let mapping = job.process_mapping()?;
            mapping.is_some_and(|nodes| nodes.iter().all(|node| *node == nodes[0]))
        }
    };
    Ok(!all_here)
}

/// Returns the distances of all processes; an unknown distance counts as the largest number. The
/// result is empty if all are equal or none is known.
pub(crate) fn distances_that_matter(all_distances: impl Iterator<Item = Option<u32>>) -> Vec<u32> {
    let all: Vec<u32> = all_distances.map(|distance| distance.unwrap_or(u32::MAX)).collect();
    if all.iter().all(|distance| *distance == all[0]) { Vec::new() } else { all }
}

/// Returns the distance of each NUMA node of this machine from the nearest of these rails, by the
/// logical numbers of the nodes; an unknown distance counts as the largest number.
pub(crate) fn node_distances(rails: &[RailProfile]) -> Vec<u32> {
    let Some(tree) = machine::tree_with_devices() else { return Vec::new() };
    let interfaces: Vec<&str> = rails.iter().filter_map(RailProfile::interface).collect();
    node_distances_in(tree, &interfaces)
}

fn node_distances_in(tree: &Topology, interfaces: &[&str]) -> Vec<u32> {
    let of_node = |id: topology::ObjectId| {
        let places = places(tree, interfaces.iter().copied(), &tree[id].threads);
        places.into_iter().flatten().map(|place| place.distance).min().unwrap_or(u32::MAX)
    };
    tree.of_kind(topology::Kind::NumaNode).into_iter().map(of_node).collect()
}

/// Writes distances as a text without spaces; empty if all nodes are equally near, or if it were
/// longer than [`DISTANCES_MAX`].
pub(crate) fn node_distances_to_text(distances: &[u32]) -> String {
    let text = distances.iter().map(u32::to_string).collect::<Vec<_>>().join(".");
    let are_equal = distances.iter().all(|distance| *distance == distances[0]);
    if are_equal || text.len() > DISTANCES_MAX { String::new() } else { text }
}

/// The part of the distances of the 1,023 bytes that all launchers accept for a value.
const DISTANCES_MAX: usize = 300;

/// Returns the distance of each process from the nearest interface, from the NUMA nodes in which
/// the processes run and a text of [`node_distances_to_text`]: all machines count as being like
/// that of the process which wrote it. The result is empty if distances do not matter.
pub(crate) fn distances_by_node(text: &str, all: &[Parts]) -> Vec<u32> {
    let distances: Option<Vec<u32>> = text.split('.').map(|word| word.parse().ok()).collect();
    let Some(distances) = distances.filter(|_| !all.is_empty()) else { return Vec::new() };
    distances_that_matter(all.iter().map(|parts| distances.get(parts.numa_node as usize).copied()))
}

/// Returns where the interfaces with these names are, for a process with the cpuset `cpuset`.
fn places<'a>(
    tree: &Topology,
    interfaces: impl Iterator<Item = &'a str>,
    cpuset: &CpuSet,
) -> Vec<Option<RailPlace>> {
    let place = |name: &str| {
        let device = machine::interface(tree, name)?;
        let distance = tree.distance(cpuset, device)?;
        Some(RailPlace { locality: tree.locality(device)?, distance })
    };
    interfaces.map(place).collect()
}

/// Returns the nearest rail. Of several nearest ones it is the fastest by `speeds`; of several
/// fastest ones it is a different one for each `turn`.
fn nearest(places: &[Option<RailPlace>], speeds: &[u64], turn: usize) -> Option<usize> {
    let known = places.iter().zip(speeds).enumerate();
    let known =
        known.filter_map(|(rail, (place, speed))| Some((rail, place.as_ref()?.distance, *speed)));
    let best =
        known.clone().map(|(_, distance, speed)| (distance, std::cmp::Reverse(speed))).min()?;
    let alike: Vec<usize> = known
        .filter(|(_, distance, speed)| (*distance, std::cmp::Reverse(*speed)) == best)
        .map(|(rail, ..)| rail)
        .collect();
    alike.get(turn % alike.len()).copied()
}

/// Returns the locality at which a process with the cpuset `cpuset` communicates if it uses this
/// rail first. The result is none if the rail is not near any of these hardware threads, so that
/// there is no choice.
fn preferred_locality(place: &RailPlace, cpuset: &CpuSet) -> Option<PreferredLocality> {
    if place.distance > NEAR {
        return None;
    }
    let near = place.locality.threads.intersection(cpuset);
    let leaves_a_choice = !near.is_empty() && near != *cpuset;
    Some(PreferredLocality { threads: leaves_a_choice.then_some(near), node: place.locality.node })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four nodes with two hardware threads each; interfaces on nodes 0 and 2.
    fn emulated() -> Topology {
        described("emulated")
    }

    fn described(name: &str) -> Topology {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/machines");
        let text = std::fs::read_to_string(format!("{folder}/{name}.xml")).unwrap();
        Topology::from_xml(&text).unwrap()
    }

    fn set(list: &str) -> CpuSet {
        CpuSet::from_list(list).unwrap()
    }

    const BOTH: [&str; 2] = ["enp33s0", "enp65s0"];

    fn distances(places: &[Option<RailPlace>]) -> Vec<Option<u32>> {
        places.iter().map(|place| place.as_ref().map(|place| place.distance)).collect()
    }

    #[test]
    fn each_process_has_a_nearest_rail() {
        let tree = emulated();
        let of = |cpuset: &str, turn| {
            let places = places(&tree, BOTH.into_iter(), &set(cpuset));
            nearest(&places, &[100, 100], turn)
        };
        assert_eq!(
            ["0-1", "2-3", "4-5", "6-7"].map(|cpuset| of(cpuset, 0)),
            [0, 0, 1, 1].map(Some)
        );
        // Where both are near, processes take turns.
        assert_eq!([0, 1, 2].map(|turn| of("0-7", turn)), [0, 1, 0].map(Some));
        let free = places(&tree, BOTH.into_iter(), &set("0-7"));
        assert_eq!(nearest(&free, &[100, 200], 0), Some(1), "the faster one");
    }

    #[test]
    fn processes_of_large_jobs_know_each_others_distances() {
        let distances = node_distances_in(&emulated(), &BOTH);
        assert_eq!(distances, [10, 16, 10, 16]);
        let text = node_distances_to_text(&distances);
        let parts = |numa_node| Parts { package: 0, numa_node, cache: 0 };
        let all = [0, 1, 1, 3, 2, 7].map(parts);
        assert_eq!(distances_by_node(&text, &all), [10, 16, 16, 16, 10, u32::MAX]);
        assert!(distances_by_node(&text, &[0, 2, 0].map(parts)).is_empty(), "all are near");
        assert!(distances_by_node(&text, &[]).is_empty(), "where they run is not known");
        for useless in ["", "x", "10.y"] {
            assert!(distances_by_node(useless, &all).is_empty(), "{useless}");
        }
        assert_eq!(node_distances_to_text(&[10, 10]), "");
        assert_eq!(node_distances_to_text(&[]), "");
        let many: Vec<u32> = [10, 20].into_iter().chain([u32::MAX; 32]).collect();
        assert_eq!(node_distances_to_text(&many), "");
    }

    #[test]
    fn a_rail_without_a_known_place_is_left_out() {
        let tree = emulated();
        let places = places(&tree, ["veth0", "enp65s0"].into_iter(), &set("0-1"));
        assert_eq!(distances(&places), [None, Some(22)]);
        assert_eq!(nearest(&places, &[1000, 1], 0), Some(1));
        assert_eq!(nearest(&places[..1], &[1000], 0), None);
        let vague = super::places(&described("two-memories"), ["eth0"].into_iter(), &set("0"));
        assert_eq!(vague, [None]);
    }

    #[test]
    fn a_process_that_may_run_near_the_interface_communicates_there() {
        let tree = emulated();
        let of = |cpuset: &str, rail: usize| {
            let cpuset = set(cpuset);
            let places = places(&tree, BOTH.into_iter(), &cpuset);
            preferred_locality(places[rail].as_ref().unwrap(), &cpuset)
        };
        let at = |threads: Option<&str>, node| {
            Some(PreferredLocality { threads: threads.map(set), node: Some(node) })
        };
        assert_eq!(of("0-7", 0), at(Some("0-1"), 0));
        assert_eq!(of("0-7", 1), at(Some("4-5"), 2));
        assert_eq!(of("1-3", 0), at(Some("1"), 0));
        assert_eq!(of("0-1", 0), at(None, 0), "all are near");
        assert_eq!(of("2-3", 0), None, "none is");
    }
}
