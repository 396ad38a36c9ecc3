//! Operations on the board, for all sizes and both forms of input, with processes moving in several
//! orders.

use collectives::board::{self, BoardParts, RegionSupport, SlotCapacities, SlotCapacity};
use collectives::{
    CollectiveOperation, Costs, InputPlace, Member, Operands, Schedule, Situation, Transfer, Width,
};

use crate::simulator::{Block, Memory, block, execute_in_order, members, symbol};

const SIZE_MAX: u32 = 17;
const SEEDS: [u64; 2] = [0, 0x1234_5678_9abc_def1];
const INPUTS: [InputPlace; 2] = [InputPlace::SendBuffer, InputPlace::InPlace];
/// Large slots, small slots, and large slots with short pieces.
const ROOMS: [SlotCapacity; 3] = [
    SlotCapacity::new(32 << 10, RegionSupport::Possible),
    SlotCapacity::new(1360, RegionSupport::Possible),
    SlotCapacity { piece_bytes: 100, ..SlotCapacity::new(32 << 10, RegionSupport::Possible) },
];

/// Returns element `number` combined over the ranks `ranks`.
fn folded(ranks: std::ops::Range<u32>, number: usize) -> Block {
    Some(ranks.map(|rank| symbol(rank, number)).collect())
}

fn elements(ranks: std::ops::Range<u32>, numbers: std::ops::Range<usize>) -> Vec<Block> {
    numbers.map(|number| folded(ranks.clone(), number)).collect()
}

/// Returns the memories of a process that contributes `own`, with room for `result` blocks; in
/// place, the result replaces the input.
fn memory(own: Vec<Block>, result: usize, input: InputPlace) -> Memory {
    match input {
        InputPlace::SendBuffer => Memory::new(own, vec![None; result]),
        InputPlace::InPlace => Memory::new(Vec::new(), own),
    }
}

/// Returns the schedule of `of` for blocks of so many units, in as many turns as slots of a single
/// size require.
fn in_turns(
    room: SlotCapacity,
    units: usize,
    of: impl Fn(SlotCapacity, usize) -> Option<Schedule>,
) -> Option<Schedule> {
    SlotCapacities::alike(room).fit_in_turns(units, of)
}

/// The number of bytes of a member's block.
const BLOCK: usize = 8;

/// Returns members in parts of a machine so far apart that operations go by parts where they can:
/// parts of three neighbours, of every other rank, and of two levels, of which the wider or the
/// narrower dominates the cost.
fn in_parts(size: u32) -> [Situation; 4] {
    let far = Costs { package_line_ns: 1_000_000, numa_line_ns: 10_000, ..Costs::default() };
    let farther_inside = Costs { numa_line_ns: 1_000_000, ..Costs::default() };
    let numbers = |number: fn(u32) -> u32| (0..size).map(number).collect::<Vec<u32>>();
    let [threes, twos, others] =
        [numbers(|rank| rank / 3), numbers(|rank| rank / 2 % 2), numbers(|rank| rank % 2)];
    let levels = [
        vec![(Width::Package, threes.clone())],
        vec![(Width::Package, others)],
        vec![(Width::Package, threes), (Width::NumaNode, twos)],
        vec![
            (Width::Package, numbers(|rank| rank / 6)),
            (Width::NumaNode, numbers(|rank| rank / 3)),
        ],
    ];
    let costs = [far, far, far, farther_inside];
    let mut all = levels.iter().zip(costs);
    std::array::from_fn(|_| {
        let (levels, costs) = all.next().expect("there are as many");
        Situation { costs, ..Situation::plain(size) }.in_parts(levels)
    })
}

/// Returns the parts over which an operation is predicted to be fastest.
fn parts(operation: CollectiveOperation, member: Member, data: Operands) -> Option<BoardParts> {
    board::predict(operation, member, SlotCapacities::new(RegionSupport::Possible), data)?.parts
}

