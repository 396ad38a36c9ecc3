//! Alltoall. Block `i` of the send buffer goes to rank `i`, block `i` of the receive buffer comes
//! from rank `i`.

mod by_leaders;
mod exchange;

use crate::algorithm::Algorithm;
use crate::cost::Cost;
use crate::estimate::{TimeEstimate, rounds};
use crate::member::{InputPlace, Member};
use crate::operation::CollectiveOperation;
use crate::schedule::{Area, BlockRuns, Schedule};

pub use exchange::{PART_PEERS, exchange, next_part};

/// The algorithms that send messages. In each of the log n rounds of Bruck's algorithm, half of the
/// blocks travel together, one step nearer to their targets. In the hierarchical form, leaders of
/// machines collect the blocks between machines.
pub const ALGORITHMS: &[Algorithm] = &[
    Algorithm::AtOnce,
    Algorithm::Windows,
    Algorithm::Pairwise,
    Algorithm::Bruck,
    Algorithm::Hierarchical,
];

/// The number of peers with which a process exchanges at once. Most communicators of one machine
/// are smaller, and it bounds the messages that one process has on their way.
pub const WINDOW: u32 = 32;

/// Returns the number of peers per round for algorithms that send blocks directly to their targets.
fn window(algorithm: Algorithm) -> Option<u32> {
    match algorithm {
        Algorithm::AtOnce => Some(WINDOW),
        Algorithm::Windows => Some(4),
        Algorithm::Pairwise => Some(1),
        _ => None,
    }
}

/// The maximum number of bytes that a process has on their way at once, if blocks are smaller. More
/// bytes would evict each other from the caches, and overload a receiver.
const ROUND_BYTES_MAX: usize = 4 << 20;

/// Chooses the algorithm for blocks of `block_bytes` bytes.
pub fn choose(member: Member, block_bytes: usize) -> Algorithm {
    let cost = |one| cost(one, member, block_bytes);
    member.situation.preferences.choose(CollectiveOperation::Alltoall, ALGORITHMS, cost)
}

/// Returns the predicted time of an algorithm; `None` if it is not applicable.
pub fn cost(algorithm: Algorithm, member: Member, block_bytes: usize) -> Option<Cost> {
    let mut estimate = TimeEstimate::new(member.situation);
    let near = u64::from(member.situation.layout.largest());
    match algorithm {
        Algorithm::AtOnce | Algorithm::Windows | Algorithm::Pairwise => {
            let window = window(algorithm)?;
            let peers = u64::from(window.min(member.size - 1).max(1));
            let underway = block_bytes.saturating_mul(peers as usize);
            if peers > 1 && underway > ROUND_BYTES_MAX {
                return None;
            }
            let others = u64::from(member.size - 1);
            estimate.repeat(others / peers, |one| one.all_to_all(member, peers, block_bytes));
            if others % peers > 0 {
                estimate.all_to_all(member, others % peers, block_bytes);
            }
            estimate.copy(near, block_bytes);
        }
        Algorithm::Bruck => {
            let total = block_bytes.saturating_mul(member.size as usize);
            estimate.doubling(member, |_| total / 2);
            let rounds = u64::from(rounds(member));
            // In each round, half of the blocks are collected and put back; before and after, all
            // blocks are copied.
            estimate.repeat(rounds + 2, |one| one.copy(near, total));
        }
        Algorithm::Hierarchical => return by_leaders::cost(member, block_bytes),
        _ => return None,
    }
    Some(estimate.cost())
}

/// `MPI_Alltoall` (section 6.8) with blocks of `block_bytes` packed bytes.
pub fn alltoall(member: Member, block_bytes: usize, input: InputPlace) -> Schedule {
    with(choose(member, block_bytes), member, block_bytes, input)
}

/// Makes the alltoall by a given algorithm.
pub fn with(
    algorithm: Algorithm,
    member: Member,
    block_bytes: usize,
    input: InputPlace,
) -> Schedule {
    match algorithm {
        _ if block_bytes == 0 => Schedule::default(),
        Algorithm::Bruck => bruck(member, input),
        Algorithm::Hierarchical => by_leaders::alltoall(member, input),
        _ => match window(algorithm) {
            Some(window) => exchange(member, window, input),
            None => unreachable!("{algorithm} is no alltoall"),
        },
    }
}

