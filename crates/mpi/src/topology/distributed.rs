//! Graphs of which each process knows its own neighbours (section 8.5.4 of the standard).

use base::{Error, ErrorClass, Result};
use collectives::neighborhood::Neighborhood;

/// The neighbours of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DistributedGraph {
    /// The processes with an edge to this one.
    pub sources: Neighbors,
    /// The processes that this one has an edge to.
    pub destinations: Neighbors,
    /// Whether the edges were given weights.
    pub weighted: bool,
}

/// The processes at the other ends of edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbors {
    /// Their ranks.
    pub ranks: Vec<u32>,
    /// The weight of each edge; 1 where none was given.
    pub weights: Vec<i32>,
}

/// One edge of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightedEdge {
    /// The rank of the process that it leaves.
    pub source: u32,
    /// The rank of the process that it leads to.
    pub destination: u32,
    /// Its weight; what that means is for the program to say.
    pub weight: i32,
}

impl Neighbors {
    /// From lists of the program; without weights all are 1.
    ///
    /// # Errors
    /// `Rank` if a rank is not one of `processes` processes; `Arg` for a negative weight.
    pub fn new(ranks: &[i32], weights: Option<&[i32]>, processes: u32) -> Result<Self> {
        let ranks: Vec<u32> = (0..)
            .zip(ranks)
            .map(|(index, rank)| checked_rank(index, *rank, processes))
            .collect::<Result<_>>()?;
        let weights = match weights {
            None => vec![1; ranks.len()],
            Some(weights) => {
                check_weights(weights)?;
                weights.to_vec()
            }
        };
        Ok(Self { ranks, weights })
    }

    fn push(&mut self, rank: u32, weight: i32) {
        self.ranks.push(rank);
        self.weights.push(weight);
    }
}

impl DistributedGraph {
    /// From the edges that leave or reach the process `rank`, in an order that is the same on both
    /// ends of an edge. One that begins and ends here is given twice, once for each list.
    pub fn of_edges(
        leaving: impl IntoIterator<Item = WeightedEdge>,
        reaching: impl IntoIterator<Item = WeightedEdge>,
        weighted: bool,
    ) -> Self {
        let mut graph = Self { weighted, ..Self::default() };
        for edge in leaving {
            graph.destinations.push(edge.destination, edge.weight);
        }
        for edge in reaching {
            graph.sources.push(edge.source, edge.weight);
        }
        graph
    }

    /// The neighbours as neighbourhood collectives see them. Where several edges lead from one
    /// process to another, they match in the order of the lists.
    pub fn neighborhood(&self) -> Neighborhood {
        Neighborhood::of_lists(&self.destinations.ranks, &self.sources.ranks)
    }
}

/// The edges that one process gives: from each source as many as its degree says.
///
/// # Errors
/// `Rank` if a rank is not one of `processes` processes; `Arg` if a degree or weight is negative,
/// or there are fewer destinations than the degrees say.
pub fn edges_of_lists(
    sources: &[i32],
    degrees: &[i32],
    destinations: &[i32],
    weights: Option<&[i32]>,
    processes: u32,
) -> Result<Vec<WeightedEdge>> {
    let needed = edge_count(degrees)?;
    if destinations.len() < needed {
        let what =
            format!("the degrees ask for {needed} edges, but there are {}", destinations.len());
        return Err(Error::new(ErrorClass::Arg, what));
    }
    if let Some(weights) = weights {
        check_weights(weights)?;
    }
    let mut edges = Vec::with_capacity(needed);
    for (index, (source, degree)) in sources.iter().zip(degrees).enumerate() {
        let source = checked_rank(index, *source, processes)?;
        for _ in 0..*degree {
            let position = edges.len();
            let destination = checked_rank(position, destinations[position], processes)?;
            let weight = weights.map_or(1, |weights| weights[position]);
            edges.push(WeightedEdge { source, destination, weight });
        }
    }
    Ok(edges)
}

/// How many edges there are to degrees.
///
/// # Errors
/// `Arg` if one is negative.
pub fn edge_count(degrees: &[i32]) -> Result<usize> {
    degrees.iter().enumerate().try_fold(0, |count, (index, degree)| {
        usize::try_from(*degree).map(|degree| count + degree).map_err(|_| {
            let what = format!("degree {index} is {degree}, but must not be negative");
            Error::new(ErrorClass::Arg, what)
        })
    })
}

fn checked_rank(index: usize, rank: i32, processes: u32) -> Result<u32> {
    u32::try_from(rank).ok().filter(|rank| *rank < processes).ok_or_else(|| {
        let what = format!(
            "the rank at index {index} is {rank}, but the communicator has {processes} processes"
        );
        Error::new(ErrorClass::Rank, what)
    })
}

fn check_weights(weights: &[i32]) -> Result<()> {
    match weights.iter().enumerate().find(|(_, weight)| **weight < 0) {
        None => Ok(()),
        Some((index, weight)) => {
            let what = format!("the weight at index {index} is {weight}, but must not be negative");
            Err(Error::new(ErrorClass::Arg, what))
        }
    }
}
