//! Reduce-scatter. A block is one element; each process gets some of the elements of the result.

use crate::algorithm::Algorithm;
use crate::cost::Cost;
use crate::estimate::TimeEstimate;
use crate::fold::{exchange_shares, fold_children};
use crate::halving::{self, Participant};
use crate::hierarchy::{self, HierarchyView};
use crate::member::{InputPlace, Member};
use crate::operands::Operands;
use crate::operation::CollectiveOperation;
use crate::reduce;
use crate::schedule::{Area, BlockRange, Operand, Schedule};
use crate::tree::{Branching, Tree};

/// The algorithms that send messages. Along a tree, all elements are reduced to rank 0, which
/// distributes the shares. By shares, each process receives the operands of its share from all
/// others at once, and folds them in the order of ranks. Pairwise, it receives from one process at
/// a time, in an order that requires a commutative operation, so that scratch memory for one share
/// is enough. Ring and halving, from the farthest partner to the nearest, also require a
/// commutative operation.
pub const ALGORITHMS: &[Algorithm] = &[
    Algorithm::Shares,
    Algorithm::Pairwise,
    Algorithm::Star,
    Algorithm::Binomial,
    Algorithm::Ring,
    Algorithm::Halving,
    Algorithm::Hierarchical,
];

/// How many elements of the result each process gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareSizes<'a> {
    /// All get so many. A plan then takes no memory for each process.
    Equal(usize),
    /// One number for each process.
    Each(&'a [usize]),
}

impl ShareSizes<'_> {
    /// Returns the number of elements of a rank.
    fn of(self, rank: u32) -> usize {
        match self {
            Self::Equal(count) => count,
            Self::Each(counts) => counts[rank as usize],
        }
    }

    /// Returns the number of elements of `size` ranks, which are all.
    fn total(self, size: usize) -> usize {
        match self {
            Self::Equal(count) => count * size,
            Self::Each(counts) => counts.iter().sum(),
        }
    }

    /// Returns the number of elements of the rank that gets most.
    fn largest(self) -> usize {
        match self {
            Self::Equal(count) => count,
            Self::Each(counts) => counts.iter().copied().max().unwrap_or(0),
        }
    }

    /// Returns the numbers of elements of parts of consecutive ranks, by the sizes of the parts.
    fn of_parts(self, sizes: impl Iterator<Item = usize>) -> Vec<usize> {
        match self {
            Self::Equal(count) => sizes.map(|size| size * count).collect(),
            Self::Each(counts) => {
                let mut after = counts;
                let of_part = |size| after.split_off(..size).unwrap_or_default().iter().sum();
                sizes.map(of_part).collect()
            }
        }
    }
}

/// The maximum scratch memory, in bytes, if there is an alternative. Larger memory is not kept
/// between operations, and costs more than it gains.
const SCRATCH_BYTES_MAX: usize = 4 << 20;

/// The largest share, in bytes, for which halving may take more scratch memory. That memory has up
/// to 1.5 shares for each process, which are then at most two pages, and a page costs less than the
/// message to each process that the alternatives have.
const SMALL_SHARE_MAX: usize = 4 << 10;

/// The maximum scratch memory of halving for such shares, in bytes: all processes of a machine have
/// it at a time.
const SMALL_SHARES_BYTES_MAX: usize = 16 * SCRATCH_BYTES_MAX;

fn halving_scratch_max(share: usize) -> usize {
    if share > SMALL_SHARE_MAX { SCRATCH_BYTES_MAX } else { SMALL_SHARES_BYTES_MAX }
}

/// Chooses the algorithm; `operands` counts the elements of all processes in total.
pub fn choose(member: Member, operands: Operands) -> Algorithm {
    let cost = |one| cost(one, member, operands);
    member.situation.preferences.choose(CollectiveOperation::ReduceScatter, ALGORITHMS, cost)
}

