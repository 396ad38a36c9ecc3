//! Hierarchical algorithms: first inside the parts of the widest level, which are machines if there
//! are several, then across them by one process of each, then inside again.
//!
//! The steps inside a part and between the leaders use the cheapest algorithm there: inside a
//! machine perhaps a hierarchical one over its packages, inside these over NUMA nodes, and so on.

use crate::cost::Cost;
use crate::layout::{PartRanks, ProcessLayout};
use crate::member::Member;
use crate::schedule::{Area, BlockRange, Schedule};
use crate::situation::{Level, Situation};
use crate::width::Width;

/// Returns the leader of a part: the root, if the operation has one and it is in the part. Else it
/// is the member with the lowest `distance` from the resource that the leader must be near to; of
/// several the one with the lowest rank. `members` are the ranks of the part in order, at least
/// one.
fn leader(members: &PartRanks, root: Option<u32>, distance: impl Fn(u32) -> u32) -> u32 {
    let root = root.filter(|root| members.position(*root).is_some());
    let nearest = || members.iter().min_by_key(|rank| distance(*rank));
    root.or_else(nearest).unwrap_or_default()
}

/// Returns the leaders of the parts of each level, from the widest on, in operations without a
/// root. The leader of a part also leads the part of the next level that it is in.
pub fn leaders(situation: &Situation) -> Vec<Vec<u32>> {
    let machines = Some(&situation.layout).filter(|layout| layout.nodes() > 1);
    let layouts = machines.into_iter().chain(situation.levels.iter().map(|level| &level.layout));
    let mut above: Vec<u32> = Vec::new();
    let mut of_level = |layout: &ProcessLayout| {
        let of_part = |ranks: PartRanks| {
            let root = above.iter().copied().find(|rank| ranks.position(*rank).is_some());
            leader(&ranks, root, |rank| situation.distance(rank))
        };
        above = layout.parts().map(of_part).collect();
        above.clone()
    };
    layouts.map(&mut of_level).collect()
}

/// One process's view of the parts of the widest level.
pub(crate) struct HierarchyView {
    pub rank: u32,
    /// The number of the own part.
    pub part: u32,
    /// The ranks in the own part, in order.
    pub near: PartRanks,
    layout: ProcessLayout,
    /// The root, which leads its part, if the operation has one.
    root: Option<u32>,
    /// The leaders of all parts, if they are not the members with the lowest ranks.
    nearest: Option<Vec<u32>>,
    inside: Situation,
    across: Situation,
}

impl HierarchyView {
    pub fn new(member: Member, root: Option<u32>) -> Self {
        Self::over(member, root, 0)
    }

    /// Makes the view of the parts of a level below the widest, by its number.
    pub fn over(member: Member, root: Option<u32>, level: usize) -> Self {
        let situation = member.situation;
        let layout = situation.parts(level);
        let part = layout.part_of(member.rank);
        let near = layout.part(part);
        // Few jobs know distances, and no large ones.
        let nearest = situation.has_distances().then(|| {
            layout.parts().map(|ranks| leader(&ranks, root, |rank| situation.distance(rank)))
        });
        Self {
            rank: member.rank,
            part,
            nearest: nearest.map(Iterator::collect),
            inside: inside(situation, level, &near),
            across: across(situation, level),
            near,
            layout: layout.clone(),
            root,
        }
    }

    /// Returns the leader of a part. Parts are in the order of their lowest ranks.
    pub fn leader(&self, part: u32) -> u32 {
        if let Some(nearest) = &self.nearest {
            return nearest[part as usize];
        }
        let root = self.root.filter(|root| self.layout.part_of(*root) == part);
        root.unwrap_or_else(|| self.layout.part(part).first())
    }

