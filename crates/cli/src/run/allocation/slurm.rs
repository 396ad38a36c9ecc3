//! Allocations of Slurm.

use launch::slurm::repeated;
use launcher::{HostAccess, OwnHost};

use super::super::called;
use super::{AllocatedHost, Allocation, unusable};

/// Step numbers from here on are Slurm's own steps: the batch script, the shell of salloc. Such a
/// step has all cores of the job on its host.
const OWN_STEPS_MIN: u64 = 0xffff_fff0;

/// The maximum number of hosts; a larger number is a parsing error.
const HOSTS_MAX: usize = 1 << 16;

/// The Slurm allocation in which this process runs.
///
/// # Errors
/// A message for the user: there is an allocation, but its hosts cannot be determined or used.
pub fn find(
    variable: &impl Fn(&str) -> Option<String>,
    is_there: &impl Fn(&str) -> bool,
) -> Result<Option<Allocation>, String> {
    // The names without "JOB" are older; inside a step they describe the step.
    let job = |name: &str| {
        let own = variable(&format!("SLURM_JOB_{name}"));
        own.or_else(|| variable(&format!("SLURM_{name}")))
    };
    if let Some(components) = variable("SLURM_HET_SIZE").filter(|text| text != "1") {
        return Err(format!(
            "this job of Slurm has {components} components, of which {} would use one; start the \
             program with srun --mpi=pmix --het-group=0-{}, or name the hosts with --hosts",
            called::name(),
            components.parse::<u32>().unwrap_or(2).saturating_sub(1)
        ));
    }
    let count = variable("SLURM_JOB_NUM_NODES").or_else(|| variable("SLURM_NNODES"));
    let Some(list) = job("NODELIST") else {
        return match count.filter(|count| count.trim() != "1") {
            None => Ok(None),
            Some(count) => Err(unusable(
                "SLURM_JOB_NUM_NODES",
                &format!("Slurm has given {count} nodes, but SLURM_JOB_NODELIST is not set"),
            )),
        };
    };
    let names = expanded(&list).ok_or_else(|| {
        unusable("SLURM_JOB_NODELIST", &format!("its value \"{list}\" is not understood"))
    })?;
    let id = job("ID").or_else(|| variable("SLURM_JOBID")).unwrap_or_default();
    let meant = launch::slurm::slots(variable, names.len()).unwrap_or_else(|| vec![1; names.len()]);
    let cores = variable("SLURM_JOB_CPUS_PER_NODE");
    let cores = cores.and_then(|text| repeated(&text, names.len()));
    let cores = cores.unwrap_or_else(|| meant.clone());
    let hosts = names.into_iter().zip(meant.into_iter().zip(cores));
    let hosts =
        hosts.map(|(name, (tasks, cores))| AllocatedHost { name, tasks, cores: cores.max(tasks) });
    let access = match is_there("srun") {
        true => HostAccess::Srun(own_host(variable)),
        false => HostAccess::Ssh,
    };
    Ok(Some(Allocation {
        name: format!("Slurm job {id}").trim_end().to_owned(),
        hosts: hosts.collect(),
        access,
    }))
}

/// Returns how many tasks the step of this process has on each host; empty outside of steps.
pub fn tasks_of_step(variable: &impl Fn(&str) -> Option<String>) -> Vec<(String, u32)> {
    let names = variable("SLURM_STEP_NODELIST").and_then(|list| expanded(&list));
    let names = names.unwrap_or_default();
    let tasks = variable("SLURM_STEP_TASKS_PER_NODE");
    let tasks = tasks.and_then(|text| repeated(&text, names.len())).unwrap_or_default();
    names.into_iter().zip(tasks).collect()
}

/// Whether this process has all resources of the job on its host. A process that only submitted the
/// job has none of them, and a process in a step has those of the step.
fn own_host(variable: &impl Fn(&str) -> Option<String>) -> OwnHost {
    let is_inside = variable("SLURMD_NODENAME").is_some();
    let step = variable("SLURM_STEP_ID").and_then(|text| text.parse::<u64>().ok());
    match is_inside && step.is_none_or(|step| step >= OWN_STEPS_MIN) {
        true => OwnHost::Directly,
        false => OwnHost::ByAgent,
    }
}

