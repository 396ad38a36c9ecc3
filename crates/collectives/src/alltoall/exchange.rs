//! The alltoall by direct messages, which come in parts where there are many: each process
//! exchanges messages with each other one, and a list of all of them would be as long as the job is
//! large.

use std::ops::Range;

use crate::member::{InputPlace, Member};
use crate::schedule::{Area, ExchangePart, Schedule};

/// The number of steps of a part, each with one peer: a multiple of all windows. Larger exchanges
/// come in parts of this size.
pub const PART_PEERS: u32 = 128;

/// Makes the alltoall by direct messages, or its first part: [`next_part`] makes the others.
///
/// # Panics
/// If `window` is zero, or does not divide [`PART_PEERS`].
pub fn exchange(member: Member, window: u32, input: InputPlace) -> Schedule {
    assert!(window > 0 && PART_PEERS.is_multiple_of(window), "a window of {window} peers");
    match member.size > PART_PEERS {
        true => make(whole(member, window, input), 0),
        false => exchange_at_once(member, window, input),
    }
}

/// Makes the alltoall by direct messages as a single schedule, however large it is.
pub(super) fn exchange_at_once(member: Member, window: u32, input: InputPlace) -> Schedule {
    let mut schedule = Schedule::default();
    let whole = whole(member, window, input);
    add(&mut schedule, whole, 0..steps(whole));
    schedule
}

fn whole(member: Member, window: u32, input: InputPlace) -> ExchangePart {
    let Member { rank, size, .. } = member;
    ExchangePart { rank, size, window, source: input.area(), number: 0, is_last: true }
}

/// Returns the part that follows a schedule; none if that is complete or the last part.
pub fn next_part(schedule: &Schedule) -> Option<Schedule> {
    let part = schedule.part().filter(|part| !part.is_last)?;
    Some(make(part, part.number + 1))
}

/// Makes part `number` of the operation that `part` belongs to.
fn make(part: ExchangePart, number: u32) -> Schedule {
    let first = number * PART_PEERS;
    let left = steps(part) - first;
    let is_last = left <= PART_PEERS;
    let end = first + left.min(PART_PEERS);
    let part = ExchangePart { number, is_last, ..part };
    let mut schedule = Schedule::of_part(part);
    add(&mut schedule, part, first..end);
    schedule
}

/// Returns the number of steps of the operation that `part` belongs to.
fn steps(part: ExchangePart) -> u32 {
    if part.source == Area::Send { part.size - 1 } else { part.size }
}

fn add(schedule: &mut Schedule, part: ExchangePart, steps: Range<u32>) {
    match part.source {
        Area::Send => add_between_buffers(schedule, part, steps),
        _ => add_in_place(schedule, part, steps),
    }
}

/// Step `n` exchanges with the peers at distance `n + 1`, so that each part ends with a full round.
fn add_between_buffers(schedule: &mut Schedule, part: ExchangePart, steps: Range<u32>) {
    let ExchangePart { rank, size, window, .. } = part;
    if steps.start == 0 {
        let own = rank as usize;
        schedule.copy(Area::Send.block(own), Area::Receive.block(own));
    }
    for distance in steps.start + 1..=steps.end {
        // Sums of two ranks may be too large for their type.
        let to_wrap = size - distance;
        let above = if rank < to_wrap { rank + distance } else { rank - to_wrap };
        let below = if rank < distance { rank + to_wrap } else { rank - distance };
        schedule.receive(below, Area::Receive.block(below as usize));
        schedule.send(above, Area::Send.block(above as usize));
        if distance.is_multiple_of(window) {
            schedule.end_round();
        }
    }
    schedule.end_round();
}

/// The in-place form. Received data waits in scratch memory until the data in its place was sent.
/// Both directions of a pair belong to one step (partners of step s are the ranks whose sum is s),
/// so all processes can execute the steps in one order without a deadlock.
fn add_in_place(schedule: &mut Schedule, part: ExchangePart, steps: Range<u32>) {
    let ExchangePart { rank, size, window, .. } = part;
    let mut arrived = Vec::new();
    let end = steps.end;
    for step in steps {
        let partner = if rank <= step { step - rank } else { size - (rank - step) };
        if partner != rank {
            schedule.receive(partner, Area::Scratch.block(partner as usize));
            schedule.send(partner, Area::Receive.block(partner as usize));
            arrived.push(partner as usize);
        }
        if (step + 1).is_multiple_of(window) || step + 1 == end {
            for block in arrived.drain(..) {
                schedule.copy(Area::Scratch.block(block), Area::Receive.block(block));
            }
            schedule.end_round();
        }
    }
}
