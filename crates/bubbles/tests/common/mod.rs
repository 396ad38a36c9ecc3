//! Programs of threads and bubbles, run in virtual time on described machines.
#![allow(dead_code, reason = "each test uses a part")]

pub mod programs;
pub mod world;

#[path = "../../../../tests/machines/reviewed.rs"]
pub mod reviewed;

use std::sync::Arc;

use bubbles::MachineTree;
use topology::Topology;

/// The machines on which programs run, from one NUMA node to thirty-two, by name.
pub fn machines() -> Vec<(String, Arc<MachineTree>)> {
    let mut paths = reviewed::machines();
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let topology = Topology::from_xml(&std::fs::read_to_string(path).unwrap()).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, Arc::new(MachineTree::of(&topology)))
    };
    paths.iter().map(read).collect()
}
