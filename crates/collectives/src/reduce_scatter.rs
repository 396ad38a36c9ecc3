//! Reduce-scatter. A block is one element; each process gets some of the elements of the result.

use crate::estimate::{Cost, Estimate};
use crate::fold::{Operands, fold_children};
use crate::member::{Input, Member};
use crate::schedule::{Area, Operand, Place, Schedule};
use crate::selection::{self, Operation};
use crate::tree::{Shape, Tree};

/// The ways of a reduce-scatter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// A reduction of all elements to rank 0, which hands out the shares.
    ThroughFirst(Shape),
    /// Each process receives the operands of its share from all others at once, and folds them in
    /// the order of ranks.
    Shares,
    /// The same with one peer at a time, in an order that only a commutative operation allows, so
    /// that scratch memory for one share is enough.
    Pairwise,
}

/// All of them, by the names that people use.
pub const ALGORITHMS: &[(&str, Algorithm)] = &[
    ("shares", Algorithm::Shares),
    ("pairwise", Algorithm::Pairwise),
    ("star", Algorithm::ThroughFirst(Shape::Star)),
    ("binomial", Algorithm::ThroughFirst(Shape::Binomial)),
];

/// Scratch memory for the operands of a share is at most so many bytes where there is another way.
const SHARES_BYTES_MAX: usize = 4 << 20;

/// Takes the algorithm; `operands` counts the elements of all processes together.
pub fn choose(member: Member, operands: Operands) -> Algorithm {
    let cost = |one| cost(one, member, operands);
    selection::choose(Operation::ReduceScatter, ALGORITHMS, member, cost)
}

/// The predicted time of an algorithm; none if it is not applicable.
pub fn cost(algorithm: Algorithm, member: Member, operands: Operands) -> Option<Cost> {
    let bytes = operands.bytes();
    let share = bytes.div_ceil(member.size as usize);
    let others = u64::from(member.size - 1);
    let near = u64::from(member.situation.layout.largest());
    let mut estimate = Estimate::new(member.situation);
    match algorithm {
        Algorithm::Pairwise if !operands.commutative => return None,
        Algorithm::Shares if operands.commutative && bytes > SHARES_BYTES_MAX => return None,
        Algorithm::ThroughFirst(shape) => {
            estimate.up(member, shape, bytes, Some(operands));
            estimate.down(member, Shape::Star, share);
        }
        Algorithm::Shares => estimate.reduce_shares(member, share),
        Algorithm::Pairwise => estimate.repeat(others, |one| {
            one.all_to_all(member, 1, share);
            one.reduce(near, share);
        }),
    }
    Some(estimate.cost())
}

/// `MPI_Reduce_scatter_block` (section 6.10.1): `operands.count` elements for each process.
pub fn reduce_scatter_block(member: Member, operands: Operands, input: Input) -> Schedule {
    reduce_scatter(member, &vec![operands.count; member.size as usize], operands, input)
}

/// `MPI_Reduce_scatter` (section 6.10.2): `counts[i]` elements for rank `i`. The count in
/// `operands` is not used.
///
/// In place, the receive buffer holds the whole input, and the result comes to its beginning.
///
/// # Panics
/// If there is not one count per process.
pub fn reduce_scatter(
    member: Member,
    counts: &[usize],
    operands: Operands,
    input: Input,
) -> Schedule {
    let total = Operands { count: counts.iter().sum(), ..operands };
    with(choose(member, total), member, counts, operands, input)
}

/// The reduce-scatter by a given algorithm.
///
/// # Panics
/// If there is not one count per process.
pub fn with(
    algorithm: Algorithm,
    member: Member,
    counts: &[usize],
    operands: Operands,
    input: Input,
) -> Schedule {
    let division = Division::new(member, counts, input.area());
    let mut schedule = Schedule::default();
    match algorithm {
        Algorithm::ThroughFirst(shape) => {
            through_first(&mut schedule, member, shape, operands, &division);
        }
        Algorithm::Shares => shares(&mut schedule, member, &division),
        Algorithm::Pairwise => pairwise(&mut schedule, member, &division),
    }
    schedule
}

