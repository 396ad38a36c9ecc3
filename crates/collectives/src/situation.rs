//! The properties of a communicator that all its members know, besides its size.

use crate::costs::Costs;
use crate::layout::ProcessLayout;
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

impl Situation {
    /// Makes the situation of `size` processes on one machine that have a core each.
    pub fn plain(size: u32) -> Self {
        Self { layout: ProcessLayout::near(size), cores: size, ..Self::default() }
    }

    /// Makes the situation of `size` processes of several jobs, whose places and settings are not
    /// compared: each process counts as alone on a machine.
    pub fn between_jobs(size: u32, oversubscribed: bool) -> Self {
        let layout = ProcessLayout::apart(size);
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

    /// Returns this situation with members in parts of machines that a function returns for each
    /// width and rank.
    pub fn in_parts_by(self, widths: &[Width], part: impl Fn(Width, u32) -> u32) -> Self {
        Self { levels: Level::all_by(&self.layout, widths, part), ..self }
    }

    /// Returns the distribution over the widest parts: the machines, if there are several.
    pub fn widest(&self) -> &ProcessLayout {
        self.parts(0)
    }

    /// Returns the distribution over the parts of a level, counted from the widest on. The widest
    /// parts are machines, if there are several.
    pub(crate) fn parts(&self, level: usize) -> &ProcessLayout {
        let inside = self.levels.get(level).filter(|_| self.layout.nodes() == 1);
        inside.map_or(&self.layout, |level| &level.layout)
    }

    /// Returns the distance of a member from the connection to the other parts of the widest level;
    /// inside a machine all distances are 0.
    pub(crate) fn distance(&self, rank: u32) -> u32 {
        if self.layout.nodes() == 1 {
            return 0;
        }
        self.distances.get(rank as usize).copied().unwrap_or(0)
    }

    /// Whether members of a machine are at different distances from its network interfaces.
    pub(crate) fn has_distances(&self) -> bool {
        self.layout.nodes() > 1 && !self.distances.is_empty()
    }

    /// Returns how many processes share a core when all of the fullest machine work.
    pub(crate) fn load(&self) -> u64 {
        u64::from(self.layout.largest().div_ceil(self.cores.max(1)).max(1))
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
            Self::add(&mut levels, machines, *width, |rank| numbers[rank as usize]);
        }
        levels
    }

    /// Returns the levels that matter below the machines, from a function that returns the part of
    /// each member for each of `widths`, from the widest to the narrowest.
    fn all_by(
        machines: &ProcessLayout,
        widths: &[Width],
        part: impl Fn(Width, u32) -> u32,
    ) -> Vec<Self> {
        let mut levels: Vec<Self> = Vec::new();
        for width in widths {
            Self::add(&mut levels, machines, *width, |rank| part(*width, rank));
        }
        levels
    }

    /// Adds the level with these parts, if it divides a part of the level above.
    fn add(
        levels: &mut Vec<Self>,
        machines: &ProcessLayout,
        width: Width,
        number: impl Fn(u32) -> u32,
    ) {
        let above = levels.last().map_or(machines, |level| &level.layout);
        let layout = ProcessLayout::by(machines.size(), |rank| (above.part_of(rank), number(rank)));
        if layout.nodes() > above.nodes() {
            levels.push(Self { width, layout });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