/// Returns the predicted time of an algorithm; `None` if it is not applicable.
pub fn cost(algorithm: Algorithm, member: Member, operands: Operands) -> Option<Cost> {
    let bytes = operands.bytes();
    let share = bytes.div_ceil(member.size as usize);
    let others = u64::from(member.size - 1);
    let near = u64::from(member.situation.layout.largest());
    let mut estimate = TimeEstimate::new(member.situation);
    match algorithm {
        Algorithm::Pairwise | Algorithm::Ring | Algorithm::Halving if !operands.commutative => {
            return None;
        }
        Algorithm::Shares if operands.commutative && bytes > SCRATCH_BYTES_MAX => return None,
        Algorithm::Halving if halving_scratch(member, bytes) > halving_scratch_max(share) => {
            return None;
        }
        Algorithm::Star | Algorithm::Binomial => {
            estimate.up(member, algorithm.shape()?, bytes, Some(operands));
            estimate.down(member, Branching::Star, share);
        }
        Algorithm::Shares => estimate.reduce_shares(member, share),
        Algorithm::Pairwise => estimate.repeat(others, |one| {
            one.all_to_all(member, 1, share);
            one.reduce(near, share);
        }),
        Algorithm::Ring => {
            estimate.ring(others, share);
            estimate.repeat(others, |one| one.reduce(near, share));
        }
        Algorithm::Halving => {
            estimate.join_power_of_two(member, bytes);
            estimate.each_bit(member, |one, distance| {
                one.halve_at(member, distance, share.saturating_mul(distance as usize));
            });
            estimate.leave_power_of_two(member, share);
        }
        Algorithm::Hierarchical if !hierarchy::is_ordered(member) => return None,
        Algorithm::Hierarchical => {
            let inside = |near: Member| {
                let mut down = TimeEstimate::new(near.situation);
                down.down(near, Branching::Star, share);
                Some(reduce::cost(reduce::choose(near, operands), near, operands)? + down.cost())
            };
            return hierarchy::cost(member, inside, |far| {
                cost(choose(far, operands), far, operands)
            });
        }
        _ => return None,
    }
    Some(estimate.cost())
}

/// Returns the scratch memory for halving, in bytes: the received data of two steps. If the size is
/// no power of two, the first of these holds a neighbour's operands.
fn halving_scratch(member: Member, bytes: usize) -> usize {
    let first = if member.size.is_power_of_two() { bytes / 2 } else { bytes };
    first.saturating_add(first / 2)
}

/// `MPI_Reduce_scatter_block` (section 6.10.1): `operands.count` elements for each process.
pub fn reduce_scatter_block(member: Member, operands: Operands, input: InputPlace) -> Schedule {
    of_shares(member, ShareSizes::Equal(operands.count), operands, input)
}

/// `MPI_Reduce_scatter` (section 6.10.2): `counts[i]` elements for rank `i`. The count in
/// `operands` is not used.
///
/// In place, the receive buffer holds the whole input, and the result goes to its beginning.
///
/// # Panics
/// If there is not one count per process.
pub fn reduce_scatter(
    member: Member,
    counts: &[usize],
    operands: Operands,
    input: InputPlace,
) -> Schedule {
    of_shares(member, ShareSizes::Each(counts), operands, input)
}

fn of_shares(
    member: Member,
    shares: ShareSizes<'_>,
    operands: Operands,
    input: InputPlace,
) -> Schedule {
    let total = Operands { count: shares.total(member.size as usize), ..operands };
    with(choose(member, total), member, shares, operands, input)
}

/// Makes the reduce-scatter by a given algorithm.
///
/// # Panics
/// If there is not one count per process.
pub fn with(
    algorithm: Algorithm,
    member: Member,
    shares: ShareSizes<'_>,
    operands: Operands,
    input: InputPlace,
) -> Schedule {
    if algorithm == Algorithm::Hierarchical {
        return hierarchical(member, shares, operands, input.area());
    }
    let division = ElementOwners::new(member, shares, input.area());
    let mut schedule = Schedule::default();
    match algorithm {
        Algorithm::Star | Algorithm::Binomial => {
            let shape = algorithm.shape().unwrap_or(Branching::Star);
            through_first(&mut schedule, member, shape, operands, &division);
        }
        Algorithm::Shares => by_shares(&mut schedule, member, &division),
        Algorithm::Pairwise => pairwise(&mut schedule, member, &division),
        Algorithm::Ring => ring(&mut schedule, member, &division),
        Algorithm::Halving => halving(&mut schedule, member, &division),
        _ => unreachable!("{algorithm} is no reduce-scatter"),
    }
    schedule
}

/// The division of elements among ranks.
struct ElementOwners<'a> {
    source: Area,
    size: usize,
    shares: ShareSizes<'a>,
    /// The index of each rank's first element, and the end of the last rank's elements; empty if
    /// all ranks get as many.
    starts: Vec<usize>,
    /// The destination of this process's result.
    result: BlockRange,
}

impl<'a> ElementOwners<'a> {
    fn new(member: Member, shares: ShareSizes<'a>, source: Area) -> Self {
        let size = member.size as usize;
        let starts = match shares {
            ShareSizes::Equal(_) => Vec::new(),
            ShareSizes::Each(counts) => {
                assert_eq!(counts.len(), size, "one count for each process");
                let ends = counts.iter().scan(0, |end, count| {
                    *end += count;
                    Some(*end)
                });
                std::iter::once(0).chain(ends).collect()
            }
        };
        let result = Area::Receive.blocks(0, shares.of(member.rank));
        Self { source, size, shares, starts, result }
    }

    /// Returns the index of a rank's first element.
    fn start(&self, rank: usize) -> usize {
        match self.shares {
            ShareSizes::Equal(count) => count * rank,
            ShareSizes::Each(_) => self.starts[rank],
        }
    }

