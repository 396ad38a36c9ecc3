//! The job map: where the processes of a job run. All components share it.

use std::collections::HashMap;

use crate::{JobNetwork, Parts};

/// Where the processes of a job run, as seen by one of them. Processes are identified by their
/// ranks in the job, machines by the lowest rank on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobMap {
    rank: u32,
    /// The machine of each rank.
    nodes: Vec<u32>,
    node_count: u32,
    /// The number of processes on this machine, and the number of cores that they may use together.
    processes_here: u32,
    cores_here: u32,
    /// The number of cores that the processes of a machine may use, on the machine with the fewest.
    cores_min: u32,
    is_oversubscribed_anywhere: bool,
    /// Properties of each rank. Each list is empty if the property is unknown or makes no
    /// difference.
    parts: Vec<Parts>,
    distances: Vec<u32>,
    switches: Vec<Vec<u32>>,
    network: Option<JobNetwork>,
}

impl JobMap {
    /// Creates the map of the process `rank`. `nodes` contains the machine of each rank. `cores`
    /// returns for each machine the number of cores that its processes may use together. All
    /// processes of the job must pass equal values.
    pub fn new(rank: u32, nodes: Vec<u32>, cores: impl Fn(u32) -> u32) -> Self {
        let mut processes = vec![0_u32; nodes.len()];
        nodes.iter().for_each(|&node| processes[node as usize] += 1);
        let used = (0..).zip(&processes).filter(|(_, count)| **count > 0);
        let used: Vec<(u32, u32)> = used.map(|(node, count)| (*count, cores(node))).collect();
        let own = nodes[rank as usize];
        Self {
            rank,
            node_count: used.len() as u32,
            processes_here: processes[own as usize],
            cores_here: cores(own),
            cores_min: used.iter().map(|(_, cores)| *cores).min().unwrap_or(1),
            is_oversubscribed_anywhere: used.iter().any(|(processes, cores)| processes > cores),
            nodes,
            parts: Vec::new(),
            distances: Vec::new(),
            switches: Vec::new(),
            network: None,
        }
    }

    /// Returns the map with this number of cores on this machine, which only this process knows.
    pub fn with_cores_here(self, cores: u32) -> Self {
        Self { cores_here: cores, ..self }
    }

    /// Returns the map with the parts of its machine in which each process runs.
    pub fn with_parts(self, parts: Vec<Parts>) -> Self {
        Self { parts, ..self }
    }

    /// Returns the map with the distance of each process from its nearest network interface.
    pub fn with_distances(self, distances: Vec<u32>) -> Self {
        Self { distances, ..self }
    }

    /// Returns the map with the switches above the machine of each process, as numbers, outermost
    /// first.
    pub fn with_switches(self, switches: Vec<Vec<u32>>) -> Self {
        Self { switches, ..self }
    }

    /// Returns the map with the network between the machines, if it has as many machines.
    pub fn with_network(self, network: Option<JobNetwork>) -> Self {
        let is_ours = |network: &JobNetwork| network.hosts().len() == self.node_count as usize;
        Self { network: network.filter(is_ours), ..self }
    }

    /// The rank of this process.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of processes of the job.
    pub fn size(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// The machine of each rank.
    pub fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    /// The machine of a process. A process outside the job counts as alone on a machine of its own.
    pub fn node(&self, rank: u32) -> u32 {
        self.nodes.get(rank as usize).copied().unwrap_or(rank)
    }

    /// This machine.
    pub fn own_node(&self) -> u32 {
        self.node(self.rank)
    }

    /// Whether all processes are on this machine.
    pub fn is_one_machine(&self) -> bool {
        self.node_count == 1
    }

    /// The number of processes of the job on this machine.
    pub fn processes_here(&self) -> u32 {
        self.processes_here
    }

    /// The number of cores that the processes of a machine may use, on the machine with the fewest.
    /// It is equal on all processes.
    pub fn cores_min(&self) -> u32 {
        self.cores_min
    }

    /// Whether this machine has more processes of the job than cores that they may use.
    pub fn is_oversubscribed_here(&self) -> bool {
        self.processes_here > self.cores_here
    }

    /// Whether any machine has more processes than cores that they may use. The answer is equal on
    /// all processes, so decisions in which all processes must agree may depend on it.
    pub fn is_oversubscribed_anywhere(&self) -> bool {
        self.is_oversubscribed_anywhere
    }

    /// The fraction of this machine's cores that have a process of the job.
    pub fn busy_share(&self) -> f64 {
        (f64::from(self.processes_here) / f64::from(self.cores_here.max(1))).min(1.0)
    }

    /// The parts of its machine in which a process runs. `None`: unknown, or all processes of each
    /// machine run in the same parts.
    pub fn parts(&self, rank: u32) -> Option<Parts> {
        self.parts.get(rank as usize).copied()
    }

    /// The distance of a process from its nearest network interface. `None`: unknown, or equal for
    /// all processes.
    pub fn distance(&self, rank: u32) -> Option<u32> {
        self.distances.get(rank as usize).copied()
    }

    /// The network between the machines, if it is known, and the host of each machine in it. All
    /// processes have equal ones.
    pub fn network(&self) -> Option<(&JobNetwork, HashMap<u32, u32>)> {
        let network = self.network.as_ref()?;
        let mut machines = self.nodes.clone();
        machines.sort_unstable();
        machines.dedup();
        Some((network, machines.into_iter().zip(network.hosts().iter().copied()).collect()))
    }

    /// The switches above the machine of a process, as numbers, outermost first. Empty: unknown.
    pub fn switches(&self, rank: u32) -> &[u32] {
        self.switches.get(rank as usize).map(Vec::as_slice).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_must_agree_in_is_the_same_for_all() {
        // Three processes on two cores, one process on eight.
        let cores = |node| if node == 1 { 8 } else { 2 };
        for rank in 0..4 {
            let map = JobMap::new(rank, vec![0, 1, 0, 0], cores);
            assert_eq!((map.rank(), map.size(), map.cores_min()), (rank, 4, 2));
            assert!(map.is_oversubscribed_anywhere() && !map.is_one_machine());
            assert_eq!(map.is_oversubscribed_here(), rank != 1);
            assert_eq!(map.processes_here(), if rank == 1 { 1 } else { 3 });
            assert_eq!(map.busy_share(), if rank == 1 { 0.125 } else { 1.0 });
            let free = map.with_cores_here(3);
            assert!(free.is_oversubscribed_anywhere() && !free.is_oversubscribed_here());
        }
    }

    #[test]
    fn what_is_not_known_is_reported_so() {
        let map = JobMap::new(0, vec![0, 0], |_| 1);
        assert_eq!((map.parts(1), map.distance(0), map.switches(1)), (None, None, &[][..]));
        assert_eq!((map.node(1), map.node(7)), (0, 7));
        assert!(map.network().is_none());
        let map = map.with_distances(vec![10, 22]).with_switches(vec![vec![1, 4], vec![1, 5]]);
        assert_eq!((map.distance(1), map.switches(1)), (Some(22), &[1, 5][..]));
        // Machines are numbered by their lowest ranks; a network of other machines is dropped.
        let network = JobNetwork::from_text("grid 4p1 3,1");
        let map = JobMap::new(0, vec![0, 1, 0], |_| 1).with_network(network.clone());
        assert_eq!(map.network().unwrap().1, HashMap::from([(0, 3), (1, 1)]));
        assert!(JobMap::new(0, vec![0, 0], |_| 1).with_network(network).network().is_none());
    }
}
