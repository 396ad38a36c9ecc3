//! `combray run --dry-run`: shows what would run where.

use launcher::{JobPlan, binding};
use topology::{Kind, Scope, Topology};

/// The described machine, or this one.
pub fn machine(described: Option<&str>) -> Result<Topology, String> {
    let topology = match described {
        Some(text) => Topology::described(text),
        None => Topology::this_machine(Scope::Devices),
    };
    let topology = topology.map_err(|error| error.to_string())?;
    if topology[topology.root()].kind == Kind::Cluster {
        return Err(
            "--topology describes a cluster, but must describe one machine, which stands for each \
             host"
                .to_owned(),
        );
    }
    Ok(topology)
}

/// Prints the places of all processes of a plan, on this machine or on the described one. Returns
/// the exit code.
pub fn run(plan: &JobPlan, described: Option<&str>) -> Result<i32, String> {
    let topology = machine(described)?;
    let processes = launcher::preview(plan, &topology).map_err(|error| error.to_string())?;
    for (rank, process) in processes.iter().enumerate() {
        let cpuset = binding::describe(&topology, topology.root(), &process.cpuset);
        println!("rank {rank} on {}: {cpuset}", process.host);
    }
    let is_elsewhere = processes.iter().any(|process| !launcher::is_this_machine(&process.host));
    if described.is_none() && is_elsewhere {
        println!("(other hosts are assumed to be like this one)");
    }
    Ok(0)
}
