//! The tree of this machine, for those who ask: most programs never do.

use std::sync::OnceLock;

use topology::{Hwloc, Scope, Topology};

/// The variable by which the launcher tells where it has left the description of the machine.
const DESCRIPTION: &str = "COMBRAY_TOPOLOGY";

/// The whole machine as the system shows it to the job. None: hwloc is missing.
pub(crate) fn tree() -> Option<&'static Topology> {
    static TREE: OnceLock<Option<Topology>> = OnceLock::new();
    TREE.get_or_init(|| told().or_else(looked_at)).as_ref()
}

/// What the launcher found out once for all its processes.
fn told() -> Option<Topology> {
    let text = std::fs::read_to_string(std::env::var_os(DESCRIPTION)?).ok()?;
    Topology::from_xml(&text).ok()
}

fn looked_at() -> Option<Topology> {
    let text = Hwloc::load().and_then(|hwloc| hwloc.this_machine(Scope::Cores)).ok()?;
    Topology::from_xml(&text).ok()
}
