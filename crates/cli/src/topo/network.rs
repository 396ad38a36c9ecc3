//! The network of a cluster: figures as text, links as JSON, and a picture.

use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::fmt::Write;

use serde_json::{Value, json};
use topology::{HostNetwork, Topology};

use crate::raster::escaped;

/// The maximum number of hosts of which all pairs are examined.
const HOSTS_MAX: usize = 2048;

/// The network as a table: how many pairs of hosts are how far apart, and the most shared links.
pub fn text(topology: &Topology) -> Option<String> {
    let network = topology.network()?;
    let (hosts, switches) = (network.hosts().len(), network.switches().len());
    let mut text =
        format!("Network: {hosts} hosts, {switches} switches, {} links\n", network.links().len());
    if hosts > HOSTS_MAX {
        return Some(text);
    }
    let distances = network.distances().ok()?;
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for one in 0..hosts as u32 {
        for other in 0..one {
            *counts.entry(distances.between(one, other)).or_default() += 1;
        }
    }
    let all: u64 = counts.values().sum();
    // Writing to a string does not fail.
    for (distance, pairs) in &counts {
        let percent = 100.0 * *pairs as f64 / all as f64;
        let _ =
            writeln!(text, "  distance {distance:>3}: {pairs:>8} pairs of hosts ({percent:.1} %)");
    }
    let names = network.names();
    let shares = network.shares();
    let each = |(link, share): (&topology::NetworkLink, &f64)| share / f64::from(link.cables);
    let busiest = network.links().iter().zip(&shares);
    if let Some((link, share)) = busiest.max_by(|one, other| each(*one).total_cmp(&each(*other))) {
        let [one, other] = [link.ends.0, link.ends.1].map(|end| &names[end as usize]);
        let _ = writeln!(
            text,
            "  most shared link: {one} - {other}, by {:.0} pairs for each cable",
            share / f64::from(link.cables)
        );
    }
    Some(text)
}

/// The network for programs: names, and links by their ends.
pub fn json(network: &HostNetwork) -> Value {
    let name = |end: u32| &network.names()[end as usize];
    let links: Vec<Value> = network
        .links()
        .iter()
        .map(|link| {
            let (one, other) = link.ends;
            json!({
                "ends": [name(one), name(other)],
                "cost": link.cost,
                "cables": link.cables,
            })
        })
        .collect();
    json!({ "hosts": network.hosts(), "switches": network.switches(), "links": links })
}

/// The positions of hosts and switches in a picture, in pixels.
struct Layout {
    width: f64,
    height: f64,
    places: Vec<(f64, f64)>,
}

/// The distance between neighbors in a grid, and between places on a circle, in pixels.
const STEP: f64 = 60.0;
const ON_CIRCLE: f64 = 14.0;
const MARGIN: f64 = 60.0;

/// Draws the network: a grid as a grid, other networks with the switches on a circle and the hosts
/// on a larger one.
pub fn svg(network: &HostNetwork) -> String {
    let Layout { width, height, places } = match network.dimensions() {
        Some(dimensions) => grid(&dimensions.iter().map(|one| one.extent).collect::<Vec<_>>()),
        None => circles(network),
    };
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"monospace\" font-size=\"9\">\n\
         <rect width=\"{width:.0}\" height=\"{height:.0}\" fill=\"white\"/>\n"
    );
    for link in network.links() {
        let [(x, y), (to_x, to_y)] = [link.ends.0, link.ends.1].map(|end| places[end as usize]);
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{to_x:.1}\" y2=\"{to_y:.1}\" \
             stroke=\"#8a8aa8\" stroke-width=\"{}\"/>",
            link.cables.min(4)
        );
    }
    for (index, (name, (x, y))) in network.names().iter().zip(&places).enumerate() {
        let (color, radius) =
            if index < network.hosts().len() { ("#1f77b4", 4) } else { ("#ff7f0e", 6) };
        let _ = writeln!(
            text,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{color}\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x + 5.0,
            y - 5.0,
            escaped(name)
        );
    }
    text + "</svg>\n"
}

