//! Operations that copy once, for all sizes, roots and both forms of input, with processes moving
//! in several orders.

use collectives::board::{RegionSupport, SlotCapacity};
use collectives::{InputPlace, Member, Operands, Schedule, Situation};
use collectives::{direct, portions};

use crate::simulator::{Block, Memory, block, execute_in_order, members, symbol};

const SIZE_MAX: u32 = 7;
const SEEDS: [u64; 4] = [0, 1, 77, 0x1234_5678_9abc_def1];
const INPUTS: [InputPlace; 2] = [InputPlace::SendBuffer, InputPlace::InPlace];
const ROOM: SlotCapacity = SlotCapacity::new(1024, RegionSupport::Possible);
/// A piece is a byte, so that a few bytes make several portions, of several steps.
const PORTIONED: SlotCapacity = SlotCapacity { piece_bytes: 1, ..ROOM };

/// Runs an operation in several orders of moves; no message may be sent.
fn run(
    size: u32,
    of: impl Fn(Member) -> Option<Schedule>,
    memory: impl Fn(u32) -> Memory,
    check: impl Fn(u32, &Memory),
) {
    let situation = Situation::plain(size);
    for seed in SEEDS {
        let schedules = members(size, &situation).map(|member| of(member).unwrap()).collect();
        let (end, messages) = execute_in_order(schedules, (0..size).map(&memory).collect(), seed);
        assert_eq!(messages, 0);
        (0..size).zip(&end).for_each(|(rank, memory)| check(rank, memory));
    }
}

fn folded(size: u32, numbers: std::ops::Range<usize>) -> Vec<Block> {
    numbers.map(|number| Some((0..size).map(|rank| symbol(rank, number)).collect())).collect()
}

fn blocks(rank: u32, count: usize) -> Vec<Block> {
    (0..count).map(|number| block(rank, number)).collect()
}

/// Returns the memory of a member that contributes `own` and gets `result` blocks, which replace
/// the input in place.
fn memory(own: Vec<Block>, result: usize, input: InputPlace) -> Memory {
    match input {
        InputPlace::SendBuffer => Memory::new(own, vec![None; result]),
        InputPlace::InPlace => Memory::new(Vec::new(), own),
    }
}

#[test]
fn data_of_a_root_is_read_or_written_by_all() {
    for size in 2..=SIZE_MAX {
        for (root, input) in (0..size).flat_map(|root| INPUTS.map(|input| (root, input))) {
            let data = blocks(root, 5);
            run(
                size,
                |member| direct::bcast(member, ROOM, root, 5),
                |rank| {
                    Memory::new(Vec::new(), if rank == root { data.clone() } else { vec![None; 5] })
                },
                |_, end| assert_eq!(end.receive, data),
            );
            let given = blocks(root, size as usize);
            run(
                size,
                |member| direct::scatter(member, ROOM, root, 8, input),
                |rank| match (rank == root, input) {
                    (false, _) => Memory::new(Vec::new(), vec![None]),
                    (true, InputPlace::SendBuffer) => Memory::new(given.clone(), vec![None]),
                    (true, InputPlace::InPlace) => Memory::new(given.clone(), Vec::new()),
                },
                |rank, end| {
                    if rank != root || input == InputPlace::SendBuffer {
                        assert_eq!(end.receive[0], given[rank as usize]);
                    }
                },
            );
            let all: Vec<Block> = (0..size).map(|rank| block(rank, 0)).collect();
            run(
                size,
                |member| direct::gather(member, ROOM, root, 8, input),
                |rank| {
                    let mut receive = vec![None; if rank == root { size as usize } else { 0 }];
                    match (rank == root, input) {
                        (true, InputPlace::InPlace) => {
                            receive[rank as usize] = block(rank, 0);
                            Memory::new(Vec::new(), receive)
                        }
                        _ => Memory::new(vec![block(rank, 0)], receive),
                    }
                },
                |rank, end| assert!(rank != root || end.receive == all),
            );
        }
    }
}

