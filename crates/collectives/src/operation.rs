//! The operations with several algorithms, of which the cheapest or the user's preferred one is
//! chosen.

use crate::algorithm::Algorithm;
use crate::cost::Cost;

/// The operations that have several algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectiveOperation {
    /// `MPI_Barrier`.
    Barrier,
    /// `MPI_Bcast`.
    Bcast,
    /// `MPI_Gather`.
    Gather,
    /// `MPI_Scatter`.
    Scatter,
    /// `MPI_Allgather`.
    Allgather,
    /// `MPI_Allgatherv`.
    Allgatherv,
    /// `MPI_Alltoall`.
    Alltoall,
    /// `MPI_Reduce`.
    Reduce,
    /// `MPI_Allreduce`.
    Allreduce,
    /// `MPI_Reduce_scatter` and `MPI_Reduce_scatter_block`.
    ReduceScatter,
}

const COUNT: usize = 10;

/// The algorithms that the user prefers where they are applicable, by operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlgorithmPreferences {
    wanted: [Option<Algorithm>; COUNT],
}

impl CollectiveOperation {
    /// All operations.
    pub const ALL: [Self; COUNT] = [
        Self::Barrier,
        Self::Bcast,
        Self::Gather,
        Self::Scatter,
        Self::Allgather,
        Self::Allgatherv,
        Self::Alltoall,
        Self::Reduce,
        Self::Allreduce,
        Self::ReduceScatter,
    ];

    /// Returns its name, as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Bcast => "bcast",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Allgather => "allgather",
            Self::Allgatherv => "allgatherv",
            Self::Alltoall => "alltoall",
            Self::Reduce => "reduce",
            Self::Allreduce => "allreduce",
            Self::ReduceScatter => "reduce_scatter",
        }
    }
}

impl AlgorithmPreferences {
    /// Sets the preferred algorithm of an operation.
    pub fn want(&mut self, operation: CollectiveOperation, algorithm: Algorithm) {
        self.wanted[operation as usize] = Some(algorithm);
    }

    /// Returns for each operation the algorithm's index in [`Algorithm::ALL`] plus one, or zero, to
    /// send them to other processes.
    pub fn numbers(&self) -> [u64; COUNT] {
        self.wanted.map(|wanted| wanted.map_or(0, |algorithm| algorithm as u64 + 1))
    }

    /// Makes the preferences from numbers that another process sent; `None` if their number is
    /// wrong, or they are invalid.
    pub fn from_numbers(numbers: &[u64]) -> Option<Self> {
        let mut wanted = [None; COUNT];
        for (wanted, number) in wanted.iter_mut().zip(numbers) {
            if let Some(place) = number.checked_sub(1) {
                *wanted = Some(*Algorithm::ALL.get(usize::try_from(place).ok()?)?);
            }
        }
        (numbers.len() == COUNT).then_some(Self { wanted })
    }

    /// Returns the preferred algorithm of an operation, if there is one.
    pub(crate) fn wanted(&self, operation: CollectiveOperation) -> Option<Algorithm> {
        self.wanted[operation as usize]
    }

    /// Returns the sort key of an operation's algorithm. The least one is chosen: the user's
    /// preferred algorithm, or else the cheapest.
    pub(crate) fn rank(
        &self,
        operation: CollectiveOperation,
        algorithm: Algorithm,
        cost: Cost,
    ) -> (bool, Cost) {
        (self.wanted(operation) != Some(algorithm), cost)
    }

    /// Chooses an algorithm among the applicable ones; of equally cheap ones the first.
    ///
    /// # Panics
    /// If no algorithm is applicable.
    pub(crate) fn choose(
        &self,
        operation: CollectiveOperation,
        algorithms: &[Algorithm],
        cost: impl Fn(Algorithm) -> Option<Cost>,
    ) -> Algorithm {
        let applicable = algorithms.iter().filter_map(|one| Some((*one, cost(*one)?)));
        let best = applicable.min_by_key(|(one, cost)| self.rank(operation, *one, *cost));
        best.expect("one algorithm of each operation is always applicable").0
    }
}