fn barrier(member: Member) -> Option<Schedule> {
    let nothing = Operands { count: 0, element_bytes: 1, commutative: true };
    board::barrier(member, parts(CollectiveOperation::Barrier, member, nothing))
}

fn bcast(member: Member, room: SlotCapacity, root: u32, bytes: usize) -> Option<Schedule> {
    let data = Operands { count: bytes, element_bytes: 1, commutative: true };
    board::bcast(member, room, parts(CollectiveOperation::Bcast, member, data), root, bytes)
}

fn reduce(
    member: Member,
    room: SlotCapacity,
    root: u32,
    operands: Operands,
    input: InputPlace,
) -> Option<Schedule> {
    let parts = parts(CollectiveOperation::Reduce, member, operands);
    board::reduce(member, room, parts, root, operands, input)
}

fn allreduce(
    member: Member,
    room: SlotCapacity,
    operands: Operands,
    input: InputPlace,
) -> Option<Schedule> {
    let parts = parts(CollectiveOperation::Allreduce, member, operands);
    board::allreduce(member, room, parts, operands, input)
}

/// Runs an operation in several orders of moves; no message may be sent. If the board is not
/// applicable, all members must return `None`.
fn run(
    size: u32,
    room: SlotCapacity,
    block_bytes: usize,
    of: impl Fn(Member) -> Option<Schedule>,
    memories: impl Fn(u32) -> Memory,
    check: impl Fn(u32, &Memory),
) {
    let plain = Situation::plain(size);
    let oversubscribed = plain.clone().oversubscribed_on(2);
    let [first, second] = SEEDS;
    let flat: Vec<_> = members(size, &plain).map(&of).collect();
    let parts = in_parts(size);
    let parts = parts.iter().map(|one| (first, one));
    let all =
        [(first, &plain), (second, &plain), (second, &oversubscribed)].into_iter().chain(parts);
    for (number, (seed, situation)) in all.enumerate() {
        let schedules: Vec<_> = members(size, situation).map(&of).collect();
        // Most operations have no form by parts.
        if number > 2 && schedules == flat {
            continue;
        }
        if schedules.iter().all(Option::is_none) {
            return;
        }
        let schedules: Vec<_> =
            schedules.into_iter().map(|one| one.expect("all or none")).collect();
        for schedule in &schedules {
            assert!(schedule.uses_board(), "all count it");
            assert!(schedule.slot_blocks() * block_bytes <= room.slot_bytes, "a slot overflows");
        }
        let (end, messages) = execute_in_order(schedules, (0..size).map(&memories).collect(), seed);
        assert_eq!(messages, 0);
        (0..size).zip(&end).for_each(|(rank, memory)| check(rank, memory));
    }
}

/// Returns the bytes of the blocks `blocks` of `rank`, each a symbol.
fn bytes(rank: u32, blocks: std::ops::Range<usize>) -> Vec<Block> {
    (blocks.start * BLOCK..blocks.end * BLOCK).map(|number| block(rank, number)).collect()
}

fn nothing(blocks: usize) -> Vec<Block> {
    vec![None; blocks * BLOCK]
}

/// Runs `check` for all sizes, slots, roots and forms of input.
fn rooted(check: impl Fn(u32, SlotCapacity, u32, InputPlace)) {
    for size in [2, 3, 4, 5, 8, SIZE_MAX] {
        let roots = [0, size / 2, size - 1];
        for (root, room) in roots.into_iter().flat_map(|root| ROOMS.map(|room| (root, room))) {
            INPUTS.into_iter().for_each(|input| check(size, room, root, input));
        }
    }
}

fn unrooted(check: impl Fn(u32, SlotCapacity, InputPlace)) {
    rooted(|size, room, root, input| {
        if root == 0 {
            check(size, room, input);
        }
    });
}

#[test]
fn a_barrier_needs_flags_only() {
    for size in 2..=SIZE_MAX {
        run(size, ROOMS[0], 0, barrier, |_| Memory::default(), |_, _| ());
    }
}

