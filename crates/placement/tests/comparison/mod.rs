//! Compares our placements of several communication patterns with packed, scattered and random
//! ones, and with Scotch's mapping on the same tree, if its program `scotch_gmap` (Debian's package
//! scotch) is installed.

mod applications;
pub mod network;
mod published;

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use placement::{
    Affinity, Branch, BranchTree, Matrix, Placement, PlacementOrder, Weighing, cost, patterns,
    place, place_in_order,
};

/// Compares all patterns for this number of ranks.
pub fn compare(ranks: u32) -> impl Iterator<Item = Row> {
    let arities = arities(ranks);
    matrices(ranks).into_iter().map(move |(name, matrix)| row(ranks, name, &matrix, &arities))
}

/// Machines with two packages each.
fn arities(ranks: u32) -> [u32; 3] {
    let cores = match ranks {
        0..=127 => 8,
        128..=1023 => 16,
        _ => 32,
    };
    [ranks / (2 * cores), 2, cores]
}

fn matrices(ranks: u32) -> Vec<(&'static str, Matrix)> {
    let square = extents(ranks, 2);
    let cube = extents(ranks, 3);
    vec![
        ("stencil 2D", patterns::stencil(&square, patterns::Edges::Open, 1000)),
        ("stencil 2D, periodic", patterns::stencil(&square, patterns::Edges::Periodic, 1000)),
        ("stencil 3D", patterns::stencil(&cube, patterns::Edges::Open, 1000)),
        ("stencil 3D, periodic", patterns::stencil(&cube, patterns::Edges::Periodic, 1000)),
        ("butterfly", patterns::butterfly(ranks, 1000)),
        ("random, 4 partners", patterns::random(ranks, 4, 1)),
        ("random, 16 partners", patterns::random(ranks, 16, 2)),
        ("broadcasts from all", patterns::broadcasts(ranks, ranks, 1000)),
        ("asp", applications::asp(ranks)),
        ("poisson3d", applications::poisson3d(&cube)),
        ("page_server", patterns::random(ranks, 64, 3)),
        ("ring", patterns::stencil(&[ranks], patterns::Edges::Periodic, 1000)),
    ]
}

/// The extents of a grid, as equal as its prime factors allow, largest first.
fn extents(ranks: u32, dimensions: usize) -> Vec<u32> {
    let mut factors = Vec::new();
    let mut rest = ranks;
    for factor in 2..=ranks {
        while rest.is_multiple_of(factor) {
            factors.push(factor);
            rest /= factor;
        }
    }
    let mut extents = vec![1; dimensions];
    for factor in factors.into_iter().rev() {
        extents.sort_unstable();
        extents[0] *= factor;
    }
    extents.sort_unstable_by_key(|extent| std::cmp::Reverse(*extent));
    extents
}

/// Compares the patterns whose names contain a word on this network, of which each host takes one
/// rank.
pub fn compare_on<'a>(
    network: &'a network::Network,
    wanted: &'a str,
) -> impl Iterator<Item = Row> + 'a {
    let ranks = network.distances.hosts() as u32;
    let all = matrices(ranks).into_iter().chain(published::matrices(ranks));
    all.filter(move |(name, _)| name.contains(wanted)).map(move |(name, matrix)| {
        let machines = vec![Branch::leaf(1); ranks as usize];
        let tree = BranchTree::over_network(&machines, network.distances.clone(), 1);
        row_on(ranks, name, &matrix, &tree, &network.target)
    })
}

/// The result of one comparison: the cost of our placement divided by the cost of each other
/// placement.
pub struct Row {
    pub ranks: u32,
    pub name: &'static str,
    pub to_packed: f64,
    pub to_scattered: f64,
    pub to_random: f64,
    /// `None` if Scotch is not installed.
    pub to_scotch: Option<f64>,
    /// The maximum number of ranks that Scotch put on one leaf; each leaf is meant for one.
    pub fullest_of_scotch: u32,
    pub seconds: f64,
}

fn row(ranks: u32, name: &'static str, matrix: &Matrix, arities: &[u32]) -> Row {
    let tree = BranchTree::new(&Branch::regular(arities));
    let mut text = format!("tleaf {}", arities.len());
    for (depth, arity) in arities.iter().enumerate() {
        let _ = write!(text, " {arity} {}", 2 * (arities.len() - depth));
    }
    row_on(ranks, name, matrix, &tree, &text)
}

/// `target` is the tree in Scotch's format.
fn row_on(ranks: u32, name: &'static str, matrix: &Matrix, tree: &BranchTree, target: &str) -> Row {
    let affinity = matrix.affinity(Weighing::Bytes);
    let start = Instant::now();
    let placed = place(&affinity, tree, &[]).expect("there are slots");
    let seconds = start.elapsed().as_secs_f64();
    let ours = cost(&affinity, tree, &placed) as f64;
    let ratio = |placement: &Placement| ours / cost(&affinity, tree, placement) as f64;
    let of_order = |order| ratio(&place_in_order(ranks, tree, order).expect("there are slots"));
    let scotch = by_scotch(&affinity, tree, target);
    let mut loads = vec![0; tree.leaf_count() as usize];
    scotch.iter().flat_map(Placement::leaves).for_each(|leaf| loads[*leaf as usize] += 1);
    Row {
        ranks,
        name,
        to_packed: of_order(PlacementOrder::Packed),
        to_scattered: of_order(PlacementOrder::Scattered),
        to_random: of_order(PlacementOrder::Random(1)),
        to_scotch: scotch.as_ref().map(ratio),
        fullest_of_scotch: loads.into_iter().max().unwrap_or_default(),
        seconds,
    }
}

/// Scotch's placement, if it is installed.
fn by_scotch(affinity: &Affinity, tree: &BranchTree, target: &str) -> Option<Placement> {
    let private = tempfile::tempdir().unwrap();
    let folder = private.path().join("placement");
    fs::create_dir_all(&folder).ok()?;
    let placement = run_scotch(&folder, affinity, tree, target);
    let _ = fs::remove_dir_all(&folder);
    placement
}

fn run_scotch(
    folder: &Path,
    affinity: &Affinity,
    tree: &BranchTree,
    target_text: &str,
) -> Option<Placement> {
    let [graph, target, mapping] = ["graph", "target", "mapping"].map(|name| folder.join(name));
    fs::write(&graph, graph_text(affinity)).ok()?;
    fs::write(&target, target_text).ok()?;
    let status = Command::new("scotch_gmap-int64")
        .args([&graph, &target, &mapping].map(|path| path.as_os_str()))
        .status();
    if !status.ok()?.success() {
        return None;
    }
    let listed = tree.listed();
    let mut leaves = vec![0; affinity.ranks() as usize];
    for line in fs::read_to_string(&mapping).ok()?.lines().skip(1) {
        let mut numbers = line.split_whitespace().filter_map(|word| word.parse::<u32>().ok());
        let (rank, leaf) = (numbers.next()?, numbers.next()?);
        *leaves.get_mut(rank as usize)? = *listed.get(leaf as usize)?;
    }
    Some(Placement::new(leaves))
}

/// The graph in Scotch's input format.
fn graph_text(affinity: &Affinity) -> String {
    let ranks = 0..affinity.ranks();
    let entries: usize = ranks.clone().map(|rank| affinity.partners(rank).len()).sum();
    let mut text = format!("0\n{} {entries}\n0 010\n", affinity.ranks());
    for rank in ranks {
        let partners = affinity.partners(rank);
        let _ = write!(text, "{}", partners.len());
        for (partner, weight) in partners {
            let _ = write!(text, " {weight} {partner}");
        }
        text.push('\n');
    }
    text
}
