//! Allgather. A block is the contribution of one process: one in the send buffer, as many as there
//! are processes in the receive buffer.

use crate::algorithm::Algorithm;
use crate::bcast;
use crate::cost::Cost;
use crate::estimate::TimeEstimate;
use crate::gather;
use crate::hierarchy::{self, HierarchyView};
use crate::member::{InputPlace, Member, PEERS_AT_ONCE_MAX};
use crate::operation::CollectiveOperation;
use crate::schedule::{Area, BlockRange, Schedule};
use crate::tree::{Branching, Tree};

/// The algorithms that send messages. Recursive doubling requires a power of two processes. A star
/// gathers at rank 0 and broadcasts all blocks from there.
pub const ALGORITHMS: &[Algorithm] = &[
    Algorithm::RecursiveDoubling,
    Algorithm::Bruck,
    Algorithm::Ring,
    Algorithm::AtOnce,
    Algorithm::Star,
    Algorithm::Hierarchical,
];

/// Chooses the algorithm for blocks of `block_bytes` bytes.
pub fn choose(member: Member, block_bytes: usize) -> Algorithm {
    let cost = |one| cost(one, member, block_bytes);
    member.situation.preferences.choose(CollectiveOperation::Allgather, ALGORITHMS, cost)
}

/// Chooses the algorithm for blocks of different sizes, with a mean of `block_bytes` bytes.
pub fn choose_v(member: Member, block_bytes: usize) -> Algorithm {
    let cost = |one| cost_v(one, member, block_bytes);
    member.situation.preferences.choose(CollectiveOperation::Allgatherv, ALGORITHMS, cost)
}

/// Returns the predicted time of an algorithm; `None` if it is not applicable.
pub fn cost(algorithm: Algorithm, member: Member, block_bytes: usize) -> Option<Cost> {
    let collect = |near: Member| gather::cost(gather::choose(near, block_bytes), near, block_bytes);
    cost_with(algorithm, member, block_bytes, collect, |far, part| {
        cost(choose(far, part), far, part)
    })
}

/// Returns the predicted time of an algorithm for blocks of different sizes, with a mean of
/// `block_bytes` bytes; `None` if it is not applicable.
pub fn cost_v(algorithm: Algorithm, member: Member, block_bytes: usize) -> Option<Cost> {
    let collect = |near: Member| gather::cost(Algorithm::Star, near, block_bytes);
    cost_with(algorithm, member, block_bytes, collect, |far, part| {
        cost_v(choose_v(far, part), far, part)
    })
}

/// Returns the predicted time of an algorithm, whose hierarchical form collects the blocks of a
/// part at its leader in a time of `collect`, and those of all parts in a time of `exchange`.
fn cost_with(
    algorithm: Algorithm,
    member: Member,
    block_bytes: usize,
    collect: impl Fn(Member) -> Option<Cost>,
    exchange: impl Fn(Member, usize) -> Option<Cost>,
) -> Option<Cost> {
    if algorithm != Algorithm::Hierarchical {
        return flat_cost(algorithm, member, block_bytes);
    }
    if !hierarchy::is_ordered(member) {
        return None;
    }
    let part = block_bytes.saturating_mul(member.situation.widest().largest() as usize);
    let all = block_bytes.saturating_mul(member.size as usize);
    let inside =
        |near: Member| Some(collect(near)? + bcast::cost(bcast::choose(near, all), near, all)?);
    hierarchy::cost(member, inside, |far| exchange(far, part))
}

/// Returns the predicted time of an algorithm that ignores machine boundaries.
fn flat_cost(algorithm: Algorithm, member: Member, block_bytes: usize) -> Option<Cost> {
    let mut estimate = TimeEstimate::new(member.situation);
    let size = u64::from(member.size);
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
        Algorithm::Ring => estimate.ring(size - 1, block_bytes),
        Algorithm::AtOnce => estimate.all_to_all(member, size - 1, block_bytes),
        Algorithm::Star => {
            estimate.up(member, Branching::Star, block_bytes, None);
            estimate.down(
                member,
                Branching::Star,
                block_bytes.saturating_mul(member.size as usize),
            );
        }
        _ => return None,
    }
    Some(estimate.cost())
}

/// `MPI_Allgather` (section 6.7) of one block of `block_bytes` packed bytes per process.
pub fn allgather(member: Member, block_bytes: usize, input: InputPlace) -> Schedule {
    with(choose(member, block_bytes), member, block_bytes, input)
}

/// Makes the allgather of equal blocks by a given algorithm.
pub fn with(
    algorithm: Algorithm,
    member: Member,
    block_bytes: usize,
    input: InputPlace,
) -> Schedule {
    match algorithm {
        _ if block_bytes == 0 => Schedule::default(),
        Algorithm::Hierarchical => {
            let all = member.size as usize;
            hierarchical(
                member,
                input,
                |near, leader| gather::gather(near, leader, block_bytes, input),
                |leader, most| {
                    allgather(leader, block_bytes.saturating_mul(most), InputPlace::InPlace)
                },
                |near, leader| bcast::of_blocks(near, leader, all, block_bytes.saturating_mul(all)),
            )
        }
        _ => flat(algorithm, member, input),
    }
}