#[test]
fn bcast_brings_the_data_of_the_root() {
    rooted(|size, room, root, _| {
        for total in [1, 400, 6_000] {
            let all: Vec<Block> = (0..total).map(|number| block(root, number)).collect();
            let memory = |rank| match rank == root {
                true => Memory::new(Vec::new(), all.clone()),
                false => Memory::new(Vec::new(), vec![None; total]),
            };
            let check = |_, end: &Memory| assert_eq!(end.receive, all);
            run(
                size,
                room,
                1,
                |member| in_turns(room, total, |room, total| bcast(member, room, root, total)),
                memory,
                check,
            );
        }
    });
}

#[test]
fn gather_and_scatter_move_blocks_of_each() {
    rooted(|size, room, root, input| {
        let n = size as usize;
        let others = |rank: u32| if rank == root { input } else { InputPlace::SendBuffer };
        for count in [1, 60] {
            let block = |rank: u32| rank as usize * count..(rank as usize + 1) * count;
            // Each process contributes bytes of its own block, so that the gathered blocks are
            // consecutive.
            let all: Vec<Block> = (0..size).flat_map(|rank| bytes(rank, block(rank))).collect();
            let gathered = |rank| match (rank == root, others(rank)) {
                (false, _) => Memory::new(bytes(rank, block(rank)), Vec::new()),
                (true, InputPlace::SendBuffer) => {
                    Memory::new(bytes(rank, block(rank)), nothing(n * count))
                }
                (true, InputPlace::InPlace) => {
                    let mut receive = nothing(n * count);
                    let own = block(rank).start * BLOCK;
                    receive[own..own + count * BLOCK].clone_from_slice(&bytes(rank, block(rank)));
                    Memory::new(Vec::new(), receive)
                }
            };
            run(
                size,
                room,
                1,
                |member: Member<'_>| {
                    in_turns(room, count * BLOCK, |room, bytes| {
                        board::gather(member, room, root, bytes, others(member.rank))
                    })
                },
                gathered,
                |rank, end| assert!(rank != root || end.receive == all),
            );
            let scattered = |rank| match (rank == root, others(rank)) {
                (true, InputPlace::InPlace) => Memory::new(bytes(root, 0..n * count), Vec::new()),
                (true, _) => Memory::new(bytes(root, 0..n * count), nothing(count)),
                _ => Memory::new(Vec::new(), nothing(count)),
            };
            run(
                size,
                room,
                1,
                |member: Member<'_>| {
                    in_turns(room, count * BLOCK, |room, bytes| {
                        board::scatter(member, room, root, bytes, others(member.rank))
                    })
                },
                scattered,
                |rank, end| {
                    let has_none = rank == root && input == InputPlace::InPlace;
                    assert!(has_none || end.receive == bytes(root, block(rank)));
                },
            );
        }
    });
}

#[test]
fn allgather_and_alltoall_bring_blocks_to_all() {
    unrooted(|size, room, input| {
        let n = size as usize;
        for count in [1, 60] {
            let all: Vec<Block> = (0..size).flat_map(|rank| bytes(rank, 0..count)).collect();
            let gathered = |rank: u32| {
                let mut receive = nothing(n * count);
                if input == InputPlace::SendBuffer {
                    return Memory::new(bytes(rank, 0..count), receive);
                }
                let own = rank as usize * count * BLOCK;
                receive[own..own + count * BLOCK].clone_from_slice(&bytes(rank, 0..count));
                Memory::new(Vec::new(), receive)
            };
            let of = |member: Member<'_>| {
                in_turns(room, count * BLOCK, |room, bytes| {
                    board::allgather(member, room, bytes, input)
                })
            };
            run(size, room, 1, of, gathered, |_, end| assert_eq!(end.receive, all));
            run(
                size,
                room,
                1,
                |member: Member<'_>| {
                    in_turns(room, count * BLOCK, |room, bytes| {
                        board::alltoall(member, room, bytes, input)
                    })
                },
                |rank| memory(bytes(rank, 0..n * count), n * count * BLOCK, input),
                |rank, end| {
                    let block = rank as usize * count..(rank as usize + 1) * count;
                    let all = (0..size).flat_map(|peer| bytes(peer, block.clone()));
                    assert!(end.receive.iter().cloned().eq(all));
                },
            );
        }
    });
}

