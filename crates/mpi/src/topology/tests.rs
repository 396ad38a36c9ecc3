//! Tests of grids and graphs against models.

use base::ErrorClass;
use collectives::neighborhood::Neighborhood;
use proptest::prelude::*;

use super::*;

fn grid(dimensions: &[(i32, bool)]) -> Cartesian {
    let positions: i32 = dimensions.iter().map(|(size, _)| size).product();
    Cartesian::new(dimensions.iter().copied(), positions as u32).unwrap()
}

fn any_grid() -> impl Strategy<Value = Vec<(i32, bool)>> {
    prop::collection::vec((1..5i32, any::<bool>()), 0..4)
}

/// Pairs of blocks that data moves between: (sender, its block, receiver, its block). Messages
/// between two processes match in their order.
fn moves(neighborhoods: &[Neighborhood]) -> Vec<(usize, usize, usize, usize)> {
    let mut moves = Vec::new();
    for (rank, neighborhood) in neighborhoods.iter().enumerate() {
        for (peer, other) in neighborhoods.iter().enumerate() {
            let sends = neighborhood.sends.iter().filter(|edge| edge.peer as usize == peer);
            let receives = other.receives.iter().filter(|edge| edge.peer as usize == rank);
            assert_eq!(sends.clone().count(), receives.clone().count(), "{rank} to {peer}");
            moves.extend(sends.zip(receives).map(|(from, to)| (rank, from.block, peer, to.block)));
        }
    }
    moves
}

#[test]
fn rank_zero_is_at_the_origin_and_the_last_dimension_varies_fastest() {
    let grid = grid(&[(2, false), (3, true)]);
    assert_eq!(grid.process_count(), 6);
    assert_eq!(grid.coordinates(0).unwrap(), [0, 0]);
    assert_eq!(grid.coordinates(1).unwrap(), [0, 1]);
    assert_eq!(grid.coordinates(5).unwrap(), [1, 2]);
    assert_eq!(grid.rank(&[1, -4]).unwrap(), 5);
    assert_eq!(grid.shift(1, 0, 1).unwrap(), (None, Some(4)));
    assert_eq!(grid.shift(1, 1, -2).unwrap(), (Some(0), Some(2)));
    assert_eq!(grid.neighbors(3), [Some(0), None, Some(5), Some(4)]);
}

#[test]
fn a_grid_without_dimensions_is_one_process() {
    let grid = grid(&[]);
    assert_eq!((grid.process_count(), grid.rank(&[]).unwrap()), (1, 0));
    assert_eq!(grid.coordinates(0).unwrap(), [0u32; 0]);
    assert_eq!(grid.neighborhood(0), Neighborhood::default());
    assert_eq!(grid.shift(0, 0, 1).unwrap_err().class, ErrorClass::Dims);
}

#[test]
fn wrong_grids_and_questions_are_refused() {
    let class = |dimensions: &[(i32, bool)], processes| {
        Cartesian::new(dimensions.iter().copied(), processes).unwrap_err().class
    };
    assert_eq!(class(&[(0, true)], 4), ErrorClass::Dims);
    assert_eq!(class(&[(2, true), (-2, true)], 4), ErrorClass::Dims);
    assert_eq!(class(&[(5, true)], 4), ErrorClass::Dims);
    assert_eq!(class(&[(i32::MAX, true); 5], 4), ErrorClass::Dims);
    let grid = grid(&[(2, false), (3, true)]);
    assert_eq!(grid.coordinates(6).unwrap_err().class, ErrorClass::Rank);
    assert_eq!(grid.coordinates(-1).unwrap_err().class, ErrorClass::Rank);
    assert_eq!(grid.rank(&[2, 0]).unwrap_err().class, ErrorClass::Arg);
    assert_eq!(grid.shift(0, 2, 1).unwrap_err().class, ErrorClass::Dims);
    assert_eq!(grid.shift(0, -1, 1).unwrap_err().class, ErrorClass::Dims);
}

#[test]
fn graphs_know_their_neighbours() {
    let graph = GraphTopology::new(vec![2, 3, 4, 6], vec![1, 3, 0, 3, 0, 2], 5).unwrap();
    assert_eq!(graph.process_count(), 4);
    assert_eq!(graph.neighbors(0).unwrap(), [1, 3]);
    assert_eq!(graph.neighbors(3).unwrap(), [0, 2]);
    assert_eq!(graph.neighbors(4).unwrap_err().class, ErrorClass::Rank);
    assert_eq!(GraphTopology::new(vec![], vec![], 5).unwrap().process_count(), 0);
    let class = |index: &[i32], edges: &[i32]| {
        GraphTopology::new(index.to_vec(), edges.to_vec(), 2).unwrap_err().class
    };
    assert_eq!(class(&[0, 0, 0], &[]), ErrorClass::Topology);
    assert_eq!(class(&[1, 0], &[1]), ErrorClass::Arg);
    assert_eq!(class(&[-1, 0], &[]), ErrorClass::Arg);
    assert_eq!(class(&[1, 2], &[1]), ErrorClass::Arg);
    assert_eq!(class(&[1, 2], &[1, 2]), ErrorClass::Arg);
    assert_eq!(class(&[1, 2], &[1, -1]), ErrorClass::Arg);
}

