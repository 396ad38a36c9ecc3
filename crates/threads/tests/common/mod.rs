//! Workers for tests.

use bubbles::MachineTree;
use threads::Workers;

/// Starts this many workers, each on its own processor as far as there are enough.
pub fn workers(count: u32) -> Workers {
    Workers::builder().machine(machine(count)).start().unwrap()
}

pub fn machine(count: u32) -> MachineTree {
    let allowed = sys::cores::allowed();
    let system = (0..count as usize).map(|index| allowed[index % allowed.len()] as u32);
    MachineTree::flat(&system.collect::<Vec<_>>())
}