#[test]
fn blocks_of_their_own_sizes_lie_at_the_beginning_of_slots() {
    rooted(|size, room, root, input| {
        let all: Vec<Block> = (0..size).map(|rank| block(rank, rank as usize)).collect();
        let in_place = |rank: u32| {
            let mut receive = vec![None; size as usize];
            receive[rank as usize] = block(rank, rank as usize);
            Memory::new(Vec::new(), receive)
        };
        let memory = |rank: u32| match input {
            InputPlace::SendBuffer => {
                Memory::new(vec![block(rank, rank as usize)], vec![None; size as usize])
            }
            InputPlace::InPlace => in_place(rank),
        };
        let of = |member: Member<'_>| board::allgatherv(member, room, 8, input);
        run(size, room, 1, of, memory, |_, end| assert_eq!(end.receive, all));
        let at_root = |rank| match rank == root {
            true => memory(rank),
            false => Memory::new(vec![block(rank, rank as usize)], Vec::new()),
        };
        let of = |member: Member<'_>| board::gatherv(member, root, input);
        run_handed_blocks(size, of, at_root, |rank, end| {
            assert!(rank != root || end.receive == all)
        });
    });
}

/// The number of seeds that makes all kinds of blocks too long for slots.
const HANDED_SEEDS: u64 = 60;

fn run_handed_blocks(
    size: u32,
    of: impl Fn(Member) -> Option<Schedule>,
    memories: impl Fn(u32) -> Memory,
    check: impl Fn(u32, &Memory),
) {
    let situation = Situation::plain(size);
    let mut messages_seen = 0;
    for seed in (0..HANDED_SEEDS).map(|seed| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
        let schedules: Vec<_> = members(size, &situation).map(|one| of(one).unwrap()).collect();
        assert!(schedules.iter().all(Schedule::uses_board), "all count it");
        let (end, messages) = execute_in_order(schedules, (0..size).map(&memories).collect(), seed);
        messages_seen += messages;
        (0..size).zip(&end).for_each(|(rank, memory)| check(rank, memory));
    }
    assert!(messages_seen > 0, "some were too long");
}

#[test]
fn blocks_are_handed_over_in_slots_or_as_messages() {
    rooted(|size, room, root, input| {
        if room != ROOMS[0] {
            return;
        }
        let n = size as usize;
        let blocks = |rank: u32| (0..n).map(|number| block(rank, number)).collect::<Vec<_>>();
        let start = |rank: u32| match (rank == root, input) {
            (true, InputPlace::SendBuffer) => Memory::new(blocks(root), vec![None]),
            (true, InputPlace::InPlace) => Memory::new(blocks(root), Vec::new()),
            (false, _) => Memory::new(Vec::new(), vec![None]),
        };
        let of = |member: Member<'_>| board::scatterv(member, root, input);
        run_handed_blocks(size, of, start, |rank, end| {
            let has_none = rank == root && input == InputPlace::InPlace;
            assert!(has_none || end.receive == [block(root, rank as usize)]);
        });
        if root == 0 && input == InputPlace::SendBuffer {
            let start = |rank: u32| Memory::new(blocks(rank), vec![None; n]);
            let of = |member: Member<'_>| board::alltoallv(member, input);
            run_handed_blocks(size, of, start, |rank, end| {
                let all = (0..size).map(|peer| block(peer, rank as usize));
                assert!(end.receive.iter().cloned().eq(all));
            });
        }
    });
}

