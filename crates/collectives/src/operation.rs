//! The operations with several algorithms, of which the cheapest or the user's preferred one is
//! chosen.

use crate::algorithm::Algorithm;
use crate::cost::Cost;

/// Makes the table of [`CollectiveOperation`]: each with its name, as users write it.
macro_rules! operations {
    ($($(#[$doc:meta])* $operation:ident: $name:literal,)*) => {
        /// The operations that have several algorithms.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum CollectiveOperation {
            $($(#[$doc])* $operation,)*
        }

        const COUNT: usize = [$($name),*].len();

        impl CollectiveOperation {
            /// All operations.
            pub const ALL: [Self; COUNT] = [$(Self::$operation,)*];

            /// Returns its name, as users write it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$operation => $name,)*
                }
            }
        }
    };
}

operations! {
    /// `MPI_Barrier`.
    Barrier: "barrier",
    /// `MPI_Bcast`.
    Bcast: "bcast",
    /// `MPI_Gather`.
    Gather: "gather",
    /// `MPI_Scatter`.
    Scatter: "scatter",
    /// `MPI_Allgather`.
    Allgather: "allgather",
    /// `MPI_Allgatherv`.
    Allgatherv: "allgatherv",
    /// `MPI_Alltoall`.
    Alltoall: "alltoall",
    /// `MPI_Reduce`.
    Reduce: "reduce",
    /// `MPI_Allreduce`.
    Allreduce: "allreduce",
    /// `MPI_Reduce_scatter` and `MPI_Reduce_scatter_block`.
    ReduceScatter: "reduce_scatter",
}

/// The algorithms that the user prefers where they are applicable, by operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlgorithmPreferences {
    wanted: [Option<Algorithm>; COUNT],
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