    /// Returns the leaders of all parts.
    pub fn leaders(&self) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator + '_ {
        (0..self.layout.nodes()).map(|part| self.leader(part))
    }

    /// Returns the number of processes of each part.
    pub fn sizes(&self) -> impl Iterator<Item = usize> + '_ {
        self.layout.parts().map(|ranks| ranks.len())
    }

    /// Returns the number of processes of the fullest part.
    pub fn largest(&self) -> usize {
        self.layout.largest() as usize
    }

    /// Returns the number of processes of all parts.
    pub fn size(&self) -> usize {
        self.layout.size() as usize
    }

    /// Returns this process as a member of its part.
    pub fn near_member(&self) -> Member<'_> {
        let rank = self.near.position(self.rank).unwrap_or(0);
        Member { rank, size: self.near.len() as u32, situation: &self.inside }
    }

    /// Returns this process as a member of the leaders, if it is one.
    pub fn leader_member(&self) -> Option<Member<'_>> {
        let is_leader = self.own_leader() == self.rank;
        let size = self.layout.nodes();
        is_leader.then_some(Member { rank: self.part, size, situation: &self.across })
    }

    /// Returns the leader of the own part, by its rank in the part.
    pub fn near_leader(&self) -> u32 {
        self.near.position(self.own_leader()).unwrap_or(0)
    }

    /// Returns the leader of the own part.
    pub fn own_leader(&self) -> u32 {
        self.leader(self.part)
    }

    /// Returns the leaders of other parts.
    pub fn other_leaders(&self) -> impl Iterator<Item = u32> + '_ {
        let own = self.own_leader();
        self.leaders().filter(move |leader| *leader != own)
    }

    /// Returns the processes of the own part except its leader, each with its rank in the part.
    pub fn near_others(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        let leader = self.own_leader();
        self.near.iter().enumerate().filter(move |(_, rank)| *rank != leader)
    }

    /// Returns a part's number from the rank of its leader.
    pub fn part_of(&self, leader: u32) -> u32 {
        self.layout.part_of(leader)
    }

    /// Returns the blocks of some parts, where block `i` belongs to rank `i` and ranks of a part
    /// are consecutive.
    pub fn blocks(&self, parts: BlockRange) -> BlockRange {
        let [first, end] = [parts.first, parts.first + parts.count];
        let before = self.layout.before(first as u32);
        parts.area.blocks(before, self.layout.before(end as u32) - before)
    }

    /// Returns the blocks of the own part.
    pub fn own_blocks(&self, area: Area) -> BlockRange {
        self.blocks(area.block(self.part as usize))
    }

    /// Returns where a leader that is not the root keeps the blocks of its part.
    pub fn held(&self) -> BlockRange {
        Area::Scratch.blocks(0, self.near.len())
    }

    /// Moves scratch memory of a schedule behind the blocks that are [`held`](Self::held).
    pub fn behind_held(&self, place: BlockRange) -> BlockRange {
        match place.area {
            Area::Scratch => Area::Scratch.blocks(place.first + self.near.len(), place.count),
            _ => place,
        }
    }

    pub fn add_inside(
        &self,
        schedule: &mut Schedule,
        inside: &Schedule,
        place: impl Fn(BlockRange) -> BlockRange,
    ) {
        schedule.append(inside, |peer| self.near.get(peer as usize), place);
    }

    pub fn add_across(
        &self,
        schedule: &mut Schedule,
        across: &Schedule,
        place: impl Fn(BlockRange) -> BlockRange,
    ) {
        schedule.append(across, |peer| self.leader(peer), place);
    }
}

/// Whether a hierarchical algorithm can gain: there are several parts, one with several processes.
pub(crate) fn is_applicable(member: Member) -> bool {
    let layout = member.situation.widest();
    layout.nodes() > 1 && layout.largest() > 1
}

/// Whether a hierarchical algorithm can gain, and the ranks of each part are consecutive, as blocks
/// and operands in the order of ranks require.
pub(crate) fn is_ordered(member: Member) -> bool {
    is_applicable(member) && member.situation.widest().is_consecutive()
}

/// Returns the situation of the processes inside one part of a level. Preferences are not included,
/// as they apply to the whole operation. A part of a machine has its share of the cores.
fn inside(situation: &Situation, level: usize, ranks: &PartRanks) -> Situation {
    let &Situation { ref layout, ref levels, cores, oversubscribed, costs, .. } = situation;
    let size = ranks.len() as u32;
    let is_machine = layout.nodes() > 1;
    let below = if is_machine { 0 } else { level + 1 };
    let parts: Vec<_> =
        levels.iter().skip(below).map(|level| parts_of(level, ranks.iter())).collect();
    let cores = match is_machine {
        true => cores,
        false => (u64::from(cores) * u64::from(size)).div_ceil(layout.largest().into()) as u32,
    };
    let layout = ProcessLayout::near(size);
    Situation { layout, cores, oversubscribed, costs, ..Situation::default() }.in_parts(&parts)
}

/// Returns the parts of a level that these members are in.
fn parts_of(level: &Level, ranks: impl Iterator<Item = u32>) -> (Width, Vec<u32>) {
    (level.width, ranks.map(|rank| level.layout.part_of(rank)).collect())
}

