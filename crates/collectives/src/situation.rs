//! What all members of a communicator know of it besides their number.

use crate::costs::Costs;
use crate::selection::Preferences;

/// What the choice between algorithms depends on, besides the operation and its sizes. All members
/// of a communicator must be told the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Situation {
    /// How the members lie on machines.
    pub layout: Layout,
    /// How many cores the members on one machine may use; on the machine that has the fewest.
    pub cores: u32,
    /// Whether the processes of the communicator outnumber the cores that they may use, so that
    /// each wait for a peer may have to wait for its turn on a core first.
    pub crowded: bool,
    /// What steps cost.
    pub costs: Costs,
    /// What a person wants.
    pub preferences: Preferences,
}

/// How the members of a communicator lie on machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    size: u32,
    /// By rank: the lowest rank of those on the same machine. Empty where there is one machine.
    leaders: Vec<u32>,
    nodes: u32,
    consecutive: bool,
    /// How many members the machine has that has most.
    largest: u32,
    /// For each distance 1, 2, 4, … the most members of one machine whose peers so many ranks
    /// above are on other machines.
    leaving: Vec<u32>,
}

impl Situation {
    /// `size` processes of one machine that have a core each, and nothing special.
    pub fn plain(size: u32) -> Self {
        Self { layout: Layout::near(size), cores: size, ..Self::default() }
    }

    /// The same situation of a crowded communicator, on so many cores.
    pub fn crowded_on(self, cores: u32) -> Self {
        Self { cores, crowded: true, ..self }
    }

    /// How many processes share a core where all of the fullest machine work.
    pub(crate) fn load(&self) -> u64 {
        u64::from(self.layout.largest.div_ceil(self.cores.max(1)).max(1))
    }
}

impl Default for Layout {
    fn default() -> Self {
        Self::near(1)
    }
}

impl Layout {
    /// `size` members on one machine.
    pub fn near(size: u32) -> Self {
        Self {
            size,
            nodes: 1,
            consecutive: true,
            leaders: Vec::new(),
            largest: size,
            leaving: Vec::new(),
        }
    }

    /// Members on the machines that are named for each of them, in any way.
    pub fn on_nodes(nodes: &[u32]) -> Self {
        let size = nodes.len() as u32;
        if nodes.windows(2).all(|pair| pair[0] == pair[1]) {
            return Self::near(size);
        }
        let mut first = std::collections::HashMap::new();
        let leaders: Vec<u32> =
            (0..).zip(nodes).map(|(rank, node)| *first.entry(*node).or_insert(rank)).collect();
        let most = |counted: &dyn Fn(usize) -> bool| {
            let mut counts = vec![0_u32; leaders.len()];
            for (rank, leader) in leaders.iter().enumerate() {
                counts[*leader as usize] += u32::from(counted(rank));
            }
            counts.into_iter().max().unwrap_or(0)
        };
        let leaves = |distance: u32| {
            let above = |rank: usize| (rank as u64 + u64::from(distance)) % u64::from(size);
            most(&|rank| leaders[above(rank) as usize] != leaders[rank])
        };
        let distances = (0..u32::BITS).map(|bit| 1_u32 << bit).take_while(|one| *one < size);
        Self {
            size,
            nodes: first.len() as u32,
            // Each machine begins once.
            consecutive: leaders.windows(2).filter(|pair| pair[0] != pair[1]).count() + 1
                == first.len(),
            largest: most(&|_| true),
            leaving: distances.map(leaves).collect(),
            leaders,
        }
    }

    /// Members that have a machine each.
    pub fn apart(size: u32) -> Self {
        let bits = u32::BITS - size.saturating_sub(1).leading_zeros();
        Self {
            size,
            leaders: (0..size).collect(),
            nodes: size,
            consecutive: true,
            largest: 1,
            leaving: vec![1; bits as usize],
        }
    }

    /// Whether the ranks of each machine follow each other.
    pub fn is_consecutive(&self) -> bool {
        self.consecutive
    }

    /// How many machines there are.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// The lowest rank of those that are on the same machine as `rank`.
    pub fn leader(&self, rank: u32) -> u32 {
        self.leaders.get(rank as usize).copied().unwrap_or(0)
    }

    /// How many members the fullest machine has.
    pub(crate) fn largest(&self) -> u32 {
        self.largest
    }

    /// The most members of one machine whose peers `distance` ranks above, or below, are on other
    /// machines. Where the distance is no power of two it is that of the next one below.
    pub(crate) fn leaving(&self, distance: u32) -> u32 {
        let Some(bit) = distance.checked_ilog2() else { return 0 };
        self.leaving.get(bit as usize).copied().unwrap_or(0)
    }

    /// How many members the fullest machine sees on others.
    pub(crate) fn elsewhere(&self) -> u32 {
        self.size - self.largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_count_who_talks_to_other_machines() {
        let layout = Layout::on_nodes(&[7, 7, 7, 2, 2]);
        assert_eq!((layout.nodes(), layout.largest(), layout.elsewhere()), (2, 3, 2));
        assert_eq!([0, 1, 2, 3, 4].map(|rank| layout.leader(rank)), [0, 0, 0, 3, 3]);
        assert_eq!([1, 2, 4].map(|distance| layout.leaving(distance)), [1, 2, 1]);
        assert_eq!(Layout::on_nodes(&[5; 4]), Layout::near(4));
        assert_eq!(Layout::near(4).leaving(2), 0);
        assert_eq!(Layout::on_nodes(&[3, 2, 1, 0, 7]), Layout::apart(5));
        assert!(layout.is_consecutive() && !Layout::on_nodes(&[0, 1, 0]).is_consecutive());
    }

    #[test]
    fn processes_share_the_cores_that_there_are() {
        assert_eq!(Situation::plain(8).load(), 1);
        assert_eq!(Situation::plain(8).crowded_on(3).load(), 3);
        assert_eq!(Situation::plain(8).crowded_on(0).load(), 8);
    }
}
