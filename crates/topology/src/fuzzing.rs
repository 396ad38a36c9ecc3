//! What the fuzz target of described machines does with any bytes.

use crate::Topology;

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

/// A text in hwloc's format: a tree that can be shown, or an error that can be told.
pub fn xml(bytes: &[u8]) {
    match Topology::from_xml(&String::from_utf8_lossy(bytes)) {
        Ok(topology) => assert!(!format!("{topology:?}").is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

#[cfg(test)]
#[test]
fn the_corpus_is_read() {
    replay::replay("topology_xml", xml);
}
