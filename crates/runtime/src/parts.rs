//! In which parts of their machines the processes of the job run, as their messages depend on it.

use std::collections::HashMap;

use collectives::Width;
use sys::cores;
use topology::{Parts, parts_from_text, parts_to_text};

use crate::{configuration, machine};

/// The parts of this process, if it does not run everywhere. The launcher told; or another one
/// bound the process, which then looks itself. None: not known.
pub(crate) fn own(allowed: &[usize]) -> Option<Parts> {
    if let Some(place) = configuration::local_rank() {
        return configuration::parts_here()?.get(place).copied();
    }
    let is_bound = allowed.len() < cores::configured();
    let tree = is_bound.then(machine::tree).flatten()?;
    Some(tree.parts(tree.root(), &allowed.iter().copied().collect()))
}

/// What process 0 tells in large jobs: the parts of all processes of its machine, as a text.
pub(crate) fn pattern() -> String {
    let text = configuration::parts_here().map(|parts| parts_to_text(&parts)).unwrap_or_default();
    if text.len() > PATTERN_MAX { String::new() } else { text }
}

/// Longer texts not all launchers take, in bytes.
const PATTERN_MAX: usize = 900;

/// The parts of all processes by rank, where all machines are taken to be as the pattern tells, and
/// `nodes` tells the lowest rank on the same machine. Empty: not known.
pub(crate) fn by_pattern(pattern: &str, nodes: &[u32]) -> Vec<Parts> {
    let Ok(pattern) = parts_from_text(pattern) else { return Vec::new() };
    let mut count = vec![0; nodes.len()];
    let mut of_rank = |node: &u32| {
        let place = count[*node as usize];
        count[*node as usize] += 1;
        pattern.get(place).copied()
    };
    let all: Option<Vec<Parts>> = nodes.iter().map(&mut of_rank).collect();
    that_matter(all.unwrap_or_default(), nodes)
}

/// The parts of all processes if all have told, and some of one machine are in different ones; else
/// nothing.
pub(crate) fn that_matter(all: Vec<Parts>, nodes: &[u32]) -> Vec<Parts> {
    let differs = |(parts, node): (&Parts, &u32)| *parts != all[*node as usize];
    if all.len() == nodes.len() && all.iter().zip(nodes).any(differs) { all } else { Vec::new() }
}

/// The switches above all machines as numbers, which are the same for the same switch. Nothing
/// where not as many are known above each.
pub(crate) fn numbered<'a>(all: impl Iterator<Item = &'a [String]>) -> Vec<Vec<u32>> {
    let mut known: HashMap<&[String], u32> = HashMap::new();
    let mut number = |path: &'a [String]| {
        let next = known.len() as u32;
        *known.entry(path).or_insert(next)
    };
    let of_path =
        |path: &'a [String]| (1..=path.len()).map(|length| number(&path[..length])).collect();
    let paths: Vec<Vec<u32>> = all.map(of_path).collect();
    let is_even = paths.iter().all(|path| path.len() == paths[0].len() && !path.is_empty());
    if is_even { paths } else { Vec::new() }
}

/// For each kind of parts, from the widest on, in which one each process is.
pub fn by_width(all: &[Parts]) -> [(Width, Vec<u32>); 3] {
    Width::ALL.map(|width| {
        let number = |parts: &Parts| match width {
            Width::Package => parts.package,
            Width::NumaNode => parts.numa_node,
            Width::Cache => parts.cache,
        };
        (width, all.iter().map(number).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_have_numbers() {
        let path = |names: &str| -> Vec<String> { names.split('.').map(str::to_owned).collect() };
        let all = ["top.left", "top.right", "top.left"].map(path);
        assert_eq!(numbered(all.iter().map(Vec::as_slice)), [[0, 1], [0, 2], [0, 1]]);
        let uneven = [path("top.left"), path("top"), Vec::new()];
        assert!(numbered(uneven.iter().map(Vec::as_slice)).is_empty());
        assert!(numbered([[].as_slice()].into_iter()).is_empty());
    }

    #[test]
    fn machines_are_alike_in_large_jobs() {
        let nodes = [0, 1, 0, 1, 0];
        let parts = by_pattern("0.0.0,0.1.1*2", &nodes);
        let numa_nodes: Vec<u32> = parts.iter().map(|parts| parts.numa_node).collect();
        assert_eq!(numa_nodes, [0, 0, 1, 1, 1]);
        for useless in ["", "0.0.0,0.1.1", "0.0.0*3", "x"] {
            assert_eq!(by_pattern(useless, &nodes), [], "{useless}");
        }
    }
}
