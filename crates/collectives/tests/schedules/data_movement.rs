//! Barrier, broadcast, gather, scatter, allgather, alltoall.

use collectives::{Algorithm, InputPlace, Member, Schedule, Situation};
use collectives::{allgather, alltoall, barrier, bcast, gather, scatter};
use proptest::prelude::*;

use crate::simulator::{
    Block, Memory, block, execute, members, situation, situation_on, with_situation,
};

const SIZE_MAX: u32 = 17;
/// The trees along which equal data goes to all. Blocks of different members go along the first
/// two.
const TREES: [Algorithm; 3] = [Algorithm::Star, Algorithm::Binomial, Algorithm::Groups];
const INPUTS: [InputPlace; 2] = [InputPlace::SendBuffer, InputPlace::InPlace];

fn schedules(size: u32, of: impl Fn(Member) -> Schedule) -> Vec<Schedule> {
    members(size, &situation(size, false)).map(of).collect()
}

fn empty_memories(size: u32) -> Vec<Memory> {
    vec![Memory::default(); size as usize]
}

#[test]
fn barriers_end_after_all_members_have_entered() {
    for size in 1..=SIZE_MAX {
        for late in 0..size {
            let all = schedules(size, |member| barrier::with(Algorithm::Dissemination, member));
            assert!(all_wait_for(late, &all), "dissemination, size {size}");
            execute(all, empty_memories(size));
            for tree in TREES {
                let all = schedules(size, |member| barrier::with(tree, member));
                assert!(all_wait_for(late, &all), "{tree}, size {size}");
                let (_, messages) = execute(all, empty_memories(size));
                assert_eq!(messages, 2 * (size as usize - 1));
            }
        }
    }
}

/// Whether no process finishes as long as `late` has not begun: computes which process can finish
/// which round.
pub fn all_wait_for(late: u32, all: &[Schedule]) -> bool {
    use collectives::Transfer;
    let size = all.len();
    let mut rounds = vec![0; size];
    let sent = |rounds: &[usize], from: usize, to: usize| -> usize {
        // An eager send leaves when its round begins; the late process never begins.
        let begun = if from == late as usize { 0 } else { rounds[from] + 1 };
        (0..begun)
            .filter_map(|round| all[from].round(round))
            .flat_map(|round| round.transfers)
            .filter(
                |transfer| matches!(transfer, Transfer::Send { peer, .. } if *peer as usize == to),
            )
            .count()
    };
    loop {
        let mut moved = false;
        for rank in (0..size).filter(|rank| *rank != late as usize) {
            let Some(_) = all[rank].round(rounds[rank]) else { continue };
            let ready = (0..size).all(|peer| {
                let needed = (0..=rounds[rank])
                    .filter_map(|round| all[rank].round(round))
                    .flat_map(|round| round.transfers)
                    .filter(|transfer| {
                        matches!(transfer, Transfer::Receive { peer: from, .. } if *from as usize == peer)
                    })
                    .count();
                needed <= sent(&rounds, peer, rank)
            });
            if ready {
                rounds[rank] += 1;
                moved = true;
            }
        }
        if !moved {
            return (0..size)
                .filter(|rank| *rank != late as usize)
                .all(|rank| rounds[rank] < all[rank].round_count());
        }
    }
}

fn check_bcast(size: u32, root: u32, bytes: usize, of: impl Fn(Member) -> Schedule) -> usize {
    let data: Vec<Block> = (0..bytes).map(|number| block(root, number)).collect();
    let memories = (0..size)
        .map(|rank| {
            let receive = if rank == root { data.clone() } else { vec![None; bytes] };
            Memory::new(Vec::new(), receive)
        })
        .collect();
    let (memories, messages) = execute(schedules(size, of), memories);
    for (rank, memory) in memories.iter().enumerate() {
        assert_eq!(memory.receive, data, "size {size}, root {root}, rank {rank}");
    }
    messages
}

#[test]
fn bcast_reaches_all() {
    for size in 1..=SIZE_MAX {
        for root in 0..size {
            for bytes in [0, 1, 5, 17, 40] {
                for tree in TREES {
                    let messages = check_bcast(size, root, bytes, |member| {
                        bcast::with(tree, member, root, bytes, bytes)
                    });
                    assert_eq!(messages, if bytes == 0 { 0 } else { size as usize - 1 });
                }
                let ring = Algorithm::ScatterRing;
                check_bcast(size, root, bytes, |member| {
                    bcast::with(ring, member, root, bytes, bytes)
                });
                check_bcast(size, root, bytes, |member| bcast::bcast(member, root, bytes));
            }
        }
    }
}

