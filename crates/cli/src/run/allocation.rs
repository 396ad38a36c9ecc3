//! Allocations of batch systems, of which only the first node would be used.

use std::collections::HashSet;

/// Refuses to start everything on this machine where a batch system gave several; `variable` reads
/// the environment.
///
/// # Errors
/// A text for people: what the allocation has, and how to use it.
pub fn check(variable: impl Fn(&str) -> Option<String>) -> Result<(), String> {
    let Some((system, nodes, remedy)) = allocation(variable).filter(|found| found.1 > 1) else {
        return Ok(());
    };
    Err(format!(
        "{system} has given this job {nodes} nodes, and without --hosts all processes would start on \
         this one; {remedy}, or name hosts with --hosts, such as --hosts a:2,b:2 (--hosts localhost \
         for this node only)"
    ))
}

/// The batch system, how many nodes it gave, and what to do there.
fn allocation(
    variable: impl Fn(&str) -> Option<String>,
) -> Option<(&'static str, usize, &'static str)> {
    let slurm = variable("SLURM_JOB_NUM_NODES").or_else(|| variable("SLURM_NNODES"));
    if let Some(nodes) = slurm.and_then(|text| text.trim().parse().ok()) {
        return Some(("Slurm", nodes, "start the program with srun --mpi=pmix"));
    }
    if let Some(file) = variable("PBS_NODEFILE") {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let nodes: HashSet<&str> = text.split_whitespace().collect();
        return Some(("PBS", nodes.len(), "give its list of hosts: --hostfile $PBS_NODEFILE"));
    }
    let names: HashSet<String> = match variable("LSB_MCPU_HOSTS") {
        // Names and numbers of processors in turn.
        Some(text) => text.split_whitespace().step_by(2).map(str::to_owned).collect(),
        None => variable("LSB_HOSTS")?.split_whitespace().map(str::to_owned).collect(),
    };
    Some(("LSF", names.len(), "name the hosts of LSB_MCPU_HOSTS"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_of_several_nodes_are_not_left_idle() {
        let file = std::env::temp_dir().join(format!("combray-nodes-{}", std::process::id()));
        std::fs::write(&file, "a\na\nb\nb\n").unwrap();
        let file = file.to_str().unwrap();
        let check =
            |name: &str, value: &str| check(|wanted| (wanted == name).then(|| value.to_owned()));
        for (name, value, words) in [
            ("SLURM_JOB_NUM_NODES", "4", "Slurm has given this job 4 nodes"),
            ("SLURM_NNODES", "2", "srun --mpi=pmix"),
            ("PBS_NODEFILE", file, "PBS has given this job 2 nodes"),
            ("LSB_MCPU_HOSTS", "a 4 b 4 c 2", "LSF has given this job 3 nodes"),
            ("LSB_HOSTS", "a a b b", "2 nodes"),
        ] {
            let error = check(name, value).unwrap_err();
            assert!(error.contains(words) && error.contains("--hosts"), "{error}");
        }
        for (name, value) in [
            ("SLURM_JOB_NUM_NODES", "1"),
            ("SLURM_JOB_NUM_NODES", "many"),
            ("PBS_NODEFILE", "/nonexistent"),
            ("LSB_MCPU_HOSTS", "a 8"),
            ("LSB_HOSTS", "a a"),
            ("HOME", "/"),
        ] {
            assert_eq!(check(name, value), Ok(()), "{name}={value}");
        }
        std::fs::remove_file(file).unwrap();
    }
}
