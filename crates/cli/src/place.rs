//! `combray place`: which rank runs where, worked out of a matrix of communication.

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

use crate::run::hosts;
use cluster::{TargetMachines, Unit};

/// What a person may say.
#[derive(Args)]
pub struct PlaceOptions {
    /// The matrix of communication, as combray run --record writes it
    #[arg(long, value_name = "FILE")]
    matrix: PathBuf,
    /// What the machines are like: a file in hwloc's XML format, or a description such as
    /// "package:2 core:8", before which "switch:2 node:4" may tell how many there are; or a
    /// file that describes a cluster; without it, this machine
    #[arg(long, value_name = "WHAT")]
    topology: Option<String>,
    /// The hosts with their slots, as in combray run; without --topology nothing is known of their
    /// insides
    #[arg(long, value_name = "LIST")]
    hosts: Option<String>,
    /// A file that names the hosts, as in combray run
    #[arg(long, value_name = "FILE", conflicts_with = "hosts")]
    hostfile: Option<OsString>,
    /// What shall cross as few levels as possible
    #[arg(long, value_name = "WHAT", default_value = "bytes")]
    weigh: Weighed,
    /// What takes one rank
    #[arg(long, value_name = "UNIT", default_value = "core")]
    per: Unit,
    /// Puts a rank on a leaf, both by number (leaves are counted from left to right); may be
    /// repeated
    #[arg(long, value_name = "RANK=LEAF")]
    fix: Vec<String>,
    /// Writes the rankfile to a file
    #[arg(long, value_name = "FILE")]
    rankfile: Option<PathBuf>,
}

/// What counts.
#[derive(Clone, Copy, ValueEnum)]
enum Weighed {
    Bytes,
    Messages,
}

/// Places the ranks, and prints what that costs and where they are.
pub fn run(options: &PlaceOptions) -> Result<i32, String> {
    let matrix = read(&options.matrix)?;
    let hosts = match (&options.hosts, &options.hostfile) {
        (Some(list), _) => hosts::read_list("--hosts", list)?,
        (None, Some(file)) => hosts::read_file("--hostfile", file)?,
        (None, None) => Vec::new(),
    };
    let cluster = TargetMachines::new(options.topology.as_deref(), &hosts, options.per)?;
    let fixed = fixed(&options.fix, matrix.ranks())?;
    let weighing = match options.weigh {
        Weighed::Bytes => Weighing::Bytes,
        Weighed::Messages => Weighing::Messages,
    };
    let affinity = matrix.affinity(weighing);
    let tree = BranchTree::new(&cluster.root);
    let mut placed = place(&affinity, &tree, &fixed)?;
    let before = distance_to_interfaces(&affinity, &tree, &placed);
    turn(&affinity, &tree, &fixed, &mut placed);
    let mut text = costs(&affinity, &tree, &placed, weighing)?;
    let after = distance_to_interfaces(&affinity, &tree, &placed);
    if before > 0 || after > 0 {
        let _ = writeln!(
            text,
            "# to the network interfaces, times levels: {after}, before branches were turned {before}"
        );
    }
    let ranks = cluster.rankfile(placed.leaves());
    match &options.rankfile {
        None => print!("{text}{ranks}"),
        Some(file) => {
            fs::write(file, ranks)
                .map_err(|cause| format!("{} cannot be written: {cause}", file.display()))?;
            print!("{text}");
        }
    }
    Ok(0)
}

fn read(file: &Path) -> Result<Matrix, String> {
    let text = fs::read_to_string(file).map_err(|cause| {
        format!("--matrix names {}, which cannot be read: {cause}", file.display())
    })?;
    Matrix::from_text(&text).map_err(|fault| format!("{}: {fault}", file.display()))
}

/// For each rank the leaf that the person wants for it; empty if for none.
fn fixed(wishes: &[String], ranks: u32) -> Result<Vec<Option<u32>>, String> {
    if wishes.is_empty() {
        return Ok(Vec::new());
    }
    let mut fixed = vec![None; ranks as usize];
    for wish in wishes {
        let numbers = wish.split_once('=').and_then(|(rank, leaf)| {
            Some((rank.trim().parse::<usize>().ok()?, leaf.trim().parse::<u32>().ok()?))
        });
        let (rank, leaf) =
            numbers.ok_or_else(|| format!("--fix wants RANK=LEAF, and got \"{wish}\""))?;
        let place = fixed.get_mut(rank);
        *place.ok_or_else(|| format!("--fix {wish}: the ranks are 0 to {}", ranks - 1))? =
            Some(leaf);
    }
    Ok(fixed)
}

/// What the placement costs next to others, as comments of a rankfile.
fn costs(
    affinity: &Affinity,
    tree: &BranchTree,
    placed: &Placement,
    weighing: Weighing,
) -> Result<String, String> {
    let ranks = affinity.ranks();
    let what = match weighing {
        Weighing::Bytes => "bytes",
        Weighing::Messages => "messages",
    };
    let mut text = format!(
        "# {ranks} ranks on {} leaves with {} slots\n# hop-weighted {what}:\n",
        tree.leaf_count(),
        tree.slots_in_all()
    );
    let ours = cost(affinity, tree, placed);
    let mut line = |name: &str, placement: &Placement| {
        let cost = cost(affinity, tree, placement);
        let ratio = if cost == 0 { 1.0 } else { ours as f64 / cost as f64 };
        // Writing to a string does not fail.
        let _ = writeln!(text, "#   {name:<10} {cost:>20}   placed is {ratio:.3} of it");
    };
    line("placed", placed);
    for (name, order) in [
        ("packed", PlacementOrder::Packed),
        ("scattered", PlacementOrder::Scattered),
        ("random", PlacementOrder::Random(1)),
    ] {
        line(name, &place_in_order(ranks, tree, order)?);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_for_leaves_are_read() {
        let read = |words: &[&str]| {
            fixed(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>(), 3)
        };
        assert_eq!(read(&[]).unwrap(), []);
        assert_eq!(read(&["2=5", " 0 = 1"]).unwrap(), [Some(1), None, Some(5)]);
        assert!(read(&["3=0"]).unwrap_err().contains("0 to 2"));
        assert!(read(&["1"]).unwrap_err().contains("RANK=LEAF"));
    }
}
