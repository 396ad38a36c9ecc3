//! The properties of a communicator that all its members know, besides its size.

use std::collections::HashMap;
use std::hash::Hash;

use crate::costs::Costs;
use crate::operation::AlgorithmPreferences;
use crate::width::Width;

/// The basis of the choice between algorithms, besides the operation and its sizes. All members of
/// a communicator must be given equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Situation {
    /// The distribution of the members over machines.
    pub layout: ProcessLayout,
    /// Their distribution over parts of machines, from the widest level to the narrowest
    /// ([`Level::all`]).
    pub levels: Vec<Level>,
    /// By rank: the distance of a member from a network interface, as members near one are
    /// preferred as leaders of their machines. Empty if it is unknown, or does not matter.
    pub distances: Vec<u32>,
    /// The number of cores that the members on one machine may use; the minimum over all machines.
    pub cores: u32,
    /// Whether the processes of the communicator outnumber the cores that they may use, so that
    /// each wait for a peer may have to wait for its turn on a core first.
    pub oversubscribed: bool,
    /// The costs of steps.
    pub costs: Costs,
    /// The user's preferences.
    pub preferences: AlgorithmPreferences,
}

/// The distribution of a communicator's members over the parts of one width inside their machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// The width of the parts, which determines the cost of crossing from one to another.
    pub width: Width,
    /// The part of each member; members on different machines are in different parts.
    pub layout: ProcessLayout,
}

/// The distribution of a communicator's members over machines, or over parts of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessLayout {
    size: u32,
    /// By rank: the lowest rank on the machine of that rank. Empty if there is one machine.
    firsts: Vec<u32>,
    nodes: u32,
    consecutive: bool,
    /// The number of members on the fullest machine.
    largest: u32,
    /// For each distance 1, 2, 4, …: the largest number of members of one machine whose peers so
    /// many ranks above are on other machines.
    leaving: Vec<u32>,
}

impl Situation {
    /// Makes the situation of `size` processes on one machine that have a core each.
    pub fn plain(size: u32) -> Self {
        Self { layout: ProcessLayout::near(size), cores: size, ..Self::default() }
    }

    /// Makes the situation of `size` processes of several jobs, whose places and settings are not
    /// compared: each process counts as alone on a machine.
    pub fn between_jobs(size: u32, oversubscribed: bool) -> Self {
        let nodes: Vec<u32> = (0..size).collect();
        let layout = ProcessLayout::on_nodes(&nodes);
        Self { layout, cores: 1, oversubscribed, ..Self::default() }
    }

    /// Returns this situation as that of an oversubscribed communicator, on so many cores.
    pub fn oversubscribed_on(self, cores: u32) -> Self {
        Self { cores, oversubscribed: true, ..self }
    }

    /// Returns this situation with members in the given parts of machines ([`Level::all`]).
    pub fn in_parts(self, parts: &[(Width, Vec<u32>)]) -> Self {
        Self { levels: Level::all(&self.layout, parts), ..self }
    }

    /// Returns the distribution over the widest parts: the machines, if there are several.
    pub fn widest(&self) -> &ProcessLayout {
        self.parts(0)
    }

    /// Returns the distribution over the parts of a level, counted from the widest on. The widest
    /// parts are machines, if there are several.
    pub(crate) fn parts(&self, level: usize) -> &ProcessLayout {
        let inside = self.levels.get(level).filter(|_| self.layout.nodes == 1);
        inside.map_or(&self.layout, |level| &level.layout)
    }

    /// Returns the distance of a member from the connection to the other parts of the widest level;
    /// inside a machine all distances are 0.
    pub(crate) fn distance(&self, rank: u32) -> u32 {
        if self.layout.nodes == 1 {
            return 0;
        }
        self.distances.get(rank as usize).copied().unwrap_or(0)
    }

    /// Returns how many processes share a core when all of the fullest machine work.
    pub(crate) fn load(&self) -> u64 {
        u64::from(self.layout.largest.div_ceil(self.cores.max(1)).max(1))
    }
}