/// A grid: the last two dimensions to the right and down, each further one obliquely or, for the
/// fourth and later ones, as copies beside.
fn grid(extents: &[u32]) -> Layout {
    let count: u32 = extents.iter().product();
    let reach = |back: usize| extents.iter().rev().nth(back).map_or(1.0, |one| f64::from(*one));
    let slant = STEP * 0.35;
    let block = (reach(0) + 1.0) * STEP + reach(2) * slant;
    let place = |host: u32| {
        let mut rest = host;
        let (mut x, mut y) = (MARGIN, MARGIN);
        let mut copies = 1.0;
        for (back, extent) in extents.iter().rev().enumerate() {
            let at = f64::from(rest % extent);
            rest /= extent;
            match back {
                0 => x += at * STEP,
                1 => y += at * STEP,
                2 => (x, y) = (x + at * slant, y + at * slant),
                _ => {
                    x += at * copies * block;
                    copies *= f64::from(*extent);
                }
            }
        }
        (x, y)
    };
    let places: Vec<(f64, f64)> = (0..count).map(place).collect();
    let end = |coordinate: fn(&(f64, f64)) -> f64| {
        places.iter().map(coordinate).fold(0.0, f64::max) + MARGIN
    };
    Layout { width: end(|place| place.0), height: end(|place| place.1), places }
}

/// Hosts on a circle in their order, and switches on smaller ones: those with hosts in the middle
/// of their hosts, the others inside.
fn circles(network: &HostNetwork) -> Layout {
    let (hosts, switches) = (network.hosts().len(), network.switches().len());
    let radius = (hosts.max(switches) as f64 * ON_CIRCLE / TAU).max(80.0);
    let center = radius + MARGIN + 20.0;
    let mut sums = vec![(0.0, 0.0); switches];
    let angle = |index: usize, of: usize| TAU * index as f64 / of.max(1) as f64;
    for link in network.links() {
        let (host, switch) = (link.ends.0 as usize, link.ends.1 as usize);
        if host < hosts && switch >= hosts {
            let (sine, cosine) = angle(host, hosts).sin_cos();
            let sum = &mut sums[switch - hosts];
            *sum = (sum.0 + cosine, sum.1 + sine);
        }
    }
    let at =
        |angle: f64, radius: f64| (center + radius * angle.cos(), center + radius * angle.sin());
    let inner = sums.iter().filter(|sum| **sum == (0.0, 0.0)).count();
    let mut number = 0;
    let mut places: Vec<(f64, f64)> =
        (0..hosts).map(|host| at(angle(host, hosts), radius)).collect();
    for (x, y) in sums {
        places.push(if (x, y) == (0.0, 0.0) {
            number += 1;
            at(angle(number, inner), radius * 0.35)
        } else {
            at(f64::atan2(y, x), radius * 0.75)
        });
    }
    Layout { width: 2.0 * center, height: 2.0 * center, places }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> HostNetwork {
        topology::Cluster::parse(text).unwrap().network().unwrap().clone()
    }

    #[test]
    fn each_place_and_link_is_drawn_inside_the_picture() {
        for text in [
            "torus 3x4x2x2: n[0-47]",
            "mesh 5: n[0-4]",
            "dragonfly 3x2x2: n[0-11]",
            "switch leaf1: a b\nswitch leaf2: c\nlink top: leaf[1-2]",
        ] {
            let network = network(text);
            let picture = svg(&network);
            let count = |word: &str| picture.matches(word).count();
            assert_eq!(count("<circle"), network.names().len(), "{text}");
            assert_eq!(count("<line"), network.links().len(), "{text}");
            let layout = match network.dimensions() {
                Some(dimensions) => {
                    grid(&dimensions.iter().map(|one| one.extent).collect::<Vec<_>>())
                }
                None => circles(&network),
            };
            let is_inside = |(x, y): &(f64, f64)| {
                (0.0..layout.width).contains(x) && (0.0..layout.height).contains(y)
            };
            assert!(layout.places.iter().all(is_inside), "{text}");
            let mut places = layout.places.clone();
            places.sort_by(|one, other| one.partial_cmp(other).unwrap());
            places.dedup();
            assert_eq!(places.len(), layout.places.len(), "{text}: one covers another");
        }
    }
}
