//! Scan and exscan. A block is one element.
//!
//! Both use the distances 1, 2, 4, …: after the round of distance d, a process has the combination
//! of its own operand with the operands of the 2 d - 1 ranks below (Hillis and Steele). The order
//! of ranks is kept.

use crate::member::{InputPlace, Member};
use crate::operands::Operands;
use crate::schedule::{Area, Operand, Schedule};

/// `MPI_Scan` (section 6.11.1).
pub fn scan(member: Member, operands: Operands, input: InputPlace) -> Schedule {
    let mut schedule = Schedule::default();
    let count = operands.count;
    if count == 0 {
        return schedule;
    }
    let result = Area::Receive.blocks(0, count);
    let arriving = Area::Scratch.blocks(0, count);
    let mut partial = input.area().blocks(0, count);
    let mut distance = 1;
    if input == InputPlace::SendBuffer {
        schedule.copy(partial, result);
    }
    while distance < member.size {
        if let Some(peer) = upper(member, distance) {
            schedule.send(peer, partial);
        }
        if distance <= member.rank {
            schedule.receive(member.rank - distance, arriving);
            schedule.reduce(arriving, result, Operand::From);
        }
        schedule.end_round();
        partial = result;
        distance = distance.saturating_mul(2);
    }
    schedule.end_round();
    schedule
}

/// `MPI_Exscan` (section 6.11.2). The receive buffer of rank 0 is not touched.
pub fn exscan(member: Member, operands: Operands, input: InputPlace) -> Schedule {
    let mut schedule = Schedule::default();
    let count = operands.count;
    if count == 0 {
        return schedule;
    }
    let result = Area::Receive.blocks(0, count);
    let arriving = Area::Scratch.blocks(0, count);
    // The values that are passed on: the result of an inclusive scan. The kept result excludes this
    // process's own operand.
    let inclusive = Area::Scratch.blocks(count, count);
    let own = input.area().blocks(0, count);
    let mut passed = own;
    let mut distance = 1;
    while distance < member.size {
        let next = distance.saturating_mul(2);
        if let Some(peer) = upper(member, distance) {
            schedule.send(peer, passed);
        }
        if distance <= member.rank {
            let passes_on = upper(member, next).is_some();
            schedule.receive(member.rank - distance, arriving);
            if passes_on {
                if distance == 1 {
                    schedule.copy(own, inclusive);
                }
                schedule.reduce(arriving, inclusive, Operand::From);
                passed = inclusive;
            }
            if distance == 1 {
                schedule.copy(arriving, result);
            } else {
                schedule.reduce(arriving, result, Operand::From);
            }
        }
        schedule.end_round();
        distance = next;
    }
    schedule
}

/// Returns the rank `distance` above, unless it is outside the communicator.
fn upper(member: Member, distance: u32) -> Option<u32> {
    member.rank.checked_add(distance).filter(|rank| *rank < member.size)
}
