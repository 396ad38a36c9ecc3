//! Algorithms that a user can select, over machines and parts with any distribution of ranks. The
//! simulator checks each operation with each of its algorithms, even if it is not the cheapest.

use collectives::{
    Algorithm, AlgorithmPreferences, CollectiveOperation, Costs, InputPlace, Member, Operands,
    ProcessLayout, Schedule, Situation, Transfer, Width, allgather, allreduce, alltoall, barrier,
    bcast, gather, reduce, reduce_scatter, scatter,
};
use proptest::prelude::*;

use crate::simulator::{Block, Memory, block, execute, members, symbol};

/// The distribution of members, and the preferred algorithm.
struct Case {
    size: u32,
    situation: Situation,
}

impl Case {
    fn new(
        places: &Places,
        operation: CollectiveOperation,
        algorithm: Option<Algorithm>,
        oversubscribed: bool,
    ) -> Self {
        let mut preferences = AlgorithmPreferences::default();
        if let Some(algorithm) = algorithm {
            preferences.want(operation, algorithm);
        }
        let layout = ProcessLayout::on_nodes(&places.nodes);
        let costs = match places.far_apart {
            true => far_apart(),
            false => Costs::default(),
        };
        let distances = places.distances.clone();
        let all = Situation {
            layout,
            distances,
            preferences,
            cores: 2,
            oversubscribed,
            costs,
            ..Situation::default()
        };
        Self { size: places.nodes.len() as u32, situation: all.in_parts(&places.parts) }
    }

    /// Makes a case that prefers the `place`-th algorithm of the operation, if there is one.
    fn nth(
        places: &Places,
        operation: CollectiveOperation,
        place: usize,
        oversubscribed: bool,
    ) -> Self {
        Self::new(places, operation, operation.algorithms().nth(place), oversubscribed)
    }

    fn run(&self, memories: Vec<Memory>, of: impl Fn(Member) -> Schedule) -> Vec<Memory> {
        execute(members(self.size, &self.situation).map(of).collect(), memories).0
    }

    /// Returns the memories of a reduction to `root`, or to all.
    fn operands(&self, count: usize, root: Option<u32>, input: InputPlace) -> Vec<Memory> {
        let of = |rank| {
            let own: Vec<Block> = (0..count).map(|number| block(rank, number)).collect();
            match input {
                _ if root.is_some_and(|root| root != rank) => Memory::new(own, Vec::new()),
                InputPlace::SendBuffer => Memory::new(own, vec![None; count]),
                InputPlace::InPlace => Memory::new(Vec::new(), own),
            }
        };
        (0..self.size).map(of).collect()
    }

    fn folded(&self, count: usize) -> Vec<Block> {
        let of = |number| Some((0..self.size).map(|rank| symbol(rank, number)).collect());
        (0..count).map(of).collect()
    }
}

fn sorted(mut blocks: Vec<Block>, commutative: bool) -> Vec<Block> {
    if commutative {
        blocks.iter_mut().flatten().for_each(|operands| operands.sort_unstable());
    }
    blocks
}

/// The distribution of ranks over machines, and over parts of these.
#[derive(Clone, Debug)]
struct Places {
    nodes: Vec<u32>,
    parts: Vec<(Width, Vec<u32>)>,
    /// The distances of the ranks from network interfaces; may be empty.
    distances: Vec<u32>,
    /// Whether communication between parts is so slow that hierarchical algorithms are chosen
    /// inside machines wherever possible.
    far_apart: bool,
}

/// Costs that are dominated by the number of crossings from part to part.
fn far_apart() -> Costs {
    let line = 1_000_000;
    Costs {
        cache_line_ns: line,
        numa_line_ns: 100 * line,
        package_line_ns: 900 * line,
        ..Costs::default()
    }
}