/// Returns the situation of the leaders of a level's parts. The leader of a machine can use all
/// cores of that machine.
fn across(situation: &Situation, level: usize) -> Situation {
    let &Situation { ref layout, ref levels, cores, oversubscribed, costs, .. } = situation;
    let parts = situation.parts(level);
    let all = Situation { cores, oversubscribed, costs, ..Situation::default() };
    if layout.nodes() > 1 {
        return Situation { layout: ProcessLayout::apart(parts.nodes()), ..all };
    }
    let firsts = || parts.parts().map(|ranks| ranks.first());
    let above: Vec<_> = levels.iter().take(level + 1).map(|one| parts_of(one, firsts())).collect();
    Situation { layout: ProcessLayout::near(parts.nodes()), ..all }.in_parts(&above)
}

/// Returns the cost of a hierarchical algorithm: inside the fullest part, and across parts.
pub(crate) fn cost(
    member: Member,
    inside_cost: impl Fn(Member) -> Option<Cost>,
    across_cost: impl Fn(Member) -> Option<Cost>,
) -> Option<Cost> {
    cost_over(member, 0, inside_cost, across_cost)
}

/// Returns the cost of a hierarchical algorithm over the parts of a level below the widest.
pub(crate) fn cost_over(
    member: Member,
    level: usize,
    inside_cost: impl Fn(Member) -> Option<Cost>,
    across_cost: impl Fn(Member) -> Option<Cost>,
) -> Option<Cost> {
    with_both(member, level, |near, far| Some(inside_cost(near)? + across_cost(far)?))
}

/// Returns the result of `find` for a member of the fullest part, and for a leader, of a level.
pub(crate) fn with_both<R>(
    member: Member,
    level: usize,
    find: impl FnOnce(Member, Member) -> R,
) -> R {
    let layout = member.situation.parts(level);
    let inside = inside(member.situation, level, &layout.fullest());
    let across = across(member.situation, level);
    let near = Member { rank: 0, size: layout.largest(), situation: &inside };
    let far = Member { rank: 0, size: layout.nodes(), situation: &across };
    find(near, far)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaders_are_roots_or_nearest_or_first() {
        let layout = ProcessLayout::on_nodes(&[1, 2, 3, 0, 4, 0, 5, 6, 7, 0]);
        let members = layout.part(3);
        assert_eq!(leader(&members, None, |_| 7), 3);
        assert_eq!(leader(&members, Some(9), |_| 0), 9);
        assert_eq!(leader(&members, Some(4), |_| 0), 3);
        assert_eq!(leader(&members, None, |rank| if rank == 3 { 2 } else { 1 }), 5);
        assert_eq!(leader(&members, Some(4), |rank| 10 - rank), 9);
    }

    #[test]
    fn a_process_that_is_near_the_interface_speaks_for_the_machine() {
        let layout = ProcessLayout::on_nodes(&[0, 0, 1, 1, 1]);
        let distances = vec![16, 10, u32::MAX, 22, 22];
        let all = Situation { layout, distances, ..Situation::default() };
        assert_eq!(leaders(&all), [[1, 3]]);
        let view = HierarchyView::new(Member { rank: 4, size: 5, situation: &all }, Some(2));
        assert_eq!(view.leaders().collect::<Vec<_>>(), [1, 2], "a root leads");
        // Inside a machine, all members are equally near to the others.
        let parts = [(Width::Package, vec![0, 0, 1])];
        let machine =
            Situation { distances: vec![9, 5, 7], ..Situation::plain(3).in_parts(&parts) };
        assert_eq!(leaders(&machine), [[0, 2]]);
    }

    #[test]
    fn parts_have_what_is_below_them() {
        let numbers = |each: u32| (0..16).map(|rank| rank / each).collect::<Vec<u32>>();
        let parts = [(Width::Package, numbers(8)), (Width::Cache, numbers(2))];
        let machine = Situation::plain(16).oversubscribed_on(4).in_parts(&parts);
        let package = inside(&machine, 0, &PartRanks::Run(8..16));
        assert_eq!((package.cores, package.levels.len()), (2, 1));
        assert_eq!(package.widest(), &ProcessLayout::on_nodes(&[0, 0, 1, 1, 2, 2, 3, 3]));
        let cache = inside(&package, 0, &PartRanks::Run(2..4));
        assert_eq!((cache.cores, cache.widest()), (1, &ProcessLayout::near(2)));
        let leaders = across(&machine, 0);
        assert_eq!((leaders.layout.nodes(), leaders.widest()), (1, &ProcessLayout::apart(2)));
        assert_eq!(leaders.levels[0].width, Width::Package);
        // The cache parts are inside packages.
        let leaders = across(&machine, 1);
        assert_eq!(leaders.levels.len(), 2);
        assert_eq!(leaders.widest(), &ProcessLayout::on_nodes(&[0, 0, 0, 0, 1, 1, 1, 1]));
    }
}