impl Level {
    /// Returns the levels that matter below the machines. `parts` gives, for each width from the
    /// widest to the narrowest, the number of each member's part. Parts with one number in
    /// different parts of the level above are different parts. A level that divides no part of the
    /// one above is left out; so there is none below parts that have a single member each.
    pub fn all(machines: &ProcessLayout, parts: &[(Width, Vec<u32>)]) -> Vec<Self> {
        let mut levels: Vec<Self> = Vec::new();
        for (width, numbers) in parts {
            let above = levels.last().map_or(machines, |level| &level.layout);
            let inside: Vec<(u32, u32)> =
                (0..).zip(numbers).map(|(rank, number)| (above.first(rank), *number)).collect();
            let layout = ProcessLayout::of(&inside);
            if layout.nodes > above.nodes {
                levels.push(Self { width: *width, layout });
            }
        }
        levels
    }
}

impl Default for ProcessLayout {
    fn default() -> Self {
        Self::near(1)
    }
}

impl ProcessLayout {
    /// Makes the distribution of `size` members on one machine.
    pub fn near(size: u32) -> Self {
        Self {
            size,
            nodes: 1,
            consecutive: true,
            firsts: Vec::new(),
            largest: size,
            leaving: Vec::new(),
        }
    }

    /// Makes a distribution from the machine of each member; equal numbers mean one machine.
    pub fn on_nodes(nodes: &[u32]) -> Self {
        Self::of(nodes)
    }

    fn of<T: Copy + Eq + Hash>(nodes: &[T]) -> Self {
        let size = nodes.len() as u32;
        if nodes.windows(2).all(|pair| pair[0] == pair[1]) {
            return Self::near(size);
        }
        let mut first = HashMap::new();
        let firsts: Vec<u32> =
            (0..).zip(nodes).map(|(rank, node)| *first.entry(*node).or_insert(rank)).collect();
        let most = |counted: &dyn Fn(usize) -> bool| {
            let mut counts = vec![0_u32; firsts.len()];
            for (rank, place) in firsts.iter().enumerate() {
                counts[*place as usize] += u32::from(counted(rank));
            }
            counts.into_iter().max().unwrap_or(0)
        };
        let leaves = |distance: u32| {
            let above = |rank: usize| (rank as u64 + u64::from(distance)) % u64::from(size);
            most(&|rank| firsts[above(rank) as usize] != firsts[rank])
        };
        let distances = (0..u32::BITS).map(|bit| 1_u32 << bit).take_while(|one| *one < size);
        Self {
            size,
            nodes: first.len() as u32,
            // The ranks of each machine are one run.
            consecutive: firsts.windows(2).filter(|pair| pair[0] != pair[1]).count() + 1
                == first.len(),
            largest: most(&|_| true),
            leaving: distances.map(leaves).collect(),
            firsts,
        }
    }

    /// Makes the distribution of members that have a machine each.
    pub fn apart(size: u32) -> Self {
        let bits = u32::BITS - size.saturating_sub(1).leading_zeros();
        Self {
            size,
            firsts: (0..size).collect(),
            nodes: size,
            consecutive: true,
            largest: 1,
            leaving: vec![1; bits as usize],
        }
    }

    /// Whether the ranks of each machine are consecutive.
    pub fn is_consecutive(&self) -> bool {
        self.consecutive
    }

    /// Returns the number of machines.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Returns the lowest rank on the machine of `rank`.
    pub fn first(&self, rank: u32) -> u32 {
        self.firsts.get(rank as usize).copied().unwrap_or(0)
    }

    /// Returns the ranks on each machine, in the order of the lowest ones.
    pub(crate) fn parts(&self) -> Vec<Vec<u32>> {
        let mut numbers = HashMap::new();
        let mut parts: Vec<Vec<u32>> = Vec::with_capacity(self.nodes as usize);
        for rank in 0..self.size {
            let number = *numbers.entry(self.first(rank)).or_insert(parts.len());
            match parts.get_mut(number) {
                Some(ranks) => ranks.push(rank),
                None => parts.push(vec![rank]),
            }
        }
        parts
    }

