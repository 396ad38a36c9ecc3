//! The parts of their machines (packages, NUMA nodes, caches) in which the processes of the job
//! run. Communication between processes depends on them.

use std::collections::HashMap;

use collectives::Width;
use sys::cores;
use topology::{Parts, parts_from_text, parts_to_text};

use crate::{configuration, machine};

/// Returns the parts of this process; none if they are not known or the process may run everywhere.
/// The launcher sends them; if another launcher bound the process, the process determines them
/// itself.
pub(crate) fn own(allowed: &[usize]) -> Option<Parts> {
    if let Some(place) = configuration::local_rank() {
        return configuration::parts_here()?.get(place).copied();
    }
    let is_bound = allowed.len() < cores::configured();
    let tree = is_bound.then(machine::tree).flatten()?;
    Some(tree.parts(tree.root(), &allowed.iter().copied().collect()))
}

/// Returns the parts of all processes of this machine as a text, which process 0 publishes in large
/// jobs.
pub(crate) fn pattern() -> String {
    let text = configuration::parts_here().map(|parts| parts_to_text(&parts)).unwrap_or_default();
    if text.len() > PATTERN_MAX { String::new() } else { text }
}

/// The pattern's part of the 1,023 bytes that all launchers accept.
const PATTERN_MAX: usize = 700;

/// Returns the parts of all processes by rank, assuming that all machines are like the one of
/// `pattern`. `nodes` has for each rank the lowest rank on its machine. Empty: not known.
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

/// Returns the parts of all processes if all are known, and some processes of one machine are in
/// different parts; otherwise nothing.
pub(crate) fn that_matter(all: Vec<Parts>, nodes: &[u32]) -> Vec<Parts> {
    let differs = |(parts, node): (&Parts, &u32)| *parts != all[*node as usize];
    if all.len() == nodes.len() && all.iter().zip(nodes).any(differs) { all } else { Vec::new() }
}

/// Returns for each machine the path of switches above it as numbers; equal numbers are equal
/// switches. Empty if the numbers of known switches differ between machines.
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

/// Returns for each width of parts, widest first, the number of the part in which each process is.
pub fn by_width(all: &[Parts]) -> [(Width, Vec<u32>); 3] {
    Width::ALL.map(|width| (width, all.iter().map(|parts| of_width(*parts, width)).collect()))
}

/// Returns the number of the part of a width in which a process is.
pub fn of_width(parts: Parts, width: Width) -> u32 {
    match width {
        Width::Package => parts.package,
        Width::NumaNode => parts.numa_node,
        Width::Cache => parts.cache,
    }
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
