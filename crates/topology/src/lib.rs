#![doc = include_str!("../README.md")]

mod cluster;
mod cpuset;
mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod hwloc;
mod infiniband;
mod job;
mod job_network;
mod locality;
mod network;
mod object;
mod parts;
mod tree;
mod xml;

pub use cluster::{Cluster, ClusterMember, switches_by_slurm};
pub use cpuset::CpuSet;
pub use error::TopologyError;
pub use hwloc::{Hwloc, LIBRARY, Scope};
pub use job::JobMap;
pub use job_network::JobNetwork;
pub use locality::{Locality, NEAR};
pub use network::{HostNetwork, NetworkLink};
pub use object::{DeviceKind, Kind, Object, ObjectId};
pub use parts::{NoParts, Parts, parts_from_text, parts_to_text};
pub use tree::{Distances, Topology};

impl Topology {
    /// Discovers this machine, restricted to the hardware threads that this process may use.
    ///
    /// # Errors
    /// hwloc is missing, or the discovery failed.
    pub fn this_machine(scope: Scope) -> Result<Self, TopologyError> {
        let topology = Self::from_xml(&Hwloc::load()?.this_machine(scope)?)?;
        topology.restricted(&sys::cores::allowed().into_iter().collect())
    }

    /// Builds a topology from a description: the path of a file in hwloc's XML format, the path of
    /// a cluster description ([`Cluster`]), or a synthetic description of hwloc such as `package:2
    /// numa:2 core:4 pu:2`.
    ///
    /// # Errors
    /// The file cannot be read, the description is malformed, or hwloc is needed and missing.
    pub fn described(what: &str) -> Result<Self, TopologyError> {
        let path = std::path::Path::new(what);
        let is_path = what.contains('/') || what.ends_with(".xml") || path.is_file();
        if !is_path {
            return Self::from_xml(&Hwloc::load()?.synthetic(what)?);
        }
        let text = std::fs::read_to_string(path).map_err(|cause| TopologyError::Unreadable {
            path: what.to_owned(),
            cause: cause.to_string(),
        })?;
        if !text.trim_start().starts_with('<') {
            // Files that the description names are relative to its directory.
            let folder = path.parent().unwrap_or(path);
            return Self::cluster_from_text(&text, |words| match folder.join(words) {
                file if file.is_file() => Self::described(&file.to_string_lossy()),
                _ => Self::described(words),
            });
        }
        match Self::from_xml(&text) {
            // The library can also read the format of its version 1.
            Err(TopologyError::OtherVersion) => Self::from_xml(&Hwloc::load()?.converted(&text)?),
            read => read,
        }
    }
}