    fn is_in_place(&self) -> bool {
        self.source == Area::Receive
    }

    /// Returns where the last operands arrive, which are then combined with the rest of the result:
    /// at the result, or in scratch memory from `block` on if the result overlaps operands.
    fn arrival(&self, block: usize) -> BlockRange {
        match self.source {
            Area::Receive => Area::Scratch.blocks(block, self.result.count),
            _ => self.result,
        }
    }

    fn total(&self) -> usize {
        self.start(self.size)
    }

    /// Returns this process's operands for the elements of `rank`.
    fn operand(&self, rank: u32) -> BlockRange {
        self.range(self.source.blocks(0, self.total()), rank)
    }

    /// Returns the elements of `rank` among all elements at `whole`.
    fn range(&self, whole: BlockRange, rank: u32) -> BlockRange {
        self.ranges(whole, rank, rank + 1)
    }

    /// Returns the elements of the ranks from `first` to before `end`.
    fn ranges(&self, whole: BlockRange, first: u32, end: u32) -> BlockRange {
        let (begin, end) = (self.start(first as usize), self.start(end as usize));
        whole.part(begin, end - begin)
    }
}

fn through_first(
    schedule: &mut Schedule,
    member: Member,
    shape: Branching,
    operands: Operands,
    division: &ElementOwners<'_>,
) {
    let all = division.source.blocks(0, division.total());
    if all.count == 0 {
        return;
    }
    let up = Tree::new(member, 0, shape);
    let partial =
        fold_children(schedule, &up, Operands { count: all.count, ..operands }, all, None);
    if let Some(parent) = up.parent() {
        schedule.send(parent, partial);
        schedule.end_round();
        if division.result.count > 0 {
            schedule.receive(0, division.result);
        }
    } else {
        for rank in 1..member.size {
            let share = division.range(partial, rank);
            if share.count > 0 {
                schedule.send(rank, share);
            }
        }
        let own = division.range(partial, 0);
        if own != division.result && own.count > 0 {
            schedule.copy(own, division.result);
        }
    }
    schedule.end_round();
}

fn by_shares(schedule: &mut Schedule, member: Member, division: &ElementOwners<'_>) {
    let target = (!division.is_in_place()).then_some(division.result);
    let reduced = exchange_shares(schedule, member, target, |rank| division.operand(rank));
    deliver(schedule, reduced, division);
}

fn pairwise(schedule: &mut Schedule, member: Member, division: &ElementOwners<'_>) {
    let own = division.operand(member.rank);
    let count = own.count;
    let partial =
        if division.is_in_place() { Area::Scratch.blocks(0, count) } else { division.result };
    let arriving = Area::Scratch.blocks(if division.is_in_place() { count } else { 0 }, count);
    for distance in 1..member.size {
        let given = division.operand(member.above(distance));
        if given.count > 0 {
            schedule.send(member.above(distance), given);
        }
        if count > 0 && distance == 1 {
            schedule.receive(member.below(distance), partial);
            schedule.reduce(own, partial, Operand::From);
        } else if count > 0 {
            schedule.receive(member.below(distance), arriving);
            schedule.reduce(arriving, partial, Operand::From);
        }
        schedule.end_round();
    }
    let reduced = if member.size == 1 { own } else { partial };
    deliver(schedule, reduced, division);
}

/// The ring. In step s a process sends the share s ranks below, to which it has added its operand,
/// and receives the share below that. In the end it has its own. Partial results alternate between
/// two places.
fn ring(schedule: &mut Schedule, member: Member, division: &ElementOwners<'_>) {
    let (next, before) = (member.above(1), member.below(1));
    let widest = division.shares.largest();
    let mut partial = division.operand(member.below(1 % member.size));
    for step in 1..member.size {
        let operand = division.operand(member.below(step + 1));
        let place = step as usize % 2 * widest;
        let arriving = match step + 1 == member.size {
            true => division.arrival(place),
            false => Area::Scratch.blocks(place, operand.count),
        };
        pass_on(schedule, (next, partial), (before, arriving), operand);
        partial = arriving;
    }
    deliver(schedule, partial, division);
}