fn check_gather(size: u32, root: u32, input: InputPlace, of: impl Fn(Member) -> Schedule) {
    let all: Vec<Block> = (0..size).map(|rank| block(rank, 0)).collect();
    let memories = (0..size)
        .map(|rank| {
            let mut receive = vec![None; if rank == root { size as usize } else { 0 }];
            if rank == root && input == InputPlace::InPlace {
                receive[root as usize] = block(root, 0);
                return Memory::new(Vec::new(), receive);
            }
            Memory::new(vec![block(rank, 0)], receive)
        })
        .collect();
    let (memories, _) = execute(schedules(size, of), memories);
    assert_eq!(memories[root as usize].receive, all, "size {size}, root {root}, {input:?}");
}

#[test]
fn gather_brings_every_block_to_its_place() {
    for size in 1..=SIZE_MAX {
        for root in 0..size {
            for input in INPUTS {
                for &tree in &TREES[..2] {
                    check_gather(size, root, input, |member| {
                        gather::with(tree, member, root, 8, input)
                    });
                }
                check_gather(size, root, input, |member| gather::gather(member, root, 8, input));
                check_gather(size, root, input, |member| gather::gatherv(member, root, input));
            }
        }
    }
}

fn check_scatter(size: u32, root: u32, input: InputPlace, of: impl Fn(Member) -> Schedule) {
    let memories = (0..size)
        .map(|rank| {
            let kept = rank == root && input == InputPlace::InPlace;
            let sent = if rank == root { size as usize } else { 0 };
            Memory::new(
                (0..sent).map(|number| block(root, number)).collect(),
                vec![None; usize::from(!kept)],
            )
        })
        .collect();
    let (memories, _) = execute(schedules(size, of), memories);
    for (rank, memory) in memories.iter().enumerate() {
        let expected = if memory.receive.is_empty() { Vec::new() } else { vec![block(root, rank)] };
        assert_eq!(memory.receive, expected, "size {size}, root {root}, rank {rank}, {input:?}");
    }
}

#[test]
fn scatter_gives_each_its_block() {
    for size in 1..=SIZE_MAX {
        for root in 0..size {
            for input in INPUTS {
                for &tree in &TREES[..2] {
                    check_scatter(size, root, input, |member| {
                        scatter::with(tree, member, root, 8, input)
                    });
                }
                check_scatter(size, root, input, |member| scatter::scatter(member, root, 8, input));
                check_scatter(size, root, input, |member| scatter::scatterv(member, root, input));
            }
        }
    }
}

fn check_allgather(size: u32, input: InputPlace, of: impl Fn(Member) -> Schedule) {
    let all: Vec<Block> = (0..size).map(|rank| block(rank, 0)).collect();
    let memories = (0..size)
        .map(|rank| {
            let mut receive = vec![None; size as usize];
            if input == InputPlace::InPlace {
                receive[rank as usize] = block(rank, 0);
                return Memory::new(Vec::new(), receive);
            }
            Memory::new(vec![block(rank, 0)], receive)
        })
        .collect();
    let (memories, _) = execute(schedules(size, of), memories);
    for memory in memories {
        assert_eq!(memory.receive, all, "size {size}, {input:?}");
    }
}

#[test]
fn allgather_gives_all_blocks_to_all() {
    for size in 1..=SIZE_MAX {
        for input in INPUTS {
            for algorithm in [Algorithm::Star, Algorithm::Bruck, Algorithm::Ring, Algorithm::AtOnce]
            {
                check_allgather(size, input, |member| allgather::with(algorithm, member, 1, input));
            }
            for bytes in [8, 1 << 20] {
                check_allgather(size, input, |member| allgather::allgather(member, bytes, input));
                check_allgather(size, input, |member| allgather::allgatherv(member, bytes, input));
            }
        }
    }
}

fn check_alltoall(size: u32, input: InputPlace, of: impl Fn(Member) -> Schedule) {
    let memories = (0..size)
        .map(|rank| {
            let outgoing = (0..size as usize).map(|number| block(rank, number)).collect();
            match input {
                InputPlace::SendBuffer => Memory::new(outgoing, vec![None; size as usize]),
                InputPlace::InPlace => Memory::new(Vec::new(), outgoing),
            }
        })
        .collect();
    let (memories, _) = execute(schedules(size, of), memories);
    for (rank, memory) in memories.iter().enumerate() {
        let expected: Vec<Block> = (0..size).map(|peer| block(peer, rank)).collect();
        assert_eq!(memory.receive, expected, "size {size}, rank {rank}, {input:?}");
    }
}

#[test]
fn alltoall_transposes() {
    for size in 1..=SIZE_MAX {
        for input in INPUTS {
            for window in [1, 2, 4, 32] {
                check_alltoall(size, input, |member| alltoall::exchange(member, window, input));
            }
            check_alltoall(size, input, |member| alltoall::bruck(member, input));
            for bytes in [8, 4096, 1 << 20] {
                check_alltoall(size, input, |member| alltoall::alltoall(member, bytes, input));
            }
            check_alltoall(size, input, |member| alltoall::alltoallv(member, input));
        }
    }
}

