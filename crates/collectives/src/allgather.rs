//! Allgather. A block is what one process contributes: one in the send buffer, as many as there
//! are processes in the receive buffer.

use crate::bcast;
use crate::estimate::{Cost, Estimate, PEERS_AT_ONCE_MAX};
use crate::gather;
use crate::hierarchy;
use crate::member::{Input, Member};
use crate::schedule::{Area, Place, Schedule};
use crate::selection::{self, Operation};
use crate::tree::{Shape, Tree};

/// The ways of an allgather.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Rank 0 gathers and broadcasts all blocks.
    ThroughFirst,
    /// Pairs exchange all they have, at distances 1, 2, 4, …: for powers of two.
    RecursiveDoubling,
    /// Each process fetches what the one 1, 2, 4, … ranks above has: for any size.
    Bruck,
    /// Each process hands to the next one what it got last.
    Ring,
    /// Each process sends its block to all others at once.
    AtOnce,
    /// Gathered inside the machines, exchanged by their leaders, and broadcast inside.
    Hierarchical,
}

/// All of them, by the names that people use.
pub const ALGORITHMS: &[(&str, Algorithm)] = &[
    ("recursive-doubling", Algorithm::RecursiveDoubling),
    ("bruck", Algorithm::Bruck),
    ("ring", Algorithm::Ring),
    ("at-once", Algorithm::AtOnce),
    ("star", Algorithm::ThroughFirst),
    ("hierarchical", Algorithm::Hierarchical),
];

/// Those that never send two blocks together, which may be of different sizes therefore.
pub const ALGORITHMS_V: &[(&str, Algorithm)] =
    &[("at-once", Algorithm::AtOnce), ("ring", Algorithm::Ring)];

/// Takes the algorithm for blocks of `block_bytes` bytes.
pub fn choose(member: Member, block_bytes: usize) -> Algorithm {
    let cost = |one| cost(one, member, block_bytes);
    selection::choose(Operation::Allgather, ALGORITHMS, member, cost)
}

/// Takes the algorithm for blocks of different sizes, `total_bytes` bytes together.
pub fn choose_v(member: Member, total_bytes: usize) -> Algorithm {
    let cost = |one| cost(one, member, total_bytes.div_ceil(member.size as usize));
    selection::choose(Operation::Allgatherv, ALGORITHMS_V, member, cost)
}

/// The predicted time of an algorithm; none if it is not applicable.
pub fn cost(algorithm: Algorithm, member: Member, block_bytes: usize) -> Option<Cost> {
    let size = u64::from(member.size);
    let mut estimate = Estimate::new(member.situation);
    match algorithm {
        Algorithm::RecursiveDoubling if !member.size.is_power_of_two() => return None,
        Algorithm::AtOnce if member.size > PEERS_AT_ONCE_MAX => return None,
        Algorithm::RecursiveDoubling => {
            estimate.doubling(member, |distance| block_bytes.saturating_mul(distance as usize));
        }
        Algorithm::Bruck => estimate.doubling(member, |distance| {
            let count = distance.min(member.size - distance);
            block_bytes.saturating_mul(count as usize)
        }),
        Algorithm::Ring => estimate.ring(member, size - 1, block_bytes),
        Algorithm::AtOnce => estimate.all_to_all(member, size - 1, block_bytes),
        Algorithm::ThroughFirst => {
            estimate.up(member, Shape::Star, block_bytes, None);
            estimate.down(member, Shape::Star, block_bytes.saturating_mul(member.size as usize));
        }
        Algorithm::Hierarchical if !hierarchy::is_ordered(member) => return None,
        Algorithm::Hierarchical => {
            let part = block_bytes.saturating_mul(member.situation.layout.largest() as usize);
            let all = block_bytes.saturating_mul(member.size as usize);
            let inside = |near: Member| {
                let up = gather::cost(gather::choose(near, block_bytes), near, block_bytes)?;
                Some(up + bcast::cost(bcast::choose(near, all), near, all)?)
            };
            return hierarchy::cost(member, inside, |far| cost(choose(far, part), far, part));
        }
    }
    Some(estimate.cost())
}

/// `MPI_Allgather` (section 6.7) of one block of `block_bytes` packed bytes per process.
pub fn allgather(member: Member, block_bytes: usize, input: Input) -> Schedule {
    if block_bytes == 0 {
        return Schedule::default();
    }
    match choose(member, block_bytes) {
        Algorithm::Hierarchical => hierarchy::allgather(member, block_bytes, input),
        algorithm => with(algorithm, member, input),
    }
}

