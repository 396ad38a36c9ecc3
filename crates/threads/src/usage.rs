//! What the program has said that threads and bubbles use of its memory.

use std::collections::BTreeMap;
use std::ops::Range;

use bubbles::MachineTree;
use parking_lot::Mutex;
use sys::numa;

/// How memory of the program is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryUse {
    /// It is read only, perhaps by many: who uses it goes near it, and it stays where it is.
    Reads,
    /// It is written, too: it may go where its user goes.
    Writes,
}

/// Memory that one thread or bubble uses.
#[derive(Default)]
pub(crate) struct UsedMemory(Mutex<Vec<UsedRange>>);

struct UsedRange {
    addresses: Range<usize>,
    memory_use: MemoryUse,
    /// How many bytes are on which NUMA node, by its place in the machine.
    nodes: Vec<(u32, u64)>,
    /// Whether it is to be brought there.
    goes: bool,
}

impl UsedMemory {
    /// Adds a range; one that begins where a known one does takes its place. Without a machine it
    /// is not looked up yet where it is.
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

    /// Looks again where all of it is.
    pub fn locate(&self, machine: &MachineTree) {
        for range in &mut *self.0.lock() {
            range.nodes = nodes_of(&range.addresses, machine);
        }
    }

    /// How many bytes are on each NUMA node that has any, by its place in the machine.
    pub fn nodes(&self) -> Vec<(u32, u64)> {
        let mut all = BTreeMap::new();
        for (node, bytes) in self.0.lock().iter().flat_map(|range| &range.nodes) {
            *all.entry(*node).or_default() += bytes;
        }
        all.into_iter().collect()
    }

    /// Has what is written go to a NUMA node, where it counts from now on; [`UsedMemory::bring`]
    /// does so.
    pub fn plan(&self, node: u32) {
        for range in &mut *self.0.lock() {
            let is_elsewhere = range.nodes.iter().any(|(from, _)| *from != node);
            if range.memory_use == MemoryUse::Writes && is_elsewhere {
                range.nodes = vec![(node, range.addresses.len() as u64)];
                range.goes = true;
            }
        }
    }

    /// Brings memory where it was planned. What the system does not move stays.
    pub fn bring(&self, machine: &MachineTree) {
        while let Some((addresses, node)) = self.next() {
            let system = machine.system_node(node);
            let moved = system.map(|node| numa::migrate(addresses.clone(), &[node]));
            self.find(&addresses, |range| match moved {
                // Another plan may have been made and carried out meanwhile.
                Some(Ok(_)) => range.goes |= range.nodes.iter().any(|(to, _)| *to != node),
                _ if range.goes => {}
                _ => range.nodes = nodes_of(&range.addresses, machine),
            });
        }
    }

    /// The next range that is to go somewhere.
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

/// How many bytes are on which node, told by some of the pages.
fn nodes_of(addresses: &Range<usize>, machine: &MachineTree) -> Vec<(u32, u64)> {
    // Of what the system does not tell, nothing is known.
    let all = numa::bytes_by_node(addresses, LOOKED_AT_MAX).unwrap_or_default();
    let placed = |(node, bytes)| Some((machine.node_of_system(node)?, bytes));
    all.into_iter().filter_map(placed).collect()
}

/// So many pages of a range are looked at.
const LOOKED_AT_MAX: usize = 64;
