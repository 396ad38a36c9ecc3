//! The localities of the network interfaces of the machines in tests/machines, and the distance of
//! each NUMA node from them, as reviewed.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use topology::{CpuSet, Kind, Topology};

#[path = "../../../tests/machines/reviewed.rs"]
mod reviewed;

fn read(path: &Path) -> Topology {
    Topology::from_xml(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The localities of all interfaces of a machine as text.
fn interfaces(topology: &Topology) -> String {
    let mut text = String::new();
    for device in topology.devices().into_iter().filter(|id| topology.is_interface(*id)) {
        let name = topology[device].label();
        assert_eq!(topology.interface(&name), Some(device));
        let Some(locality) = topology.locality(device) else {
            writeln!(text, "{name}: its place is not known").unwrap();
            assert_eq!(topology.distance(topology.threads(), device), None);
            continue;
        };
        let node =
            locality.node.map_or_else(|| "several nodes".to_owned(), |node| format!("node {node}"));
        writeln!(text, "{name}: {node}, hardware threads {}", locality.threads).unwrap();
        for node in topology.of_kind(Kind::NumaNode) {
            let distance = topology.distance(&topology[node].threads, device);
            if let (Some(number), Some(distance)) = (topology[node].system, distance) {
                writeln!(text, "  from node {number}: {distance}").unwrap();
            }
        }
    }
    text
}

#[test]
fn interfaces_are_where_they_were_reviewed_to_be() {
    for path in reviewed::machines() {
        reviewed::compare(&path, "interfaces", &interfaces(&read(&path)));
    }
}

#[test]
fn a_process_that_is_between_interfaces_has_no_nearest() {
    let topology = read(&reviewed::machine("emulated.xml"));
    let nearest = |list: &str| {
        let nearest = topology.nearest_network(&CpuSet::from_list(list).unwrap());
        nearest.map(|id| topology[id].label())
    };
    assert_eq!(nearest("0").as_deref(), Some("enp33s0"));
    assert_eq!(nearest("2-3").as_deref(), Some("enp33s0"));
    assert_eq!(nearest("6").as_deref(), Some("enp65s0"));
    assert_eq!(nearest("0-7"), None, "one is as near as the other");
    assert_eq!(nearest("2,6"), None, "likewise");
}

#[test]
fn what_has_no_place_is_left_out() {
    let topology = read(&reviewed::machine("two-sockets.xml"));
    // The topology has no interfaces without a PCI device, such as veth0; nvme0n1 is a disk.
    assert_eq!(topology.interface("veth0"), None);
    assert_eq!(topology.interface("nvme0n1"), None);
}
