//! Neighbourhood collectives on random graphs, with several edges between two processes, and edges
//! from a process to itself.

use collectives::neighborhood::Neighborhood;
use collectives::{Schedule, neighbor_allgather, neighbor_alltoall};
use proptest::prelude::*;

use crate::simulator::{Block, Memory, block, execute};

fn edges() -> impl Strategy<Value = (u32, Vec<(u32, u32)>)> {
    (1..9u32).prop_flat_map(|size| (Just(size), prop::collection::vec((0..size, 0..size), 0..60)))
}

/// Returns the neighbourhood of each process; both ends list edges in one order.
fn neighborhoods(size: u32, edges: &[(u32, u32)]) -> Vec<Neighborhood> {
    let of = |rank: u32| {
        let leaving = edges.iter().filter(|(from, _)| *from == rank);
        let reaching = edges.iter().filter(|(_, to)| *to == rank);
        let destinations: Vec<u32> = leaving.map(|(_, to)| *to).collect();
        let sources: Vec<u32> = reaching.map(|(from, _)| *from).collect();
        Neighborhood::of_lists(&destinations, &sources)
    };
    (0..size).map(of).collect()
}

fn run(
    all: &[Neighborhood],
    schedule: impl Fn(u32, &Neighborhood) -> Schedule,
    input: impl Fn(u32, &Neighborhood) -> Vec<Block>,
) -> Vec<Vec<Block>> {
    let schedules: Vec<_> = (0..).zip(all).map(|(rank, one)| schedule(rank, one)).collect();
    assert!(schedules.iter().all(|schedule| schedule.round_count() <= 1));
    let memories = (0..)
        .zip(all)
        .map(|(rank, one)| Memory::new(input(rank, one), vec![None; one.incoming_blocks]));
    let (memories, _) = execute(schedules, memories.collect());
    memories.into_iter().map(|memory| memory.receive).collect()
}

proptest! {
    #[test]
    fn an_allgather_brings_the_block_of_each_source((size, edges) in edges()) {
        let all = neighborhoods(size, &edges);
        let received = run(&all, neighbor_allgather, |rank, _| vec![block(rank, 0)]);
        for (rank, blocks) in received.into_iter().enumerate() {
            let sources = edges.iter().filter(|(_, to)| *to as usize == rank);
            let expected: Vec<Block> = sources.map(|(from, _)| block(*from, 0)).collect();
            prop_assert_eq!(blocks, expected);
        }
    }

    #[test]
    fn an_alltoall_brings_the_block_of_each_edge((size, edges) in edges()) {
        let all = neighborhoods(size, &edges);
        let input = |rank, one: &Neighborhood| {
            (0..one.outgoing_blocks).map(|number| block(rank, number)).collect()
        };
        let received = run(&all, neighbor_alltoall, input);
        let number = |index: usize| {
            let (from, _) = edges[index];
            edges[..index].iter().filter(|(other, _)| *other == from).count()
        };
        for (rank, blocks) in received.into_iter().enumerate() {
            let expected: Vec<Block> = edges.iter().enumerate()
                .filter(|(_, (_, to))| *to as usize == rank)
                .map(|(index, (from, _))| block(*from, number(index)))
                .collect();
            prop_assert_eq!(blocks, expected);
        }
    }
}
