//! Memory that is going to be used, on machines with several NUMA nodes. The memory stays, its
//! pages move to the thread, or the thread moves to it, whichever should finish first.
//!
//! Why: docs/internals/decisions/0071-memory-goes-to-its-user-where-that-pays.md

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::str::FromStr;
use std::sync::OnceLock;

use memory::placing::{Placing, PlacingError};
use memory_costs::{Migration, MigrationForecast, NodeCosts, PlannedUse, UsePlaces};
use sys::cores::{self, Cores};
use sys::numa;
use topology::{Distances, Kind};

use crate::{machine, samples};

/// A program's hint of how it is going to use memory. It is written as `use:reads=10,writes=2`, in
/// any order and with at least one of the two numbers; with `,thread` the calling thread may move,
/// too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UseHint {
    /// How many times the calling thread reads and writes all of the memory.
    pub planned: PlannedUse,
    /// Whether the thread may be bound to other cores.
    pub may_move_thread: bool,
}

/// The prefix of each hint.
const USE: &str = "use:";

impl UseHint {
    /// Whether this text is meant as a hint.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(USE)
    }
}

impl FromStr for UseHint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| {
            format!(
                "{what} in \"{text}\": a use is written as use:reads=10,writes=2 (how often all of \
                 the memory is read and written), with ,thread if the calling thread may go to the \
                 memory"
            )
        };
        let mut hint =
            Self { planned: PlannedUse { reads: 0.0, writes: 0.0 }, may_move_thread: false };
        let rest = text.strip_prefix(USE).ok_or_else(|| wrong("no use"))?;
        for word in rest.split(',').map(str::trim) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let number = || match value.parse::<f64>() {
                Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
                _ => Err(wrong(&format!("no number of times, \"{word}\","))),
            };
            match name {
                "reads" => hint.planned.reads = number()?,
                "writes" => hint.planned.writes = number()?,
                "thread" if value.is_empty() => hint.may_move_thread = true,
                _ => return Err(wrong(&format!("an unknown word, \"{word}\","))),
            }
        }
        if hint.planned.reads + hint.planned.writes == 0.0 {
            return Err(wrong("nothing that is read or written"));
        }
        Ok(hint)
    }
}

/// The NUMA nodes of this machine.
#[derive(Clone, Debug)]
pub struct Nodes {
    distances: Distances,
    /// For each node the cores on which the caller may run.
    cores: BTreeMap<u32, Vec<usize>>,
}

impl Nodes {
    /// Returns the nodes on which this process may have memory, with the cores that the caller may
    /// use. The result is none if there is only one such node, or if the system does not provide
    /// their distances.
    pub fn here() -> Option<Self> {
        let tree = machine::tree()?;
        let usable = numa::nodes().ok()?;
        let allowed = cores::allowed();
        let known = tree.distances()?;
        let nodes: Vec<u32> =
            usable.into_iter().filter(|&node| known.between(node, node).is_some()).collect();
        if nodes.len() < 2 {
            return None;
        }
        let pairs = nodes.iter().flat_map(|from| nodes.iter().map(move |to| (*from, *to)));
        let values = pairs.filter_map(|(from, to)| known.between(from, to)).collect();
        let mut by_node = BTreeMap::new();
        for object in tree.of_kind(Kind::NumaNode) {
            let Some(node) = tree[object].system.filter(|node| nodes.contains(node)) else {
                continue;
            };
            let of_node = |core: &usize| tree[object].threads.contains(*core);
            let cores: Vec<usize> = allowed.iter().copied().filter(of_node).collect();
            if !cores.is_empty() {
                by_node.insert(node, cores);
            }
        }
        Some(Self { distances: Distances { nodes, values }, cores: by_node })
    }

    /// Returns all nodes, by the system's numbers.
    pub fn all(&self) -> impl Iterator<Item = u32> {
        self.distances.nodes.iter().copied()
    }

    /// Returns the nodes on which the caller may run.
    pub fn usable(&self) -> impl Iterator<Item = u32> {
        self.cores.keys().copied()
    }

    /// Returns the cores of a node on which the caller may run.
    pub fn cores(&self, node: u32) -> &[usize] {
        self.cores.get(&node).map_or(&[], Vec::as_slice)
    }

    /// Returns the distance from one node to another in the unit of the firmware.
    pub fn distance(&self, from: u32, to: u32) -> u64 {
        self.distances.between(from, to).unwrap_or(u64::MAX)
    }

    /// Binds the calling thread to this node.
    ///
    /// # Errors
    /// The thread may not run there, or the system refuses.
    pub fn bind(&self, node: u32) -> io::Result<()> {
        let cores = self.cores.get(&node).ok_or(io::ErrorKind::InvalidInput)?;
        Cores::of(cores)?.bind()
    }
}

/// The decision for a use of memory, and its reasons; `Display` writes it as a sentence.
#[derive(Clone, Debug, PartialEq)]
pub struct UseDecision {
    hint: UseHint,
    bytes: usize,
    kind: DecisionKind,
}

#[derive(Clone, Debug, PartialEq)]
enum DecisionKind {
    OneNode,
    Untouched,
    NotMeasured,
    Forecast { forecast: MigrationForecast, places: UsePlaces },
}

