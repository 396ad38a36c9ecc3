//! How the members of a communicator are distributed over machines, or over parts of these.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::ops::Range;
use std::sync::Arc;

/// The distribution of a communicator's members over machines, or over parts of these.
///
/// Machines that have equally many consecutive ranks each, as almost all jobs have them, take no
/// memory for each member. Copies of other distributions share their lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessLayout {
    size: u32,
    shape: LayoutShape,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LayoutShape {
    /// All members are on one machine.
    One,
    /// Each machine has this many consecutive ranks; the last one may have fewer.
    Runs(u32),
    Listed(Arc<ListedParts>),
}

/// Any distribution over several machines, which are numbered in the order of their lowest ranks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ListedParts {
    /// The machine of each rank.
    numbers: Vec<u32>,
    /// The ranks, by machine, in order.
    ranks: Vec<u32>,
    /// For each machine: where its ranks begin in `ranks`; and the end of `ranks`.
    starts: Vec<u32>,
    consecutive: bool,
    /// The number of the fullest machine; of several the first.
    fullest: u32,
    /// For each distance 1, 2, 4, …: the largest number of members of one machine whose peers so
    /// many ranks above are on other machines.
    leaving: Vec<u32>,
}

/// The ranks on one machine, in order.
#[derive(Clone, Debug)]
pub(crate) enum PartRanks {
    Run(Range<u32>),
    /// The ranks at these places in the list of all ranks.
    Listed(Arc<ListedParts>, Range<usize>),
}

impl Default for ProcessLayout {
    fn default() -> Self {
        Self::near(1)
    }
}

impl ProcessLayout {
    /// Makes the distribution of `size` members on one machine.
    pub fn near(size: u32) -> Self {
        Self { size, shape: LayoutShape::One }
    }

    /// Makes the distribution of members that have a machine each.
    pub fn apart(size: u32) -> Self {
        Self { size, shape: if size > 1 { LayoutShape::Runs(1) } else { LayoutShape::One } }
    }

    /// Makes a distribution from the machine of each member; equal numbers mean one machine.
    pub fn on_nodes(nodes: &[u32]) -> Self {
        Self::by(nodes.len() as u32, |rank| nodes[rank as usize])
    }

    /// Makes the distribution of `size` members from a function that returns the machine of each;
    /// equal results mean one machine.
    pub fn by<T: Copy + Ord + Hash>(size: u32, node: impl Fn(u32) -> T) -> Self {
        if size == 0 {
            return Self::near(0);
        }
        let first = node(0);
        let each = (1..size).find(|rank| node(*rank) != first).unwrap_or(size);
        let shape = match each {
            _ if each == size => LayoutShape::One,
            _ if are_runs(size, each, &node) => LayoutShape::Runs(each),
            _ => LayoutShape::Listed(Arc::new(ListedParts::new(size, node))),
        };
        Self { size, shape }
    }

    /// Returns the number of members.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Whether the ranks of each machine are consecutive.
    pub fn is_consecutive(&self) -> bool {
        match &self.shape {
            LayoutShape::One | LayoutShape::Runs(_) => true,
            LayoutShape::Listed(listed) => listed.consecutive,
        }
    }

    /// Returns the number of machines.
    pub fn nodes(&self) -> u32 {
        match &self.shape {
            LayoutShape::One => 1,
            LayoutShape::Runs(each) => self.size.div_ceil(*each),
            LayoutShape::Listed(listed) => listed.starts.len() as u32 - 1,
        }
    }

    /// Returns the number of the machine of `rank`. Machines are numbered in the order of their
    /// lowest ranks.
    pub(crate) fn part_of(&self, rank: u32) -> u32 {
        match &self.shape {
            LayoutShape::One => 0,
            LayoutShape::Runs(each) => rank / each,
            LayoutShape::Listed(listed) => listed.numbers[rank as usize],
        }
    }

    /// Returns the ranks on a machine.
    pub(crate) fn part(&self, number: u32) -> PartRanks {
        match &self.shape {
            LayoutShape::One => PartRanks::Run(0..self.size),
            LayoutShape::Runs(_) => {
                let end = self.before(number + 1) as u32;
                PartRanks::Run(self.before(number) as u32..end)
            }
            LayoutShape::Listed(listed) => {
                let range = self.before(number)..self.before(number + 1);
                PartRanks::Listed(Arc::clone(listed), range)
            }
        }
    }

    /// Returns the ranks on each machine.
    pub(crate) fn parts(&self) -> impl ExactSizeIterator<Item = PartRanks> {
        (0..self.nodes()).map(|number| self.part(number))
    }