#[test]
fn wrong_edges_are_refused() {
    let class = |sources: &[i32], degrees: &[i32], destinations: &[i32], weights: &[i32]| {
        let weights = Some(weights).filter(|weights| !weights.is_empty());
        edges_of_lists(sources, degrees, destinations, weights, 3).unwrap_err().class
    };
    assert_eq!(class(&[3], &[1], &[0], &[]), ErrorClass::Rank);
    assert_eq!(class(&[0], &[1], &[-1], &[]), ErrorClass::Rank);
    assert_eq!(class(&[0], &[-1], &[], &[]), ErrorClass::Arg);
    assert_eq!(class(&[0], &[2], &[1], &[]), ErrorClass::Arg);
    assert_eq!(class(&[0], &[1], &[1], &[-7]), ErrorClass::Arg);
    let neighbors = |ranks: &[i32], weights: &[i32]| Neighbors::new(ranks, Some(weights), 3);
    assert_eq!(neighbors(&[3], &[1]).unwrap_err().class, ErrorClass::Rank);
    assert_eq!(neighbors(&[2], &[-1]).unwrap_err().class, ErrorClass::Arg);
    assert_eq!(neighbors(&[2], &[4]).unwrap(), Neighbors { ranks: vec![2], weights: vec![4] });
}

proptest! {
    #[test]
    fn coordinates_and_ranks_are_inverse(dimensions in any_grid()) {
        let grid = grid(&dimensions);
        for rank in 0..grid.process_count() {
            let position = grid.coordinates(rank as i32).unwrap();
            let signed: Vec<i32> = position.iter().map(|coordinate| *coordinate as i32).collect();
            prop_assert_eq!(grid.rank(&signed).unwrap(), rank);
        }
    }

    #[test]
    fn a_process_that_is_shifted_to_is_shifted_from(
        dimensions in any_grid(),
        displacement in prop_oneof![-6..6i32, Just(i32::MIN), Just(i32::MAX)],
    ) {
        let grid = grid(&dimensions);
        for rank in 0..grid.process_count() {
            for direction in 0..dimensions.len() as i32 {
                let (source, destination) = grid.shift(rank, direction, displacement).unwrap();
                if let Some(destination) = destination {
                    let back = grid.shift(destination, direction, displacement).unwrap().0;
                    prop_assert_eq!(back, Some(rank));
                }
                if let Some(source) = source {
                    let back = grid.shift(source, direction, displacement).unwrap().1;
                    prop_assert_eq!(back, Some(rank));
                }
            }
        }
    }

    #[test]
    fn the_parts_of_a_grid_are_disjoint_and_keep_their_coordinates(
        dimensions in any_grid(),
        choice in prop::collection::vec(any::<bool>(), 4),
    ) {
        let grid = grid(&dimensions);
        let remain = &choice[..dimensions.len()];
        for rank in 0..grid.process_count() {
            let (part, members) = grid.part(rank, remain);
            prop_assert!(members.contains(&rank));
            prop_assert_eq!(members.len(), part.process_count() as usize);
            for (number, member) in members.iter().enumerate() {
                prop_assert_eq!(&grid.part(*member, remain).1, &members);
                let inside = part.coordinates(number as i32).unwrap();
                let kept: Vec<u32> = grid.coordinates(*member as i32).unwrap().into_iter()
                    .zip(remain).filter(|(_, remains)| **remains).map(|(one, _)| one).collect();
                prop_assert_eq!(inside, kept);
            }
        }
    }

    /// Also if a dimension has one or two positions, so that both neighbours are one process.
    #[test]
    fn what_goes_down_a_grid_comes_from_above(dimensions in any_grid()) {
        let grid = grid(&dimensions);
        let all: Vec<_> = (0..grid.process_count()).map(|rank| grid.neighborhood(rank)).collect();
        let mut seen = 0;
        for (from, block, to, arrives) in moves(&all) {
            prop_assert_eq!(arrives, block ^ 1);
            prop_assert_eq!(grid.neighbors(from as u32)[block], Some(to as u32));
            seen += 1;
        }
        let ends = (0..grid.process_count()).flat_map(|rank| grid.neighbors(rank)).flatten();
        prop_assert_eq!(seen, ends.count());
    }

    /// Any process may specify any edge; the weights distinguish the edges.
    #[test]
    fn both_ends_of_an_edge_agree_on_it(edges in prop::collection::vec((0..4u32, 0..4u32), 0..30)) {
        let all: Vec<WeightedEdge> = edges.iter().zip(0..)
            .map(|((source, destination), weight)| {
                WeightedEdge { source: *source, destination: *destination, weight }
            })
            .collect();
        let graphs: Vec<DistributedGraph> = (0..4).map(|rank| {
            let leaving = all.iter().copied().filter(|edge| edge.source == rank);
            let reaching = all.iter().copied().filter(|edge| edge.destination == rank);
            DistributedGraph::of_edges(leaving, reaching, EdgeWeights::Given)
        }).collect();
        let neighborhoods: Vec<_> = graphs.iter().map(DistributedGraph::neighborhood).collect();
        let moved = moves(&neighborhoods);
        prop_assert_eq!(moved.len(), all.len());
        for (from, block, to, arrives) in moved {
            let sent = graphs[from].destinations.weights[block];
            prop_assert_eq!(sent, graphs[to].sources.weights[arrives]);
        }
    }
}
