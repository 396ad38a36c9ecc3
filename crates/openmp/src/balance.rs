//! The load of the threads of a team with the teams that they open, and its division among NUMA
//! nodes.

use std::time::{Duration, Instant};

use sys::usage;

use crate::team::ThreadTeam;
use crate::thread::Thread;

/// For how long loads are measured, at least and at most: each move doubles the time until the next
/// one, as loads that change all the time are not worth the moves of memory.
const LOAD_WINDOW_MIN: Duration = Duration::from_millis(20);
const LOAD_WINDOW_MAX: Duration = Duration::from_millis(1280);

/// Loads of less processor time, all together, say nothing.
const LOAD_LEAST: Duration = Duration::from_millis(10);

/// Teams move if that shortens the time of the node that takes longest by a part of this size.
const GAIN_LEAST: u64 = 10;

/// The most moves and exchanges that are looked for at a time.
const MOVES_MAX: usize = 64;

/// Measures the loads of the threads of a team.
pub struct Balance {
    window: Option<LoadWindow>,
    length: Duration,
    /// Whether the load was unequal in the window before.
    was_unequal: bool,
}

impl Default for Balance {
    fn default() -> Self {
        Self { window: None, length: LOAD_WINDOW_MIN, was_unequal: false }
    }
}

/// The division of a team's threads among nodes.
pub struct NodeDivision {
    /// The number of cores of each node.
    pub sizes: Vec<usize>,
    /// The node of each thread.
    pub present: Vec<usize>,
}

struct LoadWindow {
    begun: Instant,
    /// For each thread of the team, its number in the system and those of the threads in the teams
    /// that it opens; none if each node has a core for each thread on it.
    members: Vec<Vec<u32>>,
    before: Vec<Duration>,
    /// The processor time of the thread that opens the regions, between them.
    between: Duration,
    /// Its processor time at the end of the last region.
    left: Option<Duration>,
}

impl Balance {
    /// A region begins; `depth` is how many regions its thread is in already. `division` is called
    /// only when a window begins.
    pub fn region_begins(
        &mut self,
        thread: &Thread,
        team: &ThreadTeam,
        depth: usize,
        division: impl FnOnce() -> NodeDivision,
    ) {
        if let Some(window) = &mut self.window {
            if let Some(left) = window.left.take() {
                window.between += time_of(thread.number).saturating_sub(left);
            }
            return;
        }
        let mut members = members(thread, team, depth);
        if have_own_cores(&members, &division()) {
            members.clear();
        }
        let before = times(&members);
        let (between, left) = (Duration::ZERO, None);
        self.window = Some(LoadWindow { begun: Instant::now(), members, before, between, left });
    }

    /// A region has ended. Returns the new node of each thread if teams should move. `division` is
    /// called only when a window has ended.
    pub fn region_ends(
        &mut self,
        thread: &Thread,
        team: &ThreadTeam,
        depth: usize,
        division: impl FnOnce() -> NodeDivision,
    ) -> Option<Vec<usize>> {
        let window = self.window.as_mut()?;
        if window.begun.elapsed() < self.length {
            if !window.members.is_empty() {
                window.left = Some(time_of(thread.number));
            }
            return None;
        }
        let window = self.window.take()?;
        // Teams that have changed since are measured from now on.
        if window.members.is_empty() || members(thread, team, depth) != window.members {
            return None;
        }
        let mut loads: Vec<Duration> = times(&window.members)
            .iter()
            .zip(&window.before)
            .map(|(now, before)| now.saturating_sub(*before))
            .collect();
        loads[0] = loads[0].saturating_sub(window.between);
        let is_enough = loads.iter().sum::<Duration>() >= LOAD_LEAST;
        let loads: Vec<u64> = loads.iter().map(|load| load.as_nanos() as u64).collect();
        let NodeDivision { sizes, present } = division();
        let moved = divide(&loads, &sizes, &present).filter(|_| is_enough);
        // A load that was unequal once may have been disturbed.
        let was_unequal = std::mem::replace(&mut self.was_unequal, moved.is_some());
        if moved.is_none() {
            self.length = (self.length / 2).max(LOAD_WINDOW_MIN);
        }
        let moved = moved.filter(|_| was_unequal)?;
        self.was_unequal = false;
        self.length = (self.length * 2).min(LOAD_WINDOW_MAX);
        Some(moved)
    }
}

/// Whether each node has a core for each of the threads that are on it.
fn have_own_cores(members: &[Vec<u32>], division: &NodeDivision) -> bool {
    let mut free = division.sizes.clone();
    members.iter().zip(&division.present).all(|(threads, node)| {
        let rest = free[*node].checked_sub(threads.len());
        free[*node] = rest.unwrap_or(0);
        rest.is_some()
    })
}

/// The numbers of a team's threads, each with those of the teams that it keeps.
fn members(thread: &Thread, team: &ThreadTeam, depth: usize) -> Vec<Vec<u32>> {
    let mut all = vec![vec![thread.number]];
    add_inner(thread, depth + 1, &mut all[0]);
    team.workers.see(|workers| {
        for worker in workers.iter().filter_map(|worker| worker.thread.get()) {
            let mut own = vec![worker.number];
            add_inner(worker, 0, &mut own);
            all.push(own);
        }
    });
    all
}

/// Adds the threads of the teams that a thread keeps from this depth on.
fn add_inner(thread: &Thread, depth: usize, numbers: &mut Vec<u32>) {
    let teams: Vec<&ThreadTeam> = thread
        .teams
        .see(|teams| teams.iter().skip(depth).flatten().filter_map(|team| *team).collect());
    for team in teams {
        let workers = team.workers.get();
        for worker in workers.iter().filter_map(|worker| worker.thread.get()) {
            numbers.push(worker.number);
            add_inner(worker, 0, numbers);
        }
    }
}