/// `MPI_Alltoallv` and `MPI_Alltoallw` (section 6.8).
///
/// In place, scratch block `i` receives the data from rank `i`, and has the packed size of block
/// `i` of the receive buffer.
pub fn alltoallv(member: Member, input: InputPlace) -> Schedule {
    exchange(member, WINDOW, input)
}

/// Bruck's alltoall. Slot i holds the blocks that have i ranks to go. In the round of bit k, all
/// slots with that bit travel 2^k ranks. The schedule has O(log n) steps.
pub fn bruck(member: Member, input: InputPlace) -> Schedule {
    let mut schedule = Schedule::default();
    let (size, rank) = (member.size as usize, member.rank as usize);
    let outgoing = size;
    let incoming = size + size.div_ceil(2);

    let source = input.area();
    let until_wrap = size - rank;
    schedule.copy(source.blocks(rank, until_wrap), Area::Scratch.blocks(0, until_wrap));
    if rank > 0 {
        schedule.copy(source.blocks(0, rank), Area::Scratch.blocks(until_wrap, rank));
    }
    let mut distance = 1;
    while distance < size {
        let travelling = Travelling { size, distance };
        travelling.copy(&mut schedule, outgoing, TravelDirection::Leaving);
        schedule.end_round();
        let count = travelling.count();
        schedule.send(member.above(distance as u32), Area::Scratch.blocks(outgoing, count));
        schedule.receive(member.below(distance as u32), Area::Scratch.blocks(incoming, count));
        travelling.copy(&mut schedule, incoming, TravelDirection::Arriving);
        distance *= 2;
    }
    // Slot i has the block from i ranks below.
    let one_down = |count| BlockRuns { count, from_step: 1, into_step: -1 };
    schedule.copy_runs(
        Area::Scratch.block(0),
        Area::Receive.block(rank),
        one_down(member.rank + 1),
    );
    schedule.copy_runs(
        Area::Scratch.block(rank + 1),
        Area::Receive.block(size - 1),
        one_down(member.size - member.rank - 1),
    );
    schedule.end_round();
    schedule
}

/// The slots that travel in a round: those whose number has the bit `distance`. They are runs of
/// `distance` slots, of which the last may be shorter.
#[derive(Clone, Copy)]
struct Travelling {
    size: usize,
    distance: usize,
}

/// Whether slots are collected before they travel, or put back when they have arrived.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TravelDirection {
    Leaving,
    Arriving,
}

impl Travelling {
    /// Returns the number of complete runs, and the length of the shorter one.
    fn runs(self) -> (usize, usize) {
        let Self { size, distance } = self;
        let (pairs, rest) = (size / (2 * distance), size % (2 * distance));
        (pairs, rest.saturating_sub(distance))
    }

    fn count(self) -> usize {
        let (complete, rest) = self.runs();
        complete * self.distance + rest
    }

    /// Adds copies between the slots and as many consecutive blocks from `first` on.
    fn copy(self, schedule: &mut Schedule, first: usize, direction: TravelDirection) {
        let ((complete, rest), distance) = (self.runs(), self.distance);
        let slots = |number: usize, count| Area::Scratch.blocks((2 * number + 1) * distance, count);
        let beside = |number: usize, count| Area::Scratch.blocks(first + number * distance, count);
        let mut add = |number: usize, length: usize, count: usize| {
            let (slots, beside) = (slots(number, length), beside(number, length));
            // There are several runs only if their distances are small enough.
            let [apart, together] =
                [2 * distance, distance].map(|step| i32::try_from(step).unwrap_or(0));
            let (from, into, from_step, into_step) = match direction {
                TravelDirection::Leaving => (slots, beside, apart, together),
                TravelDirection::Arriving => (beside, slots, together, apart),
            };
            schedule.copy_runs(from, into, BlockRuns { count: count as u32, from_step, into_step });
        };
        add(0, distance, complete);
        if rest > 0 {
            add(complete, rest, 1);
        }
    }
}