    /// Returns the ranks on the fullest machine; of several the first.
    pub(crate) fn fullest(&self) -> PartRanks {
        match &self.shape {
            LayoutShape::One | LayoutShape::Runs(_) => self.part(0),
            LayoutShape::Listed(listed) => self.part(listed.fullest),
        }
    }

    /// Returns the total number of members on the machines before the one with this number.
    pub(crate) fn before(&self, number: u32) -> usize {
        match &self.shape {
            LayoutShape::One => number.min(1) as usize * self.size as usize,
            LayoutShape::Runs(each) => (number as usize * *each as usize).min(self.size as usize),
            LayoutShape::Listed(listed) => listed.starts[number as usize] as usize,
        }
    }

    /// Returns the number of members on the fullest machine.
    pub fn largest(&self) -> u32 {
        match &self.shape {
            LayoutShape::One => self.size,
            LayoutShape::Runs(each) => *each,
            LayoutShape::Listed(_) => self.fullest().len() as u32,
        }
    }

    /// Returns the largest number of members of one machine whose peers `distance` ranks above, or
    /// below, are on other machines. A distance that is no power of two is rounded down to one.
    pub(crate) fn leaving(&self, distance: u32) -> u32 {
        let Some(bit) = distance.checked_ilog2() else { return 0 };
        if 1 << bit >= self.size {
            return 0;
        }
        match &self.shape {
            LayoutShape::One => 0,
            LayoutShape::Runs(each) => {
                let last = self.size - (self.nodes() - 1) * each;
                let [of_each, of_last] =
                    [*each, last].map(|run| leaving_run(run, 1 << bit, self.size));
                of_each.max(of_last)
            }
            LayoutShape::Listed(listed) => listed.leaving[bit as usize],
        }
    }

    /// Returns how many members are not on the fullest machine.
    pub(crate) fn elsewhere(&self) -> u32 {
        self.size - self.largest()
    }
}

/// Whether the members form runs of `each` consecutive ranks (the last may be shorter) on different
/// machines.
fn are_runs<T: Copy + Ord + Hash>(size: u32, each: u32, node: &impl Fn(u32) -> T) -> bool {
    let (mut before, mut end, mut in_order) = (node(0), each, true);
    for rank in 1..size {
        let here = node(rank);
        if rank == end {
            end = end.saturating_add(each);
            in_order &= before < here;
        } else if here != before {
            return false;
        }
        before = here;
    }
    // Machines are mostly numbered in order.
    let mut found = HashSet::new();
    in_order || (0..size).step_by(each as usize).all(|rank| found.insert(node(rank)))
}

/// Returns how many members of a run of consecutive ranks have their peers `distance` ranks above,
/// wrapping around at `size`, outside the run.
fn leaving_run(run: u32, distance: u32, size: u32) -> u32 {
    run.min(distance) - run.saturating_sub(size - distance)
}

impl ListedParts {
    fn new<T: Copy + Eq + Hash>(size: u32, node: impl Fn(u32) -> T) -> Self {
        let mut known = HashMap::new();
        let mut number = |rank: u32| {
            let next = known.len() as u32;
            *known.entry(node(rank)).or_insert(next)
        };
        let numbers: Vec<u32> = (0..size).map(&mut number).collect();
        let count = |counted: &dyn Fn(usize) -> bool| {
            let mut counts = vec![0_u32; known.len()];
            for (rank, number) in numbers.iter().enumerate() {
                counts[*number as usize] += u32::from(counted(rank));
            }
            counts
        };
        let counts = count(&|_| true);
        let leaves = |distance: u32| {
            let above = |rank: usize| (rank as u64 + u64::from(distance)) % u64::from(size);
            let leaves = |rank: usize| numbers[above(rank) as usize] != numbers[rank];
            count(&leaves).into_iter().max().unwrap_or(0)
        };
        let distances = (0..u32::BITS).map(|bit| 1_u32 << bit).take_while(|one| *one < size);
        let leaving = distances.map(leaves).collect();
        let mut starts = vec![0];
        for count in &counts {
            starts.push(starts[starts.len() - 1] + count);
        }
        let mut next = starts.clone();
        let mut ranks = vec![0; size as usize];
        for (rank, number) in (0..).zip(&numbers) {
            ranks[next[*number as usize] as usize] = rank;
            next[*number as usize] += 1;
        }
        let largest = counts.iter().max();
        let fullest = counts.iter().position(|count| Some(count) == largest).unwrap_or(0) as u32;
        // The ranks of each machine are one run.
        let consecutive = numbers.is_sorted();
        Self { numbers, ranks, starts, consecutive, fullest, leaving }
    }
}

impl PartRanks {
    /// Returns the number of ranks, at least one.
    pub fn len(&self) -> usize {
        match self {
            Self::Run(range) => range.len(),
            Self::Listed(_, range) => range.len(),
        }
    }

