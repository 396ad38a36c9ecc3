//! The tree of this machine, for those who ask: most programs never do.

use std::sync::OnceLock;

/// The cores on which this process and its threads may run.
pub use sys::cores;
/// What this process has used.
pub mod usage {
    pub use sys::usage::{busy_threads, processor_time, processor_time_of_threads};

    /// Bytes of the memory that Combray shares between processes which this one has touched.
    pub fn shared_memory_bytes() -> u64 {
        sys::usage::shared_memory_bytes("combray")
    }
}

use base::variables;
use topology::{Hwloc, Scope, Topology};

/// The whole machine as the system shows it to the job, devices aside. None: hwloc is missing.
pub fn tree() -> Option<&'static Topology> {
    static TREE: OnceLock<Option<Topology>> = OnceLock::new();
    TREE.get_or_init(|| told().or_else(|| looked_at(Scope::Cores))).as_ref()
}

/// The same with its devices.
pub fn tree_with_devices() -> Option<&'static Topology> {
    static TREE: OnceLock<Option<Topology>> = OnceLock::new();
    // The launcher looks for devices only where the job has several machines.
    let told = || told().filter(|tree| !tree.devices().is_empty());
    TREE.get_or_init(|| told().or_else(|| looked_at(Scope::Devices))).as_ref()
}

/// What the launcher found out once for all its processes.
fn told() -> Option<Topology> {
    let text = std::fs::read_to_string(std::env::var_os(variables::TOPOLOGY)?).ok()?;
    Topology::from_xml(&text).ok()
}

fn looked_at(scope: Scope) -> Option<Topology> {
    let text = Hwloc::load().and_then(|hwloc| hwloc.this_machine(scope)).ok()?;
    Topology::from_xml(&text).ok()
}
