//! `combray place`: computes which rank runs where, from a communication matrix.

mod cluster;

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use placement::{
    Affinity, BranchTree, Matrix, Placement, PlacementOrder, Weighing, cost,
    distance_to_interfaces, place, place_in_order, turn,
};
use serde_json::{Map, Value, json};

use crate::run::hosts;
use cluster::{TargetMachines, Unit};

/// The options of `combray place`.
#[derive(Args)]
pub struct PlaceOptions {
    /// The communication matrix, as combray run --record writes it
    #[arg(long, value_name = "FILE")]
    matrix: PathBuf,
    /// The machines: a file in hwloc's XML format, or a description such as "package:2 core:8",
    /// optionally preceded by the number of machines as in "switch:2 node:4"; or a file that
    /// describes a cluster; without it, this machine
    #[arg(long, value_name = "WHAT")]
    topology: Option<String>,
    /// The hosts with their slots, as in combray run; without --topology their inner structure is
    /// unknown
    #[arg(long, value_name = "LIST")]
    hosts: Option<String>,
    /// A file that names the hosts, as in combray run
    #[arg(long, value_name = "FILE", conflicts_with = "hosts")]
    hostfile: Option<OsString>,
    /// What should cross as few levels as possible
    #[arg(long, value_name = "WHAT", default_value = "bytes")]
    weigh: Weighed,
    /// The unit that takes one rank
    #[arg(long, value_name = "UNIT", default_value = "core")]
    per: Unit,
    /// Puts a rank on a leaf, both by number (leaves are counted from left to right); may be
    /// repeated
    #[arg(long, value_name = "RANK=LEAF")]
    fix: Vec<String>,
    /// Writes the rankfile to a file
    #[arg(long, value_name = "FILE")]
    rankfile: Option<PathBuf>,
    /// Prints JSON: the costs of the placement and of others, and the place of each rank
    #[arg(long)]
    json: bool,
}

/// The quantity by which communication is weighted.
#[derive(Clone, Copy, ValueEnum)]
enum Weighed {
    Bytes,
    Messages,
}

/// Places the ranks, and prints the costs and the places.
pub fn run(options: &PlaceOptions) -> Result<i32, String> {
    let matrix = read(&options.matrix)?;
    let hosts = match (&options.hosts, &options.hostfile) {
        (Some(list), _) => hosts::read_list("--hosts", list)?,
        (None, Some(file)) => hosts::read_file("--hostfile", file)?,
        (None, None) => Vec::new(),
    };
    let cluster = TargetMachines::new(options.topology.as_deref(), &hosts, options.per)?;
    let listed = cluster.tree.listed();
    let fixed = fixed(&options.fix, matrix.ranks(), &listed)?;
    let weighing = match options.weigh {
        Weighed::Bytes => Weighing::Bytes,
        Weighed::Messages => Weighing::Messages,
    };
    let affinity = matrix.affinity(weighing);
    let tree = &cluster.tree;
    let mut placed = place(&affinity, tree, &fixed)?;
    let before = distance_to_interfaces(&affinity, tree, &placed);
    turn(&affinity, tree, &fixed, &mut placed);
    let report = PlacementReport {
        ranks: affinity.ranks(),
        leaves: tree.leaf_count(),
        slots: tree.slots_in_all(),
        weighed: match weighing {
            Weighing::Bytes => "bytes",
            Weighing::Messages => "messages",
        },
        costs: costs(&affinity, tree, &placed)?,
        to_interfaces: distance_to_interfaces(&affinity, tree, &placed),
        to_interfaces_before: before,
    };
    // By the numbers that the user knows: in the order of the hosts.
    let mut numbers = vec![0; listed.len()];
    (0..).zip(&listed).for_each(|(number, leaf)| numbers[*leaf as usize] = number);
    let leaves: Vec<u32> = placed.leaves().iter().map(|leaf| numbers[*leaf as usize]).collect();
    let ranks = cluster.rankfile(&leaves);
    if let Some(file) = &options.rankfile {
        fs::write(file, &ranks)
            .map_err(|cause| format!("{} cannot be written: {cause}", file.display()))?;
    }
    match (options.json, &options.rankfile) {
        (true, _) => println!("{:#}", report.json(cluster.places(&leaves))),
        (false, None) => print!("{}{ranks}", report.text()),
        (false, Some(_)) => print!("{}", report.text()),
    }
    Ok(0)
}

fn read(file: &Path) -> Result<Matrix, String> {
    let text = fs::read_to_string(file).map_err(|cause| {
        format!("--matrix names {}, which cannot be read: {cause}", file.display())
    })?;
    Matrix::from_text(&text).map_err(|fault| format!("{}: {fault}", file.display()))
}

