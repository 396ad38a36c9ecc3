//! The entry points of the fuzz target for described machines.

use crate::cluster::{Cluster, in_address};
use crate::{CpuSet, JobNetwork, Topology};

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

/// Parses a text in hwloc's format. It must yield a tree that can be displayed, or an error with a
/// message.
pub fn xml(bytes: &[u8]) {
    match Topology::from_xml(&String::from_utf8_lossy(bytes)) {
        Ok(topology) => assert!(!format!("{topology:?}").is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Parses a description of a cluster, a network of a job, a topology address as Slurm sets
/// it, and a list of
/// processors.
pub fn cluster_files(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Cluster::parse(&text) {
        Ok(cluster) => {
            for host in cluster.hosts().iter().take(100) {
                cluster.switches_above(host);
            }
            if let Some(network) = cluster.network() {
                assert!(!network.hosts().is_empty() && network.links().len() < 2_000_000);
            }
        }
        Err(sentence) => assert!(!sentence.is_empty()),
    }
    if let Some(network) = JobNetwork::from_text(text.trim_end()) {
        assert_eq!(JobNetwork::from_text(&network.to_string()), Some(network));
    }
    let mut lines = text.lines();
    let (first, second) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let _ = in_address(first, second);
    if let Some(set) = CpuSet::from_list(first) {
        assert_eq!(CpuSet::from_list(&set.to_string()), Some(set));
    }
}

#[cfg(test)]
#[test]
fn the_corpora_are_read() {
    replay::replay("topology_xml", xml);
    replay::replay("cluster_files", cluster_files);
}