fn time_of(thread: u32) -> Duration {
    usage::processor_time_of_thread(thread).unwrap_or_default()
}

fn times(members: &[Vec<u32>]) -> Vec<Duration> {
    members.iter().map(|threads| threads.iter().copied().map(time_of).sum()).collect()
}

/// Divides loads among nodes with so many cores. Returns the node of each load; none if the present
/// ones are as good.
fn divide(loads: &[u64], sizes: &[usize], present: &[usize]) -> Option<Vec<usize>> {
    let mut nodes = present.to_vec();
    let mut sums = vec![0; sizes.len()];
    for (load, node) in loads.iter().zip(present) {
        sums[*node] += load;
    }
    let time = |sum: u64, node: usize| sum / sizes[node] as u64;
    let longest =
        |sums: &[u64]| (0..sums.len()).map(|node| time(sums[node], node)).max().unwrap_or(0);
    let before = longest(&sums);
    for _ in 0..MOVES_MAX {
        let Some(from) = (0..sums.len()).max_by_key(|node| time(sums[*node], *node)) else { break };
        let Some(to) = (0..sums.len()).min_by_key(|node| time(sums[*node], *node)) else { break };
        let after = |given: u64, taken: u64| {
            time(sums[from] - given + taken, from).max(time(sums[to] + given - taken, to))
        };
        let on = |node: usize| -> Vec<usize> {
            (0..loads.len()).filter(|index| nodes[*index] == node).collect()
        };
        // A load moves alone, or is exchanged for another one.
        let other = |index: Option<usize>| index.map_or(0, |index| loads[index]);
        let takers: Vec<Option<usize>> = on(to).into_iter().map(Some).chain([None]).collect();
        let givers = on(from);
        let exchanges =
            givers.iter().flat_map(|given| takers.iter().map(move |taken| (*given, *taken)));
        let best = exchanges
            .filter(|(given, taken)| loads[*given] > other(*taken))
            .min_by_key(|(given, taken)| after(loads[*given], other(*taken)));
        let Some((given, taken)) = best else { break };
        if after(loads[given], other(taken)) >= time(sums[from], from) {
            break;
        }
        sums[from] = sums[from] - loads[given] + other(taken);
        sums[to] = sums[to] + loads[given] - other(taken);
        nodes[given] = to;
        if let Some(taken) = taken {
            nodes[taken] = from;
        }
    }
    (longest(&sums) + before / GAIN_LEAST < before).then_some(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(loads: &[u64], nodes: &[usize], count: usize) -> Vec<u64> {
        let on = |node| loads.iter().zip(nodes).filter(move |(_, own)| **own == node);
        (0..count).map(|node| on(node).map(|(load, _)| load).sum()).collect()
    }

    #[test]
    fn threads_have_own_cores_if_their_node_has_enough() {
        let have = |lengths: &[usize], present: &[usize]| {
            let members: Vec<Vec<u32>> = lengths.iter().map(|length| vec![0; *length]).collect();
            let present = present.to_vec();
            have_own_cores(&members, &NodeDivision { sizes: vec![16, 4], present })
        };
        assert!(have(&[8, 8, 2, 2], &[0, 0, 1, 1]));
        assert!(!have(&[5, 5, 5, 5], &[0, 0, 1, 1]));
        assert!(!have(&[16, 1, 1], &[0, 0, 1]));
    }

    #[test]
    fn heavy_teams_go_to_different_nodes() {
        let loads = [40, 41, 10, 10, 10, 10, 10, 10];
        let nodes = divide(&loads, &[2; 4], &[0, 0, 1, 1, 2, 2, 3, 3]).unwrap();
        assert!(sums(&loads, &nodes, 4).into_iter().max() <= Some(41), "{nodes:?}");
    }

    #[test]
    fn equal_loads_stay_where_they_are() {
        assert_eq!(divide(&[100, 102, 99, 100], &[1, 1], &[0, 0, 1, 1]), None);
        assert_eq!(divide(&[100, 5, 5, 5], &[1, 1], &[0, 1, 1, 1]), None);
        assert_eq!(divide(&[0, 0], &[1, 1], &[0, 0]), None);
    }

    #[test]
    fn larger_nodes_get_more() {
        let loads = [10; 6];
        let nodes = divide(&loads, &[4, 2], &[0, 0, 0, 1, 1, 1]).unwrap();
        assert_eq!(sums(&loads, &nodes, 2), [40, 20]);
    }

    #[test]
    fn loads_that_cannot_be_divided_by_moves_are_exchanged() {
        let loads = [80, 30, 60, 10];
        let nodes = divide(&loads, &[1, 1], &[0, 0, 1, 1]).unwrap();
        assert_eq!(sums(&loads, &nodes, 2).into_iter().max(), Some(90));
    }

    #[test]
    fn random_loads_are_near_their_share() {
        let mut state = 12345_u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 33
        };
        for _ in 0..200 {
            let (count, nodes) = (next() as usize % 40 + 8, next() as usize % 6 + 2);
            let loads: Vec<u64> = (0..count).map(|_| next() % 1000 + 1).collect();
            let present: Vec<usize> = (0..count).map(|_| next() as usize % nodes).collect();
            let moved = divide(&loads, &vec![1; nodes], &present).unwrap_or(present);
            let most = sums(&loads, &moved, nodes).into_iter().max().unwrap();
            let share = loads.iter().sum::<u64>() / nodes as u64;
            let heaviest = loads.iter().copied().max().unwrap();
            assert!(most <= (share + heaviest) * 10 / 9 + 1, "{loads:?} {moved:?}");
        }
    }
}