/// Any distribution, or one in which the ranks of each machine and of each part are consecutive.
fn places() -> impl Strategy<Value = Places> {
    let of_level = || prop::collection::vec(0..3u32, 24);
    let nodes = prop_oneof![
        prop::collection::vec(0..6u32, 1..24),
        prop::collection::vec(0..2u32, 1..24),
        prop::collection::vec(0..1u32, 1..24),
    ];
    let levels = [of_level(), of_level(), of_level()];
    (nodes, levels, of_level(), 0..4usize, any::<bool>(), any::<bool>()).prop_map(
        |(nodes, levels, mut distances, count, ordered, far_apart)| {
            let place = |rank: usize| {
                (nodes[rank], levels.iter().map(|level| level[rank]).collect::<Vec<_>>())
            };
            let mut all: Vec<_> = (0..nodes.len()).map(place).collect();
            if ordered {
                all.sort_unstable();
            }
            let parts = Width::ALL.into_iter().enumerate().take(count);
            let parts = parts.map(|(level, width)| {
                (width, all.iter().map(|(_, numbers)| numbers[level]).collect())
            });
            let parts = parts.collect();
            distances.truncate(if distances[23] > 0 { nodes.len() } else { 0 });
            let nodes = all.iter().map(|(node, _)| *node).collect();
            Places { nodes, parts, distances, far_apart }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_algorithm_moves_data_on_any_machines(
        places in places(), root in 0..24u32, blocks in 1..60usize, in_place: bool, oversubscribed: bool,
    ) {
        let size = places.nodes.len() as u32;
        let root = root % size;
        let input = if in_place { InputPlace::InPlace } else { InputPlace::SendBuffer };
        let all: Vec<Block> = (0..size).map(|rank| block(rank, 0)).collect();
        for place in 0..8 {
            let case = Case::nth(&places, CollectiveOperation::Bcast, place, oversubscribed);
            let data: Vec<Block> = (0..blocks).map(|number| block(root, number)).collect();
            let of = |rank| if rank == root { data.clone() } else { vec![None; blocks] };
            let start = (0..size).map(|rank| Memory::new(Vec::new(), of(rank))).collect();
            let end = case.run(start, |member| {
                bcast::with(bcast::choose(member, blocks << 14), member, root, blocks, blocks << 14)
            });
            prop_assert!(end.iter().all(|memory| memory.receive == data), "bcast {}", place);

            let case = Case::nth(&places, CollectiveOperation::Gather, place, oversubscribed);
            let start = (0..size).map(|rank| match (rank == root, input) {
                (false, _) => Memory::new(vec![block(rank, 0)], Vec::new()),
                (true, InputPlace::SendBuffer) => Memory::new(vec![block(rank, 0)], vec![None; size as usize]),
                (true, InputPlace::InPlace) => {
                    let mut receive = vec![None; size as usize];
                    receive[rank as usize] = block(rank, 0);
                    Memory::new(Vec::new(), receive)
                }
            }).collect();
            let end = case.run(start, |member| gather::gather(member, root, 8, input));
            prop_assert_eq!(&end[root as usize].receive, &all, "gather {}", place);

            let case = Case::nth(&places, CollectiveOperation::Scatter, place, oversubscribed);
            let given: Vec<Block> = (0..size).map(|rank| block(root, rank as usize)).collect();
            let start = (0..size).map(|rank| match (rank == root, input) {
                (false, _) => Memory::new(Vec::new(), vec![None]),
                (true, InputPlace::SendBuffer) => Memory::new(given.clone(), vec![None]),
                (true, InputPlace::InPlace) => Memory::new(given.clone(), Vec::new()),
            }).collect();
            let end = case.run(start, |member| scatter::scatter(member, root, 8, input));
            for rank in (0..size).filter(|rank| *rank != root || !in_place) {
                let got = &end[rank as usize].receive[0];
                prop_assert_eq!(got, &given[rank as usize], "scatter {}", place);
            }

            let case = Case::nth(&places, CollectiveOperation::Barrier, place, oversubscribed);
            case.run(vec![Memory::default(); size as usize], barrier::barrier);
        }
    }

    #[test]
    fn every_algorithm_brings_all_data_to_all_on_any_machines(
        places in places(), in_place: bool, oversubscribed: bool,
    ) {
        let size = places.nodes.len() as u32;
        let input = if in_place { InputPlace::InPlace } else { InputPlace::SendBuffer };
        let all: Vec<Block> = (0..size).map(|rank| block(rank, 0)).collect();
        for place in 0..8 {
            let start: Vec<Memory> = (0..size).map(|rank| {
                let mut receive = vec![None; size as usize];
                if in_place {
                    receive[rank as usize] = block(rank, 0);
                    return Memory::new(Vec::new(), receive);
                }
                Memory::new(vec![block(rank, 0)], receive)
            }).collect();
            let case = Case::nth(&places, CollectiveOperation::Allgather, place, oversubscribed);
            let end = case.run(start.clone(), |member| allgather::allgather(member, 8, input));
            prop_assert!(end.iter().all(|memory| memory.receive == all), "allgather {}", place);
            let case = Case::nth(&places, CollectiveOperation::Allgatherv, place, oversubscribed);
            let end = case.run(start, |member| {
                let schedule = allgather::allgatherv(member, 8 * size as usize, input);
                assert_eq!(schedule.scratch_blocks(), 0);
                schedule
            });
            prop_assert!(end.iter().all(|memory| memory.receive == all), "allgatherv {}", place);

            let case = Case::nth(&places, CollectiveOperation::Alltoall, place, oversubscribed);
            let blocks_of = |rank| (0..size as usize).map(|number| block(rank, number)).collect();
            let start = (0..size).map(|rank| match input {
                InputPlace::SendBuffer => Memory::new(blocks_of(rank), vec![None; size as usize]),
                InputPlace::InPlace => Memory::new(Vec::new(), blocks_of(rank)),
            }).collect();
            let end = case.run(start, |member| alltoall::alltoall(member, 8, input));
            for (rank, memory) in end.iter().enumerate() {
                let expected: Vec<Block> = (0..size).map(|peer| block(peer, rank)).collect();
                prop_assert_eq!(&memory.receive, &expected, "alltoall {}", place);
            }
        }
    }

    #[test]
    fn every_algorithm_reduces_on_any_machines(
        places in places(), root in 0..24u32, count in 0..60usize, in_place: bool, oversubscribed: bool,
        commutative: bool, element_bytes in prop::sample::select(vec![8, 1 << 14]),
    ) {
        let size = places.nodes.len() as u32;
        let root = root % size;
        let input = if in_place { InputPlace::InPlace } else { InputPlace::SendBuffer };
        let operands = Operands { count, element_bytes, commutative };
        for place in 0..8 {
            let case = Case::nth(&places, CollectiveOperation::Reduce, place, oversubscribed);
            let start = case.operands(count, Some(root), input);
            let end = case.run(start, |member| reduce::reduce(member, root, operands, input));
            let found = sorted(end[root as usize].receive.clone(), commutative);
            prop_assert_eq!(found, case.folded(count), "reduce {}", place);

            let case = Case::nth(&places, CollectiveOperation::Allreduce, place, oversubscribed);
            let start = case.operands(count, None, input);
            let end = case.run(start, |member| allreduce::allreduce(member, operands, input));
            for memory in &end {
                // All have identical bits.
                prop_assert_eq!(&memory.receive, &end[0].receive, "allreduce {}", place);
                let found = sorted(memory.receive.clone(), commutative);
                prop_assert_eq!(found, case.folded(count), "allreduce {}", place);
            }

            let case = Case::nth(&places, CollectiveOperation::ReduceScatter, place, oversubscribed);
            let counts: Vec<usize> = (0..size as usize).map(|rank| (rank + count) % 3).collect();
            let total = counts.iter().sum();
            let end = case.run(case.operands(total, None, input), |member| {
                reduce_scatter::reduce_scatter(member, &counts, operands, input)
            });
            let mut folded = case.folded(total).into_iter();
            for (memory, count) in end.iter().zip(&counts) {
                let found = sorted(memory.receive[..*count].to_vec(), commutative);
                let expected: Vec<Block> = folded.by_ref().take(*count).collect();
                prop_assert_eq!(found, expected, "reduce_scatter {}", place);
            }
        }
    }
}

#[test]
fn machines_exchange_one_message_of_a_hierarchical_reduction() {
    // Four machines with four processes: each leader makes log 4 exchanges across machines.
    let nodes: Vec<u32> = (0..16).map(|rank| rank / 4).collect();
    let places =
        Places { nodes: nodes.clone(), parts: Vec::new(), distances: Vec::new(), far_apart: false };
    let case =
        Case::new(&places, CollectiveOperation::Allreduce, Some(Algorithm::Hierarchical), false);
    let operands = Operands { count: 1, element_bytes: 8, commutative: false };
    for member in members(case.size, &case.situation) {
        use collectives::Transfer::{Receive, Send};
        let schedule = allreduce::allreduce(member, operands, InputPlace::SendBuffer);
        let crossing = schedule.rounds().flat_map(|round| round.transfers).filter(|transfer| {
            let (Send { peer, .. } | Receive { peer, .. }) = transfer else { return false };
            nodes[*peer as usize] != nodes[member.rank as usize]
        });
        let expected = if member.rank % 4 == 0 { 4 } else { 0 };
        assert_eq!(crossing.count(), expected, "rank {}", member.rank);
    }
}

#[test]
fn pieces_of_a_broadcast_reach_each_machine_once_and_all_levels_at_the_same_time() {
    // Four machines with four processes.
    let nodes: Vec<u32> = (0..16).map(|rank| rank / 4).collect();
    let places =
        Places { nodes: nodes.clone(), parts: Vec::new(), distances: Vec::new(), far_apart: false };
    let way = Some(Algorithm::HierarchicalPieces);
    let case = Case::new(&places, CollectiveOperation::Bcast, way, false);
    let bytes = 1 << 20;
    for root in 0..16 {
        let all: Vec<Schedule> = members(case.size, &case.situation)
            .map(|member| collectives::bcast(member, root, bytes))
            .collect();
        // The root sends one piece in each round.
        let pieces = all[root as usize].round_count();
        assert!(pieces > 1, "{pieces} pieces");
        let mut received = [0; 4];
        for (rank, schedule) in all.iter().enumerate() {
            // The others receive one piece in each round, and send the last one afterwards.
            let rounds = schedule.round_count();
            assert!((pieces..=pieces + 1).contains(&rounds), "rank {rank}: {rounds} rounds");
            for transfer in schedule.rounds().flat_map(|round| round.transfers.to_vec()) {
                if let Transfer::Receive { peer, .. } = transfer
                    && nodes[peer as usize] != nodes[rank]
                {
                    received[nodes[rank] as usize] += 1;
                }
            }
        }
        let expected = |node| if node == nodes[root as usize] { 0 } else { pieces };
        assert_eq!(received, [0, 1, 2, 3].map(expected), "broadcast from {root}");
    }
}

/// Two packages of two NUMA nodes of two caches, each with two processes.
fn nested(far_apart: bool) -> Places {
    let numbers = |each: u32| (0..16).map(|rank| rank / each).collect();
    let parts = Width::ALL.into_iter().zip([8, 4, 2].map(numbers)).collect();
    Places { nodes: vec![0; 16], parts, distances: Vec::new(), far_apart }
}

/// Returns how many messages cross the border of a package, of a NUMA node only, of a cache only,
/// and none.
fn crossings(case: &Case, of: impl Fn(Member) -> Schedule) -> [usize; 4] {
    let mut counts = [0; 4];
    for member in members(case.size, &case.situation) {
        for transfer in of(member).rounds().flat_map(|round| round.transfers.to_vec()) {
            let Transfer::Send { peer, .. } = transfer else { continue };
            let differs = |each: u32| peer / each != member.rank / each;
            counts[[8, 4, 2].into_iter().position(differs).unwrap_or(3)] += 1;
        }
    }
    counts
}

#[test]
fn hierarchies_cross_each_border_as_seldom_as_can_be() {
    let places = nested(true);
    let case = |operation| Case::new(&places, operation, Some(Algorithm::Hierarchical), false);
    let operands = Operands { count: 1, element_bytes: 8, commutative: true };
    let input = InputPlace::SendBuffer;
    for root in 0..16 {
        let down = crossings(&case(CollectiveOperation::Bcast), |member| {
            collectives::bcast(member, root, 8)
        });
        assert_eq!(down, [1, 2, 4, 8], "broadcast from {root}");
        let up = crossings(&case(CollectiveOperation::Reduce), |member| {
            collectives::reduce(member, root, operands, input)
        });
        assert_eq!(up, [1, 2, 4, 8], "reduction to {root}");
        let gathered = crossings(&case(CollectiveOperation::Gather), |member| {
            collectives::gather(member, root, 8, input)
        });
        assert_eq!(gathered, [1, 2, 4, 8], "gather to {root}");
        let scattered = crossings(&case(CollectiveOperation::Scatter), |member| {
            collectives::scatter(member, root, 8, input)
        });
        assert_eq!(scattered, [1, 2, 4, 8], "scatter from {root}");
    }
    // The leaders of the packages exchange; all others send up and receive down.
    let both = [2, 4, 8, 16];
    assert_eq!(crossings(&case(CollectiveOperation::Barrier), collectives::barrier), both);
    let all = crossings(&case(CollectiveOperation::Allreduce), |member| {
        collectives::allreduce(member, operands, input)
    });
    assert_eq!(all, both);
    let all = crossings(&case(CollectiveOperation::Allgather), |member| {
        collectives::allgather(member, 8, input)
    });
    assert_eq!(all, both);
}
