//! The network between the hosts, from a file that the user names.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use base::variables;
use launcher::{JobPlan, is_this_machine};
use topology::{Cluster, HostNetwork};

/// Describes to users that no network interface of this machine is among those that they selected,
/// if the whole job runs here: then nothing fails that would show it.
pub fn describe_unfitting(plan: &JobPlan) -> Option<String> {
    let mut hosts = plan.applications.iter().flat_map(|one| &one.hosts);
    if !plan.rankfile.is_empty() || hosts.any(|host| !is_this_machine(&host.name)) {
        return None;
    }
    let of_programs = plan.applications.iter().find_map(|one| {
        let value = one.variables.get(OsStr::new(variables::NET));
        value.cloned()
    });
    let text = of_programs.or_else(|| env::var_os(variables::NET))?;
    runtime::describe_unfitting(text.to_str()?)
}

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
