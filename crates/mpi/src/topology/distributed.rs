//! Graphs of which each process has its own neighbours only (section 8.5.4 of the standard).

use base::{Error, ErrorClass, Result};
use collectives::neighborhood::Neighborhood;

/// Whether the edges of a distributed graph have weights. All processes agree on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EdgeWeights {
    /// The program passed `MPI_UNWEIGHTED`: the weight of each edge is 1.
    #[default]
    Omitted,
    /// The program specified a weight for each edge.
    Given,
}

/// The neighbours of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DistributedGraph {
    /// The processes with an edge to this one.
    pub sources: Neighbors,
    /// The processes that this one has an edge to.
    pub destinations: Neighbors,
    /// Whether the program specified weights.
    pub weights: EdgeWeights,
}

/// The processes at the other ends of edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbors {
    /// Their ranks.
    pub ranks: Vec<u32>,
    /// The weight of each edge; 1 if none was given.
    pub weights: Vec<i32>,
}

/// One edge of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightedEdge {
    /// The rank of the process that it leaves.
    pub source: u32,
    /// The rank of the process that it leads to.
    pub destination: u32,
    /// Its weight, whose meaning is up to the program.
    pub weight: i32,
}

impl Neighbors {
    /// Makes neighbours from the program's lists; without weights all weights are 1.
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
    /// Makes the graph from the edges that leave and those that reach this process. On both ends
    /// of an edge the order must be equal. An edge from this process to itself is in both lists.
    pub fn of_edges(
        leaving: impl IntoIterator<Item = WeightedEdge>,
        reaching: impl IntoIterator<Item = WeightedEdge>,
        weights: EdgeWeights,
    ) -> Self {
        let mut graph = Self { weights, ..Self::default() };
        for edge in leaving {
            graph.destinations.push(edge.destination, edge.weight);
        }
        for edge in reaching {
            graph.sources.push(edge.source, edge.weight);
        }
        graph
    }

    /// Returns the neighbours for neighbourhood collectives. Several edges from one process to
    /// another match in the order of the lists.
    pub fn neighborhood(&self) -> Neighborhood {
        Neighborhood::of_lists(&self.destinations.ranks, &self.sources.ranks)
    }
}

/// Returns the edges that one process specifies. The degree of a source is the number of its
/// edges.
///
/// # Errors
/// `Rank` if a rank is not one of `processes` processes; `Arg` if a degree or weight is negative,
/// or if there are fewer destinations than the sum of the degrees.
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
            format!("the degrees specify {needed} edges, but there are {}", destinations.len());
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

/// Returns the number of edges, the sum of the degrees.
///
/// # Errors
/// `Arg` if a degree is negative.
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