/// For each rank the leaf that the user fixed for it, of leaves in the user's order; empty if no
/// rank is fixed.
fn fixed(entries: &[String], ranks: u32, leaves: &[u32]) -> Result<Vec<Option<u32>>, String> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let mut fixed = vec![None; ranks as usize];
    for entry in entries {
        let numbers = entry.split_once('=').and_then(|(rank, leaf)| {
            Some((rank.trim().parse::<usize>().ok()?, leaf.trim().parse::<u32>().ok()?))
        });
        let (rank, leaf) =
            numbers.ok_or_else(|| format!("--fix needs RANK=LEAF, but got \"{entry}\""))?;
        // A leaf that does not exist is reported when ranks are placed.
        let leaf = leaves.get(leaf as usize).copied().unwrap_or(leaf);
        let place = fixed.get_mut(rank);
        let place =
            place.ok_or_else(|| format!("--fix {entry}: the ranks are 0 to {}", ranks - 1))?;
        if let Some(other) = place.replace(leaf).filter(|&other| other != leaf) {
            return Err(format!("--fix {entry}: rank {rank} is fixed on leaf {other} already"));
        }
    }
    Ok(fixed)
}

/// The report on a placement, apart from the places themselves.
struct PlacementReport {
    ranks: u32,
    leaves: u32,
    slots: u64,
    /// The weighted quantity: bytes or messages.
    weighed: &'static str,
    /// Names and costs of the placements, ours first.
    costs: Vec<(&'static str, u128)>,
    /// The weighed quantity to other machines, times the levels to the network interface.
    to_interfaces: u128,
    /// The value before branches of the tree were exchanged ([`turn`]).
    to_interfaces_before: u128,
}

impl PlacementReport {
    /// Our cost divided by another cost.
    fn ratio(&self, cost: u128) -> f64 {
        let ours = self.costs.first().map_or(0, |(_, cost)| *cost);
        if cost == 0 { 1.0 } else { ours as f64 / cost as f64 }
    }

    /// The report as comments of a rankfile.
    fn text(&self) -> String {
        let Self { ranks, leaves, slots, weighed, .. } = self;
        let mut text = format!(
            "# {ranks} ranks on {leaves} leaves with {slots} slots\n# hop-weighted {weighed}:\n"
        );
        for (name, cost) in &self.costs {
            let ratio = self.ratio(*cost);
            // Writing to a string does not fail.
            let _ = writeln!(text, "#   {name:<10} {cost:>20}   placed is {ratio:.3} of it");
        }
        let (after, before) = (self.to_interfaces, self.to_interfaces_before);
        if before > 0 || after > 0 {
            let _ = writeln!(
                text,
                "# {weighed} to other machines, times levels to the network interface: {after}, \
                 before branches were exchanged {before}"
            );
        }
        text
    }

    /// The report as JSON. Costs beyond JSON's integers are rounded.
    fn json(&self, places: Value) -> Value {
        let number =
            |cost: u128| u64::try_from(cost).map_or(json!(cost as f64), |cost| json!(cost));
        let costs = self.costs.iter();
        let costs: Map<String, Value> =
            costs.map(|(name, cost)| ((*name).to_owned(), number(*cost))).collect();
        json!({
            "ranks": self.ranks,
            "leaves": self.leaves,
            "slots": self.slots,
            "weighed": self.weighed,
            "costs": costs,
            "to_interfaces": number(self.to_interfaces),
            "to_interfaces_before_turning": number(self.to_interfaces_before),
            "places": places,
        })
    }
}

/// The costs of the placement and of others, ours first.
fn costs(
    affinity: &Affinity,
    tree: &BranchTree,
    placed: &Placement,
) -> Result<Vec<(&'static str, u128)>, String> {
    let mut all = vec![("placed", cost(affinity, tree, placed))];
    for (name, order) in [
        ("packed", PlacementOrder::Packed),
        ("scattered", PlacementOrder::Scattered),
        ("random", PlacementOrder::Random(1)),
    ] {
        let other = place_in_order(affinity.ranks(), tree, order)?;
        all.push((name, cost(affinity, tree, &other)));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_leaves_are_read() {
        let read = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
            fixed(&words, 3, &[0, 2, 1])
        };
        assert_eq!(read(&[]).unwrap(), []);
        assert_eq!(read(&["2=5", " 0 = 1"]).unwrap(), [Some(2), None, Some(5)]);
        assert!(read(&["3=0"]).unwrap_err().contains("0 to 2"));
        assert!(read(&["1"]).unwrap_err().contains("RANK=LEAF"));
    }
}