/// `MPI_Allgatherv` (section 6.7): blocks of any sizes, `total_bytes` packed bytes together.
pub fn allgatherv(member: Member, total_bytes: usize, input: Input) -> Schedule {
    if total_bytes == 0 {
        return Schedule::default();
    }
    with(choose_v(member, total_bytes), member, input)
}

/// The allgather by a given algorithm. Blocks of different sizes need [`Algorithm::Ring`] or
/// [`Algorithm::AtOnce`], which never send two blocks together.
///
/// # Panics
/// On recursive doubling where the size is not a power of two, and on the hierarchical algorithm,
/// which needs to know the size of a block.
pub fn with(algorithm: Algorithm, member: Member, input: Input) -> Schedule {
    let mut schedule = Schedule::default();
    let kept = Area::Receive.block(member.rank as usize);
    if input == Input::SendBuffer {
        schedule.copy(Area::Send.block(0), kept);
    }
    // What goes out before the copy is made, which a round does last.
    let own = if input == Input::InPlace { kept } else { Area::Send.block(0) };
    match algorithm {
        Algorithm::ThroughFirst => through_first(&mut schedule, member, own),
        Algorithm::RecursiveDoubling => recursive_doubling(&mut schedule, member, own),
        Algorithm::Bruck => bruck(&mut schedule, member, own),
        Algorithm::Ring => ring(&mut schedule, member, own),
        Algorithm::AtOnce => at_once(&mut schedule, member, own),
        Algorithm::Hierarchical => unreachable!("allgather takes it by itself"),
    }
    schedule.end_round();
    schedule
}

fn through_first(schedule: &mut Schedule, member: Member, own: Place) {
    let tree = Tree::new(member, 0, Shape::Star);
    for child in tree.children() {
        schedule.receive(child.top, Area::Receive.block(child.top as usize));
    }
    if let Some(parent) = tree.parent() {
        schedule.send(parent, own);
    }
    schedule.end_round();
    let all = Area::Receive.blocks(0, member.size as usize);
    bcast::down(schedule, &tree, all, all);
}

fn recursive_doubling(schedule: &mut Schedule, member: Member, own: Place) {
    assert!(member.size.is_power_of_two(), "recursive doubling needs a power of two");
    let mut distance = 1;
    while distance < member.size {
        let peer = member.rank ^ distance;
        let held =
            |rank: u32| Area::Receive.blocks((rank & !(distance - 1)) as usize, distance as usize);
        schedule.send(peer, if distance == 1 { own } else { held(member.rank) });
        schedule.receive(peer, held(peer));
        schedule.end_round();
        distance *= 2;
    }
}

/// Bruck's algorithm without its rotations: blocks go straight to their places, and what begins
/// again at rank 0 travels as a second message.
fn bruck(schedule: &mut Schedule, member: Member, own: Place) {
    let mut distance = 1;
    while distance < member.size {
        let count = distance.min(member.size - distance);
        let (above, below) = (member.above(distance), member.below(distance));
        if distance == 1 {
            schedule.send(below, own);
        } else {
            for place in ring_range(member.size, member.rank, count) {
                schedule.send(below, place);
            }
        }
        for place in ring_range(member.size, above, count) {
            schedule.receive(above, place);
        }
        schedule.end_round();
        distance = distance.saturating_mul(2);
    }
}

/// The blocks of `count` ranks from `first` on, in one run or two.
fn ring_range(size: u32, first: u32, count: u32) -> impl Iterator<Item = Place> {
    let head = count.min(size - first);
    let places = [(first, head), (0, count - head)];
    places
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(first, count)| Area::Receive.blocks(first as usize, count as usize))
}

fn ring(schedule: &mut Schedule, member: Member, own: Place) {
    for step in 1..member.size {
        let sent = Area::Receive.block(member.below(step - 1) as usize);
        schedule.send(member.above(1), if step == 1 { own } else { sent });
        schedule.receive(member.below(1), Area::Receive.block(member.below(step) as usize));
        schedule.end_round();
    }
}

fn at_once(schedule: &mut Schedule, member: Member, own: Place) {
    for distance in 1..member.size {
        let below = member.below(distance);
        schedule.receive(below, Area::Receive.block(below as usize));
        schedule.send(member.above(distance), own);
    }
}
