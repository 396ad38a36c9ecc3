//! Networks for the comparison: their distances, and the target in Scotch's format.

use std::fmt::Write;
use std::ops::Range;

use base::NetworkDistances;
use topology::Cluster;

/// A network of hosts.
pub struct Network {
    pub name: &'static str,
    pub distances: NetworkDistances,
    /// The target architecture as Scotch reads it.
    pub target: String,
}

/// Networks of three kinds and several sizes, smallest first.
pub fn all() -> Vec<Network> {
    vec![
        of("fat tree, 64 hosts", &fat_tree(4, 4, 4), &[16, 4, 1]),
        of("dragonfly, 72 hosts", "dragonfly 9x4x2: n[0-71]", &[8, 2, 1]),
        of("torus 4x4x4", "torus 4x4x4: n[0-63]", &[]),
        of("torus 8x6x4", "torus 8x6x4: n[0-191]", &[]),
        of("fat tree, 256 hosts", &fat_tree(4, 8, 8), &[64, 8, 1]),
        of("dragonfly, 264 hosts", "dragonfly 11x6x4: n[0-263]", &[24, 4, 1]),
        of("torus 8x8x8", "torus 8x8x8: n[0-511]", &[]),
    ]
}

/// Pods of leaf switches with hosts. Each leaf switch is linked with two spines of its pod, each
/// spine with two cores.
fn fat_tree(pods: u32, leaves: u32, hosts: u32) -> String {
    let mut text = String::new();
    for pod in 0..pods {
        for leaf in 0..leaves {
            let first = (pod * leaves + leaf) * hosts;
            let _ = writeln!(text, "switch leaf{pod}-{leaf}: n[{first}-{}]", first + hosts - 1);
            let _ = writeln!(text, "link leaf{pod}-{leaf}: spine{pod}-0 spine{pod}-1");
        }
        let _ = writeln!(text, "link spine{pod}-0: core0 core1\nlink spine{pod}-1: core2 core3");
    }
    text
}

/// `units` are the sizes of groups of hosts that are near to each other, largest first.
fn of(name: &'static str, description: &str, units: &[u32]) -> Network {
    let cluster = Cluster::parse(description).expect("the description is correct");
    let network = cluster.network().expect("there is a network");
    let distances = network.distances().expect("all is connected");
    let target = match network.dimensions() {
        Some(dimensions) => {
            let extents = dimensions.iter().rev().map(|one| one.extent.to_string());
            format!("torus3D {}", extents.collect::<Vec<_>>().join(" "))
        }
        None => target(&distances, units),
    };
    Network { name, distances, target }
}

/// The target architecture that is defined by its decomposition: for each host its place in a
/// binary tree, in which vertex `n` has the children `2n` and `2n + 1`, then all distances. Hosts
/// are divided in halves where groups of a size in `units` end, the largest groups first.
fn target(distances: &NetworkDistances, units: &[u32]) -> String {
    let hosts = distances.hosts() as u32;
    let mut places = vec![0; hosts as usize];
    divide(0..hosts, 1, units, &mut places);
    let last = places.iter().max().copied().unwrap_or_default();
    let mut text = format!("deco\n0\n{hosts} {last}\n");
    for (host, place) in places.iter().enumerate() {
        let _ = writeln!(text, "{host} 1 {place}");
    }
    for one in 1..hosts {
        for other in 0..one {
            let _ = write!(text, "{} ", distances.between(one, other));
        }
        text.push('\n');
    }
    text
}

fn divide(hosts: Range<u32>, place: u64, units: &[u32], places: &mut [u64]) {
    if hosts.len() == 1 {
        places[hosts.start as usize] = place;
        return;
    }
    let middle = hosts.start.midpoint(hosts.end);
    let ends =
        |unit: u32| (hosts.start / unit + 1..hosts.end.div_ceil(unit)).map(move |n| n * unit);
    let nearest = |unit: &u32| ends(*unit).min_by_key(|end| end.abs_diff(middle));
    let end = units.iter().find_map(nearest).expect("the last unit is one host");
    divide(hosts.start..end, 2 * place, units, places);
    divide(end..hosts.end, 2 * place + 1, units, places);
}