#[test]
fn exchanges_with_many_peers_come_in_parts() {
    for size in [alltoall::PART_PEERS + 1, 2 * alltoall::PART_PEERS + 3] {
        let sizes = |member: Member, window, input| {
            let first = alltoall::exchange(member, window, input);
            std::iter::successors(Some(first), collectives::next_part)
                .flat_map(|part| {
                    part.rounds().map(|round| round.transfers.len()).collect::<Vec<_>>()
                })
                .collect::<Vec<_>>()
        };
        for input in INPUTS {
            for window in [1, 4, 32] {
                check_alltoall(size, input, |member| alltoall::exchange(member, window, input));
                let situation = situation(size, false);
                let all = sizes(Member { rank: 2, size, situation: &situation }, window, input);
                assert_eq!(all.iter().sum::<usize>(), 2 * (size as usize - 1));
                assert!(all.iter().all(|posted| *posted <= 2 * window as usize), "{all:?}");
                if input == InputPlace::SendBuffer {
                    let rounds = all.iter().filter(|posted| **posted > 0).count();
                    assert_eq!(rounds, (size as usize - 1).div_ceil(window as usize), "{all:?}");
                }
            }
        }
    }
    let whole = situation(alltoall::PART_PEERS, false);
    let member = Member { rank: 1, size: alltoall::PART_PEERS, situation: &whole };
    assert!(!alltoall::alltoallv(member, InputPlace::InPlace).is_part());
}

#[test]
fn the_rounds_of_alltoall_have_few_steps_however_many_processes_there_are() {
    for input in INPUTS {
        check_alltoall(101, input, |member| alltoall::bruck(member, input));
    }
    for size in [100_000, 1_000_000, 1 << 30, i32::MAX as u32] {
        let situation = Situation::default();
        let member = Member { rank: size / 3, size, situation: &situation };
        let schedule = alltoall::bruck(member, InputPlace::SendBuffer);
        let steps = schedule.rounds().map(|round| round.transfers.len() + round.local.len());
        assert!(steps.sum::<usize>() <= 6 * 31 + 4, "{size} processes");
    }
}

#[test]
fn blocks_without_bytes_need_no_messages() {
    let situation = situation(5, false);
    let member = Member { rank: 1, size: 5, situation: &situation };
    assert_eq!(bcast::bcast(member, 0, 0).round_count(), 0);
    assert_eq!(gather::gather(member, 0, 0, InputPlace::SendBuffer).round_count(), 0);
    assert_eq!(scatter::scatter(member, 0, 0, InputPlace::SendBuffer).round_count(), 0);
    assert_eq!(allgather::allgather(member, 0, InputPlace::SendBuffer).round_count(), 0);
    assert_eq!(alltoall::alltoall(member, 0, InputPlace::SendBuffer).round_count(), 0);
}

#[test]
fn blocks_of_their_own_sizes_travel_alone() {
    for member in members(13, &situation(13, false)) {
        for input in INPUTS {
            let all = [
                gather::gatherv(member, 3, input),
                scatter::scatterv(member, 3, input),
                alltoall::alltoallv(member, input),
            ];
            for round in all.iter().flat_map(Schedule::rounds) {
                for transfer in round.transfers {
                    use collectives::Transfer::{Receive, Send};
                    if let Send { from: place, .. } | Receive { into: place, .. } = *transfer {
                        assert_eq!(place.count, 1, "{transfer:?}");
                    }
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn data_arrives_in_communicators_of_any_size(
        size in 18..70u32, root in 0..70u32, bytes in 1..4096usize, in_place: bool, oversubscribed: bool,
        nodes in prop::collection::vec(0..5u32, 70),
    ) {
        let root = root % size;
        let input = if in_place { InputPlace::InPlace } else { InputPlace::SendBuffer };
        let situation = situation_on(size, oversubscribed, &nodes);
        check_bcast(size, root, bytes % 100, |member| bcast::bcast(with_situation(member, &situation), root, bytes % 100));
        check_gather(size, root, input, |member| gather::gather(with_situation(member, &situation), root, bytes, input));
        check_scatter(size, root, input, |member| {
            scatter::scatter(with_situation(member, &situation), root, bytes, input)
        });
        check_allgather(size, input, |member| allgather::allgather(with_situation(member, &situation), bytes, input));
        check_allgather(size, input, |member| {
            allgather::with(Algorithm::Bruck, member, 1, input)
        });
        check_alltoall(size, input, |member| alltoall::alltoall(with_situation(member, &situation), bytes, input));
        check_alltoall(size, input, |member| alltoall::alltoallv(with_situation(member, &situation), input));
        execute(schedules(size, |member| barrier::barrier(with_situation(member, &situation))), empty_memories(size));
    }
}
