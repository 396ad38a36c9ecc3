//! The tree in which the agents of hosts are started: the launcher starts some, and each of those
//! starts others, instead of the launcher starting all.

use std::time::Duration;

/// How long a process is busy with each agent that it starts. 19 to 26 ms of processor time were
/// measured for a host: the command that reaches it, its pipes, and the first messages.
const TIME_PER_AGENT: Duration = Duration::from_millis(20);

/// How long it takes until a started agent is ready: an estimate, mostly of the login of ssh.
const TIME_OF_LEVEL: Duration = Duration::from_millis(200);

/// The tree of the hosts of a job, which are given by their indices.
#[derive(Debug, Default)]
pub(crate) struct LaunchTree {
    /// For each host the one whose agent starts its agent; none: the launcher does.
    parents: Vec<Option<usize>>,
    children: Vec<Vec<usize>>,
}

impl LaunchTree {
    /// Creates the tree with these parents.
    pub(crate) fn new(parents: Vec<Option<usize>>) -> Self {
        let mut children = vec![Vec::new(); parents.len()];
        for (host, parent) in parents.iter().enumerate() {
            parent.iter().for_each(|&parent: &usize| children[parent].push(host));
        }
        Self { parents, children }
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
pub(crate) fn parents(hosts: usize, width: usize) -> Vec<Option<usize>> {
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
pub(crate) fn best_width(hosts: usize) -> usize {
    let predicted = |width: &usize| predicted_time(hosts, *width);
    let widths = (1..=usize::BITS).map(|levels| width_of(hosts, levels));
    let is_worth_it = |width: &usize| 2 * predicted(width) <= predicted(&hosts);
    widths.min_by_key(predicted).filter(is_worth_it).unwrap_or(hosts)
}

/// Returns the time after which the agents of all hosts are ready.
fn predicted_time(hosts: usize, width: usize) -> Duration {
    let (mut time, mut reached, mut level) = (Duration::ZERO, 0, 1);
    while reached < hosts {
        let each = width.min((hosts - reached).div_ceil(level));
        time += TIME_PER_AGENT * each as u32 + TIME_OF_LEVEL;
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
            assert_eq!(depth(&parents(hosts, best_width(hosts).max(1))), hosts.min(1), "{hosts}");
        }
        for (hosts, levels) in [(64, 2), (256, 3), (1000, 3), (10_000, 4)] {
            let width = best_width(hosts);
            assert!(predicted_time(hosts, width) <= predicted_time(hosts, hosts));
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
}
