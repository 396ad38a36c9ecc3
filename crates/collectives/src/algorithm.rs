//! The algorithms and their names, by which users select them.

use std::fmt;

/// Makes the table of [`Algorithm`]: each with its name.
macro_rules! algorithms {
    ($($(#[$doc:meta])* $algorithm:ident: $name:literal,)*) => {
        /// The algorithm of a collective operation. Each operation has some of them; its module
        /// describes their meaning for that operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Algorithm {
            $($(#[$doc])* $algorithm,)*
        }

        impl Algorithm {
            /// All algorithms. Processes send each other algorithms as indices in this list.
            pub const ALL: &[Self] = &[$(Self::$algorithm,)*];

            /// Returns its name, as users write it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$algorithm => $name,)*
                }
            }
        }
    };
}

algorithms! {
    /// Messages between one process and each of the others.
    Star: "star",
    /// Messages along a tree of two levels, with groups of consecutive ranks.
    Groups: "groups",
    /// Messages along a binomial tree.
    Binomial: "binomial",
    /// First inside machines or parts of these, then among their leaders, then inside again.
    Hierarchical: "hierarchical",
    /// Hierarchical, but on all levels at the same time: pieces follow each other from leader to
    /// leader, and through the parts.
    HierarchicalPieces: "hierarchical-pieces",
    /// In round k, each process sends a message to the process 2^k ranks above, and receives one
    /// from the process 2^k ranks below.
    Dissemination: "dissemination",
    /// The root gives each process a share; the shares go round a ring.
    ScatterRing: "scatter-ring",
    /// Pieces follow each other through all processes.
    Chain: "chain",
    /// Pairs exchange all their data, at distances 1, 2, 4, …
    RecursiveDoubling: "recursive-doubling",
    /// Pairs exchange halves, quarters, … of the elements, then the results on the reverse path.
    HalvingDoubling: "halving-doubling",
    /// Pairs exchange halves, quarters, … of the elements.
    Halving: "halving",
    /// Recursive doubling for any number of processes: each exchanges with one process above and
    /// another one below.
    Bruck: "bruck",
    /// Each process passes on to the next process the data that it received last.
    Ring: "ring",
    /// Each process exchanges messages with all others at once.
    AtOnce: "at-once",
    /// Each process exchanges messages with a few others at a time.
    Windows: "windows",
    /// Each process exchanges messages with one other at a time.
    Pairwise: "pairwise",
    /// Each process reduces one share of the elements.
    Shares: "shares",
    /// After the step of distance d, which is 1, 2, 4, …, a process has the operands of 2 d ranks.
    Distances: "distances",
    /// Through slots in memory that all members share.
    Board: "board",
    /// Processes expose buffers to each other, and each copies from or into the buffers of others.
    Direct: "direct",
    /// As direct, but in portions, which waiting processes execute for all.
    Portions: "portions",
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