/// Recursive halving among the largest power of two, from the farthest partner to the nearest. So a
/// process keeps consecutive elements that include its own. A participant that represents a
/// neighbour works on its elements also.
///
/// Received data alternates between two places, and the earlier combined data is added to it.
fn halving(schedule: &mut Schedule, member: Member, division: &ElementOwners<'_>) {
    let whole = division.source.blocks(0, division.total());
    let Some(own) = Participant::of(member, member.rank, None) else {
        let representative = member.rank ^ 1;
        if whole.count > 0 {
            schedule.send(representative, whole);
        }
        schedule.end_round();
        if division.result.count > 0 {
            schedule.receive(representative, division.result);
        }
        schedule.end_round();
        return;
    };
    let rank_of =
        |number: u32| if number == own.participants { member.size } else { own.rank(number) };
    let range =
        |first: u32, count: u32| division.ranges(whole, rank_of(first), rank_of(first + count));
    let neighbour = own.neighbour();

    let (mut first, mut count) = (0, own.participants);
    let behind = match neighbour {
        Some(_) => whole.count,
        None => range(own.number & (count / 2), count / 2).count,
    };
    // The elements that are kept, by their numbers, and the place of their partial results.
    let (mut kept, mut partial, mut place) = (whole, whole, 0);
    if let Some(neighbour) = neighbour
        && whole.count > 0
    {
        partial = Area::Scratch.blocks(0, whole.count);
        schedule.receive(neighbour, partial);
        schedule.reduce(whole, partial, Operand::From);
        schedule.end_round();
        place = behind;
    }
    for distance in halving::distances(&own).rev() {
        count /= 2;
        let given = if own.number & distance == 0 { first + count } else { first };
        first += own.number & distance;
        let peer = own.rank(own.number ^ distance);
        let at = |numbers: BlockRange| partial.part(numbers.first - kept.first, numbers.count);
        let (leaving, staying) = (at(range(given, count)), at(range(first, count)));
        let arriving = match distance == 1 && neighbour.is_none() {
            true => division.arrival(place),
            false => Area::Scratch.blocks(place, staying.count),
        };
        pass_on(schedule, (peer, leaving), (peer, arriving), staying);
        (kept, partial, place) = (range(first, count), arriving, behind - place);
    }
    if let Some(neighbour) = neighbour {
        let others = partial.part(division.result.count, partial.count - division.result.count);
        if others.count > 0 {
            schedule.send(neighbour, others);
        }
        partial = partial.part(0, division.result.count);
    }
    deliver(schedule, partial, division);
}

/// Sends partial results to one process, and adds the own operands to those received from another.
fn pass_on(
    schedule: &mut Schedule,
    (next, leaving): (u32, BlockRange),
    (before, arriving): (u32, BlockRange),
    own: BlockRange,
) {
    if leaving.count > 0 {
        schedule.send(next, leaving);
    }
    if own.count > 0 {
        schedule.receive(before, arriving);
        schedule.reduce(own, arriving, Operand::From);
    }
    schedule.end_round();
}

/// Copies the combined elements to the place of the result, if they are elsewhere.
fn deliver(schedule: &mut Schedule, reduced: BlockRange, division: &ElementOwners<'_>) {
    if reduced.count > 0 && reduced != division.result {
        schedule.copy(reduced, division.result);
    }
    schedule.end_round();
}

/// The hierarchical reduce-scatter, for parts with consecutive ranks: reduces to the leaders,
/// scatters among them, and from there inside the parts. A leader keeps all elements of its part's
/// reduction, then the elements of its part.
fn hierarchical(
    member: Member,
    shares: ShareSizes<'_>,
    operands: Operands,
    source: Area,
) -> Schedule {
    let view = HierarchyView::new(member, None);
    let mut schedule = Schedule::default();
    let near = view.near_member();
    let operands = Operands { count: shares.total(member.size as usize), ..operands };
    let partial = Area::Scratch.blocks(0, operands.count);
    let behind = |place: BlockRange, blocks: usize| match place.area {
        Area::Scratch => Area::Scratch.blocks(place.first + blocks, place.count),
        _ => place,
    };
    let inside = reduce::reduce(near, view.near_leader(), operands, InputPlace::SendBuffer);
    view.add_inside(&mut schedule, &inside, |place| match place.area {
        Area::Send => source.blocks(place.first, place.count),
        Area::Receive => partial.part(place.first, place.count),
        _ => behind(place, operands.count),
    });
    let own = Area::Receive.blocks(0, shares.of(member.rank));
    if let Some(leader) = view.leader_member() {
        let parts = shares.of_parts(view.sizes());
        let part = Area::Scratch.blocks(operands.count, parts[view.part as usize]);
        let across = reduce_scatter(leader, &parts, operands, InputPlace::SendBuffer);
        view.add_across(&mut schedule, &across, |place| match place.area {
            Area::Send => partial.part(place.first, place.count),
            Area::Receive => part.part(place.first, place.count),
            _ => behind(place, operands.count + part.count),
        });
        let mut first = 0;
        for rank in view.near.iter() {
            let share = part.part(first, shares.of(rank));
            first += share.count;
            match share.count {
                0 => {}
                _ if rank == member.rank => schedule.copy(share, own),
                _ => schedule.send(rank, share),
            }
        }
    } else if own.count > 0 {
        schedule.receive(view.own_leader(), own);
    }
    schedule.end_round();
    schedule
}
