//! The tree in which the agents of hosts are started: the launcher starts some, and each of those
//! starts others, instead of the launcher starting all.

use std::time::Duration;

/// How long the start of agents takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentStartTimes {
    /// How long a process is busy with each agent that it starts.
    pub per_agent: Duration,
    /// How long it takes until a started agent is ready.
    pub of_level: Duration,
}

impl Default for AgentStartTimes {
    /// What is assumed before anything is measured. 19 to 26 ms of processor time were measured
    /// for a host: the command that reaches it, its pipes, and the first messages. The time of a
    /// level is an estimate, mostly of the login of ssh.
    fn default() -> Self {
        Self { per_agent: Duration::from_millis(20), of_level: Duration::from_millis(200) }
    }
}

impl AgentStartTimes {
    /// Returns what follows from the times after which agents were ready that one process had
    /// started together, in ascending order. The agents in the middle count, so that single slow
    /// hosts change nothing. The assumed time per agent counts as one more measurement: few
    /// agents say little about it.
    fn measured(ready: &[Duration]) -> Self {
        let assumed = Self::default();
        let Some(first) = ready.first() else { return assumed };
        let intervals = ready.len() - 1;
        let (low, high) = (intervals / 4, intervals - intervals / 4);
        let interval = (ready[high] - ready[low]) / (high - low).max(1) as u32;
        let count = intervals as u32;
        let per_agent = (assumed.per_agent + interval * count) / (count + 1);
        Self { per_agent, of_level: first.saturating_sub(per_agent) }
    }
}

/// The tree of the hosts of a job, which are given by their indices.
#[derive(Debug, Default)]
pub(crate) struct LaunchTree {
    /// For each host the one whose agent starts its agent; none: the launcher does.
    parents: Vec<Option<usize>>,
    children: Vec<Vec<usize>>,
    /// After which times the agents that the launcher starts were ready, in ascending order.
    ready: Vec<Duration>,
}

impl LaunchTree {
    /// Creates the tree with these parents.
    pub(crate) fn new(parents: Vec<Option<usize>>) -> Self {
        let mut children = vec![Vec::new(); parents.len()];
        for (host, parent) in parents.iter().enumerate() {
            parent.iter().for_each(|&parent: &usize| children[parent].push(host));
        }
        Self { parents, children, ready: Vec::new() }
    }

    /// Returns the host above this one, if both exist.
    pub(crate) fn parent(&self, host: usize) -> Option<usize> {
        self.parents.get(host).copied().flatten()
    }

    /// Returns the number of levels of hosts.
    pub(crate) fn levels(&self) -> u32 {
        let (mut levels, mut level) = (0, self.below_launcher());
        while !level.is_empty() {
            levels += 1;
            level = level.iter().flat_map(|host| &self.children[*host]).copied().collect();
        }
        levels
    }

    /// Returns the hosts whose agents the launcher starts, or has itself.
    fn below_launcher(&self) -> Vec<usize> {
        (0..self.parents.len()).filter(|host| self.parents[*host].is_none()).collect()
    }

    /// Returns the hosts directly below this one.
    pub(crate) fn children(&self, host: usize) -> &[usize] {
        &self.children[host]
    }

    /// Returns all hosts below this one.
    pub(crate) fn below(&self, host: usize) -> Vec<usize> {
        let mut below = self.children[host].clone();
        let mut next = 0;
        while let Some(&host) = below.get(next) {
            below.extend_from_slice(&self.children[host]);
            next += 1;
        }
        below
    }

    /// Notes that an agent is ready, so long after the launcher began to start agents.
    pub(crate) fn note_ready(&mut self, host: usize, after: Duration) {
        if self.parents[host].is_none() {
            self.ready.push(after);
        }
    }