/// `MPI_Allgatherv` (section 6.7): blocks of any sizes, `total_bytes` packed bytes in total.
/// Consecutive blocks are one message. None is in scratch memory, whose blocks have one size.
pub fn allgatherv(member: Member, total_bytes: usize, input: InputPlace) -> Schedule {
    let block_bytes = total_bytes.div_ceil(member.size as usize);
    with_v(choose_v(member, block_bytes), member, total_bytes, input)
}

/// Makes the allgather of blocks of any sizes by a given algorithm.
pub fn with_v(
    algorithm: Algorithm,
    member: Member,
    total_bytes: usize,
    input: InputPlace,
) -> Schedule {
    if total_bytes == 0 {
        return Schedule::default();
    }
    if algorithm != Algorithm::Hierarchical {
        return flat(algorithm, member, input);
    }
    let all = member.size as usize;
    let block_bytes = total_bytes.div_ceil(all);
    hierarchical(
        member,
        input,
        |near, leader| gather::tree(near, leader, Branching::Star, input),
        |leader, most| {
            let part = block_bytes.saturating_mul(most);
            flat(choose_v(leader, part), leader, InputPlace::InPlace)
        },
        |near, leader| bcast::of_blocks(near, leader, all, total_bytes),
    )
}

/// Makes the allgather of blocks of any sizes, ignoring machine boundaries.
fn flat(algorithm: Algorithm, member: Member, input: InputPlace) -> Schedule {
    let mut schedule = Schedule::default();
    let kept = Area::Receive.block(member.rank as usize);
    if input == InputPlace::SendBuffer {
        schedule.copy(Area::Send.block(0), kept);
    }
    // The blocks that are sent before the copy is made: a round's local steps come last.
    let own = if input == InputPlace::InPlace { kept } else { Area::Send.block(0) };
    match algorithm {
        Algorithm::Star => through_first(&mut schedule, member, own),
        Algorithm::RecursiveDoubling => recursive_doubling(&mut schedule, member, own),
        Algorithm::Bruck => bruck(&mut schedule, member, own),
        Algorithm::Ring => ring(&mut schedule, member, own),
        Algorithm::AtOnce => at_once(&mut schedule, member, own),
        _ => unreachable!("{algorithm} is no allgather of blocks of any size"),
    }
    schedule.end_round();
    schedule
}

fn through_first(schedule: &mut Schedule, member: Member, own: BlockRange) {
    let tree = Tree::new(member, 0, Branching::Star);
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

fn recursive_doubling(schedule: &mut Schedule, member: Member, own: BlockRange) {
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

/// Bruck's algorithm without its rotations: blocks go directly to their places, and the blocks that
/// wrap around to rank 0 go in a second message.
fn bruck(schedule: &mut Schedule, member: Member, own: BlockRange) {
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

/// Returns the blocks of `count` ranks from `first` on, in one or two runs.
fn ring_range(size: u32, first: u32, count: u32) -> impl Iterator<Item = BlockRange> {
    let head = count.min(size - first);
    let places = [(first, head), (0, count - head)];
    places
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(first, count)| Area::Receive.blocks(first as usize, count as usize))
}

fn ring(schedule: &mut Schedule, member: Member, own: BlockRange) {
    for step in 1..member.size {
        let sent = Area::Receive.block(member.below(step - 1) as usize);
        schedule.send(member.above(1), if step == 1 { own } else { sent });
        schedule.receive(member.below(1), Area::Receive.block(member.below(step) as usize));
        schedule.end_round();
    }
}

fn at_once(schedule: &mut Schedule, member: Member, own: BlockRange) {
    for distance in 1..member.size {
        let below = member.below(distance);
        schedule.receive(below, Area::Receive.block(below as usize));
        schedule.send(member.above(distance), own);
    }
}

/// The hierarchical allgather, for parts with consecutive ranks. `collect` gathers at the leader of
/// a part. `exchange` is the allgather among leaders; its argument is the number of blocks of the
/// fullest part. `spread` is the leader's broadcast of all blocks inside its part.
fn hierarchical(
    member: Member,
    input: InputPlace,
    collect: impl Fn(Member, u32) -> Schedule,
    exchange: impl Fn(Member, usize) -> Schedule,
    spread: impl Fn(Member, u32) -> Schedule,
) -> Schedule {
    let view = HierarchyView::new(member, None);
    let mut schedule = Schedule::default();
    let near = view.near_member();
    let own = view.own_blocks(Area::Receive);
    let kept = Area::Receive.block(member.rank as usize);
    view.add_inside(&mut schedule, &collect(near, view.near_leader()), |place| match place.area {
        Area::Receive => own.part(place.first, place.count),
        Area::Send if input == InputPlace::InPlace => kept,
        _ => place,
    });
    if let Some(leader) = view.leader_member() {
        let most = view.largest();
        view.add_across(&mut schedule, &exchange(leader, most), |place| view.blocks(place));
    }
    view.add_inside(&mut schedule, &spread(near, view.near_leader()), |place| place);
    schedule
}