/// With the largest count each process combines only a share, or one process combines everything if
/// processes share cores.
const COUNTS: [usize; 3] = [1, 20, 1030];

fn operands(count: usize) -> Operands {
    Operands { count, element_bytes: 8, commutative: false }
}

#[test]
fn reductions_fold_in_the_order_of_ranks() {
    rooted(|size, room, root, input| {
        for count in COUNTS {
            let all = elements(0..size, 0..count);
            let own = |rank: u32| elements(rank..rank + 1, 0..count);
            if root == 0 {
                let of = |member: Member<'_>| {
                    in_turns(room, count, |room, count| {
                        allreduce(member, room, operands(count), input)
                    })
                };
                let start = |rank| memory(own(rank), count, input);
                run(size, room, 8, of, start, |_, end| assert_eq!(end.receive, all));
            }
            let start = |rank| match rank == root {
                true => memory(own(rank), count, input),
                false => Memory::new(own(rank), Vec::new()),
            };
            run(
                size,
                room,
                8,
                |member: Member<'_>| {
                    in_turns(room, count, |room, count| {
                        reduce(member, room, root, operands(count), input)
                    })
                },
                start,
                |rank, end| assert!(rank != root || end.receive == all),
            );
        }
    });
}

#[test]
fn scans_fold_those_below() {
    unrooted(|size, room, input| {
        [5, 300].into_iter().for_each(|count| {
            let start = |rank: u32| memory(elements(rank..rank + 1, 0..count), count, input);
            let of = |member: Member<'_>| {
                in_turns(room, count, |room, count| {
                    board::scan(member, room, operands(count), input)
                })
            };
            run(size, room, 8, of, start, |rank, end| {
                assert_eq!(end.receive, elements(0..rank + 1, 0..count));
            });
            let of = |member: Member<'_>| {
                in_turns(room, count, |room, count| {
                    board::exscan(member, room, operands(count), input)
                })
            };
            run(size, room, 8, of, start, |rank, end| match rank {
                0 => assert_eq!(end.receive, start(0).receive),
                _ => assert_eq!(end.receive, elements(0..rank, 0..count)),
            });
        })
    });
}

#[test]
fn reduce_scatter_folds_shares() {
    unrooted(|size, room, input| {
        let n = size as usize;
        for count in [1, 60] {
            let start = |rank: u32| {
                let own = elements(rank..rank + 1, 0..n * count);
                memory(own, count, input)
            };
            let of = |member: Member<'_>| {
                in_turns(room, count, |room, count| {
                    board::reduce_scatter_block(member, room, operands(count), input)
                })
            };
            run(size, room, 8, of, start, |rank, end| {
                let first = rank as usize * count;
                assert_eq!(end.receive[..count], elements(0..size, first..first + count));
            });
        }
        let counts: Vec<usize> = (0..n).map(|rank| rank % 3).collect();
        let total = counts.iter().sum();
        let start = |rank: u32| memory(elements(rank..rank + 1, 0..total), total, input);
        let of =
            |member: Member<'_>| board::reduce_scatter(member, room, &counts, operands(0), input);
        run(size, room, 8, of, start, |rank, end| {
            let first: usize = counts[..rank as usize].iter().sum();
            let count = counts[rank as usize];
            assert_eq!(end.receive[..count], elements(0..size, first..first + count));
        });
    });
}

/// Returns how many flags and slots of other parts each member uses, in parts of four neighbours.
fn crossings(situation: &Situation, of: impl Fn(Member) -> Option<Schedule>) -> [usize; 16] {
    let crosses = |rank: u32, peer: u32| rank / 4 != peer / 4;
    std::array::from_fn(|rank| {
        let rank = rank as u32;
        let schedule = of(Member { rank, size: 16, situation }).unwrap();
        let rounds = schedule.rounds().flat_map(|round| round.transfers.to_vec());
        rounds
            .filter(|one| matches!(one, Transfer::Await { peer, .. } if crosses(rank, *peer)))
            .count()
    })
}

