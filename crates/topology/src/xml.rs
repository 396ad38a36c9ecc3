//! Reading hwloc's XML format of version 2 (hwloc 2.9.0, `hwloc2.dtd`).
//!
//! The tree differs from the XML in two ways. hwloc attaches a NUMA node beside the cores that are
//! near to it; here the node stands between these cores and their parent, so that it is a level
//! like all others. The bridges between a device and its locality are left out.

use roxmltree::{Document, Node, ParsingOptions};

use crate::object::{DeviceKind, Object, ObjectId};
use crate::tree::{Distances, ParentRelation, Topology};
use crate::{CpuSet, Kind, TopologyError};

/// The maximum number of objects of a machine, and the maximum depth of their nesting.
const NODES_MAX: u32 = 4_000_000;
const DEPTH_MAX: usize = 64;

/// `HWLOC_DISTANCES_KIND_MEANS_LATENCY`.
const MEANS_LATENCY: u64 = 4;

impl Topology {
    /// Parses a machine in hwloc's XML format.
    ///
    /// # Errors
    /// The text is not in that format, or is in the format of another major version.
    pub fn from_xml(text: &str) -> Result<Self, TopologyError> {
        let options =
            ParsingOptions { allow_dtd: true, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
        let document = Document::parse_with_options(text, options)
            .map_err(|cause| TopologyError::not_xml(cause.to_string()))?;
        let root = document.root_element();
        if !root.has_tag_name("topology") {
            let name = root.tag_name().name();
            return Err(TopologyError::not_xml(format!("its outermost element is <{name}>")));
        }
        if !root.attribute("version").is_some_and(|version| version.starts_with("2.")) {
            return Err(TopologyError::OtherVersion);
        }
        let machine = elements(root, "object").find(|object| kind(*object) == Some(Kind::Machine));
        let machine =
            machine.ok_or_else(|| TopologyError::not_xml("it has no object of type Machine"))?;
        let mut topology = Self::default();
        topology.read(machine, None, 0)?;
        topology.gather_threads()?;
        if let Some(distances) = elements(root, "distances2").find_map(distances) {
            topology.set_distances(distances);
        }
        let allowed = machine.attribute("allowed_cpuset").and_then(CpuSet::from_hexadecimal);
        let wanted = allowed.unwrap_or_else(|| topology.threads().clone());
        topology.restricted(&wanted)
    }

    /// Reads an object and its contents.
    fn read(
        &mut self,
        node: Node<'_, '_>,
        parent: Option<(ObjectId, ParentRelation)>,
        depth: usize,
    ) -> Result<(), TopologyError> {
        if depth > DEPTH_MAX {
            return Err(TopologyError::not_xml("its objects are nested too deeply"));
        }
        let inside: Vec<_> = elements(node, "object").collect();
        let Some(kind) = kind(node) else {
            // Bridges, and objects that are not used here, are replaced by their contents.
            return inside.into_iter().try_for_each(|child| self.read(child, parent, depth + 1));
        };
        let mut memories = Vec::new();
        inside.iter().for_each(|child| memories_of(*child, &mut memories));
        // The first memory becomes a level of its own if it has cores.
        let (level, further) = match memories.split_first() {
            Some((first, further)) if has_threads(*first) => (Some(*first), further),
            _ => (None, &memories[..]),
        };
        // hwloc creates a group for a memory whose cores have nothing else in common.
        let is_for_memory = kind == Kind::Group && node.attribute("kind") == Some(MEMORY_GROUP);
        let mut holder = match parent {
            Some((parent, _)) if is_for_memory && level.is_some() => parent,
            _ => self.add(object(node, kind)?, parent),
        };
        if let Some(memory) = level {
            let relation = Some((holder, ParentRelation::Child));
            holder = self.add(object(memory, Kind::NumaNode)?, relation);
        }
        for memory in further {
            self.add(object(*memory, Kind::NumaNode)?, Some((holder, ParentRelation::Memory)));
        }
        for child in inside.into_iter().filter(|child| !is_memory(*child)) {
            let is_device = self::kind(child).map_or(is_bridge(child), Kind::is_device);
            let relation = if is_device { ParentRelation::Device } else { ParentRelation::Child };
            self.read(child, Some((holder, relation)), depth + 1)?;
        }
        Ok(())
    }

    /// Sets the hardware threads of each object to those of its contents, whatever the text states.
    fn gather_threads(&mut self) -> Result<(), TopologyError> {
        let found: Vec<(ObjectId, usize)> = self
            .objects()
            .filter(|(_, object)| object.kind == Kind::Thread)
            .filter_map(|(id, object)| Some((id, object.system? as usize)))
            .collect();
        let mut known = CpuSet::default();
        for (id, number) in found {
            if known.contains(number) {
                return Err(TopologyError::not_xml(format!(
                    "it has two hardware threads {number}"
                )));
            }
            known.insert(number);
            if !known.contains(number) {
                return Err(TopologyError::not_xml(format!(
                    "no machine has a hardware thread {number}"
                )));
            }
            let holders: Vec<ObjectId> = self.ancestors(id).collect();
            for id in holders.into_iter().chain([id]) {
                self.change(id).threads.insert(number);
            }
        }
        Ok(())
    }
}

/// `HWLOC_GROUP_KIND_MEMORY`, as the attribute of a group.
const MEMORY_GROUP: &str = "1001";

fn elements<'a, 'input>(
    node: Node<'a, 'input>,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'input>> {
    node.children().filter(move |child| child.has_tag_name(name))
}

/// The kind of an element. `None`: the element is ignored, and its contents belong to its parent.
fn kind(node: Node<'_, '_>) -> Option<Kind> {
    Some(match node.attribute("type")? {
        "Machine" => Kind::Machine,
        "Package" => Kind::Package,
        "Die" => Kind::Die,
        "Group" => Kind::Group,
        "NUMANode" => Kind::NumaNode,
        "L1Cache" => Kind::Cache(1),
        "L2Cache" => Kind::Cache(2),
        "L3Cache" => Kind::Cache(3),
        "L4Cache" => Kind::Cache(4),
        "L5Cache" => Kind::Cache(5),
        "Core" => Kind::Core,
        "PU" => Kind::Thread,
        "PCIDev" => Kind::Pci,
        "OSDev" => Kind::Device(match node.attribute("osdev_type") {
            Some("0") => DeviceKind::Disk,
            Some("1" | "5") => DeviceKind::Gpu,
            Some("2") => DeviceKind::Network,
            Some("3") => DeviceKind::Fabric,
            _ => DeviceKind::Other,
        }),
        _ => return None,
    })
}

fn is_bridge(node: Node<'_, '_>) -> bool {
    node.attribute("type") == Some("Bridge")
}

fn is_memory(node: Node<'_, '_>) -> bool {
    matches!(node.attribute("type"), Some("NUMANode" | "MemCache"))
}

/// The NUMA nodes that an element is, or that are behind a memory-side cache.
fn memories_of<'a, 'input>(node: Node<'a, 'input>, found: &mut Vec<Node<'a, 'input>>) {
    match node.attribute("type") {
        Some("NUMANode") => found.push(node),
        Some("MemCache") => found.extend(
            node.descendants().filter(|inside| inside.attribute("type") == Some("NUMANode")),
        ),
        _ => {}
    }
}

/// Whether a memory has cores near it.
fn has_threads(node: Node<'_, '_>) -> bool {
    node.attribute("cpuset").and_then(CpuSet::from_hexadecimal).is_some_and(|set| !set.is_empty())
}

fn object(node: Node<'_, '_>, kind: Kind) -> Result<Object, TopologyError> {
    let number = |name: &str| node.attribute(name).and_then(|value| value.parse::<u64>().ok());
    let info = |name: &str| {
        let found = elements(node, "info").find(|info| info.attribute("name") == Some(name));
        found.and_then(|info| info.attribute("value")).map(|text| text.trim().to_owned())
    };
    let name = match kind {
        Kind::Machine => info("HostName"),
        Kind::Package => info("CPUModel"),
        Kind::Pci => node.attribute("pci_busid").map(str::to_owned),
        _ => node.attribute("name").map(str::to_owned),
    };
    let bytes = number("local_memory").or_else(|| number("cache_size")).unwrap_or_default();
    let system = number("os_index").and_then(|index| u32::try_from(index).ok());
    if matches!(kind, Kind::Thread | Kind::NumaNode) && system.is_none() {
        return Err(TopologyError::not_xml(format!("one {kind} has no os_index")));
    }
    Ok(Object { system, name, bytes, ..Object::new(kind) })
}

/// The distances between NUMA nodes, if the element contains them.
fn distances(node: Node<'_, '_>) -> Option<Distances> {
    let kind: u64 = node.attribute("kind")?.parse().ok()?;
    let means_latency = kind & MEANS_LATENCY != 0;
    let indexes = node.attribute("indexing").unwrap_or("os");
    if node.attribute("type") != Some("NUMANode") || !means_latency || indexes != "os" {
        return None;
    }
    fn numbers(node: Node<'_, '_>, name: &'static str) -> Option<Vec<u64>> {
        let texts = elements(node, name).filter_map(|element| element.text());
        texts.flat_map(str::split_whitespace).map(|word| word.parse().ok()).collect()
    }
    let nodes: Option<Vec<u32>> =
        numbers(node, "indexes")?.into_iter().map(|number| u32::try_from(number).ok()).collect();
    let (nodes, values) = (nodes?, numbers(node, "u64values")?);
    (!nodes.is_empty() && values.len() == nodes.len() * nodes.len())
        .then_some(Distances { nodes, values })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two packages: the first has two NUMA nodes that are numbered backwards, the second has one
    /// node and a memory of another kind. An interface is near the second.
    const ODD: &str = include_str!("../tests/odd.xml");

    #[test]
    fn memory_is_a_level() {
        let topology = Topology::from_xml(ODD).unwrap();
        let nodes = topology.of_kind(Kind::NumaNode);
        let reported: Vec<_> = nodes
            .iter()
            .map(|id| (topology[*id].system.unwrap(), topology[*id].threads.to_string()))
            .collect();
        let reported: Vec<_> =
            reported.iter().map(|(number, threads)| (*number, threads.as_str())).collect();
        assert_eq!(reported, [(1, "0,2"), (0, "1,3"), (2, "4-7"), (3, "")]);
        let packages = topology.of_kind(Kind::Package);
        assert_eq!(topology[packages[0]].children, nodes[..2]);
        assert_eq!(topology[nodes[2]].memories, nodes[3..]);
        assert_eq!(topology[nodes[2]].bytes, 1 << 30);
        assert_eq!(topology.distances().unwrap().between(0, 2), Some(21));
        assert_eq!(topology.distances().unwrap().between(2, 9), None);
    }

    #[test]
    fn devices_hang_where_they_are_near() {
        let topology = Topology::from_xml(ODD).unwrap();
        let devices = topology.devices();
        let names: Vec<_> = devices.iter().map(|id| topology[*id].label()).collect();
        assert_eq!(names, ["eth0", "sda"]);
        let near = topology.near(devices[0]).unwrap();
        assert_eq!((topology[near].kind, topology[near].system), (Kind::NumaNode, Some(2)));
        // The device is attached to a machine with several nodes, so its locality is unknown.
        assert_eq!(topology.near(devices[1]), None);
    }

    #[test]
    fn what_is_not_allowed_is_left_out() {
        let topology = Topology::from_xml(ODD).unwrap();
        let part = topology.restricted(&CpuSet::from_list("2,5,99").unwrap()).unwrap();
        assert_eq!(part.threads().to_string(), "2,5");
        assert_eq!(part.of_kind(Kind::Core).len(), 2);
        let nodes = part.of_kind(Kind::NumaNode);
        let with_cores = nodes.iter().filter(|id| !part[**id].threads.is_empty());
        assert_eq!((nodes.len(), with_cores.count()), (4, 2));
        assert_eq!(part.near(part.devices()[0]).map(|id| part[id].system), Some(Some(2)));
        assert!(topology.restricted(&CpuSet::from_list("99").unwrap()).is_err());
    }

    #[test]
    fn questions_are_answered() {
        let topology = Topology::from_xml(ODD).unwrap();
        let root = topology.root();
        let set = |text| CpuSet::from_list(text).unwrap();
        let smallest = |text| {
            let id = topology.smallest_holding(root, &set(text));
            id.map(|id| (topology[id].kind, topology[id].logical))
        };
        assert_eq!(smallest("4"), Some((Kind::Thread, 4)));
        assert_eq!(smallest("0,2"), Some((Kind::NumaNode, 0)));
        assert_eq!(smallest("0,1"), Some((Kind::Package, 0)));
        assert_eq!(smallest("0,5"), Some((Kind::Machine, 0)));
        assert_eq!((smallest("0,50"), smallest("")), (None, None));
        let threads = topology.of_kind(Kind::Thread);
        assert_eq!(topology.hops(threads[0], threads[0]), 0);
        assert_eq!(topology.hops(threads[0], threads[1]), 4);
        assert_eq!(topology.hops(threads[0], root), 4);
    }

    #[test]
    fn what_is_wrong_is_reported() {
        let message = |text: &str| Topology::from_xml(text).unwrap_err().to_string();
        assert!(message("nothing").contains("XML"));
        assert!(message("<lstopo/>").contains("<lstopo>"));
        assert!(message("<topology version='1.0'/>").contains("another main version"));
        assert!(message("<topology version='2.0'/>").contains("no object of type Machine"));
        let twice = ODD.replace("type=\"PU\" os_index=\"7\"", "type=\"PU\" os_index=\"6\"");
        assert!(message(&twice).contains("two hardware threads 6"));
        let vast = ODD.replace("type=\"PU\" os_index=\"7\"", "type=\"PU\" os_index=\"4000000000\"");
        assert!(message(&vast).contains("4000000000"));
        let deep = format!(
            "<topology version='2.0'><object type='Machine'>{}{}</object></topology>",
            "<object type='Group'>".repeat(1000),
            "</object>".repeat(1000)
        );
        assert!(message(&deep).contains("deep"));
    }
}
