//! What Slurm's variables say about the allocation of a process.

/// Returns the number of slots of each of the `count` hosts of the allocation: the tasks that the
/// user asked for, or one for each group of cores. `variable` reads the environment. `None` if
/// Slurm does not report it, or reports it for another number of hosts.
pub fn slots(variable: impl Fn(&str) -> Option<String>, count: usize) -> Option<Vec<u32>> {
    let numbers = |name: &str| variable(name).and_then(|text| repeated(&text, count));
    let each = variable("SLURM_CPUS_PER_TASK").and_then(|text| text.parse().ok());
    let each: u32 = each.filter(|each| *each > 0).unwrap_or(1);
    let tasks = numbers("SLURM_TASKS_PER_NODE");
    let room = numbers("SLURM_JOB_CPUS_PER_NODE");
    let room = room.map(|cores| cores.iter().map(|n| (n / each).max(1)).collect());
    // If no tasks were requested, Slurm reports one per node; then the user requested cores. Inside
    // a step the number of tasks is that of the step.
    let is_asked = variable("SLURM_NTASKS").is_some() && variable("SLURM_STEP_ID").is_none();
    if is_asked { tasks.or(room) } else { room.or(tasks) }
}

/// Returns the number of slots of all hosts of the allocation; `None` outside of allocations, and
/// if a job has several components, each with hosts of its own.
pub(super) fn all_slots(variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
    if variable("SLURM_HET_SIZE").is_some_and(|components| components != "1") {
        return None;
    }
    let count = variable("SLURM_JOB_NUM_NODES").or_else(|| variable("SLURM_NNODES"))?;
    let slots = slots(&variable, count.trim().parse().ok()?)?;
    slots.into_iter().try_fold(0, u32::checked_add)
}

/// Parses a list such as `4(x2),3`. Returns `None` if it does not have `count` numbers.
pub fn repeated(text: &str, count: usize) -> Option<Vec<u32>> {
    let mut numbers: Vec<u32> = Vec::new();
    for word in text.split(',') {
        let (number, times) = match word.split_once("(x") {
            Some((number, times)) => (number, times.strip_suffix(')')?.parse().ok()?),
            None => (word, 1),
        };
        let number: u32 = number.trim().parse().ok()?;
        if times > count {
            return None;
        }
        numbers.extend(std::iter::repeat_n(number, times));
    }
    (numbers.len() == count).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_repeated() {
        assert_eq!(repeated("4(x2),3", 3), Some(vec![4, 4, 3]));
        for (text, count) in [("4(x2)", 3), ("4(x2", 2), ("", 1), ("4(x9999999999999)", 1)] {
            assert_eq!(repeated(text, count), None, "{text}");
        }
    }

    /// The variables are those that Slurm 22.05 sets in a process of a step.
    #[test]
    fn the_slots_of_a_step_are_those_of_its_allocation() {
        let all = |variables: &[(&str, &str)]| {
            let found = |name: &str| variables.iter().find(|pair| pair.0 == name);
            all_slots(|name| found(name).map(|pair| pair.1.to_owned()))
        };
        let (hosts, cores) = (("SLURM_JOB_NUM_NODES", "2"), ("SLURM_JOB_CPUS_PER_NODE", "4(x2)"));
        let step =
            [("SLURM_NTASKS", "2"), ("SLURM_TASKS_PER_NODE", "1(x2)"), ("SLURM_STEP_ID", "0")];
        let with = |more: &[(&'static str, &'static str)]| [&step, more].concat();
        assert_eq!(all(&with(&[hosts, cores])), Some(8));
        assert_eq!(all(&with(&[hosts, cores, ("SLURM_CPUS_PER_TASK", "2")])), Some(4));
        assert_eq!(all(&[step[0], step[1], hosts, cores]), Some(2), "asked for");
        assert_eq!(all(&with(&[cores])), None);
        assert_eq!(all(&with(&[hosts, cores, ("SLURM_HET_SIZE", "2")])), None);
        assert_eq!(all(&with(&[hosts, ("SLURM_JOB_CPUS_PER_NODE", "4294967295(x2)")])), None);
        assert_eq!(all(&[]), None);
    }
}