    /// Divides the hosts below this one anew, none of which is being reached yet: so that they are
    /// ready earliest by what was measured.
    pub(crate) fn divide_anew(&mut self, host: usize) {
        let mut below = self.below(host);
        below.sort_unstable();
        let width = fastest_width(below.len(), AgentStartTimes::measured(&self.ready));
        below.iter().chain([&host]).for_each(|&host| self.children[host].clear());
        for (number, parent) in parents(below.len(), width).into_iter().enumerate() {
            let parent = parent.map_or(host, |parent| below[parent]);
            self.parents[below[number]] = Some(parent);
            self.children[parent].push(below[number]);
        }
    }

    /// Lets the launcher start the agent of this host.
    pub(crate) fn detach(&mut self, host: usize) {
        if let Some(parent) = self.parents[host].take() {
            self.children[parent].retain(|child| *child != host);
        }
    }
}

/// Returns for each of `hosts` hosts the one whose agent starts its agent, where each process
/// starts `width` at most. The hosts of a subtree are consecutive, as neighbors in a list are
/// often neighbors in the network.
pub fn parents(hosts: usize, width: usize) -> Vec<Option<usize>> {
    let mut parents = vec![None; hosts];
    let mut parts = vec![(None, 0..hosts)];
    while let Some((parent, part)) = parts.pop() {
        let count = part.len().min(width);
        for number in 0..count {
            let at = |number: usize| part.start + part.len() * number / count;
            let first = at(number);
            parents[first] = parent;
            parts.push((Some(first), first + 1..at(number + 1)));
        }
    }
    parents
}

/// Returns how many agents each process starts, so that the agents of this many hosts are ready
/// earliest. A tree must be predicted to take at most half of the time of a flat start: hosts then
/// depend on others.
pub fn best_width(hosts: usize, times: AgentStartTimes) -> usize {
    let fastest = fastest_width(hosts, times);
    let [tree, flat] = [fastest, hosts].map(|width| predicted_time(hosts, width, times));
    if 2 * tree <= flat { fastest } else { hosts }
}

/// Returns how many agents each process starts, so that the agents of this many hosts are ready
/// earliest.
fn fastest_width(hosts: usize, times: AgentStartTimes) -> usize {
    let widths = (1..=usize::BITS).map(|levels| width_of(hosts, levels));
    widths.min_by_key(|width| predicted_time(hosts, *width, times)).unwrap_or(hosts)
}

/// Returns the time after which the agents of all hosts are ready.
pub fn predicted_time(hosts: usize, width: usize, times: AgentStartTimes) -> Duration {
    let (mut time, mut reached, mut level) = (Duration::ZERO, 0, 1);
    while reached < hosts {
        let each = width.min((hosts - reached).div_ceil(level));
        time += times.per_agent * each as u32 + times.of_level;
        level *= width;
        reached += level;
    }
    time
}