/// Which elements belong to whom.
struct Division {
    source: Area,
    /// Where each rank's elements begin, and where the last one's end.
    starts: Vec<usize>,
    /// Where the result of this process goes.
    result: Place,
}

impl Division {
    fn new(member: Member, counts: &[usize], source: Area) -> Self {
        assert_eq!(counts.len(), member.size as usize, "one count for each process");
        let mut starts = Vec::with_capacity(counts.len() + 1);
        let mut end = 0;
        starts.push(end);
        for count in counts {
            end += count;
            starts.push(end);
        }
        let result = Area::Receive.blocks(0, counts[member.rank as usize]);
        Self { source, starts, result }
    }

    fn is_in_place(&self) -> bool {
        self.source == Area::Receive
    }

    fn total(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }

    /// What this process contributes to the elements of `rank`.
    fn operand(&self, rank: u32) -> Place {
        self.range(self.source.blocks(0, self.total()), rank)
    }

    /// The elements of `rank` out of all elements at `whole`.
    fn range(&self, whole: Place, rank: u32) -> Place {
        let (begin, end) = (self.starts[rank as usize], self.starts[rank as usize + 1]);
        whole.part(begin, end - begin)
    }
}

fn through_first(
    schedule: &mut Schedule,
    member: Member,
    shape: Shape,
    operands: Operands,
    division: &Division,
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

fn shares(schedule: &mut Schedule, member: Member, division: &Division) {
    let target = (!division.is_in_place()).then_some(division.result);
    let reduced = exchange_shares(schedule, member, target, |rank| division.operand(rank));
    if reduced.count > 0 && reduced != division.result {
        schedule.copy(reduced, division.result);
        schedule.end_round();
    }
}

fn pairwise(schedule: &mut Schedule, member: Member, division: &Division) {
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
    if count > 0 && reduced != division.result {
        schedule.copy(reduced, division.result);
        schedule.end_round();
    }
}

/// Adds the round in which each process gets all operands of its share and folds them from the
/// lowest rank to the highest. `operand_of` says what this process contributes to a rank's share.
///
/// Says where the reduced share lies: at `target` if that is given, else in scratch memory; at
/// the operand itself if this process is alone or its share is empty. `target` overlaps no
/// operand.
pub(crate) fn exchange_shares(
    schedule: &mut Schedule,
    member: Member,
    target: Option<Place>,
    operand_of: impl Fn(u32) -> Place,
) -> Place {
    let own = operand_of(member.rank);
    let last_peer = if member.rank + 1 == member.size {
        member.size.saturating_sub(2)
    } else {
        member.size - 1
    };
    let slot = |rank: u32| match target {
        Some(target) if rank == last_peer => target,
        _ => {
            let number = if rank < member.rank { rank } else { rank - 1 };
            Area::Scratch.blocks(number as usize * own.count, own.count)
        }
    };
    for distance in 1..member.size {
        let (above, below) = (member.above(distance), member.below(distance));
        if own.count > 0 {
            schedule.receive(below, slot(below));
        }
        let given = operand_of(above);
        if given.count > 0 {
            schedule.send(above, given);
        }
    }
    let mut folded = None;
    for rank in (0..member.size).filter(|_| own.count > 0) {
        folded = match folded {
            None if rank == member.rank => Some(own),
            None => Some(slot(rank)),
            Some(left) if rank == member.rank => {
                schedule.reduce(own, left, Operand::Into);
                Some(left)
            }
            Some(left) => {
                schedule.reduce(left, slot(rank), Operand::From);
                Some(slot(rank))
            }
        };
    }
    schedule.end_round();
    folded.unwrap_or(own)
}
