//! The algorithms, by the names that people use.

use std::fmt;

/// The table of [`Algorithm`]: each with its name.
macro_rules! algorithms {
    ($($(#[$doc:meta])* $algorithm:ident: $name:literal,)*) => {
        /// How a collective operation is carried out. Each operation has some of them; its module
        /// tells what they mean there.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Algorithm {
            $($(#[$doc])* $algorithm,)*
        }

        impl Algorithm {
            /// All of them. Processes name algorithms to each other by their places in this list.
            pub const ALL: &[Self] = &[$(Self::$algorithm,)*];

            /// Its name, as people write it.
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
    /// Messages along a binomial tree.
    Binomial: "binomial",
    /// Inside machines or parts of these, among their leaders, inside again.
    Hierarchical: "hierarchical",
    /// The same at the same time: pieces follow each other from leader to leader, and through the
    /// parts.
    HierarchicalPieces: "hierarchical-pieces",
    /// In round k a message to the process 2^k ranks above, and one from that 2^k below.
    Dissemination: "dissemination",
    /// The root gives each process a share; the shares go round a ring.
    ScatterRing: "scatter-ring",
    /// Pieces follow each other through all processes.
    Chain: "chain",
    /// Pairs exchange all they have, at distances 1, 2, 4, …
    RecursiveDoubling: "recursive-doubling",
    /// Pairs exchange halves, quarters, … of the elements, then the results the same way back.
    HalvingDoubling: "halving-doubling",
    /// Pairs exchange halves, quarters, … of the elements.
    Halving: "halving",
    /// As recursive doubling, for any number of processes: each deals with one process above and
    /// with another one below.
    Bruck: "bruck",
    /// Each process passes on to the next one what it received last.
    Ring: "ring",
    /// Each process exchanges messages with all others at once.
    AtOnce: "at-once",
    /// The same with a few others at a time.
    Windows: "windows",
    /// The same with one other at a time.
    Pairwise: "pairwise",
    /// Each process reduces one share of the elements.
    Shares: "shares",
    /// After the step of distance d, which is 1, 2, 4, …, a process has the operands of 2 d ranks.
    Distances: "distances",
    /// Through slots in memory that all members share.
    Board: "board",
    /// Each copies out of the buffers of others or into them, which they expose to each other.
    Direct: "direct",
    /// The same in portions, which whoever waits carries out for all.
    Portions: "portions",
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
