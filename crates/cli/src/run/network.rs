//! The network between the hosts, from a file that the user names.

use std::env;
use std::fs;
use std::path::Path;

use base::variables;
use topology::{Cluster, HostNetwork};

/// Reads the network between the hosts from the file that `COMBRAY_NETWORK` names, if any.
pub fn network() -> Result<Option<HostNetwork>, String> {
    let name = variables::NETWORK;
    let Some(file) = env::var_os(name).filter(|file| !file.is_empty()) else { return Ok(None) };
    let file = Path::new(&file);
    let text = fs::read_to_string(file).map_err(|cause| {
        format!("{name} names {}, which cannot be read: {cause}", file.display())
    })?;
    let cluster =
        Cluster::parse(&text).map_err(|wrong| format!("{name}: {}: {wrong}", file.display()))?;
    match cluster.network() {
        Some(network) => Ok(Some(network.clone())),
        None => Err(format!(
            "{name}: {} describes no network: it needs a line such as \"torus 4x4: node[0-15]\"",
            file.display()
        )),
    }
}
