//! The machines of several hosts. A process that `combray run` starts on each host reports its
//! topology.

use std::collections::HashMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

use base::variables;
use serde_json::{Value, json};
use topology::{Cluster, ClusterMember, Hwloc, Scope, Topology, switches_by_slurm};

use super::TopoOptions;
use super::processes::{self, ShownProcess};
use crate::run::hosts;

/// The topology of the named hosts below their switches, and the processes of the job on them.
///
/// # Errors
/// A host cannot be reached, or cannot report its topology.
pub fn look(options: &TopoOptions) -> Result<(Topology, Vec<ShownProcess>), String> {
    let named = match (&options.hosts, &options.hostfile) {
        (Some(list), _) => hosts::read_list("--hosts", list)?,
        (None, Some(file)) => hosts::read_file("--hostfile", file)?,
        (None, None) => Vec::new(),
    };
    let switches = options.switches.as_deref().map(read_switches).transpose()?;
    let job = match options.job {
        Some(process) => Some(processes::name_of_job(process).ok_or_else(|| {
            format!("process {process} and those below it belong to no job of combray run")
        })?),
        None => None,
    };
    let reports = ask(options, job.as_deref())?;
    let (mut members, mut all) = (Vec::new(), Vec::new());
    for (rank, host) in named.iter().enumerate() {
        let silent = || format!("{} does not report its topology", host.name);
        let report = reports.get(&rank).ok_or_else(silent)?;
        let text = report["machine"].as_str().ok_or_else(silent)?;
        let machine =
            Topology::from_xml(text).map_err(|error| format!("{}: {error}", host.name))?;
        let by_file = switches.as_ref().and_then(|cluster| cluster.switches_above(&host.name));
        let by_slurm = || {
            let names = report["switches"].as_array().into_iter().flatten();
            names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
        };
        members.push(ClusterMember {
            switches: by_file.unwrap_or_else(by_slurm),
            host: host.name.clone(),
            machine: Some(machine),
        });
        let reported = report["processes"].as_array().into_iter().flatten();
        all.extend(reported.filter_map(|one| ShownProcess::from_json(one, &host.name)));
    }
    all.sort_by_key(|process| process.rank);
    // The network of the file, if it has no other hosts than those that are shown.
    let network = switches.and_then(|cluster| cluster.network().cloned());
    let network = network.filter(|network| {
        let is_named = |name: &String| members.iter().any(|member| member.host == *name);
        network.hosts().iter().all(is_named)
    });
    Ok((Topology::cluster(&members).with_network(network), all))
}

fn read_switches(file: &Path) -> Result<Cluster, String> {
    let text = std::fs::read_to_string(file).map_err(|cause| {
        format!("--switches names {}, which cannot be read: {cause}", file.display())
    })?;
    Cluster::parse(&text).map_err(|wrong| format!("{}: {wrong}", file.display()))
}

/// The report of each host, by its index among the named hosts.
fn ask(options: &TopoOptions, job: Option<&str>) -> Result<HashMap<usize, Value>, String> {
    let own = env::current_exe()
        .map_err(|cause| format!("the path of this program is not known: {cause}"))?;
    let mut command = Command::new(&own);
    command.args(["run", "-N", "1", "--bind-to", "none"]);
    let hosts = options.hosts.as_ref().map(OsString::from);
    for (name, value) in [
        ("--hosts", &hosts),
        ("--hostfile", &options.hostfile),
        ("--launch-agent", &options.launch_agent),
    ] {
        if let Some(value) = value {
            command.arg(name).arg(value);
        }
    }
    command.arg("--").arg(&own).args(["topo", "--report"]).arg(job.unwrap_or_default());
    if options.threads {
        command.arg("--threads");
    }
    command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output =
        command.output().map_err(|cause| format!("combray run does not start: {cause}"))?;
    if !output.status.success() {
        return Err("not all hosts could be queried".to_owned());
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    let lines = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(lines.filter_map(|line| Some((line["rank"].as_u64()? as usize, line))).collect())
}

/// Prints this machine's topology, and the processes of a job on it, as one line for [`look`].
/// Returns the exit code.
///
/// # Errors
/// hwloc is missing.
pub fn report(job: &OsStr, with_threads: bool) -> Result<i32, String> {
    let machine = Hwloc::load().and_then(|hwloc| hwloc.this_machine(Scope::Devices));
    let rank = env::var(variables::RANK).ok().and_then(|rank| rank.parse::<u32>().ok());
    let mut of_job = match job.to_str() {
        Some(name) if !name.is_empty() => processes::of_job_named(name),
        _ => Vec::new(),
    };
    if with_threads {
        of_job.iter_mut().for_each(ShownProcess::ask);
    }
    let line = json!({
        "rank": rank,
        "machine": machine.map_err(|error| error.to_string())?,
        "switches": switches_by_slurm(),
        "processes": of_job.iter().map(ShownProcess::to_json).collect::<Vec<_>>(),
    });
    println!("{line}");
    Ok(0)
}