/// Returns the least width with which a tree of this many levels has all hosts.
fn width_of(hosts: usize, levels: u32) -> usize {
    let has_all = |width: usize| {
        let mut level = 1_usize;
        (0..levels).fold(0_usize, |reached, _| {
            level = level.saturating_mul(width);
            reached.saturating_add(level)
        }) >= hosts
    };
    let (mut least, mut enough) = (1, hosts.max(1));
    while least < enough {
        let middle = usize::midpoint(least, enough);
        match has_all(middle) {
            true => enough = middle,
            false => least = middle + 1,
        }
    }
    enough
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of levels.
    fn depth(parents: &[Option<usize>]) -> usize {
        let above = |host: usize| std::iter::successors(Some(host), |host| parents[*host]).count();
        (0..parents.len()).map(above).max().unwrap_or_default()
    }

    #[test]
    fn each_host_is_reached_and_none_starts_too_many() {
        for hosts in (0..300).chain([1000, 10_000]) {
            for width in [1, 2, 3, 16, 1000] {
                let parents = parents(hosts, width);
                let tree = LaunchTree::new(parents.clone());
                let first = parents.iter().filter(|parent| parent.is_none()).count();
                assert!(first <= width, "{hosts} hosts, width {width}: {first}");
                for (host, parent) in parents.iter().enumerate() {
                    assert!(parent.is_none_or(|parent| parent < host));
                    assert!(tree.children(host).len() <= width);
                }
                let top = (0..hosts).filter(|&host| parents[host].is_none());
                assert_eq!(top.map(|host| 1 + tree.below(host).len()).sum::<usize>(), hosts);
                if width > 1 {
                    let levels = (1..).find(|levels| width_of(hosts, *levels) <= width);
                    assert_eq!(levels, Some(depth(&parents).max(1) as u32), "{hosts}, {width}");
                }
            }
        }
    }

    #[test]
    fn few_hosts_are_reached_by_the_launcher_itself() {
        for hosts in 0..=16 {
            assert_eq!(
                depth(&parents(hosts, best_width(hosts, AgentStartTimes::default()).max(1))),
                hosts.min(1),
                "{hosts}"
            );
        }
        for (hosts, levels) in [(64, 2), (256, 3), (1000, 3), (10_000, 4)] {
            let times = AgentStartTimes::default();
            let width = best_width(hosts, times);
            assert!(predicted_time(hosts, width, times) <= predicted_time(hosts, hosts, times));
            assert_eq!(depth(&parents(hosts, width)), levels, "{hosts} hosts, width {width}");
        }
    }

    #[test]
    fn a_host_that_is_detached_keeps_those_below_it() {
        let mut tree = LaunchTree::new(parents(14, 2));
        let child = tree.children(0)[0];
        let below = tree.below(child);
        tree.detach(child);
        assert!(!below.is_empty() && tree.below(child) == below);
        assert_eq!(tree.parent(child), None);
        assert!(!tree.below(0).contains(&child));
    }

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// The times after which agents are ready that take these times, in milliseconds.
    fn ready(count: u32, per_agent: u32, of_level: u32) -> Vec<Duration> {
        (1..=count).map(|number| MILLISECOND * (of_level + per_agent * number)).collect()
    }

    #[test]
    fn times_follow_from_measurements_and_not_from_single_slow_hosts() {
        let assumed = AgentStartTimes::default();
        assert_eq!(AgentStartTimes::measured(&[]), assumed);
        let one = AgentStartTimes::measured(&[MILLISECOND * 1500]);
        let of_level = MILLISECOND * 1500 - assumed.per_agent;
        assert_eq!(one, AgentStartTimes { of_level, ..assumed });
        let mut many = ready(12, 100, 30);
        for _ in 0..2 {
            let AgentStartTimes { per_agent, of_level } = AgentStartTimes::measured(&many);
            assert!(per_agent > MILLISECOND * 90 && per_agent <= MILLISECOND * 100);
            assert!(of_level >= MILLISECOND * 30 && of_level < MILLISECOND * 40);
            many[11] = Duration::from_secs(20);
        }
        // All were ready at one moment: the time per agent is not zero.
        assert!(AgentStartTimes::measured(&[MILLISECOND; 9]).per_agent > Duration::ZERO);
    }

    #[test]
    fn hosts_below_one_are_divided_anew_by_measured_times() {
        // Logins that take long, or processes that do: all below one host, or two below each.
        for (per_agent, of_level, children) in [(1, 3000, 41), (300, 1, 2)] {
            let mut tree = LaunchTree::new(parents(252, 6));
            let first = tree.below_launcher();
            let mut expected = tree.below(first[5]);
            for (host, after) in first.iter().zip(ready(6, per_agent, of_level)) {
                tree.note_ready(*host, after);
            }
            tree.divide_anew(first[5]);
            let mut below = tree.below(first[5]);
            expected.sort_unstable();
            below.sort_unstable();
            assert_eq!(below, expected);
            assert!(below.iter().all(|host| tree.parent(*host).is_some_and(|above| above < *host)));
            let width = below.iter().chain([&first[5]]).map(|host| tree.children(*host).len());
            assert_eq!(width.max(), Some(children), "{per_agent} ms, {of_level} ms");
        }
    }
}