    /// Returns the lowest rank.
    pub fn first(&self) -> u32 {
        self.get(0)
    }

    /// Returns the rank with this index, which is below the number of ranks.
    pub fn get(&self, index: usize) -> u32 {
        match self {
            Self::Run(range) => range.start + index as u32,
            Self::Listed(all, range) => all.ranks[range.start + index],
        }
    }

    /// Returns the index of a rank, if it is there.
    pub fn position(&self, rank: u32) -> Option<u32> {
        match self {
            Self::Run(range) => range.contains(&rank).then(|| rank - range.start),
            Self::Listed(all, range) => {
                let place = all.ranks[range.clone()].binary_search(&rank).ok();
                place.map(|place| place as u32)
            }
        }
    }

    /// Returns the ranks, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator + '_ {
        (0..self.len()).map(|index| self.get(index))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn layouts_count_who_talks_to_other_machines() {
        let layout = ProcessLayout::on_nodes(&[7, 7, 7, 2, 2]);
        assert_eq!((layout.nodes(), layout.largest(), layout.elsewhere()), (2, 3, 2));
        assert_eq!([0, 1, 2, 3, 4].map(|rank| layout.part_of(rank)), [0, 0, 0, 1, 1]);
        assert_eq!([1, 2, 4].map(|distance| layout.leaving(distance)), [1, 2, 1]);
        assert_eq!(ProcessLayout::on_nodes(&[5; 4]), ProcessLayout::near(4));
        assert_eq!(ProcessLayout::near(4).leaving(2), 0);
        assert_eq!(ProcessLayout::on_nodes(&[3, 2, 1, 0, 7]), ProcessLayout::apart(5));
        assert!(layout.is_consecutive() && !ProcessLayout::on_nodes(&[0, 1, 0]).is_consecutive());
    }

    #[test]
    fn equal_machines_take_no_memory_for_each_member() {
        let size = 1_000_000;
        let layout = ProcessLayout::by(size, |rank| rank / 128);
        assert_eq!(layout.shape, LayoutShape::Runs(128));
        assert_eq!((layout.nodes(), layout.largest()), (7813, 128));
        assert_eq!(layout.part(7812).iter().collect::<Vec<_>>().len(), 64);
        assert_eq!((layout.before(7812), layout.before(7813)), (999_936, 1_000_000));
        // Numbers of machines in any order, but no machine twice.
        let reversed = ProcessLayout::by(size, |rank| u32::MAX - rank / 128);
        assert_eq!(reversed, layout);
        let twice = ProcessLayout::by(6, |rank| rank / 2 % 2);
        assert_eq!((twice.nodes(), twice.is_consecutive()), (2, false));
    }

    /// A distribution of a few members over a few machines, often with equally long runs.
    fn nodes() -> impl Strategy<Value = Vec<u32>> {
        let runs = (1_u32..20, 1_u32..6)
            .prop_map(|(size, each)| (0..size).map(move |rank| rank / each).collect());
        prop_oneof![proptest::collection::vec(0_u32..4, 1..20), runs]
    }

    proptest! {
        #[test]
        fn layouts_describe_where_members_are(nodes in nodes()) {
            let layout = ProcessLayout::on_nodes(&nodes);
            let size = nodes.len() as u32;
            prop_assert_eq!(layout.size(), size);
            let node = |rank: u32| nodes[rank as usize];
            for rank in 0..size {
                let part = layout.part(layout.part_of(rank));
                let near: Vec<u32> =
                    (0..size).filter(|other| node(*other) == node(rank)).collect();
                prop_assert_eq!(part.iter().collect::<Vec<_>>(), near.clone());
                prop_assert_eq!(part.position(rank).map(|place| near[place as usize]), Some(rank));
                prop_assert_eq!(part.position(size), None);
            }
            let lengths: Vec<usize> = layout.parts().map(|part| part.len()).collect();
            prop_assert_eq!(lengths.iter().sum::<usize>(), nodes.len());
            let largest = lengths.iter().max().copied();
            prop_assert_eq!(Some(layout.largest() as usize), largest);
            prop_assert_eq!(Some(layout.fullest().len()), largest);
            for number in 0..=lengths.len() {
                prop_assert_eq!(layout.before(number as u32), lengths[..number].iter().sum());
            }
            for distance in [1_u32, 2, 4, 8, 16] {
                let leaves =
                    |rank: &u32| distance < size && node((rank + distance) % size) != node(*rank);
                let count = |part: PartRanks| part.iter().filter(leaves).count();
                let most = layout.parts().map(count).max();
                prop_assert_eq!(Some(layout.leaving(distance) as usize), most);
            }
        }
    }
}
