//! Tests with hwloc's library, where it is installed: its output is understood. Nothing here
//! depends on the machine that runs the tests.

use topology::{Kind, Scope, Topology, TopologyError};

/// The machine of a synthetic description, if hwloc is installed.
fn described(line: &str) -> Option<Result<Topology, TopologyError>> {
    match Topology::described(line) {
        Err(missing @ TopologyError::Missing { .. }) => {
            eprintln!("skipped: {missing}");
            None
        }
        outcome => Some(outcome),
    }
}

#[test]
fn lines_become_machines() {
    let Some(topology) = described("package:2 numa:2 l3:1 core:4 pu:2") else { return };
    let topology = topology.unwrap();
    let count = |kind| topology.of_kind(kind).len();
    let kinds = [Kind::Package, Kind::NumaNode, Kind::Cache(3), Kind::Core, Kind::Thread];
    assert_eq!(kinds.map(count), [2, 4, 4, 16, 32]);
    assert_eq!(
        &topology.kinds()[..4],
        &[Kind::Machine, Kind::Package, Kind::Cache(3), Kind::NumaNode]
    );
}

#[test]
fn a_line_that_is_wrong_is_shown() {
    let Some(outcome) = described("package:two") else { return };
    let message = outcome.unwrap_err().to_string();
    assert!(message.contains("package:two") && message.contains("core:4"), "{message}");
}

#[test]
fn a_missing_file_is_named() {
    let message = Topology::described("/nowhere/machine.xml").unwrap_err().to_string();
    assert!(message.contains("/nowhere/machine.xml cannot be read"), "{message}");
}

#[test]
fn this_machine_has_what_this_process_may_use() {
    match Topology::this_machine(Scope::Devices) {
        Err(missing @ TopologyError::Missing { .. }) => eprintln!("skipped: {missing}"),
        outcome => {
            let topology = outcome.unwrap();
            let allowed = sys::cores::allowed();
            assert!(topology.threads().iter().eq(allowed.iter().copied()));
            assert_eq!(topology.of_kind(Kind::Thread).len(), allowed.len());
        }
    }
}
