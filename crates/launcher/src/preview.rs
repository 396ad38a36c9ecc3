//! Shows the result of a plan without starting anything.

use topology::Topology;

use super::local::host_name;
use super::{JobPlan, LaunchError};
use crate::binding::{self, Cpuset};

/// Where a process would run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// The host.
    pub host: String,
    /// The hardware threads.
    pub cpuset: Cpuset,
}

/// Returns where each process would run, by rank, if all hosts were machines like this one.
///
/// # Errors
/// There are not enough slots, or the machine lacks what the plan requires.
pub fn preview(plan: &JobPlan, topology: &Topology) -> Result<Vec<Preview>, LaunchError> {
    let placement = plan.placement()?;
    let mut previews = vec![None; placement.ranks.len()];
    for (number, name) in placement.hosts.iter().enumerate() {
        let on_host = |rank: &usize| placement.ranks[*rank] == number;
        let ranks: Vec<usize> = (0..placement.ranks.len()).filter(on_host).collect();
        let numbers: Vec<u32> = ranks.iter().map(|rank| *rank as u32).collect();
        let cpusets = binding::plan(topology, topology.root(), &numbers, &plan.policy);
        let host = name.clone().unwrap_or_else(host_name);
        let ranks = ranks.into_iter().zip(cpusets.map_err(LaunchError::new)?);
        for (local_rank, (rank, planned)) in ranks.enumerate() {
            let cpuset = match plan.chosen_slots(rank, local_rank) {
                Some(slots) => Some(slots.of_rank(rank as u32, topology)?),
                None => planned,
            };
            previews[rank] = Some(Preview { host: host.clone(), cpuset });
        }
    }
    Ok(previews.into_iter().flatten().collect())
}
