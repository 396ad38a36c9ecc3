//! Operations on the board, for all sizes and both forms of input, in several orders of moves.

use collectives::board::{self, Room};
use collectives::{Input, Member, Operands, Schedule, Situation};

use crate::simulator::{Block, Memory, execute_in_order, members, symbol};

const SIZE_MAX: u32 = 17;
const SEEDS: [u64; 3] = [0, 1, 0x1234_5678_9abc_def1];
const INPUTS: [Input; 2] = [Input::SendBuffer, Input::InPlace];
const ROOM: Room = Room { slot_bytes: 1024 };

/// What the ranks of `ranks` make together of element `number`.
fn folded(ranks: std::ops::Range<u32>, number: usize) -> Block {
    Some(ranks.map(|rank| symbol(rank, number)).collect())
}

fn elements(ranks: std::ops::Range<u32>, numbers: std::ops::Range<usize>) -> Vec<Block> {
    numbers.map(|number| folded(ranks.clone(), number)).collect()
}

/// The memories of a process that contributes `own`, with room for `result` blocks; in place the
/// input lies where the result goes.
fn memory(own: Vec<Block>, result: usize, input: Input) -> Memory {
    match input {
        Input::SendBuffer => Memory::new(own, vec![None; result]),
        Input::InPlace => Memory::new(Vec::new(), own),
    }
}

/// Runs an operation in several orders of moves; no message may be sent.
fn run(
    size: u32,
    of: impl Fn(Member) -> Schedule,
    memories: impl Fn(u32) -> Memory,
    check: impl Fn(u32, &Memory),
) {
    let situation = Situation::plain(size);
    for seed in SEEDS {
        let schedules = members(size, &situation).map(&of).collect();
        let (end, messages) = execute_in_order(schedules, (0..size).map(&memories).collect(), seed);
        assert_eq!(messages, 0);
        (0..size).zip(&end).for_each(|(rank, memory)| check(rank, memory));
    }
}

#[test]
fn a_barrier_needs_flags_only() {
    for size in 2..=SIZE_MAX {
        let empty = |_| Memory::default();
        run(size, |member| board::barrier(member).unwrap(), empty, |_, _| ());
    }
}

#[test]
fn allreduce_folds_in_the_order_of_ranks() {
    for size in 2..=SIZE_MAX {
        for (input, count) in INPUTS.into_iter().flat_map(|input| [(input, 1), (input, 20)]) {
            let operands = Operands { count, element_bytes: 8, commutative: false };
            run(
                size,
                |member| board::allreduce(member, ROOM, operands, input).unwrap(),
                |rank| memory(elements(rank..rank + 1, 0..count), count, input),
                |_, end| assert_eq!(end.receive, elements(0..size, 0..count)),
            );
        }
    }
}