/// Expands a list such as `login,node[1-3,07]x[1-2]` into names.
fn expanded(list: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = list.trim();
    while !rest.is_empty() {
        // The comma that ends a name is outside of brackets.
        let mut depth = 0_i32;
        let end = rest.find(|letter| {
            depth += i32::from(letter == '[') - i32::from(letter == ']');
            letter == ',' && depth == 0
        });
        let (word, after) = end.map_or((rest, ""), |end| (&rest[..end], &rest[end + 1..]));
        names.extend(expanded_name(word)?);
        if names.len() > HOSTS_MAX {
            return None;
        }
        rest = after;
    }
    let is_name = |name: &String| !name.is_empty() && !name.starts_with('-');
    (!names.is_empty() && names.iter().all(is_name)).then_some(names)
}

/// Expands one word of a list, which may have several brackets.
fn expanded_name(word: &str) -> Option<Vec<String>> {
    let Some((head, rest)) = word.split_once('[') else {
        return (!word.contains(']')).then(|| vec![word.to_owned()]);
    };
    let (ranges, tail) = rest.split_once(']')?;
    let tails = if tail.is_empty() { vec![String::new()] } else { expanded_name(tail)? };
    let mut names = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (from, to): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if from > to || (to - from + 1).checked_mul(tails.len())? > HOSTS_MAX {
            return None;
        }
        for number in from..=to {
            let own = |tail: &String| format!("{head}{number:0width$}{tail}", width = first.len());
            names.extend(tails.iter().map(own));
        }
    }
    (names.len() <= HOSTS_MAX).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{found, shown};
    use super::*;

    #[test]
    fn lists_of_nodes_are_expanded() {
        let names = |list| expanded(list).map(|names| names.join(" "));
        for (list, expected) in [
            ("a", "a"),
            ("a,b2", "a b2"),
            ("n[1-3]", "n1 n2 n3"),
            ("n[08-10,3]", "n08 n09 n10 n3"),
            ("r[1-2]n[1,3],login", "r1n1 r1n3 r2n1 r2n3 login"),
            ("n[1-2].example.org", "n1.example.org n2.example.org"),
        ] {
            assert_eq!(names(list).as_deref(), Some(expected), "{list}");
        }
        for wrong in ["", "n[1-2", "n]", "n[2-1]", "n[a]", "n[0-99999999]", "-o", "a,,b"] {
            assert_eq!(names(wrong), None, "{wrong}");
        }
    }

    /// The variables are those that Slurm 22.05 sets.
    #[test]
    fn slots_are_the_tasks_that_were_asked_for() {
        let slots = |variables: &[(&str, &str)], processes| {
            let list = [&[("SLURM_JOB_NODELIST", "box[1-2]")], variables].concat();
            shown(&found(&list, &[]).unwrap().unwrap(), processes)
        };
        let (cores, tasks) = ("SLURM_JOB_CPUS_PER_NODE", "SLURM_TASKS_PER_NODE");
        // -N2 --exclusive
        assert_eq!(slots(&[(cores, "4(x2)"), (tasks, "1(x2)")], 0), "box1:4 box2:4");
        // -N2 -c2
        let each = ("SLURM_CPUS_PER_TASK", "2");
        assert_eq!(slots(&[(cores, "4(x2)"), (tasks, "1(x2)"), each], 0), "box1:2 box2:2");
        // -n6
        let six = [(cores, "4,2"), (tasks, "4,2"), ("SLURM_NTASKS", "6")];
        assert_eq!(slots(&six, 0), "box1:4 box2:2");
        // -N2 --ntasks-per-node=1 --exclusive: more than one only if more are requested
        let two = [(cores, "4(x2)"), (tasks, "1(x2)"), ("SLURM_NTASKS", "2")];
        assert_eq!(slots(&two, 2), "box1:1 box2:1");
        assert_eq!(slots(&two, 3), "box1:4 box2:4");
        // In a step of one task, the variables about tasks describe the step.
        let step = [(cores, "4(x2)"), (tasks, "1"), ("SLURM_NTASKS", "1"), ("SLURM_STEP_ID", "0")];
        assert_eq!(slots(&step, 0), "box1:4 box2:4");
    }

    #[test]
    fn components_are_refused() {
        let error = found(&[("SLURM_JOB_NODELIST", "a"), ("SLURM_HET_SIZE", "2")], &["srun"]);
        let error = error.unwrap_err();
        assert!(error.contains("2 components") && error.contains("--het-group=0-1"), "{error}");
    }
}