#[test]
fn what_goes_by_parts_crosses_through_leaders_only() {
    let numbers = (0..16).map(|rank| rank / 4).collect::<Vec<u32>>();
    let machine = Situation::plain(16).in_parts(&[(Width::Package, numbers)]);
    let leaders = |each: usize| std::array::from_fn(|rank| if rank % 4 == 0 { each } else { 0 });
    let one = Operands { count: 1, ..operands(1) };
    assert_eq!(crossings(&machine, barrier), leaders(3));
    let all = |member: Member<'_>| allreduce(member, ROOMS[0], one, InputPlace::SendBuffer);
    assert_eq!(crossings(&machine, all), leaders(3));
    let to_root = |member: Member<'_>| reduce(member, ROOMS[0], 6, one, InputPlace::SendBuffer);
    let mut of_root = [0; 16];
    of_root[6] = 3;
    assert_eq!(crossings(&machine, to_root), of_root);
    let from_root = |member: Member<'_>| bcast(member, ROOMS[0], 6, 8);
    let mut of_leaders = leaders(1);
    of_leaders[4] = 0;
    assert_eq!(crossings(&machine, from_root), of_leaders);
    // Uses the parts of the level at which it is fastest.
    let numbers = |each: u32| (0..32).map(|rank| rank / each).collect::<Vec<u32>>();
    let parts = [(Width::Package, numbers(16)), (Width::NumaNode, numbers(8))];
    let larger = Situation::plain(32).in_parts(&parts);
    let schedule = barrier(Member { rank: 8, size: 32, situation: &larger }).unwrap();
    let peers = schedule.rounds().flat_map(|round| round.transfers.to_vec());
    let peers = peers.filter_map(|one| match one {
        Transfer::Await { peer, .. } => Some(peer),
        _ => None,
    });
    assert_eq!(peers.collect::<Vec<_>>(), [9, 10, 11, 12, 13, 14, 15, 0, 16, 24]);
    // On one package no operation goes by parts, nor if all wait for their turns.
    let flat = |member: Member<'_>| barrier(member).unwrap();
    for situation in [Situation::plain(16), machine.oversubscribed_on(2)] {
        let schedule = flat(Member { rank: 1, size: 16, situation: &situation });
        assert_eq!(schedule.rounds().map(|round| round.transfers.len()).sum::<usize>(), 16);
    }
}

#[test]
fn parts_of_any_ranks_reduce_what_commutes() {
    let size = 13;
    let commuting = Operands { commutative: true, ..operands(20) };
    let sorted = |mut blocks: Vec<Block>| {
        blocks.iter_mut().flatten().for_each(|operands| operands.sort_unstable());
        blocks
    };
    let all = elements(0..size, 0..20);
    for (situation, input) in in_parts(size).iter().flat_map(|one| INPUTS.map(|input| (one, input)))
    {
        for seed in SEEDS {
            let own = |rank: u32| elements(rank..rank + 1, 0..20);
            let of = |member| allreduce(member, ROOMS[0], commuting, input).unwrap();
            let start = (0..size).map(|rank| memory(own(rank), 20, input)).collect();
            let (end, _) =
                execute_in_order(members(size, situation).map(of).collect(), start, seed);
            for one in &end {
                // All have identical bits.
                assert_eq!(one.receive, end[0].receive);
                assert_eq!(sorted(one.receive.clone()), all);
            }
            let root = 5;
            let of = |member| reduce(member, ROOMS[0], root, commuting, input).unwrap();
            let start = |rank| match rank == root {
                true => memory(own(rank), 20, input),
                false => Memory::new(own(rank), Vec::new()),
            };
            let start = (0..size).map(start).collect();
            let (end, _) =
                execute_in_order(members(size, situation).map(of).collect(), start, seed);
            assert_eq!(sorted(end[root as usize].receive.clone()), all);
        }
    }
}