    /// Returns the ranks on the fullest machine; of several the first.
    pub(crate) fn fullest(&self) -> Vec<u32> {
        let mut parts = self.parts();
        let fullest = parts.iter().position(|ranks| ranks.len() == self.largest as usize);
        parts.swap_remove(fullest.unwrap_or_default())
    }

    /// Returns the number of members on the fullest machine.
    pub fn largest(&self) -> u32 {
        self.largest
    }

    /// Returns the largest number of members of one machine whose peers `distance` ranks above, or
    /// below, are on other machines. A distance that is no power of two is rounded down to one.
    pub(crate) fn leaving(&self, distance: u32) -> u32 {
        let Some(bit) = distance.checked_ilog2() else { return 0 };
        self.leaving.get(bit as usize).copied().unwrap_or(0)
    }

    /// Returns how many members are not on the fullest machine.
    pub(crate) fn elsewhere(&self) -> u32 {
        self.size - self.largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_count_who_talks_to_other_machines() {
        let layout = ProcessLayout::on_nodes(&[7, 7, 7, 2, 2]);
        assert_eq!((layout.nodes(), layout.largest(), layout.elsewhere()), (2, 3, 2));
        assert_eq!([0, 1, 2, 3, 4].map(|rank| layout.first(rank)), [0, 0, 0, 3, 3]);
        assert_eq!([1, 2, 4].map(|distance| layout.leaving(distance)), [1, 2, 1]);
        assert_eq!(ProcessLayout::on_nodes(&[5; 4]), ProcessLayout::near(4));
        assert_eq!(ProcessLayout::near(4).leaving(2), 0);
        assert_eq!(ProcessLayout::on_nodes(&[3, 2, 1, 0, 7]), ProcessLayout::apart(5));
        assert!(layout.is_consecutive() && !ProcessLayout::on_nodes(&[0, 1, 0]).is_consecutive());
    }

    #[test]
    fn levels_that_divide_nothing_are_left_out() {
        let machines = ProcessLayout::near(8);
        let of = |parts: [[u32; 8]; 3]| {
            let parts = Width::ALL.into_iter().zip(parts.map(Vec::from)).collect::<Vec<_>>();
            Level::all(&machines, &parts)
        };
        let packages = [0, 0, 0, 0, 1, 1, 1, 1];
        let widths = |levels: &[Level]| levels.iter().map(|one| one.width).collect::<Vec<_>>();
        assert_eq!(of([[0; 8]; 3]), []);
        assert_eq!(widths(&of([packages, packages, packages])), [Width::Package]);
        assert_eq!(widths(&of([[0; 8], packages, packages])), [Width::NumaNode]);
        let all = of([packages, [0, 0, 1, 1, 2, 2, 3, 3], [0, 1, 2, 3, 4, 5, 6, 7]]);
        assert_eq!(widths(&all), Width::ALL);
        assert_eq!(all[2].layout, ProcessLayout::apart(8));
        // The caches of each package are numbered from zero.
        let nested = of([packages, packages, [0, 0, 1, 1, 0, 0, 1, 1]]);
        assert_eq!(nested[1].layout, all[1].layout);
        // Parts with a single member each have no level below.
        let apart = ProcessLayout::apart(8);
        assert_eq!(Level::all(&apart, &[(Width::Cache, vec![0; 8])]), []);
    }

    #[test]
    fn processes_share_the_cores_that_there_are() {
        assert_eq!(Situation::plain(8).load(), 1);
        assert_eq!(Situation::plain(8).oversubscribed_on(3).load(), 3);
        assert_eq!(Situation::plain(8).oversubscribed_on(0).load(), 8);
    }
}
