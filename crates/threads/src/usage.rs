//! Which memory of the program threads and bubbles use, as the program declared it.

use std::collections::BTreeMap;
use std::ops::Range;

use bubbles::MachineTree;
use parking_lot::Mutex;
use sys::numa;

/// How the program uses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryUse {
    /// The memory is only read, perhaps by many. The user of the memory is placed near it, and the
    /// memory is not migrated.
    Reads,
    /// The memory is also written. It may be migrated to its user.
    Writes,
}

/// The memory that one thread or bubble uses.
#[derive(Default)]
pub(crate) struct UsedMemory(Mutex<Vec<UsedRange>>);

struct UsedRange {
    addresses: Range<usize>,
    memory_use: MemoryUse,
    /// The number of bytes on each NUMA node, by the node's index in the machine.
    nodes: Vec<(u32, u64)>,
    /// Whether the range must still be migrated to `nodes`.
    goes: bool,
}

impl UsedMemory {
    /// Adds a range. A range replaces a known range that begins at the same address. Without a
    /// machine the location is not looked up yet.
    pub fn add(
        &self,
        addresses: Range<usize>,
        memory_use: MemoryUse,
        machine: Option<&MachineTree>,
    ) {
        let nodes = machine.map_or(Vec::new(), |machine| nodes_of(&addresses, machine));
        let mut ranges = self.0.lock();
        ranges.retain(|range| range.addresses.start != addresses.start);
        ranges.push(UsedRange { addresses, memory_use, nodes, goes: false });
    }

    /// Looks up the location of all ranges again.
    pub fn locate(&self, machine: &MachineTree) {
        for range in &mut *self.0.lock() {
            range.nodes = nodes_of(&range.addresses, machine);
        }
    }

    /// The number of bytes on each NUMA node that has any, by the node's index in the machine.
    pub fn nodes(&self) -> Vec<(u32, u64)> {
        let mut all = BTreeMap::new();
        for (node, bytes) in self.0.lock().iter().flat_map(|range| &range.nodes) {
            *all.entry(*node).or_default() += bytes;
        }
        all.into_iter().collect()
    }

    /// Plans the migration of written ranges to a NUMA node, which counts as their location from
    /// now on. [`UsedMemory::bring`] carries the plan out.
    pub fn plan(&self, node: u32) {
        for range in &mut *self.0.lock() {
            let is_elsewhere = range.nodes.iter().any(|(from, _)| *from != node);
            if range.memory_use == MemoryUse::Writes && is_elsewhere {
                range.nodes = vec![(node, range.addresses.len() as u64)];
                range.goes = true;
            }
        }
    }

    /// Migrates memory as planned. Memory that the kernel does not move stays where it is.
    pub fn bring(&self, machine: &MachineTree) {
        while let Some((addresses, node)) = self.next() {
            let system = machine.system_node(node);
            let moved = system.map(|node| numa::migrate(addresses.clone(), &[node]));
            self.find(&addresses, |range| match moved {
                // Another plan may have been made and carried out in the meantime.
                Some(Ok(_)) => range.goes |= range.nodes.iter().any(|(to, _)| *to != node),
                _ if range.goes => {}
                _ => range.nodes = nodes_of(&range.addresses, machine),
            });
        }
    }

    /// The next range that must be migrated.
    fn next(&self) -> Option<(Range<usize>, u32)> {
        let mut ranges = self.0.lock();
        let range = ranges.iter_mut().find(|range| range.goes)?;
        range.goes = false;
        Some((range.addresses.clone(), range.nodes.first()?.0))
    }

    fn find(&self, addresses: &Range<usize>, change: impl FnOnce(&mut UsedRange)) {
        let mut ranges = self.0.lock();
        if let Some(range) = ranges.iter_mut().find(|range| range.addresses == *addresses) {
            change(range);
        }
    }
}

/// Estimates the number of bytes on each node from a sample of the pages.
fn nodes_of(addresses: &Range<usize>, machine: &MachineTree) -> Vec<(u32, u64)> {
    // Where the kernel reports no locations, the result is empty.
    let all = numa::bytes_by_node(addresses, CHECKED_MAX).unwrap_or_default();
    let placed = |(node, bytes)| Some((machine.node_of_system(node)?, bytes));
    all.into_iter().filter_map(placed).collect()
}

/// The number of pages of a range that are sampled.
const CHECKED_MAX: usize = 64;