/// Decides and does what should take the least time: to move the pages at these addresses to the
/// node of the caller, to move the caller to another node, or nothing.
///
/// The cost of accesses between nodes is read from the file of `combray sample --memory`. If there
/// is no such file, it is measured once in a process, which takes some tenths of a second.
///
/// # Errors
/// The system refuses.
pub fn follow(addresses: Range<usize>, hint: UseHint) -> Result<UseDecision, PlacingError> {
    let decided = |kind| UseDecision { hint, bytes: addresses.len(), kind };
    let Some(nodes) = Nodes::here() else { return Ok(decided(DecisionKind::OneNode)) };
    let memory = places_of(&addresses)?;
    if memory.is_empty() {
        return Ok(decided(DecisionKind::Untouched));
    }
    let here = numa::current_node()?;
    let is_other = |node: &u32| hint.may_move_thread && *node != here;
    let places = UsePlaces { memory, here, others: nodes.usable().filter(is_other).collect() };
    let distance = |from, to| nodes.distance(from, to);
    let Some(forecast) = costs(&nodes).forecast(hint.planned, &places, distance) else {
        return Ok(decided(DecisionKind::NotMeasured));
    };
    match forecast.choice() {
        Migration::Stay => {}
        Migration::MovePages => Placing::Here.apply(addresses.clone())?,
        Migration::MoveThread(node) => nodes.bind(node)?,
    }
    Ok(decided(DecisionKind::Forecast { forecast, places }))
}

/// Returns the costs of accesses between the nodes of this machine: from the file, or measured now
/// and kept for the life of this process.
pub fn costs(nodes: &Nodes) -> &'static NodeCosts {
    static COSTS: OnceLock<NodeCosts> = OnceLock::new();
    COSTS.get_or_init(|| {
        let kept = samples::kept().0.memory.map(|memory| memory.table.nodes);
        kept.filter(|kept| !kept.distances.is_empty()).unwrap_or_else(|| samples::node_costs(nodes))
    })
}

/// Returns how many bytes are on each node, estimated from a sample of the pages.
pub(crate) fn places_of(addresses: &Range<usize>) -> io::Result<Vec<(u32, u64)>> {
    Ok(numa::bytes_by_node(addresses, PAGES_MAX)?.into_iter().collect())
}

/// The largest number of pages in the sample.
const PAGES_MAX: usize = 4096;

impl UseDecision {
    /// Returns what was done.
    pub fn choice(&self) -> Migration {
        match &self.kind {
            DecisionKind::Forecast { forecast, .. } => forecast.choice(),
            _ => Migration::Stay,
        }
    }
}

impl fmt::Display for UseDecision {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PlannedUse { reads, writes } = self.hint.planned;
        let (forecast, places) = match &self.kind {
            DecisionKind::OneNode => {
                return to.write_str(
                    "nothing moves: this process has memory on one NUMA node, or the kernel does \
                     not report the distances between nodes",
                );
            }
            DecisionKind::Untouched => {
                return to.write_str(
                    "nothing moves: no thread has touched this memory, which will be near the \
                     thread that does",
                );
            }
            DecisionKind::NotMeasured => {
                return to.write_str(
                    "nothing moves: the cost of memory of other nodes could not be measured",
                );
            }
            DecisionKind::Forecast { forecast, places } => (forecast, places),
        };
        match forecast.choice() {
            Migration::Stay => to.write_str("nothing moves")?,
            Migration::MovePages => write!(to, "the pages went to node {}", places.here)?,
            Migration::MoveThread(node) => write!(to, "the thread went to node {node}")?,
        }
        write!(
            to,
            ": to read {reads} times and write {writes} times {} bytes, of which",
            self.bytes
        )?;
        for (number, (node, bytes)) in places.memory.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            write!(to, "{comma} {bytes} are on node {node}")?;
        }
        let ms = |ns: f64| ns / 1e6;
        write!(to, ", takes {:.3} ms from node {}", ms(forecast.stay_ns), places.here)?;
        if let Some(ns) = forecast.pages_ns {
            write!(to, ", {:.3} ms if the pages go there first", ms(ns))?;
        }
        if let Some((node, ns)) = forecast.thread {
            write!(to, ", {:.3} ms if the thread goes to node {node}", ms(ns))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_read() {
        let hint: UseHint = "use:reads=10,writes=0.5".parse().unwrap();
        assert_eq!(hint.planned, PlannedUse { reads: 10.0, writes: 0.5 });
        assert!(!hint.may_move_thread);
        assert!("use:writes=1, thread".parse::<UseHint>().unwrap().may_move_thread);
        for wrong in
            ["use:", "use:reads=x", "use:reads=-1", "use:reads=0", "use:thread", "use:moon=1"]
        {
            let error = wrong.parse::<UseHint>().unwrap_err();
            assert!(error.contains("a use is written as"), "{error}");
        }
    }

    #[test]
    fn decisions_are_explained() {
        let hint: UseHint = "use:reads=3,thread".parse().unwrap();
        let places = UsePlaces { memory: vec![(1, 4096), (2, 8192)], here: 0, others: vec![1, 2] };
        let forecast =
            MigrationForecast { stay_ns: 9e6, pages_ns: Some(4e6), thread: Some((2, 3e6)) };
        let kind = DecisionKind::Forecast { forecast, places };
        let decision = UseDecision { hint, bytes: 12_288, kind };
        assert_eq!(decision.choice(), Migration::MoveThread(2));
        assert_eq!(
            decision.to_string(),
            "the thread went to node 2: to read 3 times and write 0 times 12288 bytes, of which \
             4096 are on node 1, 8192 are on node 2, takes 9.000 ms from node 0, 4.000 ms if the \
             pages go there first, 3.000 ms if the thread goes to node 2"
        );
    }

    #[test]
    fn memory_is_followed_on_this_machine() {
        let memory = vec![1_u8; 1 << 20];
        let start = memory.as_ptr() as usize;
        let decision = follow(start..start + memory.len(), "use:reads=9".parse().unwrap()).unwrap();
        assert!(decision.to_string().contains(':'), "{decision}");
        // The thread that touched the memory runs on the same node.
        assert_eq!(decision.choice(), Migration::Stay, "{decision}");
    }
}