#[test]
fn data_of_all_is_read_by_all() {
    for size in 2..=SIZE_MAX {
        let all: Vec<Block> = (0..size).map(|rank| block(rank, 0)).collect();
        for input in INPUTS {
            run(
                size,
                |member| direct::allgather(member, ROOM, 8, input),
                |rank| {
                    let mut receive = vec![None; size as usize];
                    if input == InputPlace::InPlace {
                        receive[rank as usize] = block(rank, 0);
                        return Memory::new(Vec::new(), receive);
                    }
                    Memory::new(vec![block(rank, 0)], receive)
                },
                |_, end| assert_eq!(end.receive, all),
            );
        }
        run(
            size,
            |member| direct::allgatherv(member, ROOM, 8, InputPlace::SendBuffer),
            |rank| Memory::new(vec![block(rank, 0)], vec![None; size as usize]),
            |_, end| assert_eq!(end.receive, all),
        );
        run(
            size,
            |member| direct::alltoall(member, ROOM, 8, InputPlace::SendBuffer),
            |rank| Memory::new(blocks(rank, size as usize), vec![None; size as usize]),
            |rank, end| {
                let got: Vec<Block> = (0..size).map(|peer| block(peer, rank as usize)).collect();
                assert_eq!(end.receive, got);
            },
        );
    }
}

#[test]
fn shares_are_combined_in_the_order_of_ranks() {
    for size in 2..=SIZE_MAX {
        // Several elements at once, or several times one element.
        for (count, element_bytes) in [(1, 8), (23, 8), (23, 20_000), (40, 1 << 20)] {
            let operands = Operands { count, element_bytes, commutative: false };
            for input in INPUTS {
                for root in [0, size / 2, size - 1] {
                    run(
                        size,
                        |member| direct::reduce(member, ROOM, root, operands, input),
                        |rank| match rank == root {
                            true => memory(blocks(rank, count), count, input),
                            false => Memory::new(blocks(rank, count), Vec::new()),
                        },
                        |rank, end| assert!(rank != root || end.receive == folded(size, 0..count)),
                    );
                }
                run(
                    size,
                    |member| direct::allreduce(member, ROOM, operands, input),
                    |rank| memory(blocks(rank, count), count, input),
                    |_, end| assert_eq!(end.receive, folded(size, 0..count)),
                );
                let all = count * size as usize;
                run(
                    size,
                    |member| direct::reduce_scatter_block(member, ROOM, operands, input),
                    |rank| memory(blocks(rank, all), count, input),
                    |rank, end| {
                        let first = rank as usize * count;
                        assert_eq!(end.receive[..count], folded(size, first..first + count));
                    },
                );
            }
        }
    }
}

#[test]
fn the_first_member_carries_out_portions_for_all() {
    for size in 2..=SIZE_MAX {
        let length = 21;
        let part = |rank: u32, of: usize| {
            (of * length..(of + 1) * length).map(move |byte| block(rank, byte))
        };
        for input in INPUTS {
            let all: Vec<Block> = (0..size).flat_map(|rank| part(rank, 0)).collect();
            run(
                size,
                |member| portions::allgather(member, PORTIONED, length, input),
                |rank| {
                    let own: Vec<Block> = part(rank, 0).collect();
                    let mut receive = vec![None; all.len()];
                    if input == InputPlace::InPlace {
                        receive[rank as usize * length..][..length].clone_from_slice(&own);
                        return Memory::new(Vec::new(), receive);
                    }
                    Memory::new(own, receive)
                },
                |_, end| assert_eq!(end.receive, all),
            );
            for (count, element_bytes) in [(23, 1), (9, 3), (300, 1)] {
                let operands = Operands { count, element_bytes, commutative: false };
                run(
                    size,
                    |member| portions::allreduce(member, PORTIONED, operands, input),
                    |rank| memory(blocks(rank, count), count, input),
                    |_, end| assert_eq!(end.receive, folded(size, 0..count)),
                );
            }
        }
        let bytes = size as usize * length;
        run(
            size,
            |member| portions::alltoall(member, PORTIONED, length, InputPlace::SendBuffer),
            |rank| Memory::new(blocks(rank, bytes), vec![None; bytes]),
            |rank, end| {
                let got = (0..size).flat_map(|peer| part(peer, rank as usize));
                assert_eq!(end.receive, got.collect::<Vec<_>>());
            },
        );
    }
    let situation = Situation::plain(9);
    let mut many = members(9, &situation);
    assert!(many.all(|member| {
        portions::alltoall(member, PORTIONED, 21, InputPlace::SendBuffer).is_none()
    }));
}
